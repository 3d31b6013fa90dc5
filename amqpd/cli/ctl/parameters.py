"""Runtime parameters of virtual hosts, and of all of them together."""

from __future__ import annotations

from typing import Final

from amqpd.cli.ctl.errors import Failure
from amqpd.cli.ctl.table import Answer, Table, as_json
from amqpd.cli.ctl.verb import Call, Verb, parsed_json

_MISSING: Final = Failure("Parameter does not exist")


def list_parameters(call: Call) -> Answer:
    """Return the parameters of a virtual host."""
    rows = [row for row in call.api.get("parameters") if row["vhost"] == call.vhost]
    return Table(("component", "name", "value"), _shown(call, rows))


def set_parameter(call: Call) -> Answer:
    """Set one."""
    body = {"value": parsed_json(call.said.value, "the value")}
    path = ("parameters", call.said.component, call.vhost, call.said.name)
    call.api.put(*path, body=body)
    return None


def clear_parameter(call: Call) -> Answer:
    """Take one away."""
    path = ("parameters", call.said.component, call.vhost, call.said.name)
    call.api.delete(*path, missing=_MISSING)
    return None


def list_global_parameters(call: Call) -> Answer:
    """Return those that belong to no virtual host."""
    return Table(("name", "value"), _shown(call, call.api.get("global-parameters")))


def _shown(call: Call, rows: list[dict[str, object]]) -> list[dict[str, object]]:
    """Return rows as they are; for `rabbitmqctl` a value is the text of its JSON."""
    if not call.is_rabbitmqctl:
        return rows
    return [{**row, "value": as_json(row["value"], None)} for row in rows]


def set_global_parameter(call: Call) -> Answer:
    """Set one."""
    body = {"value": parsed_json(call.said.value, "the value")}
    call.api.put("global-parameters", call.said.name, body=body)
    return None


def clear_global_parameter(call: Call) -> Answer:
    """Take one away."""
    call.api.delete("global-parameters", call.said.name, missing=_MISSING)
    return None


def set_cluster_name(call: Call) -> Answer:
    """Set the name that clients see."""
    call.api.put("cluster-name", body={"name": call.said.name})
    return None


VERBS: Final = (
    Verb(
        "list_parameters",
        list_parameters,
        "runtime parameters of a virtual host",
        banner='Listing runtime parameters for vhost "{vhost}" ...',
    ),
    Verb(
        "set_parameter",
        set_parameter,
        "set a runtime parameter; the value is JSON",
        "component name value",
        banner='Setting runtime parameter "{name}" for component "{component}" '
        'to "{value}" in vhost "{vhost}" ...',
    ),
    Verb(
        "clear_parameter",
        clear_parameter,
        "take a runtime parameter away",
        "component name",
        banner='Clearing runtime parameter "{name}" for component "{component}" '
        'on vhost "{vhost}" ...',
    ),
    Verb(
        "list_global_parameters",
        list_global_parameters,
        "parameters that belong to no virtual host",
        banner="Listing global runtime parameters ...",
    ),
    Verb(
        "set_global_parameter",
        set_global_parameter,
        "set a global parameter; the value is JSON",
        "name value",
        banner='Setting global runtime parameter "{name}" to "{value}" ...',
    ),
    Verb(
        "clear_global_parameter",
        clear_global_parameter,
        "take a global parameter away",
        "name",
        banner='Clearing global runtime parameter "{name}" ...',
    ),
    Verb(
        "set_cluster_name",
        set_cluster_name,
        "set the name that clients see",
        "name",
        banner="Setting cluster name to {name} ...",
    ),
)
