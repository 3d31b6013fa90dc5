"""The figures: rates, and the notes without which they would be believed too much."""

from __future__ import annotations

import json
from typing import Any

import pytest

from amqpd.bench.figures import Counts, Figures, Latency
from amqpd.bench.histogram import Histogram
from amqpd.bench.own_cost import OwnCost
from amqpd.bench.verdict import Verdict


def figures(**changes: Any) -> Figures:
    whole: dict[str, Any] = {
        "broker": "b 1",
        "target": "h:1",
        "asked": {"confirm": 0},
        "counts": Counts(published=1000, delivered=900),
        "publish_s": 10.0,
        "deliver_s": 9.0,
        "publish_cost": OwnCost(10.0, 3.0),
        "cost": OwnCost(12.0, 4.0),
    }
    return Figures(**(whole | changes))


def test_rates_are_of_the_time_that_each_side_took() -> None:
    one = figures()
    assert (one.publish_rate, one.deliver_rate) == (100.0, 100.0)
    assert one.cpu_s_per_million == 4000.0
    assert one.notes() == []


def test_a_run_in_which_nothing_happened_has_rates_too() -> None:
    one = figures(counts=Counts(), publish_s=0.0, deliver_s=0.0, cost=OwnCost())
    assert (one.publish_rate, one.deliver_rate, one.cpu_s_per_million) == (0, 0, 0)


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"publish_cost": OwnCost(10.0, 9.0)}, "the generator itself was the bottle"),
        ({"publish_cost": OwnCost(10.0, 2.0, 7.5)}, "for a processor 95% of the time"),
        ({"publish_cost": OwnCost(10.0, 1.0, 2.5)}, "this machine is overloaded"),
        ({"is_same_machine": True}, "the broker is on this machine"),
        ({"rate_asked": 110.0}, "110 messages/s were asked for, 100 were sent"),
        ({"blocked_s": 2.5, "blocked": "low on disk"}, "for 2.5 s: low on disk"),
        ({"reconnects": 2}, "the connection was lost 2 times"),
        ({"publish_s": 0.5}, "the run took 0.50 s"),
    ],
)
def test_what_spoils_the_figures_is_said(changes: dict[str, Any], text: str) -> None:
    assert any(text in note for note in figures(**changes).notes())


def test_a_rate_that_was_kept_needs_no_note() -> None:
    assert figures(rate_asked=101.0).notes() == []


def test_verifying_is_named_as_a_cost_only_where_it_was_done() -> None:
    cost = OwnCost(10.0, 9.9)
    assert "--verify" in figures(publish_cost=cost, verdict=Verdict()).notes()[0]
    assert "--verify" not in figures(publish_cost=cost).notes()[0]


def test_json_has_everything_in_one_object() -> None:
    histogram = Histogram()
    histogram.record(1500, 10)
    latency = Latency.of(histogram)
    told = figures(latency=latency, verdict=Verdict(lost=3)).as_json()
    again = json.loads(json.dumps(told))
    assert again["publish_rate"] == 100.0
    assert again["latency_us"] == dict.fromkeys(
        ("p50", "p95", "p99", "p99.9", "max"), 1.5
    )
    assert again["confirm_latency_us"] is None
    assert again["generator"]["was_bottleneck"] is False
    assert (again["verify"]["lost"], again["verify"]["is_fine"]) == (3, False)
    assert figures().as_json()["verify"] is None


def test_nothing_measured_is_no_latency() -> None:
    assert Latency.of(Histogram()) is None
