"""Nodes: the one that this is, with what it uses of the machine."""

from __future__ import annotations

import os
from typing import Final

from amqpd.broker.alarms import DISK, MEMORY
from amqpd.http.answer import NO_CONTENT, Answer, json_answer
from amqpd.http.api.overview import churn_facts, context_facts, exchange_types
from amqpd.http.call import Call
from amqpd.http.columns import Facts
from amqpd.http.endpoint import Endpoint, Need
from amqpd.http.errors import ObjectNotFound
from amqpd.http.listing import Listing, single

PLUGINS: Final = (
    "rabbitmq_management",
    "rabbitmq_prometheus",
    "rabbitmq_consistent_hash_exchange",
    "rabbitmq_random_exchange",
    "rabbitmq_recent_history_exchange",
    "rabbitmq_sharding",
)
MECHANISMS: Final = {
    "PLAIN": "SASL PLAIN authentication mechanism",
    "AMQPLAIN": "QPid AMQPLAIN mechanism",
    "EXTERNAL": "SASL EXTERNAL authentication mechanism: the certificate of the client",
}


def _facts(call: Call) -> Facts:
    room = call.room
    identity = room.identity
    return {
        "name": identity.node,
        "type": "disc",
        "running": True,
        "being_drained": False,
        "os_pid": str(os.getpid()),
        "uptime": room.now_ms() - identity.started_ms,
        "processors": os.cpu_count() or 1,
        "run_queue": 0,
        "rates_mode": "none",
        "net_ticktime": 60,
        "db_dir": str(identity.data_dir),
        "log_files": ["<stderr>"],
        "config_files": [],
        "partitions": [],
        "cluster_links": [],
        "exchange_types": exchange_types(),
        "auth_mechanisms": [
            {"name": name, "description": description, "enabled": True}
            for name, description in MECHANISMS.items()
        ],
        "applications": [
            {
                "name": "amqpd",
                "description": "An AMQP 0-9-1 queue server",
                "version": identity.amqpd_version,
            }
        ],
        # What tools ask for by RabbitMQ's names is built in here.
        "enabled_plugins": list(PLUGINS),
        "contexts": context_facts(room),
        "metrics_gc_queue_length": {},
        **_resources(call),
        **_counters(call),
    }


def _resources(call: Call) -> Facts:
    alarms = call.broker.alarms
    used, available = call.room.descriptors()
    connections = len(call.broker.connections)
    return {
        "mem_used": alarms.memory_used or 0,
        "mem_limit": alarms.memory_limit,
        "mem_alarm": alarms.has(MEMORY),
        "mem_calculation_strategy": "rss",
        "disk_free": alarms.disk_free or 0,
        "disk_free_limit": alarms.disk_limit,
        "disk_free_alarm": alarms.has(DISK),
        "fd_used": used,
        "fd_total": available,
        "sockets_used": connections,
        "sockets_total": available,
        # Erlang's processes: a connection is the nearest to one.
        "proc_used": connections,
        "proc_total": available,
    }


def _counters(call: Call) -> Facts:
    statistics = call.broker.store.statistics
    return {
        **churn_facts(call.broker),
        "io_write_bytes": int(statistics.bytes_written),
        "io_sync_count": int(statistics.syncs),
    }


def _check_node(call: Call) -> None:
    if call.name("node") != call.room.identity.node:
        raise ObjectNotFound


async def list_nodes(call: Call) -> Answer:
    """All nodes: one."""
    node = call.room.identity.node
    listing = Listing[str](lambda name: ("", name), lambda name: _facts(call))
    return await listing.answer(call, [node])


async def show_node(call: Call) -> Answer:
    """The node."""
    _check_node(call)
    return single(call, _facts(call))


def _memory(call: Call) -> dict[str, int]:
    use = call.broker.pager.use
    resident = call.broker.alarms.memory_used or 0
    messages = int(use.stored) + int(use.unstored)
    return {
        "queue_procs": messages,
        "other_system": max(0, resident - messages),
        "rss": resident,
    }


async def show_memory(call: Call) -> Answer:
    """What the memory is used for, as far as that is known."""
    _check_node(call)
    memory = _memory(call)
    resident = memory.pop("rss")
    total = {"erlang": resident, "rss": resident, "allocated": resident}
    return json_answer({"memory": {**memory, "strategy": "rss", "total": total}})


async def show_relative_memory(call: Call) -> Answer:
    """The same in parts of a hundred."""
    _check_node(call)
    memory = _memory(call)
    resident = max(1, memory.pop("rss"))
    parts = {name: 100 * size // resident for name, size in memory.items()}
    return json_answer({"memory": {"total": 100, **parts}})


async def list_nothing(call: Call) -> Answer:
    """What RabbitMQ keeps lists of and this broker has none of."""
    return json_answer([])


async def do_nothing(call: Call) -> Answer:
    """What RabbitMQ has to do and this broker has not."""
    return NO_CONTENT


_NODE = "/api/nodes/{node}"

ENDPOINTS = (
    Endpoint("GET", "/api/nodes", Need.MONITORING, list_nodes),
    Endpoint("GET", _NODE, Need.MONITORING, show_node),
    Endpoint("GET", _NODE + "/memory", Need.MONITORING, show_memory),
    Endpoint("GET", _NODE + "/memory/relative", Need.MONITORING, show_relative_memory),
    Endpoint("GET", "/api/feature-flags", Need.ADMINISTRATOR, list_nothing),
    Endpoint("PUT", "/api/feature-flags/{name}/enable", Need.ADMINISTRATOR, do_nothing),
    Endpoint("GET", "/api/deprecated-features", Need.MANAGEMENT, list_nothing),
    Endpoint("GET", "/api/deprecated-features/used", Need.MANAGEMENT, list_nothing),
    # Attempts to log in are counted with the other statistics.
    Endpoint("POST", "/api/rebalance/queues", Need.ADMINISTRATOR, do_nothing),
    Endpoint("DELETE", "/api/reset", Need.ADMINISTRATOR, do_nothing),
    Endpoint("DELETE", "/api/reset/{node}", Need.ADMINISTRATOR, do_nothing),
)
