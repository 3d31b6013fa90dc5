"""What the rooms of one channel need of the channel and the connection around them.

`ChannelFace` is a channel as the handlers of single methods see it, `ConnectionFace` a
connection as its channels see it. Both are native bases, so a call costs what a
method call costs.
"""

from typing import final

from mypy_extensions import i64
from pamqp.base import Frame

from amqpd.broker.errors import AmqpError
from amqpd.broker.vhosts.session import Session


class ConnectionFace:
    """A connection, as its channels, the handshake and the loop need it."""

    def __init__(self) -> None:
        # Whether it stands among the pending ones.
        self.is_pending = False
        # Octets received since it was accepted.
        self.bytes_in: i64 = 0

    def advance(self, now_ms: i64) -> None:
        """Process what has come, within one turn's budget."""
        raise NotImplementedError

    def resume_channel(self, number: i64) -> None:
        """The channel is not held any more: feed it the frames that were kept."""
        raise NotImplementedError

    def fail_channel(self, number: i64, error: AmqpError, method_id: i64) -> None:
        """Close the channel or the connection, as the error about a method says."""
        raise NotImplementedError

    def can_be_cancelled(self) -> bool:
        """Whether the client understands basic.cancel from the server."""
        raise NotImplementedError

    def on_secret_checked(self, is_right: bool) -> None:
        """The password that it waits for has been verified."""
        raise NotImplementedError

    def on_renewed(self) -> None:
        """The user has logged in anew, and may be permitted less than before."""
        raise NotImplementedError

    def close(self, error: AmqpError, now_ms: i64) -> None:
        """The broker ends the connection and says why."""
        raise NotImplementedError


@final
class PendingConnections:
    """The connections that have frames left to process in the next turn."""

    def __init__(self) -> None:
        self._connections: list[ConnectionFace] = []

    def add(self, connection: ConnectionFace) -> None:
        """The connection has something to process."""
        if not connection.is_pending:
            connection.is_pending = True
            self._connections.append(connection)

    def has_work(self) -> bool:
        """Whether any connection is pending."""
        return bool(self._connections)

    def take(self) -> list[ConnectionFace]:
        """All pending connections; each may be added again."""
        connections = self._connections
        self._connections = []
        for connection in connections:
            connection.is_pending = False
        return connections


class ChannelFace:
    """A channel, as the handlers of its methods need it."""

    def __init__(self, number: i64, session: Session) -> None:
        self.number: i64 = number
        self.session = session
        # What an empty queue name stands for.
        self.last_queue_name = ""
        self.is_held = False
        # Open, not held and not closing: its frames may be processed as they come.
        self.is_ready = True

    def reply(self, method: Frame) -> None:
        """Send a method to the client."""
        raise NotImplementedError

    def hold(self) -> None:
        """Keep the frames that come next: the reply to this one must wait."""
        raise NotImplementedError

    def release(self) -> None:
        """The reply is written; go on with the frames that were kept."""
        raise NotImplementedError

    def fail(self, error: AmqpError) -> None:
        """Close the channel or the connection: what was held for has failed."""
        raise NotImplementedError
