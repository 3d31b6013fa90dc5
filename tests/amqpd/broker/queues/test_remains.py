"""What deleted queues held goes in slices, and memory is told as it goes."""

from __future__ import annotations

from amqpd.broker.messages.message import RECOVERED
from amqpd.broker.queues.backlog import Backlog
from amqpd.broker.queues.memory_use import MemoryUse
from amqpd.broker.queues.remains import Remains
from tests.support.deliveries import reference_of


def backlog_of(use: MemoryUse, durable: bool, *numbers: int) -> Backlog:
    """A backlog of messages with these numbers in the log."""
    ready = Backlog(durable, use)
    for seq, number in enumerate(numbers, 1):
        reference = reference_of(seq)
        reference.message.number = number
        ready.append(reference)
    return ready


def leave(remains: Remains, ready: Backlog, durable: bool) -> None:
    for line in ready.take_lines():
        remains.add(line, durable)


def test_what_is_left_goes_in_slices_of_all_queues() -> None:
    use = MemoryUse()
    remains = Remains(use)
    for _ in range(2):
        leave(remains, backlog_of(use, False, -1, -1, -1), False)
    counts = []
    while remains.has_work:
        counts.append((int(use.total), remains.let_go(4)))
    cost = int(reference_of(1).message.cost)
    assert counts == [(6 * cost, 4), (2 * cost, 2)]
    assert use.total == 0
    assert remains.let_go(4) == 0


def test_memory_is_told_of_each_kind_of_message() -> None:
    use = MemoryUse()
    remains = Remains(use)
    ready = backlog_of(use, True, -1, 7, 8)
    recovered = reference_of(4)
    recovered.message.number = RECOVERED
    ready.put_back(recovered)
    leave(remains, ready, True)
    # In the log by way of another queue: for this one it is in memory only.
    leave(remains, backlog_of(use, False, 9), False)
    cost = int(reference_of(1).message.cost)
    assert (use.stored, use.unstored, use.loaded) == (3 * cost, 2 * cost, cost)
    assert remains.let_go(100) == 5
    assert (use.stored, use.unstored, use.loaded) == (0, 0, 0)


def test_memory_is_not_told_twice_of_one_that_was_struck() -> None:
    use = MemoryUse()
    remains = Remains(use)
    ready = backlog_of(use, False, -1, -1, -1)
    ready.strike(ready.first())
    leave(remains, ready, False)
    assert remains.let_go(100) == 3
    assert use.total == 0


def test_a_queue_that_held_nothing_leaves_nothing() -> None:
    use = MemoryUse()
    remains = Remains(use)
    leave(remains, Backlog(False, use), False)
    assert not remains.has_work
