"""Limits of virtual hosts (connections, queues) and of users (connections, channels).

The API sets one limit at a time; here, as in `rabbitmqctl`, a JSON object says all of
them, and what it does not say has no limit afterwards.
"""

from __future__ import annotations

from typing import Any, Final

from amqpd.cli.ctl.errors import EXIT_USAGE, Failure, no_such_user, no_such_vhost
from amqpd.cli.ctl.table import Answer, Document, Table
from amqpd.cli.ctl.verb import Call, Option, Verb, json_object


def list_vhost_limits(call: Call) -> Answer:
    """Return those of a virtual host, or a table of all."""
    if getattr(call.said, "global"):
        return _table(call, "vhost-limits", "vhost")
    call.api.get("vhosts", call.vhost, missing=no_such_vhost(call.vhost))
    return Document(_of(call, "vhost-limits", "vhost", call.vhost))


def list_user_limits(call: Call) -> Answer:
    """Return those of a user, or a table of all."""
    name = call.said.user
    if name is None or getattr(call.said, "global"):
        return _table(call, "user-limits", "user")
    call.api.get("users", name, missing=no_such_user(name))
    return Document(_of(call, "user-limits", "user", name))


def _table(call: Call, path: str, owner: str) -> Table:
    rows = [{owner: row[owner], "limits": row["value"]} for row in call.api.get(path)]
    return Table((owner, "limits"), rows)


def _of(call: Call, path: str, owner: str, name: str) -> dict[str, Any]:
    for row in call.api.get(path):
        if row[owner] == name:
            limits: dict[str, Any] = row["value"]
            return limits
    return {}


def set_vhost_limits(call: Call) -> Answer:
    """Replace the limits of a virtual host."""
    missing = no_such_vhost(call.vhost)
    call.api.get("vhosts", call.vhost, missing=missing)
    _replace(call, "vhost-limits", "vhost", call.vhost)
    return None


def set_user_limits(call: Call) -> Answer:
    """Replace the limits of a user."""
    name = call.said.user
    call.api.get("users", name, missing=no_such_user(name))
    _replace(call, "user-limits", "user", name)
    return None


def _replace(call: Call, path: str, owner: str, name: str) -> None:
    limits = json_object(call.said.definition, "the limits")
    before = _of(call, path, owner, name)
    for key, value in limits.items():
        call.api.put(path, name, key, body={"value": value})
    for key in before.keys() - limits.keys():
        call.api.delete(path, name, key)


def clear_vhost_limits(call: Call) -> Answer:
    """Take all limits of a virtual host away."""
    for key in _of(call, "vhost-limits", "vhost", call.vhost):
        call.api.delete("vhost-limits", call.vhost, key)
    return None


def clear_user_limits(call: Call) -> Answer:
    """Take a limit of a user away, or "all".

    Raises:
        Failure: there is no such user, or no such limit.
    """
    name, asked = call.said.user, call.said.limit
    call.api.get("users", name, missing=no_such_user(name))
    there = _of(call, "user-limits", "user", name)
    if asked not in ("all", "max-connections", "max-channels"):
        hint = "max-connections, max-channels or all"
        raise Failure(f"there is no limit called {asked}", EXIT_USAGE, hint)
    for key in there if asked == "all" else [key for key in there if key == asked]:
        call.api.delete("user-limits", name, key)
    return None


_GLOBAL: Final = Option("--global", "of all that have limits")

VERBS: Final = (
    Verb(
        "list_vhost_limits",
        list_vhost_limits,
        "limits of a virtual host",
        options=(_GLOBAL,),
        banner='Listing limits for vhost "{vhost}" ...',
    ),
    Verb(
        "set_vhost_limits",
        set_vhost_limits,
        'limit a virtual host: {"max-connections": 100, "max-queues": 1000}',
        "definition",
        banner='Setting vhost limits to "{definition}" for vhost "{vhost}" ...',
    ),
    Verb(
        "clear_vhost_limits",
        clear_vhost_limits,
        "no limits for a virtual host any more",
        banner='Clearing vhost "{vhost}" limits ...',
    ),
    Verb(
        "list_user_limits",
        list_user_limits,
        "limits of a user, or of all who have some",
        options=(Option("--user", "of this user", "USER"), _GLOBAL),
        banner="Listing user limits ...",
    ),
    Verb(
        "set_user_limits",
        set_user_limits,
        'limit a user: {"max-connections": 10, "max-channels": 100}',
        "user definition",
        banner='Setting user limits to "{definition}" for user "{user}" ...',
    ),
    Verb(
        "clear_user_limits",
        clear_user_limits,
        "take a limit of a user away: max-connections, max-channels or all",
        "user limit",
        banner='Clearing "{limit}" limit for user "{user}" ...',
    ),
)
