"""The report: what people read at the end."""

from __future__ import annotations

import pytest

from amqpd.bench.figures import Counts, Figures, Latency
from amqpd.bench.own_cost import OwnCost
from amqpd.bench.report import duration, lines, verdict_lines
from amqpd.bench.verdict import Verdict

FINE = "verified: every message arrived once, whole and in order"


def figures(confirm: int = 0, producers: int = 1, consumers: int = 1) -> Figures:
    return Figures(
        broker="RabbitMQ 3.13.7",
        target="h:1, virtual host /",
        asked={"confirm": confirm, "producers": producers, "consumers": consumers},
        counts=Counts(published=12_000, confirmed=9_000, nacked=5, delivered=11_000),
        publish_s=2.0,
        deliver_s=2.2,
        publish_cost=OwnCost(2.0, 1.0),
        cost=OwnCost(3.0, 1.2),
    )


def test_the_report_has_totals_rates_and_the_cost_of_measuring() -> None:
    text = "\n".join(lines(figures()))
    assert text.startswith("RabbitMQ 3.13.7 at h:1, virtual host /\n")
    for part in ("12,000", "6,000 msg/s", "11,000", "5,000 msg/s", "50% of a core"):
        assert part in text
    assert "100.00 s per million messages" in text
    assert "confirmed" not in text


def test_confirms_are_told_where_they_were_asked_for() -> None:
    text = "\n".join(lines(figures(confirm=10)))
    assert "9,000  5 were refused (nack), 2,995 have no answer" in text


def test_a_side_that_was_not_there_is_not_told_of() -> None:
    assert "published" not in "\n".join(lines(figures(producers=0)))
    assert "delivered" not in "\n".join(lines(figures(consumers=0)))


def test_latencies_left_messages_and_the_end_are_told() -> None:
    told = figures()
    told.latency = Latency(1, {"p50": 2_500_000, "max": 3_000_000_000})
    told.left_in_queues = 77
    told.end, told.failure = "failed", "the broker is gone"
    text = "\n".join(lines(told))
    assert "publish to delivery  p50 2.5 ms  max 3.0 s" in text
    assert "77  when it was over" in text
    assert "\nfailed: the broker is gone\n" in text


def test_notes_stand_at_the_end() -> None:
    told = figures()
    told.is_same_machine = True
    assert lines(told)[-1].startswith("note: the broker is on this machine")


@pytest.mark.parametrize(
    ("nanoseconds", "text"),
    [(0, "0 us"), (999_400, "999 us"), (1_000_000, "1.0 ms"), (2_000_000_000, "2.0 s")],
)
def test_a_time_has_the_unit_that_suits_it(nanoseconds: int, text: str) -> None:
    assert duration(nanoseconds) == text


@pytest.mark.parametrize(
    ("verdict", "said"),
    [
        (Verdict(), [FINE]),
        (Verdict(lost=1200, lost_confirmed=7), ["1,200 lost, 7 of them confirmed"]),
        (Verdict(doubled=1), ["1 doubled: "]),
        (Verdict(out_of_order=2), ["2 out of order: "]),
        (Verdict(strange=3), ["3 strange: "]),
        (Verdict(damaged=4, astray=5), ["4 damaged: ", "5 astray: "]),
        (Verdict(None, None), ["it was cut short", "verified: nothing else was wrong"]),
    ],
)
def test_the_verdict_names_each_fault(verdict: Verdict, said: list[str]) -> None:
    told = verdict_lines(verdict)
    if not verdict.is_fine:
        assert told[0] == "verified, and it is wrong:"
        told = told[1:]
    assert len(told) == len(said)
    for line, beginning in zip(told, said, strict=True):
        assert line.startswith(beginning)
