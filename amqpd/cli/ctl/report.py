"""Everything about the broker on one page, to be sent to somebody who helps.

No passwords, no hashes, no messages: only what is listed here.
"""

from __future__ import annotations

from typing import Final

from amqpd.cli.ctl.status import cluster_status, status
from amqpd.cli.ctl.table import Answer, Sections
from amqpd.cli.ctl.verb import Call, Verb

#: Title, place in the API, columns.
LISTS: Final = (
    ("Virtual hosts", "vhosts", "name description default_queue_type tracing"),
    ("Users", "users", "name tags"),
    ("Permissions", "permissions", "user vhost configure write read"),
    ("Connections", "connections", "name user vhost state channels client_properties"),
    (
        "Channels",
        "channels",
        "name prefetch_count messages_unacknowledged messages_unconfirmed",
    ),
    (
        "Queues",
        "queues",
        "vhost name type messages_ready messages_unacknowledged consumers policy",
    ),
    ("Exchanges", "exchanges", "vhost name type durable arguments policy"),
    ("Bindings", "bindings", "vhost source destination routing_key arguments"),
    ("Consumers", "consumers", "queue consumer_tag ack_required prefetch_count active"),
    ("Policies", "policies", "vhost name pattern apply-to definition priority"),
    ("Operator policies", "operator-policies", "vhost name pattern definition"),
    ("Limits of virtual hosts", "vhost-limits", "vhost value"),
    ("Limits of users", "user-limits", "user value"),
)


def report(call: Call) -> Answer:
    """Return the page, and the object that programs get of it."""
    value: dict[str, object] = {}
    groups: list[tuple[str, list[str]]] = []
    for name, page in (("status", status), ("cluster_status", cluster_status)):
        answer = page(call)
        assert isinstance(answer, Sections)
        value[name] = answer.value
        groups += [(title, list(lines)) for title, lines in answer.groups]
    for title, path, columns in LISTS:
        names = columns.split()
        found = call.api.get(path, query={"columns": ",".join(names)})
        value[path] = found
        groups.append((title, [_line(one, names) for one in found]))
    settings = call.api.get("config", "effective")
    value["environment"] = settings
    lines = [f"{one['key']} = {one['value']}  ({one['origin']})" for one in settings]
    groups.append(("Environment", lines))
    return Sections(groups, value)


def _line(item: dict[str, object], columns: list[str]) -> str:
    return ", ".join(
        f"{column}: {item[column]}" for column in columns if column in item
    )


VERBS: Final = (
    Verb(
        "report",
        report,
        "all of it on one page, without passwords and messages",
        banner="Reporting server status of node ...",
    ),
)
