"""Connections closed: one, all of a user, all of a virtual host, all there are."""

from __future__ import annotations

import time
from typing import Any, Final

from amqpd.cli.ctl.errors import EXIT_USAGE, Failure, no_such_vhost
from amqpd.cli.ctl.progress import Bar
from amqpd.cli.ctl.table import Answer
from amqpd.cli.ctl.verb import Call, Option, Verb


def close_connection(call: Call) -> Answer:
    """Close one; that it is gone already is no failure, as in `rabbitmqctl`."""
    if not _close(call, call.said.connection, call.said.reason):
        call.note(f"there is no connection {call.said.connection}")
    return None


def close_all_connections(call: Call) -> Answer:
    """Close all of a virtual host, or with --global all there are."""
    is_global = getattr(call.said, "global")
    if call.said.vhost is None and not is_global and not call.is_rabbitmqctl:
        hint = "close_all_connections -p VHOST REASON, or --global REASON"
        raise Failure("say whose connections are meant", EXIT_USAGE, hint)
    columns = {"columns": "name"}
    if is_global:
        found = call.api.get("connections", query=columns)
    else:
        missing = no_such_vhost(call.vhost)
        found = call.api.get(
            "vhosts", call.vhost, "connections", query=columns, missing=missing
        )
    limit = int(_number(call.said.limit))
    return _close_each(call, found[:limit] if limit else found)


def close_all_user_connections(call: Call) -> Answer:
    """Close all of a user."""
    found = call.api.get("connections", "username", call.said.user)
    return _close_each(call, found)


def _close_each(call: Call, found: list[Any]) -> Answer:
    delay_ms = _number(getattr(call.said, "per_connection_delay", "0"))
    closed_count = 0
    with Bar("closing", len(found)) as bar:
        for connection in found:
            if closed_count and delay_ms:
                time.sleep(delay_ms / 1000)
            closed_count += _close(call, connection["name"], call.said.reason)
            bar.advance(1)
    return f"Closed {closed_count} connections"


def _close(call: Call, name: str, reason: str) -> bool:
    """Close a connection and say whether it was there."""
    gone = Failure("it is closed")
    try:
        headers = {"X-Reason": reason.replace("\n", " ")}
        call.api.delete("connections", name, headers=headers, missing=gone)
    except Failure as error:
        if error is not gone:
            raise
        return False
    return True


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise Failure(f"not a number: {text}", EXIT_USAGE) from None


VERBS: Final = (
    Verb(
        "close_connection",
        close_connection,
        "close a connection, by the name that list_connections shows",
        "connection reason",
        banner="Closing connection {connection}, reason: {reason}...",
    ),
    Verb(
        "close_all_connections",
        close_all_connections,
        "close all connections of a virtual host, or of all with --global",
        "reason",
        (
            Option("--global", "in all virtual hosts"),
            Option("--limit", "no more than that; 0 is no limit", "COUNT", default="0"),
            Option(
                "--per-connection-delay",
                "wait between two of them",
                "MILLISECONDS",
                default="0",
            ),
        ),
        banner="Closing connections in vhost {vhost}, reason: {reason}...",
    ),
    Verb(
        "close_all_user_connections",
        close_all_user_connections,
        "close all connections of a user",
        "user reason",
        banner="Closing connections of user {user}, reason: {reason}...",
    ),
)
