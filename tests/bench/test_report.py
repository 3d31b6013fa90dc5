"""The tables: what is asked beside what was measured, and what a peer reaches."""

from __future__ import annotations

import json

from tests.bench.figures import BUSY, CPU
from tests.bench.report import OURS, STRANGERS, Report, Row

PEER = "RabbitMQ 3.10.8"


def report(scenario: str, ours: dict[str, float], **peers: dict[str, float]) -> Report:
    made = Report({"cores": "2"})
    made.add(scenario, OURS, ours)
    for figures in peers.values():
        made.add(scenario, PEER, figures)
    return made


def row_of(made: Report, figure: str) -> Row:
    (row,) = [row for row in made.rows() if row.figure == figure]
    return row


def test_a_row_says_whether_the_figure_meets_its_target() -> None:
    assert row_of(report("transient", {CPU: 0.45}), CPU).is_met is True
    row = row_of(report("transient", {CPU: 0.46}), CPU)
    assert (row.letter, row.limit, row.is_met) == ("a", "<= 0.45", False)


def test_a_row_says_how_many_times_better_than_the_peer_we_are() -> None:
    row = row_of(report("durable", {CPU: 3.0}, peer={CPU: 51.0}), CPU)
    assert row.peers == {PEER: (51.0, 17.0)}
    assert (row.multiple, row.is_multiple_met) == (">= 14 x", True)
    row = row_of(report("durable", {CPU: 3.0}, peer={CPU: 40.0}), CPU)
    assert row.is_multiple_met is False


def test_the_multiple_is_about_rabbitmq_and_nobody_else() -> None:
    made = report("durable", {CPU: 3.0})
    made.add("durable", "another broker", {CPU: 4.0})
    row = row_of(made, CPU)
    assert row.peers == {"another broker": (4.0, 4.0 / 3.0)}
    assert row.is_multiple_met is None


def test_without_a_peer_nothing_is_said_about_multiples() -> None:
    assert row_of(report("durable", {CPU: 3.0}), CPU).is_multiple_met is None


def test_one_limit_is_enough_where_either_will_do() -> None:
    slow_disk = {"confirm_p50_us": 900.0, "confirm_over_bare_sync_p50": 1.4}
    assert {row.is_met for row in report("lone_confirm", slow_disk).rows()} == {True}
    slow = {"confirm_p50_us": 900.0, "confirm_over_bare_sync_p50": 1.6}
    assert {row.is_met for row in report("lone_confirm", slow).rows()} == {False}


def test_the_loop_may_be_busy_for_as_long_in_every_load() -> None:
    made = report("topic", {CPU: 1.0, BUSY: 21.0})
    assert row_of(made, BUSY).is_met is False
    assert made.missed() == [f"topic: {BUSY} 21, <= 20"]


def test_the_price_beside_the_nearest_load_is_that_of_the_same_broker() -> None:
    made = report("celery", {CPU: 0.8}, peer={CPU: 20.0})
    made.add("transient", OURS, {CPU: 0.5})
    made.add("transient", PEER, {CPU: 10.0})
    row = row_of(made, "cpu_over_transient")
    assert (row.ours, row.limit, row.is_met) == (1.6, "<= 2", True)
    assert row.peers[PEER][0] == 2.0


def test_a_large_message_is_compared_by_the_octet() -> None:
    made = report("body_64k", {CPU: 96.0})
    made.add("topic", OURS, {CPU: 1.5})
    assert row_of(made, "cpu_per_octet_over_topic").ours == 1.0


def test_without_the_nearest_load_the_price_is_told_and_not_judged() -> None:
    (row,) = report("celery", {CPU: 0.8}).rows()
    assert (row.figure, row.limit, row.is_met) == (CPU, "", None)


def test_medians_are_taken_over_repeats_before_anything_is_judged() -> None:
    made = report("transient", {CPU: 9.0})
    made.add("transient", OURS, {CPU: 0.4})
    made.add("transient", OURS, {CPU: 0.3})
    assert row_of(made, CPU).ours == 0.4


def test_a_load_that_failed_on_our_broker_has_no_row() -> None:
    made = Report({})
    made.add("transient", PEER, {CPU: 13.0})
    assert made.rows() == []
    assert f"| figure | {PEER} |" in made.markdown()


def test_the_table_has_a_line_for_each_figure_with_a_target() -> None:
    ours = {CPU: 0.4, "delivered_per_s": 2e6, STRANGERS: 0.25}
    lines = report("transient", ours, peer={CPU: 12.0}).markdown().splitlines()
    titles, _, price, rate = [line.split(" | ") for line in lines[2:6]]
    assert titles[3:8] == ["amqpd", "target", "met", PEER, "times better"]
    assert titles[8:] == ["target", "met", "strangers' cores |"]
    assert price[:6] == ["| a", "transient", CPU, "0.4", "<= 0.45", "yes"]
    assert price[6:] == ["12", "30", ">= 25 x", "yes", "0.25 |"]
    assert rate[2:6] == ["delivered_per_s", "2,000,000", ">= 1,000,000", "yes"]
    assert rate[6:] == ["", "", "", "", "0.25 |"]


def test_the_json_has_every_run_and_the_table() -> None:
    made = report("transient", {CPU: 0.5}, peer={CPU: 12.0})
    made.failures.append("topic: lost")
    read = json.loads(made.json())
    assert read["machine"] == {"cores": "2"}
    assert read["runs"]["transient"] == {OURS: [{CPU: 0.5}], PEER: [{CPU: 12.0}]}
    assert read["targets"][0]["is_met"] is False
    assert read["failures"] == ["topic: lost"]


def test_a_short_look_judges_nothing() -> None:
    made = report("transient", {CPU: 0.5, "delivered_per_s": 1234.0})
    assert made.brief() == f"cores: 2\ntransient: {CPU} 0.5, delivered_per_s 1,234"
