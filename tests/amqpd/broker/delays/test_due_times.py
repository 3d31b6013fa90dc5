"""What is due when, for many."""

from __future__ import annotations

import random
from heapq import heappop, heappush

import pytest

from amqpd.broker.delays.due_times import CUT_COUNT, FRESH_MAX, NONE_DUE, DueTimes
from amqpd.broker.timers import NEVER_MS


def take_all(times: DueTimes, now_ms: int) -> list[int]:
    """Take everything that is due."""
    found = []
    while (seq := times.take_due(now_ms)) != NONE_DUE:
        found.append(int(seq))
    return found


def test_nothing_is_due_of_nothing() -> None:
    times = DueTimes()
    assert times.next_ms == NEVER_MS
    assert times.take_due(NEVER_MS - 1) == NONE_DUE


def test_what_is_due_first_is_taken_first_and_not_before() -> None:
    times = DueTimes()
    for due_ms, seq in ((30, 1), (10, 2), (20, 3)):
        times.add(due_ms, seq)
    assert times.next_ms == 10
    assert times.take_due(9) == NONE_DUE
    assert take_all(times, 20) == [2, 3]
    assert times.count == 1
    assert times.next_ms == 30


def test_the_lower_seq_is_first_of_what_is_due_at_the_same_time() -> None:
    times = DueTimes()
    count = 3 * FRESH_MAX
    for seq in range(count):
        times.add(7, seq)
    assert take_all(times, 7) == list(range(count))


@pytest.mark.parametrize("spread", [1, 1_000, 10_000_000])
def test_millions_come_and_go_as_in_a_heap(spread: int) -> None:
    chance = random.Random(spread)
    times = DueTimes()
    expected: list[tuple[int, int]] = []
    for seq in range(20_000):
        # Few wait long, as behind a retry of a minute one of a week.
        delay = chance.randrange(spread if chance.random() < 0.9 else 10**9)
        times.add(seq + delay, seq)
        heappush(expected, (seq + delay, seq))
        if seq % 1000 == 0:
            now_ms = seq + spread // 10
            due = []
            while expected and expected[0][0] <= now_ms:
                due.append(heappop(expected)[1])
            assert take_all(times, now_ms) == due
            assert times.count == len(expected)
    assert take_all(times, NEVER_MS - 1) == [seq for _, seq in sorted(expected)]
    assert times.count == 0


def test_nothing_is_left_after_clear() -> None:
    times = DueTimes()
    for seq in range(FRESH_MAX + 2):
        times.add(1, seq)
    times.clear()
    assert times.count == 0
    assert times.next_ms == NEVER_MS
    times.add(5, 6)
    assert take_all(times, 5) == [6]


def test_runs_with_little_left_are_put_together() -> None:
    times = DueTimes()
    long_ones = 0
    for seq in range(20 * FRESH_MAX):
        is_long = seq % 100 == 0
        times.add(NEVER_MS - 1 if is_long else seq, seq)
        long_ones += is_long
        if seq % CUT_COUNT == 0:
            take_all(times, seq)
    take_all(times, 20 * FRESH_MAX)
    assert times.count == long_ones
    assert times.run_count < 4
    assert len(take_all(times, NEVER_MS - 1)) == long_ones
