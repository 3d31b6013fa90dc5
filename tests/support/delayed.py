"""A delayed exchange on a bench: what waits, what comes out, what is in memory.

delayed = DelayedExchange(bench)        exchange x, direct, and queue q bound to it by k
delayed.publish(b"later", 5000)
bench.pass_time(5000)
assert delayed.bodies() == [b"later"]
"""

from __future__ import annotations

from pamqp import commands
from pamqp.common import FieldTable

from amqpd.broker.delays.delay_queue import DelayQueue
from amqpd.broker.queues.delivery import Reference
from amqpd.broker.queues.queue import Queue
from tests.support.connection_pair import Bench, method
from tests.support.content import publish, short_string
from tests.support.ruled import body_of


def delay_entry(delay_ms: int) -> bytes:
    """The header x-delay as most clients write it."""
    return short_string("x-delay") + b"l" + delay_ms.to_bytes(8, "big", signed=True)


def delayed_properties(delay_ms: int, mode: int = 2, more: bytes = b"") -> bytes:
    """Properties of a message with that delay, and more headers."""
    table = delay_entry(delay_ms) + more
    return b"\x30\x00" + len(table).to_bytes(4, "big") + table + bytes([mode])


class DelayedExchange:
    """The exchange x of the virtual host /, and the queue q behind it."""

    def __init__(
        self, bench: Bench, durable: bool = True, arguments: FieldTable | None = None
    ) -> None:
        self.bench = bench
        self.pair = bench.connect()
        declare = commands.Exchange.Declare(
            0,
            "x",
            "x-delayed-message",
            durable=durable,
            arguments={"x-delayed-type": "direct", **(arguments or {})},
        )
        self.pair.call(1, declare, commands.Exchange.DeclareOk)
        self.pair.declare("q", durable=True)
        self.bind("q")

    def bind(self, queue: str, key: str = "k") -> None:
        """Bind a queue to the exchange."""
        bind = commands.Queue.Bind(0, queue, "x", key)
        self.pair.call(1, bind, commands.Queue.BindOk)

    @property
    def room(self) -> DelayQueue:
        """Where messages wait."""
        return self.bench.broker.vhosts["/"].topology.waiting_rooms["x"]

    @property
    def count(self) -> int:
        """How many messages wait."""
        return self.bench.broker.vhosts["/"].topology.delayed_count("x")

    @property
    def queue(self) -> Queue:
        """The queue q."""
        return self.bench.broker.vhosts["/"].queues["q"]

    def publish(
        self,
        body: bytes,
        delay_ms: int,
        mode: int = 2,
        key: str = "k",
        more: bytes = b"",
    ) -> None:
        """Publish, persistent unless `mode` is 1."""
        properties = delayed_properties(delay_ms, mode, more)
        self.pair.send(publish(key, body, "x", properties))
        self.bench.turn()

    def get(self, name: str = "q") -> Reference | None:
        """Take the first message of a queue."""
        return self.bench.broker.vhosts["/"].queues[name].get(True)

    def bodies(self, name: str = "q") -> list[bytes]:
        """Take everything out of a queue."""
        found = []
        while (reference := self.get(name)) is not None:
            found.append(body_of(reference.message))
        return found

    def delete(self) -> None:
        """Delete the exchange."""
        delete = commands.Exchange.Delete(0, "x")
        self.pair.call(1, delete, commands.Exchange.DeleteOk)

    def tx_select(self) -> None:
        """Make channel 1 transactional."""
        self.pair.call(1, commands.Tx.Select(), commands.Tx.SelectOk)

    def tx_commit(self) -> None:
        """Commit what was published on channel 1."""
        self.pair.send(method(1, commands.Tx.Commit()))
        self.bench.run_idle()
        self.pair.expect(1, commands.Tx.CommitOk)
