"""Bytes to values and back; knows nothing of connections, queues or sockets."""
