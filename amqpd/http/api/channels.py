"""Channels: listed with what their connection is, and with their consumers by one."""

from __future__ import annotations

from dataclasses import dataclass

from amqpd.broker.clients.connection_facts import ChannelFacts
from amqpd.broker.clients.connections import OpenConnection
from amqpd.http.answer import Answer
from amqpd.http.api.connections import connection_of, visible_connections
from amqpd.http.api.consumers import consumer_facts
from amqpd.http.call import Call
from amqpd.http.columns import Facts
from amqpd.http.endpoint import Endpoint, Need
from amqpd.http.errors import ObjectNotFound
from amqpd.http.listing import Listing, single
from amqpd.http.pace import Pace
from amqpd.http.peer import peer_facts


@dataclass(frozen=True)
class OpenChannel:
    """A channel and its connection."""

    connection: OpenConnection
    facts: ChannelFacts

    @property
    def name(self) -> str:
        """`ip:port -> ip:port (number)`."""
        return f"{self.connection.get_name()} ({self.facts.number})"


def _facts(channel: OpenChannel, node: str) -> Facts:
    connection, facts = channel.connection, channel.facts
    name = connection.get_name()
    return {
        "name": channel.name,
        "number": facts.number,
        "node": node,
        "state": "running",
        "user": connection.user_name(),
        "user_who_performed_action": connection.user_name(),
        "vhost": connection.vhost_name(),
        "connection_details": {"name": name, **peer_facts(name)},
        "confirm": facts.is_confirming,
        "transactional": facts.is_transactional,
        "consumer_count": len(facts.consumers),
        "prefetch_count": facts.consumer_prefetch,
        "global_prefetch_count": facts.prefetch,
        "messages_unacknowledged": facts.unacked_count,
        "messages_unconfirmed": facts.unconfirmed_count,
        "messages_uncommitted": facts.uncommitted_count,
        "acks_uncommitted": facts.uncommitted_ack_count,
        "pending_raft_commands": 0,
    }


def _listing(call: Call) -> Listing[OpenChannel]:
    node = call.room.identity.node
    return Listing[OpenChannel](
        lambda one: (one.connection.vhost_name(), one.name),
        lambda one: _facts(one, node),
    )


def _channels_of(connection: OpenConnection) -> list[OpenChannel]:
    return [OpenChannel(connection, facts) for facts in connection.channel_facts()]


async def list_channels(call: Call) -> Answer:
    """The channels that the user may see, of one virtual host or all."""
    found: list[OpenChannel] = []
    pace = Pace()
    for connection in visible_connections(call):
        found += _channels_of(connection)
        await pace.step()
    return await _listing(call).answer(call, found)


async def list_channels_of_connection(call: Call) -> Answer:
    """The channels of a connection."""
    return await _listing(call).answer(call, _channels_of(connection_of(call)))


async def show_channel(call: Call) -> Answer:
    """One channel, with its consumers."""
    wanted = call.name("channel")
    connection = call.broker.connections.get(wanted.rpartition(" ")[0])
    if connection is None:
        raise ObjectNotFound
    call.check_owner(connection.user_name())
    node = call.room.identity.node
    for channel in _channels_of(connection):
        if channel.name == wanted:
            consumers = [
                consumer_facts(one, channel.facts.number, connection, node)
                for one in channel.facts.consumers
            ]
            facts = {"consumer_details": consumers, "publishes": [], "deliveries": []}
            return single(call, {**_facts(channel, node), **facts})
    raise ObjectNotFound


async def list_sessions(call: Call) -> Answer:
    """AMQP 1.0 has sessions; these connections have none."""
    connection_of(call)
    return await _listing(call).answer(call, [])


_OF_CONNECTION = "/api/connections/{connection}"

ENDPOINTS = (
    Endpoint("GET", "/api/channels", Need.MANAGEMENT, list_channels),
    Endpoint("GET", "/api/channels/{channel}", Need.OWNER, show_channel),
    Endpoint("GET", "/api/vhosts/{vhost}/channels", Need.VHOST, list_channels),
    Endpoint(
        "GET", _OF_CONNECTION + "/channels", Need.OWNER, list_channels_of_connection
    ),
    Endpoint("GET", _OF_CONNECTION + "/sessions", Need.OWNER, list_sessions),
)
