"""Connections: listed, looked at, closed.

Who may not monitor sees their own ones. Rates are not here: they are statistics'.
"""

from __future__ import annotations

from typing import Final

from amqpd.auth.tls_peer import tls_facts
from amqpd.broker.clients.connections import OpenConnection
from amqpd.broker.errors import ConnectionForced
from amqpd.http.answer import NO_CONTENT, Answer
from amqpd.http.call import Call
from amqpd.http.columns import Facts
from amqpd.http.endpoint import Endpoint, Need
from amqpd.http.errors import ObjectNotFound
from amqpd.http.listing import Listing, single
from amqpd.http.peer import local_facts, peer_facts
from amqpd.http.tables import as_json

PROTOCOL: Final = "AMQP 0-9-1"
REASON: Final = "Closed via management plugin"


def visible_connections(call: Call) -> list[OpenConnection]:
    """Return the connections that the user may see, in the path's virtual host."""
    found = call.broker.connections.all()
    if "vhost" in call.names:
        found = call.broker.connections.in_vhost(call.vhost().name)
    if call.is_monitor:
        return found
    return [one for one in found if one.user_name() == call.user.name]


def _facts(connection: OpenConnection, node: str) -> Facts:
    facts = connection.facts()
    return {
        "name": facts.name,
        "node": node,
        "type": "network",
        "protocol": PROTOCOL,
        "state": facts.state,
        "user": facts.user,
        "user_who_performed_action": facts.user,
        "vhost": facts.vhost,
        **local_facts(facts.name),
        **peer_facts(facts.name),
        **tls_facts(facts.tls_peer),
        "auth_mechanism": facts.mechanism,
        "timeout": facts.heartbeat_s,
        "frame_max": facts.frame_max,
        "channel_max": facts.channel_max,
        "channels": facts.channel_count,
        "client_properties": as_json(facts.client_properties),
        "user_provided_name": facts.given_name or None,
        "connected_at": facts.connected_ms,
        "recv_oct": facts.bytes_received,
        "send_oct": facts.bytes_sent,
        "send_pend": facts.bytes_waiting,
    }


def _key(connection: OpenConnection) -> tuple[str, str]:
    return connection.vhost_name(), connection.get_name()


def _listing(call: Call) -> Listing[OpenConnection]:
    node = call.room.identity.node
    return Listing[OpenConnection](_key, lambda one: _facts(one, node))


async def list_connections(call: Call) -> Answer:
    """The connections that the user may see, of one virtual host or all."""
    return await _listing(call).answer(call, visible_connections(call))


def connection_of(call: Call, closes: bool = False) -> OpenConnection:
    """Return the connection that the path names, if the user may see (or close) it.

    Raises:
        ObjectNotFound: there is none.
        NotAuthorised: it is another user's.
    """
    connection = call.broker.connections.get(call.name("connection"))
    if connection is None:
        raise ObjectNotFound
    call.check_owner(connection.user_name(), closes)
    return connection


async def show_connection(call: Call) -> Answer:
    """One connection."""
    return single(call, _facts(connection_of(call), call.room.identity.node))


async def close_connection(call: Call) -> Answer:
    """Close a connection; the client is told why."""
    _close(call, [connection_of(call, closes=True)])
    return NO_CONTENT


def _close(call: Call, connections: list[OpenConnection]) -> None:
    error = ConnectionForced(call.headers.get("X-Reason") or REASON)
    for connection in connections:
        connection.close(error, call.room.now_ms())
    call.room.wake()


def _brief(connection: OpenConnection, node: str) -> Facts:
    return {
        "name": connection.get_name(),
        "vhost": connection.vhost_name(),
        "user": connection.user_name(),
        "node": node,
    }


async def list_connections_of_user(call: Call) -> Answer:
    """The connections of a user, in brief."""
    user = call.name("user")
    call.check_owner(user)
    node = call.room.identity.node
    listing = Listing[OpenConnection](_key, lambda one: _brief(one, node))
    return await listing.answer(call, call.broker.connections.of_user(user))


async def close_connections_of_user(call: Call) -> Answer:
    """Close all connections of a user."""
    user = call.name("user")
    call.check_owner(user, closes=True)
    _close(call, call.broker.connections.of_user(user))
    return NO_CONTENT


_ONE = "/api/connections/{connection}"
_OF_USER = "/api/connections/username/{user}"

ENDPOINTS = (
    Endpoint("GET", "/api/connections", Need.MANAGEMENT, list_connections),
    Endpoint("GET", "/api/vhosts/{vhost}/connections", Need.VHOST, list_connections),
    Endpoint("GET", _ONE, Need.OWNER, show_connection),
    Endpoint("DELETE", _ONE, Need.OWNER, close_connection),
    Endpoint("GET", _OF_USER, Need.OWNER, list_connections_of_user),
    Endpoint("DELETE", _OF_USER, Need.OWNER, close_connections_of_user),
)
