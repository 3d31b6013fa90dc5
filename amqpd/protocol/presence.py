"""A connection as the control plane sees it: listed, looked at and closed.

Made when the virtual host is opened and dropped when the connection ends, so that
nothing that is listed has ended and nothing refers in a circle for long. It reads what
the connection and its channels keep anyway; they do not know that somebody looks.
"""

from typing import final

from mypy_extensions import i64

from amqpd.broker.clients.connection_facts import (
    ChannelFacts,
    ConnectionFacts,
    ConsumerFacts,
)
from amqpd.broker.clients.connections import OpenConnection
from amqpd.broker.clients.traffic import Traffic
from amqpd.broker.errors import AmqpError
from amqpd.broker.vhosts.session import Session
from amqpd.protocol.channel import Channel
from amqpd.protocol.control import Control
from amqpd.protocol.output import Output
from amqpd.protocol.ports import ConnectionFace


@final
class Presence(OpenConnection):
    """One open connection."""

    def __init__(
        self,
        connection: ConnectionFace,
        control: Control,
        session: Session,
        output: Output,
        channels: dict[int, Channel],
        now_ms: i64,
    ) -> None:
        self._connection = connection
        self._control = control
        self._session = session
        self._output = output
        self._channels = channels
        self._connected_ms = now_ms

    def get_name(self) -> str:
        """`ip:port -> ip:port`, the client's first."""
        return self._control.name

    def user_name(self) -> str:
        """Who has logged in."""
        return self._session.user.name

    def vhost_name(self) -> str:
        """Where to."""
        return self._session.vhost_name

    def channel_count(self) -> int:
        """How many channels are open."""
        return len(self._channels)

    def follow_tracing(self) -> None:
        """The firehose of its virtual host was turned on or off."""
        for channel in self._channels.values():
            channel.follow_tracing()

    def count_traffic(self, total: Traffic) -> tuple[int, int]:
        """Add what has passed; return how many channels publish, how many consume."""
        publishing = consuming = 0
        for channel in self._channels.values():
            # One that the broker has closed has counted already.
            if not channel.is_closed:
                channel.publishing.count_confirms()
                total.add(channel.traffic)
                if channel.traffic.received:
                    publishing += 1
                if channel.consuming.consumers:
                    consuming += 1
        return publishing, consuming

    def facts(self) -> ConnectionFacts:
        """All there is to say of the connection."""
        handshake = self._control.handshake
        return ConnectionFacts(
            name=self._control.name,
            user=self._session.user.name,
            vhost=self._session.vhost_name,
            state=self._control.shown_state,
            given_name=handshake.connection_name,
            client_properties=dict(handshake.client_properties),
            mechanism=handshake.mechanism,
            frame_max=handshake.frame_max,
            channel_max=handshake.channel_max,
            heartbeat_s=handshake.heartbeat_s,
            channel_count=len(self._channels),
            connected_ms=int(self._connected_ms),
            bytes_received=int(self._connection.bytes_in),
            bytes_sent=int(self._output.sent),
            bytes_waiting=int(self._output.in_transport),
            tls_peer=handshake.tls_peer,
        )

    def channel_facts(self) -> list[ChannelFacts]:
        """All there is to say of its channels, by number."""
        numbers = sorted(self._channels)
        return [_channel_facts(self._channels[number]) for number in numbers]

    def close(self, error: AmqpError, now_ms: i64) -> None:
        """End it and tell the client why; does nothing when it is ending."""
        self._connection.close(error, now_ms)


def _channel_facts(channel: Channel) -> ChannelFacts:
    publishing = channel.publishing
    consuming = channel.consuming
    confirms = publishing.confirms
    transaction = publishing.transaction
    uncommitted = 0
    uncommitted_acks = 0
    if transaction is not None:
        uncommitted = len(transaction.publications)
        for answers in transaction.answers:
            uncommitted_acks += len(answers.references)
    consumers: list[ConsumerFacts] = []
    for consumer in consuming.consumers.values():
        consumers.append(ConsumerFacts(consumer, consumer.source))
    return ChannelFacts(
        number=int(channel.number),
        is_confirming=confirms is not None,
        is_transactional=transaction is not None,
        consumer_prefetch=int(consuming.consumer_prefetch),
        prefetch=int(consuming.prefetch),
        unacked_count=int(consuming.unacked.count),
        unconfirmed_count=0 if confirms is None else int(confirms.unanswered_count),
        uncommitted_count=uncommitted,
        uncommitted_ack_count=uncommitted_acks,
        consumers=consumers,
    )
