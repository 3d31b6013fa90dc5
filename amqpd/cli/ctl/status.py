"""Two pages about the broker, with the titles and the JSON of `rabbitmqctl`.

Facts that a broker does not state are left out, so that a page fits every version.
"""

from __future__ import annotations

from typing import Any, Final

from amqpd.cli.ctl.facts import (
    NONE,
    alarm_lines,
    alarms_of,
    listener_lines,
    listeners_of,
    node_of,
)
from amqpd.cli.ctl.table import Answer, Sections
from amqpd.cli.ctl.verb import Call, Verb

Facts = dict[str, Any]


def status(call: Call) -> Answer:
    """Return one page about the broker."""
    overview = call.api.get("overview")
    node = node_of(call, overview)
    vhosts = call.api.get("vhosts", query={"columns": "name"})
    facts = _facts(overview, node, len(vhosts))
    totals = facts["totals"]
    groups = (
        ("Runtime", _runtime(facts, node)),
        ("Data directory", [f"Node data directory: {facts['data_directory']}"]),
        ("Config files", _starred(facts["config_files"])),
        ("Log file(s)", _starred(facts["log_files"])),
        ("Alarms", alarm_lines(node)),
        ("Memory", _memory(facts)),
        ("File Descriptors", [f"Total: {node['fd_used']}, limit: {node['fd_total']}"]),
        ("Free Disk Space", _disk(facts)),
        (
            "Totals",
            [
                f"Connection count: {totals['connection_count']}",
                f"Queue count: {totals['queue_count']}",
                f"Virtual host count: {totals['virtual_host_count']}",
            ],
        ),
        ("Listeners", listener_lines(overview)),
    )
    return Sections(groups, facts)


def _facts(overview: Facts, node: Facts, vhost_count: int) -> Facts:
    """Return what programs get."""
    totals = overview.get("object_totals", {})
    return {
        "pid": int(node["os_pid"]),
        "uptime": int(node["uptime"]) // 1000,
        "is_under_maintenance": bool(node.get("being_drained")),
        "product_name": overview.get("product_name"),
        "product_version": overview.get("product_version"),
        "rabbitmq_version": overview["rabbitmq_version"],
        "erlang_version": overview.get("erlang_full_version"),
        "node": overview["node"],
        "cluster_name": overview["cluster_name"],
        "active_plugins": node.get("enabled_plugins", []),
        "data_directory": node.get("db_dir"),
        "config_files": node.get("config_files", []),
        "log_files": node.get("log_files", []),
        "alarms": alarms_of(node),
        "memory": {"total": node["mem_used"]},
        "vm_memory_calculation_strategy": node.get("mem_calculation_strategy"),
        "vm_memory_high_watermark_limit": node.get("mem_limit"),
        "disk_free": node["disk_free"],
        "disk_free_limit": node["disk_free_limit"],
        "file_descriptors": {
            "total_used": node["fd_used"],
            "total_limit": node["fd_total"],
        },
        "totals": {
            "connection_count": totals.get("connections", 0),
            "queue_count": totals.get("queues", 0),
            "virtual_host_count": vhost_count,
        },
        "listeners": listeners_of(overview),
    }


_RUNTIME: Final = (
    ("OS PID", "pid"),
    ("Uptime (seconds)", "uptime"),
    ("Product name", "product_name"),
    ("Product version", "product_version"),
    ("RabbitMQ version", "rabbitmq_version"),
    ("Node name", "node"),
    ("Cluster name", "cluster_name"),
    ("Runtime", "erlang_version"),
)


def _runtime(facts: Facts, node: Facts) -> list[str]:
    lines = [f"{title}: {facts[key]}" for title, key in _RUNTIME if facts[key]]
    is_drained = "true" if facts["is_under_maintenance"] else "false"
    return [*lines, f"Is under maintenance?: {is_drained}"]


def _starred(names: list[str]) -> list[str]:
    return [f" * {name}" for name in names] or [NONE]


def _memory(facts: Facts) -> list[str]:
    lines = [f"Total memory used: {gigabytes(facts['memory']['total'])}"]
    strategy = facts["vm_memory_calculation_strategy"]
    if strategy:
        lines.append(f"Calculation strategy: {strategy}")
    limit = facts["vm_memory_high_watermark_limit"]
    if limit is not None:
        lines.append(f"Memory high watermark: {gigabytes(limit)}")
    return lines


def _disk(facts: Facts) -> list[str]:
    return [
        f"Low free disk space watermark: {gigabytes(facts['disk_free_limit'])}",
        f"Free disk space: {gigabytes(facts['disk_free'])}",
    ]


def gigabytes(size: object) -> str:
    """Return a size as `rabbitmqctl` writes it; some are words."""
    if not isinstance(size, int | float):
        return str(size)
    return f"{round(size / 1e9, 4)} gb"


def cluster_status(call: Call) -> Answer:
    """Return the nodes: this one."""
    overview = call.api.get("overview")
    node = node_of(call, overview)
    name, version = overview["node"], overview["rabbitmq_version"]
    groups = (
        ("Basics", [f"Cluster name: {overview['cluster_name']}"]),
        ("Disk Nodes", [name]),
        ("Running Nodes", [name]),
        ("Versions", [f"{name}: RabbitMQ {version}"]),
        ("Maintenance status", [f"Node: {name}, status: not under maintenance"]),
        ("Alarms", alarm_lines(node)),
        ("Network Partitions", [NONE]),
        ("Listeners", listener_lines(overview)),
    )
    value = {
        "cluster_name": overview["cluster_name"],
        "disk_nodes": [name],
        "ram_nodes": [],
        "running_nodes": [name],
        "versions": {name: {"rabbitmq_version": version}},
        "maintenance_status": {name: "not under maintenance"},
        "alarms": alarms_of(node),
        "partitions": {},
        "listeners": {name: listeners_of(overview)},
    }
    return Sections(groups, value)


VERBS: Final = (
    Verb("status", status, "one page about the broker", banner="Status of node ..."),
    Verb("cluster_status", cluster_status, "nodes", banner="Cluster status ..."),
)
