"""Messages, and consumers on channels without a connection: who got what, in order.

`ConsumingChannel` is the consuming half of a channel with an output of its own. What it
would send is taken apart again, so a test sees deliveries as (consumer tag, body).
"""

from __future__ import annotations

import struct

from pamqp import commands

from amqpd.broker.clients.traffic import Traffic
from amqpd.broker.messages.message import Message
from amqpd.broker.queues.delivery import Reference, ReferenceOwner
from amqpd.broker.queues.queue import Queue
from amqpd.protocol.consuming import ChannelConsumer, Consuming
from amqpd.protocol.output import Output, OutputQueue
from amqpd.protocol.ports import ConnectionFace
from amqpd.wire.properties import HAS_PRIORITY, PERSISTENT, PRIORITY_SHIFT
from tests.support.connection_pair import contents, cut, octets_of
from tests.support.content import PERSISTENT_PROPERTIES, content_of

ADDRESS = b"\x00\x01q\xce"


def message_of(body: bytes = b"", facts: int = 0) -> Message:
    """A message that was published to the queue q on channel 1."""
    return Message(ADDRESS, content_of(body), None, facts, 0)


def persistent_message(body: bytes = b"") -> Message:
    """A message that a durable queue gives to the log."""
    content = content_of(body, PERSISTENT_PROPERTIES)
    return Message(ADDRESS, content, None, PERSISTENT, 0)


def message_with_priority(
    body: bytes, priority: int, is_persistent: bool = False
) -> Message:
    """A message of that priority, for the log if it is persistent."""
    properties = struct.pack(">HBB", 0x1800, 1 + is_persistent, priority)
    facts = HAS_PRIORITY | priority << PRIORITY_SHIFT
    if is_persistent:
        facts |= PERSISTENT
    return Message(ADDRESS, content_of(body, properties), None, facts, 0)


def reference_of(seq: int, body: bytes = b"") -> Reference:
    """The hold of some queue on a message of its own."""
    return Reference(ReferenceOwner(), message_of(body), seq)


class ConsumingChannel:
    """The consuming half of one channel, and what it has written."""

    def __init__(self, number: int = 1, output: Output | None = None) -> None:
        self.output = output or Output(OutputQueue())
        self.consuming = Consuming(number, self.output, ConnectionFace(), Traffic())

    def subscribe(
        self,
        queue: Queue,
        tag: str,
        prefetch: int = 0,
        priority: int = 0,
        no_ack: bool = False,
        exclusive: bool = False,
    ) -> ChannelConsumer:
        """Add a consumer to the queue.

        Raises:
            AccessRefused: the queue does not take it.
        """
        consumer = ChannelConsumer(
            self.consuming, queue, tag, no_ack, exclusive, priority, prefetch, {}
        )
        queue.add_consumer(consumer)
        self.consuming.add(consumer)
        return consumer

    def take(self) -> list[tuple[str, bytes]]:
        """What was delivered since the last time: consumer tag and body."""
        return [(tag, body) for tag, _, _, body in self.take_deliveries()]

    def take_deliveries(self) -> list[tuple[str, int, bool, bytes]]:
        """What was delivered: consumer tag, delivery tag, redelivered, body."""
        frames, rest = cut(octets_of(self.output))
        assert not rest
        return [
            (
                deliver.consumer_tag or "",
                deliver.delivery_tag or 0,
                deliver.redelivered,
                body,
            )
            for deliver, _, body in contents(frames, commands.Basic.Deliver)
        ]
