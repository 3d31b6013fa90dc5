"""What figures become: medians over repeats, limits, and multiples of a peer."""

from __future__ import annotations

from typing import Any

import pytest

from tests.bench.figures import (
    BUSY,
    at_least,
    at_most,
    figures_of,
    medians,
    times_better,
)


def test_a_figure_of_several_runs_is_their_median() -> None:
    runs = [{"x_s": 9.0}, {"x_s": 1.0}, {"x_s": 2.0}]
    assert medians(runs) == {"x_s": 2.0}


def test_the_longest_busy_time_of_several_runs_is_the_longest_of_all() -> None:
    assert medians([{BUSY: 3.0}, {BUSY: 40.0}, {BUSY: 4.0}]) == {BUSY: 40.0}


def test_a_figure_that_one_run_does_not_have_is_left_out() -> None:
    assert medians([{"x_s": 1.0, "y_s": 2.0}, {"x_s": 3.0}]) == {"x_s": 2.0}


def test_of_rates_more_is_better_and_of_everything_else_less() -> None:
    assert times_better("confirmed_per_s", 300.0, 100.0) == 3.0
    assert times_better("cpu_s_per_million", 2.0, 50.0) == 25.0
    assert times_better("latency_p50_us", 200.0, 100.0) == 0.5


@pytest.mark.parametrize(("ours", "theirs"), [(0.0, 1.0), (1.0, 0.0)])
def test_nought_is_no_times_better_than_anything(ours: float, theirs: float) -> None:
    assert times_better("cpu_s_per_million", ours, theirs) is None


def test_who_is_compared_with_himself_is_not_compared_with_others() -> None:
    assert times_better("cpu_over_transient", 1.0, 2.0) is None


def test_a_limit_is_met_by_itself() -> None:
    assert at_most(2).is_met_by(2.0)
    assert not at_most(2).is_met_by(2.1)
    assert at_least(2).is_met_by(2.0)
    assert not at_least(2).is_met_by(1.9)


def test_the_rate_of_a_load_is_that_of_its_consumers_if_it_has_any() -> None:
    phase = {"publish_rate": 7.0, "consume_rate": 5.0, "confirm_rate": 6.0}
    result: dict[str, Any] = {"result": phase, "latency_us": {}}
    result["latency_us"] = {"p50": 1.0, "p99": 2.0, "p999": 3.0}
    assert figures_of(result) == {
        "delivered_per_s": 5.0,
        "confirmed_per_s": 6.0,
        "latency_p50_us": 1.0,
        "latency_p99_us": 2.0,
        "latency_p999_us": 3.0,
    }
    assert figures_of({"publish": {"publish_rate": 7.0}}) == {"published_per_s": 7.0}
