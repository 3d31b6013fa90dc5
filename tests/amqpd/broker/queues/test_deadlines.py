"""When messages expire that have a time of their own."""

from __future__ import annotations

import pytest

from amqpd.broker.queues.deadlines import Deadlines
from amqpd.broker.timers import NEVER_MS
from tests.support.deliveries import reference_of


@pytest.fixture
def deadlines() -> Deadlines:
    return Deadlines()


def due(deadlines: Deadlines, now_ms: int) -> list[int]:
    """Take all in memory whose time has come; return their seqs."""
    seqs: list[int] = []
    while (reference := deadlines.take_due(now_ms)) is not None:
        seqs.append(int(reference.seq))
    return seqs


def test_those_in_memory_come_in_the_order_of_their_times(
    deadlines: Deadlines,
) -> None:
    for seq, deadline_ms in ((1, 30), (2, 10), (3, 20)):
        deadlines.add(reference_of(seq), deadline_ms)
    assert deadlines.next_ms == 10
    assert due(deadlines, 20) == [2, 3]
    assert due(deadlines, 29) == []
    assert due(deadlines, 30) == [1]
    assert deadlines.next_ms == NEVER_MS


def test_what_was_discarded_never_comes(deadlines: Deadlines) -> None:
    deadlines.add(reference_of(1), 10)
    deadlines.add(reference_of(2), 20)
    deadlines.discard(1)
    assert deadlines.next_ms == 20
    assert due(deadlines, 100) == [2]


def test_cold_ones_come_when_their_second_is_over(deadlines: Deadlines) -> None:
    for seq, deadline_ms in ((1, 1200), (2, 1900), (3, 2100)):
        deadlines.add(reference_of(seq), deadline_ms)
        deadlines.on_cold(seq, deadline_ms, seq == 2)
    assert deadlines.next_ms == 2000
    assert deadlines.take_due_cold(1999, 10) == []
    assert deadlines.take_due_cold(2000, 10) == [1, -2]
    assert deadlines.take_due_cold(2000, 10) == []
    assert deadlines.take_due_cold(3000, 10) == [3]
    assert due(deadlines, 10_000) == []


def test_cold_ones_come_a_few_at_a_time(deadlines: Deadlines) -> None:
    for seq in range(1, 6):
        deadlines.add(reference_of(seq), 500)
        deadlines.on_cold(seq, 500, False)
    taken = deadlines.take_due_cold(1000, 2) + deadlines.take_due_cold(1000, 2)
    assert deadlines.next_ms == 1000
    taken += deadlines.take_due_cold(1000, 2)
    assert sorted(taken) == [1, 2, 3, 4, 5]
    assert deadlines.next_ms == NEVER_MS


def test_one_that_does_not_expire_is_not_noted_when_it_goes_cold(
    deadlines: Deadlines,
) -> None:
    deadlines.on_cold(1, 500, False)
    assert deadlines.next_ms == NEVER_MS


def test_void_entries_do_not_pile_up(deadlines: Deadlines) -> None:
    for seq in range(1, 10_000):
        deadlines.add(reference_of(seq), 1_000_000)
        deadlines.discard(seq)
    assert deadlines.entry_count < 1000


def test_cleared_it_has_nothing(deadlines: Deadlines) -> None:
    deadlines.add(reference_of(1), 10)
    deadlines.add(reference_of(2), 10)
    deadlines.on_cold(2, 10, False)
    deadlines.clear()
    assert deadlines.next_ms == NEVER_MS
    assert due(deadlines, 100) == []
    assert deadlines.take_due_cold(10_000, 10) == []
