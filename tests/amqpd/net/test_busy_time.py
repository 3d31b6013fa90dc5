"""The longest time in which the loop serves nobody else."""

from __future__ import annotations

import asyncio
import selectors
import socket
from collections.abc import Iterator

import pytest

from amqpd.net.busy_time import BusySelector


class Clock:
    """Goes on only when it is told to."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def selector(clock: Clock) -> Iterator[BusySelector]:
    selector = BusySelector(clock)
    yield selector
    selector.close()


def test_the_longest_go_is_remembered(selector: BusySelector, clock: Clock) -> None:
    for seconds in (0.5, 2.0, 1.0):
        clock.now += seconds
        selector.select(0)
    assert selector.seconds_max == 2.0


def test_waiting_for_something_to_do_is_not_being_busy(clock: Clock) -> None:
    readings = iter([0.0, 1.0, 51.0, 54.0])
    selector = BusySelector(lambda: next(readings))
    selector.select(0.001)
    selector.select(0)
    selector.close()
    assert selector.seconds_max == 3.0


def test_a_round_that_does_not_wait_reads_the_clock_once() -> None:
    readings = iter([0.0, 1.0, 3.0])
    selector = BusySelector(lambda: next(readings))
    selector.select(0)
    selector.select(0)
    selector.close()
    assert selector.seconds_max == 2.0


def test_what_was_before_the_beginning_is_forgotten(
    selector: BusySelector, clock: Clock
) -> None:
    clock.now += 5.0
    selector.select(0)
    clock.now += 7.0
    selector.begin()
    clock.now += 1.0
    selector.select(0)
    assert selector.seconds_max == 1.0


def test_it_is_known_who_came_alone(selector: BusySelector) -> None:
    reading, writing = socket.socketpair()
    with reading, writing:
        selector.register(reading, selectors.EVENT_READ)
        selector.select(0)
        assert selector.ready_count == 0
        writing.send(b"x")
        selector.select(0)
        assert selector.ready_count == 1
        selector.register(writing, selectors.EVENT_WRITE)
        selector.select(0)
        assert selector.ready_count == 2
        selector.unregister(reading)
        selector.unregister(writing)


def test_all_that_runs_in_a_round_of_the_loop_is_one_go(
    selector: BusySelector, clock: Clock
) -> None:
    def work() -> None:
        clock.now += 1.5

    async def two_at_once_then_one() -> None:
        loop = asyncio.get_running_loop()
        loop.call_soon(work)
        loop.call_soon(work)
        await asyncio.sleep(0)
        loop.call_soon(work)
        await asyncio.sleep(0)

    def new_loop() -> asyncio.AbstractEventLoop:
        return asyncio.SelectorEventLoop(selector)

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(two_at_once_then_one())
    assert selector.seconds_max == 3.0
