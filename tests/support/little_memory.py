"""Brokers with little memory: their queues, what is in them, what they use."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from amqpd.broker.queues.delivery import Reference
from amqpd.broker.queues.pager import MemoryBudgets
from amqpd.broker.queues.queue import Queue
from tests.support.connection_pair import Bench
from tests.support.deliveries import message_of, persistent_message
from tests.support.failing_disk import FailingDisk

PLENTY: Final = 1 << 40
NOTHING: Final = MemoryBudgets(0, 0)
NO_COLD: Final = MemoryBudgets(0, PLENTY)
#: Some ten of these are a window.
BODY: Final = bytes(1500)

Open = Callable[[MemoryBudgets], Bench]


class UnreadableDisk(FailingDisk):
    """A disk that can also refuse to read."""

    def __init__(self) -> None:
        super().__init__()
        self.is_unreadable = False

    def read(self, descriptor: int, size: int, offset: int) -> bytes:
        if self.is_unreadable:
            raise OSError(5, "input/output error")
        return super().read(descriptor, size, offset)


@contextmanager
def opening(directory: Path, disk: FailingDisk) -> Iterator[Open]:
    """Open brokers with the durable queue q and the transient queue t."""
    benches: list[Bench] = []

    def open_with(budgets: MemoryBudgets) -> Bench:
        bench = Bench(directory / "d", disk, budgets=budgets)
        benches.append(bench)
        pair = bench.connect()
        pair.declare("q", durable=True)
        pair.declare("t")
        return bench

    yield open_with
    for bench in benches:
        bench.close()


def queue_of(bench: Bench, name: str = "q") -> Queue:
    """A queue of the virtual host /."""
    return bench.broker.vhosts["/"].queues[name]


def fill(queue: Queue, count: int, is_persistent: bool = True) -> None:
    """Publish so many messages."""
    make = persistent_message if is_persistent else message_of
    for _ in range(count):
        queue.publish(make(BODY))


def cold_queue(bench: Bench, count: int = 30) -> Queue:
    """The durable queue with so many messages, none of them in memory."""
    queue = queue_of(bench)
    fill(queue, count)
    bench.sync()
    bench.page_out()
    assert not queue.has_memory()
    return queue


def take(queue: Queue, no_ack: bool = True) -> Reference:
    """The first message."""
    reference = queue.get(no_ack)
    assert reference is not None
    return reference


def seqs(queue: Queue) -> list[int]:
    """Take everything by basic.get."""
    found = []
    while (reference := queue.get(True)) is not None:
        found.append(int(reference.seq))
    return found


def used(bench: Bench) -> tuple[int, int]:
    """What messages in memory cost: of the log's, of all others."""
    use = bench.broker.pager.use
    return int(use.stored), int(use.unstored)


def is_nothing_used(bench: Bench) -> bool:
    """Whether no message takes memory, by every count that there is."""
    use = bench.broker.pager.use
    return (use.stored, use.loaded, use.unstored, use.unacked) == (0, 0, 0, 0)
