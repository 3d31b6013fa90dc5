"""The generator's own cost: shares of the time between two looks."""

from __future__ import annotations

from amqpd.bench.own_cost import OwnCost


def test_work_costs_processor_time() -> None:
    before = OwnCost.now()
    sum(range(300_000))
    cost = OwnCost.now().since(before)
    assert cost.cpu_s > 0
    assert cost.cpu_share > 0
    assert 0 <= cost.in_line_share <= 1


def test_shares_are_of_the_time_that_has_passed() -> None:
    cost = OwnCost(12.0, 6.0, 2.0).since(OwnCost(2.0, 1.0, 1.0))
    assert (cost.cpu_share, cost.in_line_share) == (0.5, 0.1)


def test_a_wait_from_before_counts_no_more_than_the_time_that_was_left() -> None:
    assert OwnCost(1.0, 0.75, 3.0).in_line_share == 0.25


def test_no_time_has_no_shares() -> None:
    assert (OwnCost().cpu_share, OwnCost().in_line_share) == (0.0, 0.0)
