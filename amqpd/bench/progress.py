"""How it goes: a live display on a terminal, a line a second elsewhere.

What is shown is what happened since the last time, but for the totals. It goes to
standard error, so that standard output holds the result alone.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Self, TextIO

from amqpd.bench.figures import BOTTLENECK_SHARE, Snapshot
from amqpd.bench.report import percentiles

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.live import Live


class Progress:
    """Shows snapshots while it is entered."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = sys.stderr if stream is None else stream
        self._live: Live | None = None

    def __enter__(self) -> Self:
        if self._stream.isatty():
            # Only here: it takes as long as all other imports together.
            from rich.console import Console
            from rich.live import Live

            console = Console(file=self._stream)
            self._live = Live(console=console, transient=True, auto_refresh=False)
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()

    def show(self, snapshot: Snapshot) -> None:
        """Show how it goes now."""
        if self._live is not None:
            self._live.update(drawn(snapshot), refresh=True)
        else:
            self._stream.write(line(snapshot) + "\n")
            self._stream.flush()


def line(snapshot: Snapshot) -> str:
    """Return a snapshot as one line."""
    parts = [
        f"{snapshot.elapsed_s:6.1f} s {snapshot.phase}",
        f"published {snapshot.publish_rate:,.0f}/s",
        f"delivered {snapshot.deliver_rate:,.0f}/s",
    ]
    if snapshot.latency is not None:
        parts.append(f"latency {percentiles(snapshot.latency)}")
    if snapshot.blocked is not None:
        parts.append(f"blocked: {snapshot.blocked}")
    return ", ".join(parts)


def drawn(snapshot: Snapshot) -> RenderableType:
    """Return a snapshot as rich draws it."""
    from rich.console import Group
    from rich.progress_bar import ProgressBar
    from rich.table import Table
    from rich.text import Text

    left = "" if snapshot.left_s is None else f", {snapshot.left_s:.0f} s left"
    title = f"{snapshot.phase}, {snapshot.elapsed_s:.0f} s{left}"
    table = Table(box=None, pad_edge=False)
    for heading in ("", "now", "total"):
        table.add_column(heading, justify="right" if heading else "left")
    counts = snapshot.counts
    table.add_row(
        "published", f"{snapshot.publish_rate:,.0f}/s", f"{counts.published:,}"
    )
    if counts.confirmed or counts.nacked:
        refused = f", {counts.nacked:,} refused" if counts.nacked else ""
        table.add_row("confirmed", "", f"{counts.confirmed:,}{refused}")
    table.add_row(
        "delivered", f"{snapshot.deliver_rate:,.0f}/s", f"{counts.delivered:,}"
    )
    # In a grid: by itself, a bar does not end its line.
    bar = Table.grid()
    bar.add_row(ProgressBar(total=1.0, completed=min(1.0, snapshot.done), width=60))
    rows: list[RenderableType] = [
        Text(title, style="bold"),
        bar,
        table,
    ]
    for name, latency in (
        ("delivery", snapshot.latency),
        ("confirm", snapshot.confirm_latency),
    ):
        if latency is not None:
            rows.append(Text(f"{name:<9} {percentiles(latency)}"))
    rows.append(_own(snapshot.cost.cpu_share))
    if snapshot.blocked is not None:
        rows.append(Text(f"blocked: {snapshot.blocked}", style="bold red"))
    return Group(*rows)


def _own(share: float) -> RenderableType:
    from rich.text import Text

    text = f"the generator uses {share:.0%} of a core"
    if share < BOTTLENECK_SHARE:
        return Text(text, style="dim")
    return Text(f"{text}: it is the bottleneck", style="yellow")
