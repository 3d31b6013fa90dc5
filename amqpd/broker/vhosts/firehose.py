"""The firehose: a copy of everything that is published and delivered, to be looked at.

    publish to x    >  amq.rabbitmq.trace, key publish.x    the body; in the headers the
    deliver from q  >  amq.rabbitmq.trace, key deliver.q    properties, who, on what

On and off by virtual host. While it is on every route asks the message and every
delivery takes the longer way, which is where the copies are made; while it is off there
is nothing to ask. Copies are noted, and published in the next turn: a queue that is
delivering is not to be filled meanwhile. Copies themselves are not copied. Headers are
RabbitMQ's.
"""

import logging
from datetime import datetime
from typing import Final, final

from mypy_extensions import i64

from amqpd.broker.messages.message import Message
from amqpd.broker.queues.queue import Queue
from amqpd.broker.timers import NEVER_MS, Timed
from amqpd.broker.vhosts.notice import publish_copy
from amqpd.broker.vhosts.topology import Topology
from amqpd.wire.frames import HEAD_SIZE
from amqpd.wire.properties import property_list
from amqpd.wire.tables import Table

logger = logging.getLogger(__name__)

EXCHANGE: Final = "amq.rabbitmq.trace"

_TEXTS: Final = (
    "content_type",
    "content_encoding",
    "correlation_id",
    "reply_to",
    "expiration",
    "message_id",
    "type",
    "user_id",
    "app_id",
    "cluster_id",
)


@final
class Firehose(Timed):
    """Copies messages of one virtual host."""

    def __init__(self, topology: Topology, node: str) -> None:
        super().__init__()
        self._topology = topology
        self._timers = topology.surroundings.timers
        self._node = node
        self._pending: list[tuple[str, Table, Message]] = []

    def on_publish(
        self,
        message: Message,
        keys: list[bytes],
        queues: list[Queue],
        user: str,
        connection: str,
    ) -> None:
        """A message was published, and goes to these queues."""
        exchange = message.exchange_name()
        if exchange == EXCHANGE:
            return
        headers: Table = {
            **self._described(message, exchange, keys),
            "vhost": self._topology.name,
            "connection": connection,
            "channel": int(message.channel),
            "user": user,
            "routed_queues": [queue.name for queue in queues],
        }
        self._copy(f"publish.{exchange}", headers, message)

    def on_deliver(
        self,
        message: Message,
        queue_name: str,
        redelivered: bool,
        user: str,
        connection: str,
        channel: i64,
    ) -> None:
        """A message was delivered, or got."""
        exchange = message.exchange_name()
        if exchange == EXCHANGE:
            return
        headers: Table = {
            **self._described(message, exchange, [message.routing_key()]),
            "redelivered": int(redelivered),
            "vhost": self._topology.name,
            "connection": connection,
            "channel": int(channel),
            "user": user,
        }
        self._copy(f"deliver.{queue_name}", headers, message)

    def _described(self, message: Message, exchange: str, keys: list[bytes]) -> Table:
        return {
            "exchange_name": exchange,
            "routing_keys": [key.decode("utf-8", "replace") for key in keys],
            "properties": _properties(message),
            "node": self._node,
        }

    def _copy(self, key: str, headers: Table, message: Message) -> None:
        if self._topology.router.has_bindings_from(EXCHANGE):
            self._pending.append((key, headers, message))
            self._timers.start(self)

    def on_start(self, now_ms: i64) -> i64:
        """Publish what has been noted."""
        pending = self._pending
        self._pending = []
        for key, headers, message in pending:
            try:
                publish_copy(self._topology, EXCHANGE, key, headers, message, now_ms)
            except ValueError as error:
                # Headers as deep as they may be are too deep within others.
                logger.warning("the copy %s is not published: %s", key, error)
        return NEVER_MS


@final
class DeliveryTrace:
    """Tells the firehose of what one channel is delivered."""

    def __init__(
        self, firehose: Firehose, user: str, connection: str, channel: i64
    ) -> None:
        self._firehose = firehose
        self._user = user
        self._connection = connection
        self._channel: i64 = channel

    def on_deliver(self, message: Message, queue_name: str, redelivered: bool) -> None:
        """A message was delivered, or got."""
        self._firehose.on_deliver(
            message,
            queue_name,
            redelivered,
            self._user,
            self._connection,
            self._channel,
        )


def _properties(message: Message) -> Table:
    """The properties of a message as a table, those that it has."""
    found = property_list(message.content, HEAD_SIZE)
    table: Table = {}
    for name in _TEXTS:
        text = getattr(found, name)
        if text is not None:
            # What is no UTF-8 is shown as well as it can be.
            table[name] = text.encode("utf-8", "surrogateescape").decode(
                "utf-8", "replace"
            )
    if found.headers is not None:
        table["headers"] = found.headers
    if found.delivery_mode is not None:
        table["delivery_mode"] = found.delivery_mode
    if found.priority is not None:
        table["priority"] = found.priority
    timestamp = found.timestamp
    if timestamp is not None:
        if isinstance(timestamp, datetime):
            timestamp = int(timestamp.timestamp())
        table["timestamp"] = timestamp
    return table
