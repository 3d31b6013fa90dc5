"""What there is to say of an open connection, its channels and their consumers.

Read on request, for the control plane; the data plane knows nothing of it. Times are
milliseconds since the epoch, sizes are octets since the connection was accepted.
"""

from dataclasses import dataclass

from amqpd.auth.tls_peer import TlsPeer
from amqpd.broker.queues.delivery import Consumer
from amqpd.broker.queues.queue import Queue


@dataclass(frozen=True)
class ConnectionFacts:
    """An open connection; `name` is `ip:port -> ip:port`, theirs first."""

    name: str
    user: str
    vhost: str
    #: In RabbitMQ's words: running, blocking, blocked, closing, ...
    state: str
    #: What the client calls itself, if anything.
    given_name: str
    client_properties: dict[str, object]
    mechanism: str
    frame_max: int
    channel_max: int
    heartbeat_s: int
    channel_count: int
    connected_ms: int
    bytes_received: int
    bytes_sent: int
    #: What the kernel has not taken yet.
    bytes_waiting: int
    #: None: there is no TLS.
    tls_peer: TlsPeer | None


@dataclass(frozen=True)
class ChannelFacts:
    """An open channel."""

    number: int
    is_confirming: bool
    is_transactional: bool
    #: The limit of each new consumer, and that of the whole channel; 0 is none.
    consumer_prefetch: int
    prefetch: int
    unacked_count: int
    unconfirmed_count: int
    uncommitted_count: int
    uncommitted_ack_count: int
    consumers: list["ConsumerFacts"]


@dataclass(frozen=True)
class ConsumerFacts:
    """A consumer of a channel, and the queue that it consumes from."""

    consumer: Consumer
    queue: Queue
