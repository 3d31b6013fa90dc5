"""The topology in the metadata store: what is remembered, and how it changes."""
