"""The histogram: percentiles within one percent, in memory that does not grow."""

from __future__ import annotations

import random

import pytest

from amqpd.bench.histogram import VALUE_MAX, Histogram


def filled(*values: int) -> Histogram:
    histogram = Histogram()
    for value in values:
        histogram.record(value, 1)
    return histogram


def test_small_values_are_exact() -> None:
    histogram = filled(*range(256))
    assert [histogram.percentile(p) for p in (25, 50, 100)] == [63, 127, 255]


@pytest.mark.parametrize("seed", range(5))
def test_a_percentile_is_off_by_less_than_one_percent(seed: int) -> None:
    draw = random.Random(seed)
    values = sorted(int(10 ** draw.uniform(0, 11)) for _ in range(2000))
    histogram = filled(*values)
    for percent in (1, 50, 90, 99, 99.9):
        exact = values[max(0, -(-len(values) * percent // 100).__int__() - 1)]
        assert exact <= histogram.percentile(percent) <= exact * 1.008 + 1


def test_no_percentile_is_above_the_highest_value() -> None:
    histogram = filled(1_000_001)
    assert histogram.percentile(50) == histogram.percentile(100) == 1_000_001


def test_a_value_may_count_several_times() -> None:
    histogram = filled(5)
    histogram.record(100, 99)
    assert histogram.count == 100
    assert [histogram.percentile(p) for p in (1, 1.5)] == [5, 100]


def test_what_is_out_of_range_counts_as_the_nearest_value() -> None:
    histogram = filled(-5, VALUE_MAX * 4)
    assert [histogram.percentile(p) for p in (50, 100)] == [0, VALUE_MAX]


def test_an_empty_histogram_says_nothing() -> None:
    assert Histogram().percentile(99) == 0


def test_a_histogram_that_is_absorbed_is_empty_and_its_values_are_in_the_other() -> (
    None
):
    interval, total = filled(10, 3_000_000), filled(20)
    total.absorb(interval)
    assert (total.count, total.highest, total.percentile(50)) == (3, 3_000_000, 20)
    assert (interval.count, interval.highest, interval.percentile(99)) == (0, 0, 0)
    interval.record(7, 1)
    assert interval.percentile(100) == 7
