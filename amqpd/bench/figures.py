"""What is known of a run: now and then while it goes on, and all of it at the end.

Rates are messages a second, latencies nanoseconds, and everything counted is of all
producers or consumers together.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Final

from amqpd import __version__, build_kind
from amqpd.bench.histogram import Histogram
from amqpd.bench.own_cost import OwnCost
from amqpd.bench.verdict import Verdict

#: So much of one core, and the generator can hardly do more.
BOTTLENECK_SHARE: Final = 0.9
#: Above it, the machine is too busy to measure anything on it.
IN_LINE_SHARE: Final = 0.2
#: Shorter than that, a run measures how things begin.
SHORT_S: Final = 1.0
#: Of the rate that was asked for; below it was not reached.
RATE_KEPT_SHARE: Final = 0.97
_PERCENTILES: Final = (("p50", 50.0), ("p95", 95.0), ("p99", 99.0), ("p99.9", 99.9))

COMPLETE: Final = "complete"
INTERRUPTED: Final = "interrupted"
FAILED: Final = "failed"


@dataclass(frozen=True)
class Counts:
    """What was counted so far."""

    published: int = 0
    confirmed: int = 0
    nacked: int = 0
    delivered: int = 0
    redelivered: int = 0


@dataclass(frozen=True)
class Latency:
    """Percentiles, by name, and how many were measured."""

    count: int
    percentiles: dict[str, int]

    @classmethod
    def of(cls, histogram: Histogram) -> Latency | None:
        """Return what a histogram says, or None if it has seen nothing."""
        if not histogram.count:
            return None
        values = {name: histogram.percentile(share) for name, share in _PERCENTILES}
        values["max"] = int(histogram.highest)
        return cls(int(histogram.count), values)

    def in_microseconds(self) -> dict[str, float]:
        """Return the percentiles as people and programs want them."""
        return {name: value / 1000 for name, value in self.percentiles.items()}


@dataclass(frozen=True)
class Snapshot:
    """The run as it is now; rates and latencies are those since the last one."""

    phase: str
    elapsed_s: float
    #: From 0 to 1; how long it takes yet, if that can be said.
    done: float
    left_s: float | None
    counts: Counts
    publish_rate: float
    deliver_rate: float
    latency: Latency | None
    confirm_latency: Latency | None
    cost: OwnCost
    blocked: str | None


@dataclass
class Figures:
    """All that a run has shown."""

    broker: str
    target: str
    asked: dict[str, object]
    counts: Counts = field(default_factory=Counts)
    end: str = COMPLETE
    failure: str = ""
    #: How long was published, and until the last message came.
    publish_s: float = 0.0
    deliver_s: float = 0.0
    #: Messages that the run left in the queues.
    left_in_queues: int = 0
    #: How often the broker was lost and found again.
    reconnects: int = 0
    latency: Latency | None = None
    confirm_latency: Latency | None = None
    blocked_s: float = 0.0
    blocked: str | None = None
    #: What the generator took, while it published and all in all.
    publish_cost: OwnCost = field(default_factory=OwnCost)
    cost: OwnCost = field(default_factory=OwnCost)
    is_same_machine: bool = False
    rate_asked: float = 0.0
    verdict: Verdict | None = None

    @property
    def publish_rate(self) -> float:
        """Messages a second that were published."""
        return self.counts.published / self.publish_s if self.publish_s else 0.0

    @property
    def deliver_rate(self) -> float:
        """Messages a second that were delivered."""
        return self.counts.delivered / self.deliver_s if self.deliver_s else 0.0

    @property
    def was_bottleneck(self) -> bool:
        """Whether the generator was busy, or wanted to be, all the time."""
        cost = self.publish_cost
        return cost.cpu_share + cost.in_line_share >= BOTTLENECK_SHARE

    @property
    def cpu_s_per_million(self) -> float:
        """The generator's processor time for a million messages, both ways."""
        messages = max(self.counts.published, self.counts.delivered)
        return self.cost.cpu_s / messages * 1e6 if messages else 0.0

    def notes(self) -> list[str]:
        """Return what must be known before the figures are believed."""
        notes: list[str] = []
        cost = self.publish_cost
        if self.was_bottleneck:
            notes.append(
                "the generator itself was the bottleneck: it was busy or waiting for a "
                f"processor {cost.cpu_share + cost.in_line_share:.0%} of the time, and "
                "uses only one. The broker may be faster than this: run several at "
                "once, or with larger messages"
                + (", or without --verify" if self.verdict else "")
                + _advice_on_build()
            )
        if cost.in_line_share >= IN_LINE_SHARE:
            notes.append(
                "this machine is overloaded: the generator waited for a processor "
                f"{cost.in_line_share:.0%} of the time. Rates and latencies are worse "
                "than they would be on a quiet one"
            )
        if self.publish_s < SHORT_S:
            notes.append(
                f"the run took {self.publish_s:.2f} s: too short to say much, "
                "try --seconds 10"
            )
        if self.is_same_machine:
            notes.append(
                "the broker is on this machine and shares its processors with "
                "the generator: from another one, both would be faster"
            )
        if self.rate_asked and self.publish_rate < self.rate_asked * RATE_KEPT_SHARE:
            notes.append(
                f"the rate was not reached: {self.rate_asked:,.0f} messages/s were "
                f"asked for, {self.publish_rate:,.0f} were sent"
            )
        if self.reconnects:
            notes.append(
                f"the connection was lost {self.reconnects} times, and the time until "
                "it was back counts; publishes without an answer are not lost ones"
            )
        if self.blocked_s:
            notes.append(
                f"the broker blocked publishers for {self.blocked_s:.1f} s: "
                f"{self.blocked}"
            )
        return notes

    def as_json(self) -> dict[str, object]:
        """Return everything, for programs."""
        return {
            "amqpd_bench": __version__,
            "build": build_kind(),
            "broker": self.broker,
            "target": self.target,
            "options": self.asked,
            "end": self.end,
            "failure": self.failure or None,
            **asdict(self.counts),
            "reconnects": self.reconnects,
            "left_in_queues": self.left_in_queues,
            "publish_s": round(self.publish_s, 6),
            "deliver_s": round(self.deliver_s, 6),
            "publish_rate": round(self.publish_rate, 1),
            "deliver_rate": round(self.deliver_rate, 1),
            "latency_us": _microseconds(self.latency),
            "confirm_latency_us": _microseconds(self.confirm_latency),
            "blocked_s": round(self.blocked_s, 3),
            "generator": {
                "cpu_share": round(self.publish_cost.cpu_share, 3),
                "in_line_share": round(self.publish_cost.in_line_share, 3),
                "cpu_s": round(self.cost.cpu_s, 3),
                "cpu_s_per_million": round(self.cpu_s_per_million, 3),
                "was_bottleneck": self.was_bottleneck,
                "is_same_machine": self.is_same_machine,
            },
            "verify": None if self.verdict is None else self._verdict_as_json(),
            "notes": self.notes(),
        }

    def _verdict_as_json(self) -> dict[str, object]:
        assert self.verdict is not None
        return {"is_fine": self.verdict.is_fine, **asdict(self.verdict)}


def _microseconds(latency: Latency | None) -> dict[str, float] | None:
    return None if latency is None else latency.in_microseconds()


def _advice_on_build() -> str:
    if build_kind() == "compiled":
        return ""
    return ". This is the pure build; the compiled one is several times as fast"
