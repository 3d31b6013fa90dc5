"""The two ends of a connection, as its name has them: `ip:port -> ip:port`."""

from __future__ import annotations

from typing import Any


def peer_facts(connection_name: str) -> dict[str, Any]:
    """Return where the client is."""
    host, port = _address(connection_name.partition(" -> ")[0])
    return {"peer_host": host, "peer_port": port}


def local_facts(connection_name: str) -> dict[str, Any]:
    """Return where the client came in."""
    host, port = _address(connection_name.partition(" -> ")[2])
    return {"host": host, "port": port}


def _address(text: str) -> tuple[str, Any]:
    host, _, port = text.rpartition(":")
    if not port.isdigit():
        # A socket that could not tell.
        return "unknown", "unknown"
    return host.strip("[]"), int(port)
