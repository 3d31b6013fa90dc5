"""Permissions: what a user may configure, write and read in a virtual host."""

from __future__ import annotations

from typing import Any, Final

from amqpd.cli.ctl.errors import EXIT_UNAVAILABLE, Failure, no_such_user, no_such_vhost
from amqpd.cli.ctl.table import Answer, Table
from amqpd.cli.ctl.verb import Call, Verb

_COLUMNS: Final = ("configure", "write", "read")
_TOPIC_COLUMNS: Final = ("exchange", "write", "read")


def list_permissions(call: Call) -> Answer:
    """Return who may do what in a virtual host."""
    missing = no_such_vhost(call.vhost)
    rows = call.api.get("vhosts", call.vhost, "permissions", missing=missing)
    return Table(("user", *_COLUMNS), rows)


def list_user_permissions(call: Call) -> Answer:
    """Return what a user may do where."""
    return Table(("vhost", *_COLUMNS), _of_user(call, "permissions"))


def list_topic_permissions(call: Call) -> Answer:
    """Return which routing keys users may use in a virtual host."""
    missing = no_such_vhost(call.vhost)
    rows = call.api.get("vhosts", call.vhost, "topic-permissions", missing=missing)
    return Table(("user", *_TOPIC_COLUMNS), rows)


def list_user_topic_permissions(call: Call) -> Answer:
    """Return which routing keys a user may use where."""
    return Table(("vhost", *_TOPIC_COLUMNS), _of_user(call, "topic-permissions"))


def _of_user(call: Call, what: str) -> Any:
    name = call.said.user
    return call.api.get("users", name, what, missing=no_such_user(name))


def set_permissions(call: Call) -> Answer:
    """Replace what a user may do in a virtual host."""
    _check_both(call)
    body = {column: vars(call.said)[column] for column in _COLUMNS}
    call.api.put("permissions", call.vhost, call.said.user, body=body)
    return None


def set_permissions_globally(call: Call) -> Answer:
    """Replace what a user may do, in all virtual hosts that there are."""
    name = call.said.user
    call.api.get("users", name, missing=no_such_user(name))
    body = {column: vars(call.said)[column] for column in _COLUMNS}
    for vhost in call.api.get("vhosts", query={"columns": "name"}):
        call.api.put("permissions", vhost["name"], name, body=body)
    return None


def clear_permissions(call: Call) -> Answer:
    """Keep a user out of a virtual host."""
    _clear(call, "permissions")
    return None


def set_topic_permissions(call: Call) -> Answer:
    """Replace which routing keys a user may use with an exchange."""
    _check_both(call)
    body = {column: vars(call.said)[column] for column in _TOPIC_COLUMNS}
    call.api.put("topic-permissions", call.vhost, call.said.user, body=body)
    return None


def clear_topic_permissions(call: Call) -> Answer:
    """Let a user use any routing key, with one exchange or all."""
    exchange = call.said.exchange
    _clear(call, "topic-permissions", *([] if exchange is None else [exchange]))
    return None


def _clear(call: Call, what: str, *more: str) -> None:
    """Delete it; what was not there is no failure, who was not there is."""
    missing = Failure("nothing to clear")
    try:
        call.api.delete(what, call.vhost, call.said.user, *more, missing=missing)
    except Failure as error:
        if error is not missing:
            raise
        _check_both(call)


def _check_both(call: Call) -> None:
    """Say which of the two is missing; the API says "not found" or less.

    Raises:
        Failure: one is.
    """
    name, vhost = call.said.user, call.vhost
    no_vhost = Failure(f"Virtual host {vhost} does not exist", EXIT_UNAVAILABLE)
    call.api.get("users", name, missing=no_such_user(name))
    call.api.get("vhosts", vhost, missing=no_vhost)


_RULES: Final = "three regular expressions for names; '' matches none, '.*' all"

VERBS: Final = (
    Verb(
        "list_permissions",
        list_permissions,
        "who may do what in a virtual host",
        banner='Listing permissions for vhost "{vhost}" ...',
    ),
    Verb(
        "list_user_permissions",
        list_user_permissions,
        "what a user may do where",
        "user",
        banner='Listing permissions for user "{user}" ...',
    ),
    Verb(
        "list_topic_permissions",
        list_topic_permissions,
        "which routing keys users may use in a virtual host",
        banner='Listing topic permissions for vhost "{vhost}" ...',
    ),
    Verb(
        "list_user_topic_permissions",
        list_user_topic_permissions,
        "which routing keys a user may use where",
        "user",
        banner='Listing topic permissions for user "{user}" ...',
    ),
    Verb(
        "set_permissions",
        set_permissions,
        f"what a user may do in a virtual host: {_RULES}",
        "user configure write read",
        banner='Setting permissions for user "{user}" in vhost "{vhost}" ...',
    ),
    Verb(
        "set_permissions_globally",
        set_permissions_globally,
        "the same in all virtual hosts",
        "user configure write read",
        banner='Setting permissions for user "{user}" in all virtual hosts ...',
    ),
    Verb(
        "clear_permissions",
        clear_permissions,
        "keep a user out of a virtual host",
        "user",
        banner='Clearing permissions for user "{user}" in vhost "{vhost}" ...',
    ),
    Verb(
        "set_topic_permissions",
        set_topic_permissions,
        "which routing keys a user may use with a topic exchange",
        "user exchange write read",
        banner='Setting topic permissions on "{exchange}" for user "{user}" '
        'in vhost "{vhost}" ...',
    ),
    Verb(
        "clear_topic_permissions",
        clear_topic_permissions,
        "let a user use any routing key again",
        "user exchange?",
        banner='Clearing topic permissions for user "{user}" in vhost "{vhost}" ...',
    ),
)
