"""Policies, and the operator's, which set bounds to them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from amqpd.cli.ctl.errors import EXIT_USAGE, Failure, no_such_vhost
from amqpd.cli.ctl.table import Answer, Table, as_json
from amqpd.cli.ctl.verb import Call, Option, Verb, json_object

_COLUMNS: Final = ("vhost", "name", "pattern", "apply-to", "definition", "priority")
_PRIORITY: Final = Option(
    "--priority", "of several that match, the highest counts", "NUMBER", default="0"
)
_APPLY_TO: Final = Option(
    "--apply-to",
    "what the pattern is matched against",
    choices=(
        "all",
        "queues",
        "exchanges",
        "classic_queues",
        "quorum_queues",
        "streams",
    ),
)


def _lister(path: str) -> Callable[[Call], Answer]:
    def list_all(call: Call) -> Answer:
        missing = no_such_vhost(call.vhost)
        rows = call.api.get(path, call.vhost, missing=missing)
        if call.is_rabbitmqctl:
            # A text, even in JSON.
            rows = [
                row | {"definition": as_json(row["definition"], None)} for row in rows
            ]
        return Table(_COLUMNS, rows)

    return list_all


def _setter(path: str, apply_to: str) -> Callable[[Call], Answer]:
    def set_one(call: Call) -> Answer:
        body = {
            "pattern": call.said.pattern,
            "definition": json_object(call.said.definition, "the definition"),
            "priority": _priority(call.said.priority),
            "apply-to": call.said.apply_to or apply_to,
        }
        missing = no_such_vhost(call.vhost)
        call.api.put(path, call.vhost, call.said.policy, body=body, missing=missing)
        return None

    return set_one


def _clearer(path: str) -> Callable[[Call], Answer]:
    def clear_one(call: Call) -> Answer:
        name = call.said.policy
        missing = Failure(f"no policy '{name}' in vhost '{call.vhost}'")
        call.api.delete(path, call.vhost, name, missing=missing)
        return None

    return clear_one


def _priority(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise Failure(
            f"--priority must be a number, not {text!r}", EXIT_USAGE
        ) from None


_SETTING: Final = "policy pattern definition"
_OPTIONS: Final = (_PRIORITY, _APPLY_TO)

VERBS: Final = (
    Verb(
        "list_policies",
        _lister("policies"),
        "policies of a virtual host",
        banner='Listing policies for vhost "{vhost}" ...',
    ),
    Verb(
        "set_policy",
        _setter("policies", "all"),
        "set arguments of all queues and exchanges whose name the pattern finds",
        _SETTING,
        _OPTIONS,
        banner='Setting policy "{policy}" for pattern "{pattern}" to "{definition}" '
        'with priority "{priority}" for vhost "{vhost}" ...',
    ),
    Verb(
        "clear_policy",
        _clearer("policies"),
        "take a policy away",
        "policy",
        banner='Clearing policy "{policy}" on vhost "{vhost}" ...',
    ),
    Verb(
        "list_operator_policies",
        _lister("operator-policies"),
        "operator policies of a virtual host",
        banner='Listing operator policy overrides for vhost "{vhost}" ...',
    ),
    Verb(
        "set_operator_policy",
        _setter("operator-policies", "queues"),
        "set bounds that no argument and no policy may exceed",
        _SETTING,
        _OPTIONS,
        banner='Setting operator policy override "{policy}" for pattern "{pattern}" '
        'to "{definition}" with priority "{priority}" for vhost "{vhost}" ...',
    ),
    Verb(
        "clear_operator_policy",
        _clearer("operator-policies"),
        "take an operator policy away",
        "policy",
        banner='Clearing operator policy "{policy}" on vhost "{vhost}" ...',
    ),
)
