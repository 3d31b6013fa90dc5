"""Who is in, and whether one more may come: limits of the node, virtual hosts, users.

Connections are counted by virtual host and by user, channels by user. What the node
allows is configured and does not change. A limit that is
lowered turns nobody out; it is looked at when somebody comes. Texts are RabbitMQ's.
"""

from typing import final

from amqpd.broker.errors import NotAllowed, PreconditionFailed
from amqpd.broker.policies.number_limits import (
    MAX_CHANNELS,
    MAX_CONNECTIONS,
    MAX_QUEUES,
    NO_LIMIT,
)


@final
class NodeLimits:
    """What the configuration allows all clients together; `NO_LIMIT`: anything."""

    def __init__(
        self,
        node: str = "amqpd@localhost",
        connection_max: int = NO_LIMIT,
        channel_max: int = NO_LIMIT,
        consumer_max_per_channel: int = NO_LIMIT,
        vhost_max: int = NO_LIMIT,
        queue_max: int = NO_LIMIT,
        exchange_max: int = NO_LIMIT,
    ) -> None:
        self.node = node
        self.connection_max = connection_max
        self.channel_max = channel_max
        self.consumer_max_per_channel = consumer_max_per_channel
        self.vhost_max = vhost_max
        self.queue_max = queue_max
        self.exchange_max = exchange_max

    def check_vhosts(self, name: str, count: int) -> None:
        """Check that there may be one more virtual host than so many.

        Raises:
            PreconditionFailed: there may not.
        """
        if 0 <= self.vhost_max <= count:
            raise PreconditionFailed(
                f"cannot create vhost '{name}': vhost limit of {self.vhost_max} "
                "is reached"
            )

    def check_queues(self, name: str, count: int) -> None:
        """Check that there may be one more queue than so many.

        Raises:
            PreconditionFailed: there may not.
        """
        if 0 <= self.queue_max <= count:
            raise PreconditionFailed(
                f"cannot declare queue '{name}': queue limit in cluster "
                f"({self.queue_max}) is reached"
            )

    def check_exchanges(self, name: str, count: int) -> None:
        """Check that there may be one more exchange than so many.

        Raises:
            PreconditionFailed: there may not.
        """
        if 0 <= self.exchange_max <= count:
            raise PreconditionFailed(
                f"cannot declare exchange '{name}': exchange limit in cluster "
                f"({self.exchange_max}) is reached"
            )


@final
class Admission:
    """Counts connections and channels, and knows how many there may be."""

    def __init__(self) -> None:
        self.node_limits = NodeLimits()
        self.connection_count = 0
        self.channel_count = 0
        self.vhost_limits: dict[str, dict[str, int]] = {}
        self.user_limits: dict[str, dict[str, int]] = {}
        self._in_vhost: dict[str, int] = {}
        self._of_user: dict[str, int] = {}
        self._channels: dict[str, int] = {}

    def limits_of_vhost(self, vhost: str) -> dict[str, int]:
        """Return what is set for a virtual host."""
        return self.vhost_limits.get(vhost, {})

    def limits_of_user(self, user: str) -> dict[str, int]:
        """Return what is set for a user."""
        return self.user_limits.get(user, {})

    def queue_limit(self, vhost: str) -> int:
        """Return how many queues there may be in a virtual host; negative: any."""
        return self.limits_of_vhost(vhost).get(MAX_QUEUES, NO_LIMIT)

    def check_node(self) -> None:
        """Check that the node has room for one more connection.

        Raises:
            NotAllowed: it has not.
        """
        limit = self.node_limits.connection_max
        if 0 <= limit <= self.connection_count:
            raise NotAllowed(
                f"connection refused: node connection limit ({limit}) is reached"
            )

    def check_vhost(self, user: str, vhost: str) -> None:
        """Check that a virtual host has room for one more connection.

        Raises:
            NotAllowed: it has not.
        """
        limit = self.limits_of_vhost(vhost).get(MAX_CONNECTIONS, NO_LIMIT)
        if 0 <= limit <= self._in_vhost.get(vhost, 0):
            raise NotAllowed(
                f"access to vhost '{vhost}' refused for user '{user}': "
                f"connection limit ({limit}) is reached"
            )

    def check_user(self, user: str) -> None:
        """Check that a user may have one more connection.

        Raises:
            NotAllowed: it may not.
        """
        limit = self.limits_of_user(user).get(MAX_CONNECTIONS, NO_LIMIT)
        if 0 <= limit <= self._of_user.get(user, 0):
            raise NotAllowed(
                f"connection refused for user '{user}': "
                f"user connection limit ({limit}) is reached"
            )

    def enter(self, user: str, vhost: str) -> None:
        """A connection is open."""
        self.connection_count += 1
        _count(self._in_vhost, vhost, 1)
        _count(self._of_user, user, 1)

    def leave(self, user: str, vhost: str) -> None:
        """A connection has ended."""
        self.connection_count -= 1
        _count(self._in_vhost, vhost, -1)
        _count(self._of_user, user, -1)

    def enter_channel(self, user: str) -> None:
        """A channel is about to be opened.

        Raises:
            NotAllowed: the node or the user has as many as it may have.
        """
        limit = self.node_limits.channel_max
        if 0 <= limit <= self.channel_count:
            raise NotAllowed(
                f"number of channels opened on node '{self.node_limits.node}' has "
                f"reached the maximum allowed limit of ({limit})"
            )
        limit = self.limits_of_user(user).get(MAX_CHANNELS, NO_LIMIT)
        if 0 <= limit <= self._channels.get(user, 0):
            raise NotAllowed(
                f"number of channels opened for user '{user}' has reached "
                f"the maximum allowed user limit of ({limit})"
            )
        self.channel_count += 1
        _count(self._channels, user, 1)

    def check_consumer(self, count: int) -> None:
        """Check that a channel with so many consumers may have one more.

        Raises:
            NotAllowed: it may not.
        """
        limit = self.node_limits.consumer_max_per_channel
        if 0 <= limit <= count:
            raise NotAllowed(f"reached maximum ({limit}) of consumers per channel")

    def leave_channel(self, user: str) -> None:
        """A channel has been closed."""
        self.channel_count -= 1
        _count(self._channels, user, -1)


def _count(counts: dict[str, int], key: str, by: int) -> None:
    count = counts.get(key, 0) + by
    if count:
        counts[key] = count
    else:
        counts.pop(key, None)
