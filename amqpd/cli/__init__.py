"""Command lines: `amqpd` (server.py) and what only a command needs."""
