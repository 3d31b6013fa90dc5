"""Figures: numbers by name, what is read off a load, medians, limits and multiples."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median
from typing import Final

from tests.bench.generator import Result

#: By name, which ends in the unit.
Figures = dict[str, float]

PERCENTILES: Final = ("p50", "p99", "p999")

#: What the price of a load is called, wherever there is one.
CPU: Final = "cpu_s_per_million"
#: The longest time for which the broker's loop served nobody else.
BUSY: Final = "loop_busy_max_ms"
#: Of several runs the highest, where everything else is a median.
_HIGHEST: Final = frozenset({BUSY})


@dataclass(frozen=True)
class Limit:
    """What a figure must reach, or stay under."""

    value: float
    is_floor: bool

    def is_met_by(self, figure: float) -> bool:
        """Whether the figure is on the right side of it."""
        return figure >= self.value if self.is_floor else figure <= self.value

    def __str__(self) -> str:
        return f"{'>=' if self.is_floor else '<='} {readable(self.value)}"


def at_least(value: float) -> Limit:
    """Return the limit that a figure must reach."""
    return Limit(value, True)


def at_most(value: float) -> Limit:
    """Return the limit that a figure must not exceed."""
    return Limit(value, False)


def figures_of(result: Result) -> Figures:
    """Read the figures off a load that moved messages."""
    phase = result.get("result") or result["publish"]
    figures: Figures = {}
    if "consume_rate" in phase:
        figures["delivered_per_s"] = phase["consume_rate"]
    else:
        figures["published_per_s"] = phase["publish_rate"]
    if "confirm_rate" in phase:
        figures["confirmed_per_s"] = phase["confirm_rate"]
    if "broker" in phase:
        figures[CPU] = phase["broker"]["cpu_s_per_million"]
        figures["resident_peak_mb"] = phase["broker"]["rss_peak_mb"]
    for key, name in (("latency_us", "latency"), ("confirm_latency_us", "confirm")):
        for share in PERCENTILES:
            if key in result:
                figures[f"{name}_{share}_us"] = result[key][share]
    return figures


def medians(repeats: list[Figures]) -> Figures:
    """Return the median of each figure that every repeat has."""
    return {
        name: (max if name in _HIGHEST else median)(run[name] for run in repeats)
        for name in repeats[0]
        if all(name in run for run in repeats)
    }


def times_better(name: str, ours: float, theirs: float) -> float | None:
    """Return how many times better ours is: above 1 we are ahead.

    Of rates more is better, of everything else less. None where that says nothing: the
    figure compares a broker with itself, or one of the two is nought, as CPU time is
    that was too short to be counted.
    """
    if "_over_" in name or ours <= 0 or theirs <= 0:
        return None
    return ours / theirs if name.endswith("_per_s") else theirs / ours


def readable(value: float) -> str:
    """Return a number with as many digits as mean something."""
    if value >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}"
