"""Everything at once for long: does memory or latency grow?

    paced       5,000 transient messages of 1 KiB a second; whose latency is told
    durable     2,000 persistent ones a second, confirmed and acked
    fanout      200 a second to ten queues
    comers      every second 50 connections come, with a consumer and a queue each, and
                go
    backlog     every ten seconds 50,000 persistent messages pile up, and are drained

The load lasts for minutes, of which each begins with new connections and queues, and
ends with none. Then resident memory is read, and a line is printed. The first minute
fills what a broker keeps for good (caches, arenas of the allocator), so memory at the
end is compared with memory after that one; beside it is told what an empty broker has,
and the median of the last third, since a minute differs from the next by some percent.
"""

from __future__ import annotations

import sys
import time
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from statistics import median
from typing import Final

from tests.bench.broker import Target
from tests.bench.figures import Figures, readable
from tests.bench.generator import Generator, Result
from tests.bench.machine import reset_highest_resident, resident_mb

MINUTE_SECONDS: Final = 60.0
#: Also of a run that is shorter than that.
MINUTES_MIN: Final = 2
#: Until the broker has let go of what the last connections held, and has given back
#: what an idle one does not need.
SETTLE_SECONDS: Final = 3.0

ACKS: Final = ("--ack", "manual", "--ack-batch", "100", "--prefetch", "1000")
PERSISTENT_1K: Final = ("--size", "1024", "--persistent", "y", *ACKS)
FANOUT: Final = ("--exchange", "fanout", "--queues", "10", "--consumers", "10")
#: What runs for the whole minute.
STEADY: Final = {
    "paced": ("--rate", "5000", "--latency", "--size", "1024"),
    "durable": (*PERSISTENT_1K, "--rate", "2000", "--confirm", "1000"),
    "fanout": (*FANOUT, "--rate", "200", "--size", "1024"),
}


@dataclass(frozen=True)
class Repeated:
    """A short load, and how many seconds lie between the beginnings of two."""

    arguments: tuple[str, ...]
    period_s: float


COMERS: Final = Repeated(
    ("--mode", "idle", "--consumers", "50", "--queues", "50", "--seconds", "0.1"), 1.0
)
BACKLOG: Final = Repeated(
    ("--mode", "backlog", "--count", "50000", "--confirm", "1000", *PERSISTENT_1K), 10.0
)
REPEATED: Final = {"comers": COMERS, "backlog": BACKLOG}


@dataclass(frozen=True)
class Minute:
    """What one minute was like."""

    delivered_per_s: float
    latency_p50_us: float
    latency_p99_us: float
    #: At its end, with nobody connected.
    resident_mb: float
    resident_peak_mb: float
    #: How often connections came and went, and a backlog was built and drained.
    comings: int
    backlogs: int

    def line(self, number: int, count: int) -> str:
        """Return it as a line for people."""
        return (
            f"minute {number} of {count}: {readable(self.delivered_per_s)}/s,"
            f" latency p50 {readable(self.latency_p50_us)} us"
            f" p99 {readable(self.latency_p99_us)} us,"
            f" resident {self.resident_mb:.1f} MB"
            f" (at most {self.resident_peak_mb:.1f}),"
            f" {self.comings} x 50 connections, {self.backlogs} backlogs"
        )


def measure_mixed(generator: Generator, target: Target, seconds: float) -> Figures:
    """Run the mixed load for so many seconds and return what has changed in them."""
    count = max(MINUTES_MIN, round(seconds / MINUTE_SECONDS))
    empty_mb = _resident_mb(target)
    minutes: list[Minute] = []
    for number in range(1, count + 1):
        minutes.append(_run_minute(generator, target, seconds / count))
        print(minutes[-1].line(number, count), file=sys.stderr, flush=True)
    return summary(empty_mb, minutes)


def summary(empty_mb: float, minutes: list[Minute]) -> Figures:
    """Return the figures of the whole: medians, and the end beside the beginning."""
    third = max(1, len(minutes) // 3)
    first, last = minutes[:third], minutes[-third:]
    warm_mb, end_mb = minutes[0].resident_mb, minutes[-1].resident_mb
    late_mb = median(each.resident_mb for each in last)
    figures = {
        "delivered_per_s": median(each.delivered_per_s for each in minutes),
        "latency_p50_us": median(each.latency_p50_us for each in minutes),
        "latency_p99_us": median(each.latency_p99_us for each in minutes),
        "latency_p50_last_over_first": median(each.latency_p50_us for each in last)
        / median(each.latency_p50_us for each in first),
        "latency_p99_last_over_first": median(each.latency_p99_us for each in last)
        / median(each.latency_p99_us for each in first),
    }
    if empty_mb:
        figures |= {
            "resident_empty_mb": empty_mb,
            "resident_after_first_minute_mb": warm_mb,
            "resident_last_third_mb": late_mb,
            "resident_at_end_mb": end_mb,
            "resident_peak_mb": max(each.resident_peak_mb for each in minutes),
            "resident_end_over_first": end_mb / warm_mb,
            "resident_end_over_empty": end_mb / empty_mb,
        }
    return figures


def _run_minute(generator: Generator, target: Target, seconds: float) -> Minute:
    """Run all loads at once, wait for their ends, and look.

    Raises:
        LoadFailed: one of them lost messages or connections.
    """
    for pid in target.pids:
        reset_highest_resident(pid)
    begin = time.monotonic()
    end = begin + seconds
    with ThreadPoolExecutor(len(STEADY) + len(REPEATED)) as pool:
        steady: dict[str, Future[Result]] = {
            name: pool.submit(
                generator.run,
                target,
                *(*arguments, "--seconds", str(seconds), "--prefix", name),
            )
            for name, arguments in STEADY.items()
        }
        repeated: dict[str, Future[list[Result]]] = {
            name: pool.submit(_repeat, generator, target, name, load, end)
            for name, load in REPEATED.items()
        }
    results = {name: run.result() for name, run in steady.items()}
    times = {name: runs.result() for name, runs in repeated.items()}
    # Backlogs that had begun were drained to their ends.
    lasted_s = time.monotonic() - begin
    time.sleep(SETTLE_SECONDS)
    consumed = sum(result["result"]["consumed"] for result in results.values())
    consumed += sum(run["drain"]["consumed"] for run in times["backlog"])
    latency = results["paced"]["latency_us"]
    return Minute(
        consumed / lasted_s,
        latency["p50"],
        latency["p99"],
        _resident_mb(target),
        sum(resident_mb(pid, "VmHWM") for pid in target.pids),
        len(times["comers"]),
        len(times["backlog"]),
    )


def _repeat(
    generator: Generator, target: Target, name: str, load: Repeated, end: float
) -> list[Result]:
    """Run a short load again and again; one that has begun is brought to its end."""
    results: list[Result] = []
    begin = time.monotonic()
    while begin < end:
        results.append(generator.run(target, *load.arguments, "--prefix", name))
        begin = max(begin + load.period_s, time.monotonic())
        time.sleep(max(0.0, min(begin, end) - time.monotonic()))
    return results


def _resident_mb(target: Target) -> float:
    return sum(resident_mb(pid) for pid in target.pids)
