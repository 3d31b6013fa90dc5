"""The pace: the rate as it was asked for, and what is late is caught up with."""

from __future__ import annotations

from amqpd.bench.pace import AT_ONCE, Pace

MS = 1_000_000


def test_the_first_message_is_due_at_once_and_each_next_one_in_its_turn() -> None:
    pace = Pace(1000)
    assert [pace.due(at * MS, 0) for at in (0, 1, 5)] == [1, 2, 6]
    assert pace.due(5 * MS, 6) == 0


def test_the_next_one_is_due_when_its_turn_comes() -> None:
    assert Pace(200).next_at(3) == 15 * MS
    assert Pace(200).due(15 * MS, 3) == 1
    assert Pace(200).due(15 * MS - 1, 3) == 0


def test_without_a_rate_everything_is_due() -> None:
    assert (Pace(0).due(0, 1 << 40), Pace(0).next_at(1 << 40)) == (AT_ONCE, 0)
