"""Queues with rules: what they hold, and what became of what they do not hold.

Queues are made in the virtual host / of a bench; messages come as a publisher's would,
with the time of the bench.
"""

from __future__ import annotations

from amqpd.broker.arguments import Arguments
from amqpd.broker.messages.message import Message
from amqpd.broker.queues.delivery import Reference
from amqpd.broker.queues.queue import Queue
from amqpd.wire.frames import HEAD_SIZE, read_u32
from amqpd.wire.properties import headers, walk_properties
from amqpd.wire.tables import encode_table
from tests.support.connection_pair import Bench
from tests.support.content import NO_PROPERTIES, content_of


class RuledQueues:
    """Queues with arguments, on a bench."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.surroundings = bench.broker.vhosts["/"].surroundings
        self.topology = bench.broker.vhosts["/"].topology
        self.bench.broker.timers.now_ms = bench.now_ms

    def make(self, name: str, **table: object) -> Queue:
        """A transient queue; underscores stand for hyphens, x- goes before."""
        arguments = {
            "x-" + key.replace("_", "-"): value for key, value in table.items()
        }
        return self.topology.make_queue(
            self.surroundings.take_transient_id(),
            name,
            False,
            False,
            None,
            Arguments(arguments, encode_table(arguments)),
        )

    def message(
        self,
        body: bytes = b"",
        properties: bytes = NO_PROPERTIES,
        ttl_ms: int | None = None,
        exchange: str = "",
        key: str = "q",
    ) -> Message:
        """A message that is published now."""
        content = content_of(body, properties)
        end = HEAD_SIZE + read_u32(content, 3)
        facts = walk_properties(content, HEAD_SIZE, end)
        address = bytes([len(exchange)]) + exchange.encode()
        address += bytes([len(key)]) + key.encode() + b"\xce"
        message = Message(address, content, None, facts, self.bench.now_ms)
        if ttl_ms is not None:
            message.expires_ms = self.bench.now_ms + ttl_ms
        return message

    def publish(self, queue: Queue, *bodies: bytes, ttl_ms: int | None = None) -> None:
        """Publish bodies to a queue; those that it refuses are gone."""
        for body in bodies:
            message = self.message(body, ttl_ms=ttl_ms, key=queue.name)
            assert queue.keeper is not None
            if queue.keeper.refuses(message):
                queue.keeper.on_refused(message)
            else:
                queue.publish(message)
            self.surroundings.keepers.run()


def bodies_of(queue: Queue) -> list[bytes]:
    """Take everything that is ready; return the bodies."""
    found: list[bytes] = []
    while True:
        reference = queue.get(True)
        if reference is None:
            return found
        found.append(body_of(reference.message))


def body_of(message: Message) -> bytes:
    """The body of a small message."""
    size = int(message.body_size())
    return message.content[-1 - size : -1] if size else b""


def headers_of(reference: Reference) -> dict[str, object]:
    """The headers of a message."""
    return dict(headers(reference.message.content, HEAD_SIZE))
