"""Bytes on disk that survive whatever happens to the process. Knows no AMQP."""
