"""Policies, parameters and limits as values: what may be set, and what wins."""
