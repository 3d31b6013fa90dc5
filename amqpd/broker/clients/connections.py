"""The open connections of all clients, as the control plane knows them.

A connection is here from connection.open to its end. It is found by its name, which
the peers' addresses make unique. Nothing here is touched per message.

`OpenConnection` is the port through which the broker asks, and closes, what the
protocol has; it stands here and not in `ports` because it speaks of queues.
"""

from typing import final

from mypy_extensions import i64, trait

from amqpd.auth.tls_peer import tls_facts
from amqpd.broker.clients.connection_facts import ChannelFacts, ConnectionFacts
from amqpd.broker.clients.traffic import Traffic
from amqpd.broker.errors import AmqpError
from amqpd.broker.events import Events
from amqpd.wire.tables import Table


@trait
class OpenConnection:
    """A client's connection, to be listed and to be closed."""

    def get_name(self) -> str:
        """`ip:port -> ip:port`, the client's first."""
        raise NotImplementedError

    def user_name(self) -> str:
        """Who has logged in."""
        raise NotImplementedError

    def vhost_name(self) -> str:
        """Where to."""
        raise NotImplementedError

    def channel_count(self) -> int:
        """How many channels are open."""
        raise NotImplementedError

    def follow_tracing(self) -> None:
        """The firehose of its virtual host was turned on or off."""
        raise NotImplementedError

    def count_traffic(self, total: Traffic) -> tuple[int, int]:
        """Add what has passed; return how many channels publish, how many consume."""
        raise NotImplementedError

    def facts(self) -> ConnectionFacts:
        """All there is to say of the connection."""
        raise NotImplementedError

    def channel_facts(self) -> list[ChannelFacts]:
        """All there is to say of its channels, by number."""
        raise NotImplementedError

    def close(self, error: AmqpError, now_ms: i64) -> None:
        """End it and tell the client why; does nothing when it is ending."""
        raise NotImplementedError


@final
class Connections:
    """Who is connected."""

    def __init__(self, events: Events) -> None:
        self._events = events
        # Since the start, for the churn; connections that were refused do not count.
        self.opened_count = 0
        self.closed_count = 0
        self._by_name: dict[str, OpenConnection] = {}
        # By what owns the exclusive queues of a connection.
        self._by_owner: dict[object, OpenConnection] = {}

    def __len__(self) -> int:
        return len(self._by_name)

    def add(self, connection: OpenConnection, owner: object) -> None:
        """A client has entered a virtual host; `owner` is who has its queues."""
        self._by_name[connection.get_name()] = connection
        self._by_owner[owner] = connection
        self.opened_count += 1
        if self._events.is_wanted:
            self._events.note("connection.created", _described(connection))

    def remove(self, owner: object) -> None:
        """It is over; does nothing when it is not here."""
        connection = self._by_owner.pop(owner, None)
        if connection is None:
            return
        self.closed_count += 1
        if self._events.is_wanted:
            headers: Table = {
                "name": connection.get_name(),
                "user": connection.user_name(),
                "vhost": connection.vhost_name(),
                "user_who_performed_action": connection.user_name(),
            }
            self._events.note("connection.closed", headers)
        name = connection.get_name()
        if self._by_name.get(name) is connection:
            del self._by_name[name]

    def of_owner(self, owner: object) -> OpenConnection | None:
        """Return the connection that has an exclusive queue."""
        return self._by_owner.get(owner)

    def get(self, name: str) -> OpenConnection | None:
        """Return the connection of that name, if it is open."""
        return self._by_name.get(name)

    def all(self) -> list[OpenConnection]:
        """All connections, in the order in which they came."""
        return list(self._by_name.values())

    def in_vhost(self, vhost: str) -> list[OpenConnection]:
        """The connections to a virtual host."""
        return [one for one in self.all() if one.vhost_name() == vhost]

    def of_user(self, user: str) -> list[OpenConnection]:
        """The connections of a user."""
        return [one for one in self.all() if one.user_name() == user]


def _described(connection: OpenConnection) -> Table:
    """What the event of a new connection says."""
    facts = connection.facts()
    headers: Table = {
        "name": facts.name,
        "type": "network",
        "protocol": "{0,9,1}",
        "auth_mechanism": facts.mechanism,
        "user": facts.user,
        "vhost": facts.vhost,
        "timeout": facts.heartbeat_s,
        "frame_max": facts.frame_max,
        "channel_max": facts.channel_max,
        "client_properties": facts.client_properties,
        "user_provided_name": facts.given_name,
        "connected_at": facts.connected_ms,
        "user_who_performed_action": facts.user,
    }
    for key, value in tls_facts(facts.tls_peer).items():
        headers[key] = "" if value is None else value
    return headers
