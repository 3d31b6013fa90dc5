"""The logs are looked after: files that nobody needs go, and what fails is told."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from amqpd.broker.ports import Step
from amqpd.broker.queues.pager import MemoryBudgets
from tests.support.connection_pair import Bench
from tests.support.deliveries import message_of, persistent_message
from tests.support.failing_disk import FailingDisk

SEGMENTS = 4
#: A few of these fill a segment.
BODY = bytes(20_000)


@pytest.fixture
def disk() -> FailingDisk:
    return FailingDisk()


@pytest.fixture
def bench(fast_path: Path, disk: FailingDisk) -> Iterator[Bench]:
    bench = Bench(fast_path / "d", disk, budgets=MemoryBudgets(0, 0))
    pair = bench.connect()
    pair.declare("q", durable=True)
    pair.declare("t")
    yield bench
    bench.close()


def look_after(bench: Bench) -> None:
    """Do everything that is due now, and once more a minute later."""
    upkeep = bench.broker.upkeep
    for _ in range(40):
        bench.now_ms += 15_000
        for step in upkeep.begin(bench.now_ms):
            step.run()
            upkeep.complete(step)
        for step in upkeep.begin_closing():
            step.run()


def segments(directory: Path) -> int:
    return len(list(directory.glob("*.seg")))


@pytest.mark.parametrize("name", ["q", "t"])
def test_segments_that_nobody_needs_go(
    bench: Bench, fast_path: Path, name: str
) -> None:
    log = fast_path / "d" / ("log" if name == "q" else "paging")
    queue = bench.broker.vhosts["/"].queues[name]
    make = persistent_message if name == "q" else message_of
    for _ in range(SEGMENTS * 4):
        queue.publish(make(BODY))
        bench.sync()
        bench.page_out()
    assert queue.get(no_ack=True) is not None
    assert segments(log) > SEGMENTS
    queue.purge()
    bench.sync()
    bench.page_out()
    look_after(bench)
    # What is open stays, and one that is prepared.
    assert segments(log) <= 3


def test_while_a_step_is_out_there_is_no_second_one(bench: Bench) -> None:
    upkeep = bench.broker.upkeep
    bench.broker.vhosts["/"].queues["q"].publish(persistent_message(BODY))
    bench.sync()
    steps: list[Step] = []
    while not steps:
        bench.now_ms += 15_000
        steps = upkeep.begin(bench.now_ms)
        assert upkeep.has_work or steps
    assert upkeep.begin(bench.now_ms + 60_000) == []
    for step in steps:
        step.run()
        upkeep.complete(step)


def test_what_fails_is_told_once(bench: Bench, disk: FailingDisk) -> None:
    bench.broker.vhosts["/"].queues["q"].publish(persistent_message(BODY))
    bench.sync()
    disk.is_full = True
    look_after(bench)
    disk.is_full = False
    assert bench.broker.upkeep.take_problems() != []
    assert bench.broker.upkeep.take_problems() == []
