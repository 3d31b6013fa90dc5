"""Queues: messages in order, in memory or on the disk, and their consumers."""
