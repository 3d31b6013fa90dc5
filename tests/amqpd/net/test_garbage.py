"""Full rounds of the collector are rare, and connections do not need them."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Iterator

import pytest
from pamqp.commands import Queue

from amqpd.clock import Clock
from amqpd.net.garbage import (
    FEW,
    GONE_PART,
    PAUSE_SECONDS_MIN,
    THRESHOLDS,
    UNSEEN_PAUSES,
    GarbageRounds,
    pause_after,
)
from amqpd.net.ticker import Ticker
from amqpd.protocol.channel import Channel
from amqpd.protocol.connection import Connection
from tests.support.connection_pair import Bench


@pytest.fixture
def collector() -> Iterator[None]:
    """Give the collector back as it was."""
    before = gc.get_threshold()
    yield
    gc.set_threshold(*before)
    gc.unfreeze()
    gc.enable()


@pytest.fixture
def rounds(collector: None) -> Iterator[list[str]]:
    """The generations that were collected, in order."""
    seen: list[str] = []

    def note(phase: str, facts: dict[str, int]) -> None:
        if phase == "start":
            seen.append(str(facts["generation"]))

    gc.disable()
    gc.callbacks.append(note)
    yield seen
    gc.callbacks.remove(note)


def nobody() -> tuple[int, int]:
    return 0, 0


def test_the_collector_makes_no_full_round_by_itself(collector: None) -> None:
    GarbageRounds(0.0, nobody).start()
    assert gc.get_threshold() == THRESHOLDS
    assert gc.get_freeze_count() > 0


def test_a_round_that_would_be_due_before_long_is_hastened_and_no_other() -> None:
    garbage = GarbageRounds(100.0, nobody, lambda: (0, 1, 0))
    garbage.hasten(101.0)
    assert garbage.on_time(101.0)
    garbage.due_s = 101.5 + PAUSE_SECONDS_MIN
    garbage.hasten(101.0)
    assert not garbage.on_time(101.0)
    assert garbage.due_s == 101.5 + PAUSE_SECONDS_MIN
    garbage.demand(101.0)
    assert garbage.on_time(101.0)


def test_what_finds_nothing_is_not_hastened_for_later() -> None:
    looks = 0
    garbage = GarbageRounds(100.0, lambda: (10 * FEW, 0), lambda: (600, looks, 0))
    garbage.hasten(101.0)
    garbage.demand(101.0)
    looks = 1
    assert not garbage.on_time(110.0)


def test_a_full_round_is_due_after_a_while_and_not_again_soon(
    rounds: list[str],
) -> None:
    garbage = GarbageRounds(100.0, nobody, lambda: (0, 1, 0))
    now_s = 100.0 + PAUSE_SECONDS_MIN
    assert not garbage.on_time(now_s - 0.1)
    assert garbage.on_time(now_s)
    assert garbage.is_due
    assert rounds == []
    garbage.make_round(now_s)
    assert rounds == ["2"]
    assert not garbage.is_due
    assert not garbage.on_time(now_s + PAUSE_SECONDS_MIN - 0.1)
    assert garbage.due_s >= now_s + PAUSE_SECONDS_MIN


@pytest.mark.parametrize(
    ("counts", "is_due"), [((699, 0, 0), False), ((0, 1, 0), True), ((0, 0, 1), True)]
)
def test_where_nothing_has_come_no_round_is_due(
    counts: tuple[int, int, int], is_due: bool
) -> None:
    garbage = GarbageRounds(0.0, nobody, lambda: counts)
    assert garbage.on_time(1000.0) is is_due
    assert garbage.is_due is is_due


def test_where_many_stay_a_round_waits_until_a_part_of_them_has_gone(
    rounds: list[str],
) -> None:
    alive, gone = FEW + 1000, 0
    garbage = GarbageRounds(0.0, lambda: (alive, gone), lambda: (0, 1, 0))
    now_s = PAUSE_SECONDS_MIN
    gone = 1000 // GONE_PART - 1
    assert not garbage.on_time(now_s)
    gone += 1
    assert garbage.on_time(now_s)
    garbage.make_round(now_s)
    now_s = garbage.due_s
    assert not garbage.on_time(now_s)
    gone += 1000 // GONE_PART
    assert garbage.on_time(now_s)
    gone -= 1
    alive = FEW + 990
    assert garbage.on_time(now_s)


def test_where_many_stay_a_round_is_due_after_a_long_time_or_amid_nothing_to_do(
    rounds: list[str],
) -> None:
    garbage = GarbageRounds(0.0, lambda: (10 * FEW, 0), lambda: (0, 1, 0))
    late_s = UNSEEN_PAUSES * PAUSE_SECONDS_MIN
    assert not garbage.on_time(late_s - 0.1)
    assert garbage.on_time(late_s)
    garbage.make_round(late_s)
    now_s = garbage.due_s
    assert not garbage.on_time(now_s)
    garbage.hasten(now_s)
    assert garbage.on_time(now_s)
    garbage.note(0.0, 0.04)
    garbage.note(0.0, 0.04)
    garbage.note(0.0, 0.04)
    late_s = UNSEEN_PAUSES * garbage.due_s
    assert not garbage.on_time(late_s - 0.1)
    assert garbage.on_time(late_s)


async def test_who_is_counted_are_clients_and_queues(bench: Bench) -> None:
    loop = asyncio.get_running_loop()
    fatal: list[BaseException] = []
    ticker = Ticker(bench.broker, Clock(), loop, 1.0, fatal.append)
    first, second = bench.connect(), bench.connect()
    # One more was turned away.
    ticker.accepted_count = 3
    first.declare("a")
    first.declare("b")
    assert ticker.population() == (4, 1)
    # With its socket its channel goes.
    second.connection.lose_socket("gone")
    assert ticker.population() == (3, 3)
    first.call(1, Queue.Delete(0, "a"), Queue.DeleteOk)
    assert ticker.population() == (2, 4)
    await ticker.drain()
    ticker.close()
    assert fatal == []


@pytest.mark.parametrize(
    ("round_s", "pause_s"), [(0.0, 5), (0.005, 5), (0.02, 60), (0.04, 240)]
)
def test_twice_as_long_a_round_is_a_quarter_as_frequent(
    round_s: float, pause_s: float
) -> None:
    assert pause_after(round_s) == pytest.approx(pause_s)


def test_one_round_that_was_held_up_puts_off_nothing() -> None:
    garbage = GarbageRounds(0.0, nobody)
    garbage.note(0.0, 0.002)
    for now_s in (100.0, 200.0):
        garbage.note(now_s, 0.08)
        assert garbage.due_s == now_s + PAUSE_SECONDS_MIN
    garbage.note(300.0, 0.04)
    assert garbage.due_s == pytest.approx(300 + 240)


def test_a_connection_that_ends_leaves_nothing_to_collect(
    bench: Bench, collector: None
) -> None:
    def alive() -> int:
        kinds = (Connection, Channel)
        return sum(isinstance(one, kinds) for one in gc.get_objects())

    before = alive()
    gc.disable()
    pair = bench.connect()
    pair.declare("q")
    pair.consume("q")
    assert alive() == before + 2
    pair.connection.lose_socket("gone")
    del pair
    assert alive() == before
