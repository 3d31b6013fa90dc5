"""Sockets, threads and time: the only place that owns them (asyncio)."""
