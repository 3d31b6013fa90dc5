"""What connections are called, as in RabbitMQ: `ip:port -> ip:port`, theirs first."""

import asyncio
from typing import Any


def connection_name(transport: asyncio.BaseTransport) -> str:
    """Return the name of an accepted connection."""
    peer = transport.get_extra_info("peername")
    here = transport.get_extra_info("sockname")
    return f"{_address(peer)} -> {_address(here)}"


def _address(name: Any) -> str:
    """`ip:port`, as RabbitMQ names connections."""
    if not name:
        return "unknown"
    host, port = name[0], name[1]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
