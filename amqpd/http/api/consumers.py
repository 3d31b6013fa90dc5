"""Consumers, found by going through the channels that they are on."""

from __future__ import annotations

from dataclasses import dataclass

from amqpd.broker.clients.connection_facts import ConsumerFacts
from amqpd.broker.clients.connections import OpenConnection
from amqpd.broker.queues.queue import Queue
from amqpd.http.answer import Answer
from amqpd.http.api.connections import visible_connections
from amqpd.http.call import Call
from amqpd.http.columns import Facts
from amqpd.http.endpoint import Endpoint, Need
from amqpd.http.listing import Listing
from amqpd.http.pace import Pace
from amqpd.http.peer import peer_facts
from amqpd.http.tables import as_json


@dataclass(frozen=True)
class PlacedConsumer:
    """A consumer, its channel and its connection."""

    facts: ConsumerFacts
    channel_number: int
    connection: OpenConnection


def consumer_facts(
    facts: ConsumerFacts, channel_number: int, connection: OpenConnection, node: str
) -> Facts:
    """Return what is said of a consumer."""
    consumer, queue = facts.consumer, facts.queue
    name = connection.get_name()
    status = queue.activity_status(consumer)
    return {
        "consumer_tag": consumer.tag,
        "ack_required": not consumer.no_ack,
        "active": status != "waiting",
        "activity_status": status,
        "exclusive": consumer.exclusive,
        "prefetch_count": int(consumer.prefetch),
        "arguments": as_json(consumer.arguments),
        "queue": {"name": queue.name, "vhost": queue.vhost_name},
        "channel_details": {
            "name": f"{name} ({channel_number})",
            "number": channel_number,
            "connection_name": name,
            "node": node,
            "user": connection.user_name(),
            **peer_facts(name),
        },
    }


def _key(placed: PlacedConsumer) -> tuple[str, str]:
    queue = placed.facts.queue
    return queue.vhost_name, f"{queue.name}\0{placed.facts.consumer.tag}"


async def _consumers_on(
    connections: list[OpenConnection], queue: Queue | None
) -> list[PlacedConsumer]:
    """Return the consumers on these connections, of one queue or of all."""
    found = []
    pace = Pace()
    for connection in connections:
        for channel in connection.channel_facts():
            for facts in channel.consumers:
                if queue is None or facts.queue is queue:
                    found.append(PlacedConsumer(facts, channel.number, connection))
        await pace.step()
    return found


async def consumers_of(call: Call, queue: Queue) -> list[Facts]:
    """Return what is said of the consumers of a queue, whoever they are."""
    if not queue.consumer_count:
        return []
    node = call.room.identity.node
    connections = call.broker.connections.in_vhost(queue.vhost_name)
    return [
        consumer_facts(one.facts, one.channel_number, one.connection, node)
        for one in await _consumers_on(connections, queue)
    ]


async def list_consumers(call: Call) -> Answer:
    """The consumers of the connections that the user may see."""
    node = call.room.identity.node
    listing = Listing[PlacedConsumer](
        _key,
        lambda one: consumer_facts(one.facts, one.channel_number, one.connection, node),
    )
    found = await _consumers_on(visible_connections(call), None)
    return await listing.answer(call, found)


ENDPOINTS = (
    Endpoint("GET", "/api/consumers", Need.MANAGEMENT, list_consumers),
    Endpoint("GET", "/api/consumers/{vhost}", Need.VHOST, list_consumers),
)
