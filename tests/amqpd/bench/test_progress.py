"""Progress: a display on a terminal, lines where there is none."""

from __future__ import annotations

import io
from dataclasses import replace

from rich.console import Console

from amqpd.bench.figures import Counts, Latency, Snapshot
from amqpd.bench.own_cost import OwnCost
from amqpd.bench.progress import Progress, drawn, line

NOW = Snapshot(
    phase="publishing",
    elapsed_s=3.0,
    done=0.3,
    left_s=7.0,
    counts=Counts(published=3_000, confirmed=2_900, nacked=2, delivered=2_800),
    publish_rate=1_000.4,
    deliver_rate=950.0,
    latency=Latency(10, {"p50": 1_000, "p99": 2_000_000}),
    confirm_latency=Latency(10, {"p50": 5_000}),
    cost=OwnCost(1.0, 0.5),
    blocked=None,
)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def picture(snapshot: Snapshot) -> str:
    console = Console(file=io.StringIO(), width=100, force_terminal=False)
    console.print(drawn(snapshot))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_a_line_has_rates_and_latency() -> None:
    assert line(NOW) == (
        "   3.0 s publishing, published 1,000/s, delivered 950/s, "
        "latency p50 1 us  p99 2.0 ms"
    )


def test_a_line_says_why_the_broker_blocks() -> None:
    blocked = replace(NOW, latency=None, blocked="low on memory")
    assert line(blocked).endswith("delivered 950/s, blocked: low on memory")


def test_without_a_terminal_each_snapshot_is_a_line() -> None:
    stream = io.StringIO()
    with Progress(stream) as progress:
        progress.show(NOW)
        progress.show(NOW)
    assert stream.getvalue() == f"{line(NOW)}\n" * 2


def test_the_picture_has_rates_totals_latency_and_the_time_left() -> None:
    text = picture(NOW)
    for part in (
        "publishing, 3 s, 7 s left",
        "1,000/s",
        "3,000",
        "2,900, 2 refused",
        "delivery  p50 1 us",
        "confirm   p50 5 us",
        "the generator uses 50% of a core",
    ):
        assert part in text
    assert "bottleneck" not in text
    heading = next(line for line in text.splitlines() if "total" in line)
    assert heading.split() == ["now", "total"]


def test_the_picture_says_when_the_generator_is_the_bottleneck_or_is_blocked() -> None:
    text = picture(replace(NOW, cost=OwnCost(1.0, 0.95), blocked="low on disk"))
    assert "95% of a core: it is the bottleneck" in text
    assert "blocked: low on disk" in text


def test_a_terminal_gets_the_picture_and_is_left_clean() -> None:
    stream = Terminal()
    with Progress(stream) as progress:
        progress.show(NOW)
    assert "publishing, 3 s, 7 s left" in stream.getvalue()
    # The cursor is shown again.
    assert stream.getvalue().count("\x1b[?25h") == 1
