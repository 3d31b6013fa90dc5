"""The figures of a run as lines for people."""

from __future__ import annotations

from typing import Final

from amqpd.bench.figures import COMPLETE, Figures, Latency
from amqpd.bench.verdict import Verdict

_FAULTS: Final = (
    ("doubled", "doubled: delivered again without being marked as redelivered"),
    ("out_of_order", "out of order: after a later one of the same producer and queue"),
    ("strange", "strange: not published by this run to that queue"),
    ("damaged", "damaged: of another size or content than published"),
    ("astray", "astray: confirms of what was never published or confirmed already"),
)


def lines(figures: Figures) -> list[str]:
    """Return the report."""
    counts = figures.counts
    said = [f"{figures.broker} at {figures.target}"]
    if figures.end != COMPLETE:
        said.append(f"{figures.end}: {figures.failure}".rstrip(": "))
    if figures.asked["producers"]:
        said.append(
            f"published  {counts.published:>12,}  {figures.publish_rate:>12,.0f} msg/s"
            f"  in {figures.publish_s:.1f} s"
        )
    if figures.asked["confirm"]:
        said.append(f"confirmed  {counts.confirmed:>12,}  {_answers(figures)}".rstrip())
    if figures.asked["consumers"]:
        said.append(
            f"delivered  {counts.delivered:>12,}  {figures.deliver_rate:>12,.0f} msg/s"
            f"  in {figures.deliver_s:.1f} s"
        )
    if figures.left_in_queues:
        said.append(f"in queues  {figures.left_in_queues:>12,}  when it was over")
    for name, latency in (
        ("publish to delivery", figures.latency),
        ("publish to confirm", figures.confirm_latency),
    ):
        if latency is not None:
            said.append(f"{name:<20} {percentiles(latency)}")
    said.append(
        f"the generator used {figures.publish_cost.cpu_share:.0%} of a core, "
        f"{figures.cpu_s_per_million:.2f} s per million messages"
    )
    if figures.verdict is not None:
        said.extend(verdict_lines(figures.verdict))
    return said + [f"note: {note}" for note in figures.notes()]


def percentiles(latency: Latency) -> str:
    """Return the percentiles on one line."""
    return "  ".join(
        f"{name} {duration(value)}" for name, value in latency.percentiles.items()
    )


def duration(nanoseconds: int) -> str:
    """Return a time in the unit that suits it."""
    if nanoseconds < 1_000_000:
        return f"{nanoseconds / 1000:.0f} us"
    if nanoseconds < 1_000_000_000:
        return f"{nanoseconds / 1e6:.1f} ms"
    return f"{nanoseconds / 1e9:.1f} s"


def verdict_lines(verdict: Verdict) -> list[str]:
    """Return what was verified and what was wrong."""
    said: list[str] = []
    if verdict.lost is None:
        said.append("it was cut short, so nobody can say what was lost")
    elif verdict.lost:
        said.append(
            f"{verdict.lost:,} lost, {verdict.lost_confirmed:,} of them confirmed"
        )
    for name, text in _FAULTS:
        count = getattr(verdict, name)
        if count:
            said.append(f"{count:,} {text}")
    if verdict.is_fine:
        what = "every message arrived once, whole and in order"
        whole = verdict.lost is not None
        return [*said, f"verified: {what if whole else 'nothing else was wrong'}"]
    return ["verified, and it is wrong:", *said]


def _answers(figures: Figures) -> str:
    counts = figures.counts
    parts: list[str] = []
    if counts.nacked:
        parts.append(f"{counts.nacked:,} were refused (nack)")
    unanswered = counts.published - counts.confirmed - counts.nacked
    if unanswered:
        parts.append(f"{unanswered:,} have no answer")
    return ", ".join(parts)
