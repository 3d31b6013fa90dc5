"""What the process has: looked at now and then, told to the alarms."""

from __future__ import annotations

from pathlib import Path

import pytest

from amqpd.broker.alarms import DISK, DURATION_MIN_MS, MEMORY, ResourceLimit
from amqpd.net import resources as resources_module
from amqpd.net.resources import (
    LOOK_MS,
    NEAR_MS,
    NEAR_SIZE,
    RESERVED_MAX,
    SHORTAGE_MS,
    ResourceWatch,
)
from amqpd.process import descriptors_max
from tests.support.connection_pair import Bench

MIB = 1 << 20


@pytest.fixture(name="watch")
def _watch(bench: Bench, tmp_path: Path) -> ResourceWatch:
    bench.broker.alarms.memory_total = 1 << 40
    bench.broker.alarms.set_disk_free_limit(ResourceLimit(0))
    return ResourceWatch(bench.broker, tmp_path)


def test_a_look_tells_the_alarms(bench: Bench, watch: ResourceWatch) -> None:
    assert not watch.look(1000)
    alarms = bench.broker.alarms
    assert alarms.memory_used is not None and alarms.memory_used > MIB
    assert alarms.disk_free is not None and alarms.disk_free > 0
    assert not alarms.is_on


def test_a_look_is_taken_when_it_is_time(bench: Bench, watch: ResourceWatch) -> None:
    watch.look(1000)
    bench.broker.alarms.memory_used = None
    watch.look(999 + LOOK_MS)
    assert bench.broker.alarms.memory_used is None
    watch.look(1000 + LOOK_MS)
    assert bench.broker.alarms.memory_used is not None


def test_near_the_limit_looks_follow_each_other(
    bench: Bench, watch: ResourceWatch
) -> None:
    alarms = bench.broker.alarms
    watch.look(1000)
    assert alarms.memory_used is not None
    alarms.set_memory_watermark(ResourceLimit(alarms.memory_used + NEAR_SIZE // 2))
    watch.look(1000 + LOOK_MS)
    alarms.memory_used = None
    watch.look(1000 + LOOK_MS + NEAR_MS)
    assert alarms.memory_used is not None


def test_that_memory_is_nearly_short_is_told_when_it_begins_and_ends(
    bench: Bench, watch: ResourceWatch, monkeypatch: pytest.MonkeyPatch
) -> None:
    used = 100 * MIB
    monkeypatch.setattr(resources_module, "resident_size", lambda: used)
    told: list[tuple[bool, bool]] = []
    watch.on_shortage = lambda: told.append(
        (watch.is_memory_nearly_short, watch.is_memory_short)
    )
    alarms = bench.broker.alarms
    watch.look(0)
    for step, limit in enumerate(
        (used + NEAR_SIZE // 2, used + NEAR_SIZE // 2, 1 << 60, 0, 1 << 60)
    ):
        alarms.set_memory_watermark(ResourceLimit(limit))
        watch.look((step + 1) * LOOK_MS)
    assert told == [(True, False), (False, False), (True, True), (False, False)]


def test_memory_is_nearly_short_from_a_part_of_the_limit_on(
    bench: Bench, watch: ResourceWatch, monkeypatch: pytest.MonkeyPatch
) -> None:
    used = 0
    monkeypatch.setattr(resources_module, "resident_size", lambda: used)
    bench.broker.alarms.set_memory_watermark(ResourceLimit(1 << 40))
    for used, is_nearly in ((700 << 30, False), (800 << 30, True), (1, False)):
        watch.look(used)
        assert watch.is_memory_nearly_short == is_nearly
        watch._look_ms = 0


def test_near_the_limit_growth_from_look_to_look_counts(
    bench: Bench, watch: ResourceWatch
) -> None:
    alarms = bench.broker.alarms
    watch.look(0)
    assert alarms.memory_used is not None
    limit = alarms.memory_used + 48 * MIB
    alarms.set_memory_watermark(ResourceLimit(limit))
    watch.look(LOOK_MS)
    # More is used, less than the limit; and if so much came again, more than that.
    ballast = b"\1" * (46 * MIB)
    watch.look(2 * LOOK_MS)
    assert alarms.has(MEMORY)
    assert alarms.memory_used < limit
    watch.look(2 * LOOK_MS + DURATION_MIN_MS)
    assert not alarms.has(MEMORY)
    del ballast


def test_a_look_says_whether_an_alarm_came(bench: Bench, watch: ResourceWatch) -> None:
    bench.broker.alarms.set_memory_watermark(ResourceLimit(1))
    assert watch.look(1000)
    assert bench.broker.alarms.resources() == [MEMORY]
    assert not watch.look(1000 + LOOK_MS)
    bench.broker.alarms.set_memory_watermark(ResourceLimit(1 << 40))
    bench.broker.alarms.set_disk_free_limit(ResourceLimit(1 << 60))
    bench.broker.alarms.disk_free = None
    assert bench.broker.alarms.resources() == [DISK]


def test_messages_may_take_less_while_memory_is_short(
    bench: Bench, watch: ResourceWatch
) -> None:
    alarms, budgets = bench.broker.alarms, bench.broker.pager.budgets
    given = budgets.total
    watch.look(0)
    assert budgets.total == given
    alarms.set_memory_watermark(ResourceLimit(12 * MIB))
    watch.look(LOOK_MS)
    assert (budgets.total, budgets.cold) == (3 * MIB, 3 * MIB)
    alarms.set_memory_watermark(ResourceLimit(1 << 40))
    watch.look(2 * LOOK_MS)
    assert budgets.total == given


def test_a_disk_that_does_not_answer_raises_no_alarm(
    bench: Bench, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    watch = ResourceWatch(bench.broker, tmp_path / "gone")
    watch.look(0)
    watch.look(LOOK_MS)
    assert not bench.broker.alarms.has(DISK)
    assert caplog.text.count("free space of") == 1


def test_clients_do_not_get_the_last_descriptors(
    bench: Bench, watch: ResourceWatch, caplog: pytest.LogCaptureFixture
) -> None:
    highest = watch.descriptors_for_clients
    assert descriptors_max() - RESERVED_MAX <= highest < descriptors_max()
    assert watch.admits(highest - 1, 0)
    assert not bench.broker.alarms.is_out_of_descriptors
    assert not watch.admits(highest, 0)
    assert not watch.admits(highest, 1)
    assert bench.broker.alarms.is_out_of_descriptors
    assert caplog.text.count("clients are turned away") == 1


def test_a_shortage_of_descriptors_ends_when_some_are_closed(
    bench: Bench, watch: ResourceWatch
) -> None:
    watch.admits(watch.descriptors_for_clients, 0)
    watch.look(SHORTAGE_MS - 1)
    assert bench.broker.alarms.is_out_of_descriptors
    watch.look(SHORTAGE_MS + LOOK_MS)
    assert not bench.broker.alarms.is_out_of_descriptors
