"""The broker at a glance: versions, totals, who listens where.

Rates, samples and message counters belong to the statistics, which are not here yet:
`message_stats` is empty, and `churn_rates` has the totals that cost nothing.
"""

from __future__ import annotations

import platform
from typing import Final

from amqpd.broker.broker import Broker
from amqpd.broker.policies.parameters import GLOBAL, NO_VHOST, Parameter
from amqpd.http import fields
from amqpd.http.answer import NO_CONTENT, Answer, json_answer
from amqpd.http.call import Call
from amqpd.http.columns import Facts
from amqpd.http.endpoint import Endpoint, Need
from amqpd.http.listing import single
from amqpd.http.pace import Pace
from amqpd.http.room import AMQP_TLS, Room
from amqpd.http.totals import totals_of

CLUSTER_NAME: Final = "cluster_name"
PRODUCT: Final = "amqpd"
DESCRIPTION: Final = "Management API"

EXCHANGE_TYPES: Final = {
    "direct": "AMQP direct exchange, as per the AMQP specification",
    "fanout": "AMQP fanout exchange, as per the AMQP specification",
    "headers": "AMQP headers exchange, as per the AMQP specification",
    "topic": "AMQP topic exchange, as per the AMQP specification",
    "x-consistent-hash": "Consistent Hashing Exchange",
    "x-local-random": "Picks one random binding to route via",
    "x-modulus-hash": "Modulus Hashing Exchange",
    "x-random": "Randomly picks a binding (queue) to route via (to).",
    "x-recent-history": "Recent History Exchange.",
}


def exchange_types() -> list[Facts]:
    """Return the exchange types, as lists of them have it."""
    return [
        {"name": name, "description": description, "enabled": True}
        for name, description in EXCHANGE_TYPES.items()
    ]


def cluster_name(call: Call) -> str:
    """Return the name that was given to the broker, if one was, or its own."""
    given = call.broker.parameters.get(NO_VHOST, GLOBAL, CLUSTER_NAME)
    if given is not None and isinstance(given.value, str):
        return given.value
    return call.room.identity.cluster_name


def listener_facts(room: Room) -> list[Facts]:
    """Return who listens where."""
    return [
        {
            "node": room.identity.node,
            "protocol": listener.protocol,
            "ip_address": listener.address,
            "port": listener.port,
            "socket_opts": [],
            "tls": listener.protocol == AMQP_TLS,
        }
        for listener in room.listeners
    ]


def context_facts(room: Room) -> list[Facts]:
    """Return where HTTP is served; ports are text here, as in RabbitMQ."""
    return [
        {
            "node": room.identity.node,
            "description": DESCRIPTION,
            "path": "/",
            "ip": listener.address,
            "port": str(listener.port),
            "cowboy_opts": "[]",
            "ssl_opts": [],
        }
        for listener in room.listeners
        if listener.protocol == "http"
    ]


def churn_facts(broker: Broker) -> Facts:
    """Return what has come and gone since the start."""
    connections, churn = broker.connections, broker.churn
    return {
        "connection_created": connections.opened_count,
        "connection_closed": connections.closed_count,
        "channel_created": churn.channels_opened,
        "channel_closed": churn.channels_closed,
        "queue_declared": churn.queues_declared,
        "queue_created": churn.queues_created,
        "queue_deleted": churn.queues_deleted,
    }


async def show_overview(call: Call) -> Answer:
    """The overview; totals are of the virtual hosts that the user may see."""
    identity = call.room.identity
    facts = {
        "management_version": identity.rabbitmq_version,
        "rates_mode": "none",
        "sample_retention_policies": {"global": [], "basic": [], "detailed": []},
        "exchange_types": exchange_types(),
        "product_name": PRODUCT,
        "product_version": identity.amqpd_version,
        "rabbitmq_version": identity.rabbitmq_version,
        "cluster_name": cluster_name(call),
        "cluster_tags": {},
        "node_tags": {},
        "default_queue_type": "classic",
        # Tools insist on the fields; there is a Python behind this broker.
        "erlang_version": f"Python {platform.python_version()}",
        "erlang_full_version": f"Python {platform.python_version()}, no Erlang",
        "crypto_lib_version": "",
        "release_series_support_status": "supported",
        "disable_stats": call.flag("disable_stats"),
        "enable_queue_totals": True,
        "is_op_policy_updating_enabled": True,
        "require_definition_json_extension": False,
        "message_stats": {},
        "statistics_db_event_queue": 0,
        "node": identity.node,
        **await _totals(call),
    }
    if call.is_monitor:
        facts["listeners"] = listener_facts(call.room)
        facts["contexts"] = context_facts(call.room)
    return single(call, facts)


async def _totals(call: Call) -> Facts:
    vhosts = call.visible_vhosts()
    if call.is_monitor:
        vhosts = list(call.broker.vhosts.values())
    totals = await totals_of(vhosts, Pace())
    connections = call.broker.connections
    visible = connections.all()
    if not call.is_monitor:
        visible = [one for one in visible if one.user_name() == call.user.name]
    return {
        "queue_totals": totals.facts(),
        "object_totals": {
            "connections": len(visible),
            "channels": sum(one.channel_count() for one in visible),
            "exchanges": totals.exchanges,
            "queues": totals.queues,
            "consumers": totals.consumers,
        },
        "churn_rates": churn_facts(call.broker),
    }


async def show_cluster_name(call: Call) -> Answer:
    """What the broker is called."""
    return json_answer({"name": cluster_name(call)})


async def put_cluster_name(call: Call) -> Answer:
    """Call the broker something else."""
    body = await call.body_with("name")
    name = fields.text(body, "name")
    parameter = Parameter(NO_VHOST, GLOBAL, CLUSTER_NAME, name)
    await call.change(lambda done: call.broker.changes.put(parameter, done))
    return NO_CONTENT


async def list_extensions(call: Call) -> Answer:
    """RabbitMQ's plugins extend its user interface; here are none."""
    return json_answer([])


async def show_version(call: Call) -> Answer:
    """The version of RabbitMQ whose behaviour this is, for who may not log in."""
    return json_answer(call.room.identity.rabbitmq_version)


async def show_oauth(call: Call) -> Answer:
    """How the user interface logs in: with a password."""
    return json_answer({"oauth_enabled": False})


ENDPOINTS = (
    Endpoint("GET", "/api/overview", Need.MANAGEMENT, show_overview),
    Endpoint("GET", "/api/cluster-name", Need.MANAGEMENT, show_cluster_name),
    Endpoint("PUT", "/api/cluster-name", Need.ADMINISTRATOR, put_cluster_name),
    Endpoint("GET", "/api/extensions", Need.MANAGEMENT, list_extensions),
    Endpoint("GET", "/api/version", Need.NOTHING, show_version),
    Endpoint("GET", "/api/auth", Need.NOTHING, show_oauth),
)
