"""Alarms: what was measured against limits that change at any time."""

from __future__ import annotations

import pytest

from amqpd.broker.alarms import (
    AHEAD_SHARE,
    DISK,
    DURATION_MIN_MS,
    MEMORY,
    Alarms,
    ResourceLimit,
)

GIB = 1 << 30


class Waiting:
    """Counts how often it was told that the alarms are over."""

    def __init__(self) -> None:
        self.told = 0

    def on_alarms_over(self) -> None:
        """Count it."""
        self.told += 1


class Unable:
    """Fails when it is told."""

    def on_alarms_over(self) -> None:
        """Fail."""
        raise RuntimeError


@pytest.fixture(name="alarms")
def _alarms() -> Alarms:
    alarms = Alarms()
    alarms.memory_total = 10 * GIB
    return alarms


def test_without_a_measure_nothing_is_short(alarms: Alarms) -> None:
    alarms.set_memory_watermark(ResourceLimit(0))
    alarms.set_disk_free_limit(ResourceLimit(1 << 60))
    assert not alarms.is_on


def test_the_defaults_are_six_tenths_of_memory_and_fifty_megabytes(
    alarms: Alarms,
) -> None:
    assert alarms.memory_limit == 6 * GIB
    assert alarms.disk_limit == 50_000_000


def test_memory_is_short_above_its_limit(alarms: Alarms) -> None:
    alarms.on_measured(6 * GIB, GIB, 0)
    assert not alarms.is_on
    alarms.on_measured(6 * GIB + 1, GIB, 0)
    assert alarms.is_on
    assert alarms.resources() == [MEMORY]
    assert alarms.reason == "low on memory"


def test_the_disk_is_short_below_its_limit(alarms: Alarms) -> None:
    alarms.on_measured(GIB, 50_000_000, 0)
    assert not alarms.is_on
    alarms.on_measured(GIB, 49_999_999, 0)
    assert alarms.is_on
    assert alarms.resources() == [DISK]
    assert alarms.reason == "low on disk"


def test_both_may_be_short(alarms: Alarms) -> None:
    alarms.on_measured(7 * GIB, 0, 0)
    assert alarms.reason == "low on memory & disk"


def test_a_limit_of_the_disk_may_be_a_multiple_of_memory(alarms: Alarms) -> None:
    alarms.set_disk_free_limit(ResourceLimit(None, 2.0))
    alarms.on_measured(GIB, 20 * GIB - 1, 0)
    assert alarms.has(DISK)


def test_a_memory_limit_of_nothing_is_always_exceeded(alarms: Alarms) -> None:
    alarms.on_measured(1, GIB, 0)
    alarms.set_memory_watermark(ResourceLimit(None, 0.0))
    assert alarms.has(MEMORY)


def test_a_changed_limit_holds_at_once(alarms: Alarms) -> None:
    alarms.on_measured(GIB, GIB, 0)
    alarms.set_memory_watermark(ResourceLimit(GIB - 1))
    assert alarms.is_on
    alarms.set_memory_watermark(ResourceLimit(GIB))
    assert not alarms.is_on
    alarms.set_disk_free_limit(ResourceLimit(GIB + 1))
    assert alarms.is_on
    alarms.set_disk_free_limit(ResourceLimit(GIB))
    assert not alarms.is_on


def test_a_measured_alarm_lasts_a_while(alarms: Alarms) -> None:
    alarms.on_measured(7 * GIB, GIB, 5)
    alarms.on_measured(1, GIB, 4 + DURATION_MIN_MS)
    assert alarms.is_on
    alarms.on_measured(1, GIB, 5 + DURATION_MIN_MS)
    assert not alarms.is_on


def test_who_waits_is_told_once_when_no_alarm_is_left(alarms: Alarms) -> None:
    waiting = Waiting()
    alarms.on_measured(7 * GIB, 0, 0)
    alarms.wait(waiting)
    alarms.wait(waiting)
    alarms.on_measured(7 * GIB, GIB, DURATION_MIN_MS)
    assert waiting.told == 0
    alarms.on_measured(1, GIB, DURATION_MIN_MS)
    alarms.on_measured(1, GIB, DURATION_MIN_MS)
    assert waiting.told == 1


def test_one_who_cannot_go_on_does_not_keep_the_others_waiting(
    alarms: Alarms, caplog: pytest.LogCaptureFixture
) -> None:
    first, second = Unable(), Waiting()
    alarms.on_measured(7 * GIB, GIB, 0)
    alarms.wait(first)
    alarms.wait(second)
    alarms.on_measured(1, GIB, DURATION_MIN_MS)
    assert second.told == 1
    assert "a publisher cannot go on" in caplog.text


def test_memory_that_grows_is_short_before_it_is_at_its_limit(alarms: Alarms) -> None:
    alarms.on_measured(6 * GIB - 5, GIB, 0, 5)
    assert not alarms.is_on
    alarms.on_measured(6 * GIB - 5, GIB, 0, 6)
    assert alarms.is_on


def test_growth_counts_no_more_than_a_part_of_the_limit(alarms: Alarms) -> None:
    alarms.on_measured(6 * GIB * (AHEAD_SHARE - 1) // AHEAD_SHARE, GIB, 0, GIB)
    assert not alarms.is_on


def test_who_is_gone_is_not_told(alarms: Alarms) -> None:
    waiting = Waiting()
    alarms.on_measured(7 * GIB, GIB, 0)
    alarms.wait(waiting)
    alarms.forget(waiting)
    alarms.forget(waiting)
    alarms.on_measured(1, GIB, DURATION_MIN_MS)
    assert waiting.told == 0


def test_each_change_is_told(alarms: Alarms, caplog: pytest.LogCaptureFixture) -> None:
    changes: list[tuple[str, bool]] = []

    def note(resource: str, is_set: bool) -> None:
        changes.append((resource, is_set))

    alarms.on_change = note
    alarms.on_measured(7 * GIB, 1, 0)
    alarms.on_measured(7 * GIB, GIB, DURATION_MIN_MS)
    assert changes == [(MEMORY, True), (DISK, True), (DISK, False)]
    assert "memory alarm: 7516192768 octets of memory are used" in caplog.text
    assert "disk alarm: 1 octets are free" in caplog.text
    assert "disk alarm is over" in caplog.text


@pytest.mark.parametrize(
    ("limit", "expected_mib"), [(0, 2), (160 << 20, 5), (10 << 30, 64)]
)
def test_what_may_be_parked_is_a_share_of_little_memory(
    alarms: Alarms, limit: int, expected_mib: int
) -> None:
    alarms.on_measured(limit + 1, 0, 0)
    assert alarms.parked_max == 64 << 20
    alarms.set_memory_watermark(ResourceLimit(limit))
    assert alarms.parked_max == expected_mib << 20
    alarms.set_memory_watermark(ResourceLimit(limit + 1))
    assert alarms.parked_max == 64 << 20
