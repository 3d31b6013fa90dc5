"""What is said of a long mixed load, from the figures of its minutes."""

from __future__ import annotations

import pytest

from tests.bench.mixed import Minute, summary


def minute(p50: float = 100.0, p99: float = 200.0, resident: float = 50.0) -> Minute:
    return Minute(7000.0, p50, p99, resident, resident + 10, 20, 2)


def test_memory_at_the_end_is_compared_with_memory_after_the_first_minute() -> None:
    residents = [50.0, 60.0, 60.0, 60.0, 60.0, 90.0, 45.0, 48.0, 51.0]
    figures = summary(40.0, [minute(resident=resident) for resident in residents])
    assert figures["resident_at_end_mb"] == 51.0
    assert figures["resident_last_third_mb"] == 48.0
    assert figures["resident_end_over_first"] == pytest.approx(1.02)
    assert figures["resident_end_over_empty"] == pytest.approx(51.0 / 40.0)
    assert figures["resident_peak_mb"] == 100.0


def test_latency_of_the_last_third_is_compared_with_that_of_the_first() -> None:
    p50s = [100.0, 110.0, 120.0, 900.0, 900.0, 900.0, 210.0, 220.0, 230.0]
    figures = summary(40.0, [minute(p50=p50) for p50 in p50s])
    assert figures["latency_p50_last_over_first"] == 2.0
    assert figures["latency_p99_last_over_first"] == 1.0


def test_of_a_broker_whose_process_is_unknown_no_memory_is_told() -> None:
    figures = summary(0.0, [minute(), minute()])
    assert not [name for name in figures if name.startswith("resident")]


def test_a_minute_is_one_line() -> None:
    assert minute().line(3, 30) == (
        "minute 3 of 30: 7,000/s, latency p50 100 us p99 200 us, resident 50.0 MB"
        " (at most 60.0), 20 x 50 connections, 2 backlogs"
    )
