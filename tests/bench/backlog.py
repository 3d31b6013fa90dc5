"""A backlog much larger than memory should be: published, then drained in order.

What must not grow with it is the memory of the broker (its highest resident size is
read by phase) and the price of a message: CPU-seconds per million in the first tenth
against the last. On a machine that others use as well the price is not the same from
one second to the next (the processor's caches are shared): of a long backlog a tenth
is measured in fifths, and their median is its price.

Either one queue, or a thousand that fill together and are drained at once by one
consumer of all of them, and one queue behind them to compare with. The generator checks
that nothing is lost or doubled and that each queue keeps its order.

Beside it there is the backlog that brokers are compared by: messages of 1 KiB, into one
queue and out again, each way with its price and the highest memory.
"""

from __future__ import annotations

from statistics import median
from typing import Any, Final

from tests.bench.broker import Target
from tests.bench.figures import Figures
from tests.bench.generator import Generator, Result
from tests.bench.machine import directory_mb

SIZE: Final = 100
TENTHS: Final = 10
FIFTHS: Final = 5
# CPU time is counted in hundredths of a second: less than this has no fifths.
FIFTHS_COUNT_MIN: Final = 5_000_000
# With how many messages a thousand queues are compared with one.
ONE_QUEUE_COUNT: Final = 2_000_000
LOAD: Final = (
    *("--mode", "backlog", "--persistent", "y", "--verify", "--confirm", "10000"),
    *("--ack", "manual", "--ack-batch", "100", "--prefetch", "1000"),
    *("--timeout", "120"),
)
#: What is left of it is looked at before the queues go.
LONG_LOAD: Final = (*LOAD, "--size", str(SIZE), "--keep")


def measure_backlog(
    generator: Generator, target: Target, count: int, queues: int
) -> Figures:
    """Publish `count` messages to so many queues, then drain all of them at once."""
    parts = TENTHS * FIFTHS if count >= FIFTHS_COUNT_MIN else TENTHS
    scale = ("--count", str(count), "--queues", str(queues), "--parts", str(parts))
    result = generator.run(target, *LONG_LOAD, *scale)
    published, drained = result["publish"], result["drain"]
    figures = {
        "published_per_s": published["publish_rate"],
        "drained_per_s": drained["consume_rate"],
        **_memory(published, "publish"),
        **_memory(drained, "drain"),
        **_price(published, "publish"),
        **_price(drained, "drain"),
        "out_of_order": float(result["verify"]["out_of_order"]),
    }
    if target.pids:
        log_mb = published["broker"]["file_written_mb"]
        figures["log_mb"] = log_mb
        read_mb = drained["broker"]["file_read_mb"]
        figures["drain_read_over_log"] = read_mb / log_mb if log_mb else 0.0
    if target.started_by is not None:
        figures["disk_after_mb"] = directory_mb(target.process.data_directory / "log")
    if queues > 1:
        figures["drained_over_one_queue"] = figures["drained_per_s"] / _one_queue_rate(
            generator, target, count
        )
    return figures


def measure_backlog_1k(generator: Generator, target: Target, count: int) -> Figures:
    """Publish `count` messages of 1 KiB to one queue, then drain it."""
    result = generator.run(target, *LOAD, "--size", "1024", "--count", str(count))
    figures: Figures = {}
    for phase, name, rate in (
        ("publish", "published_per_s", "confirm_rate"),
        ("drain", "drained_per_s", "consume_rate"),
    ):
        figures[name] = result[phase][rate]
        if "broker" in result[phase]:
            broker = result[phase]["broker"]
            figures[f"{phase}_cpu_s_per_million"] = broker["cpu_s_per_million"]
        figures |= _memory(result[phase], phase)
    if target.pids:
        figures["log_mb"] = result["publish"]["broker"]["file_written_mb"]
    return figures


def _one_queue_rate(generator: Generator, target: Target, count: int) -> float:
    """Return how many messages a second one queue gives away, measured right after."""
    fewer = min(count, ONE_QUEUE_COUNT)
    scale = ("--count", str(fewer), "--queues", "1", "--prefix", "alone")
    result = generator.run(target, *LONG_LOAD, *scale)
    return float(result["drain"]["consume_rate"])


def _memory(phase: Result, name: str) -> Figures:
    if "broker" not in phase:
        return {}
    return {f"{name}_resident_peak_mb": phase["broker"]["rss_peak_mb"]}


def _price(phase: Result, name: str) -> Figures:
    """Return what a million messages cost in the first and in the last part."""
    if "broker" not in phase:
        return {}
    parts = phase["parts"]
    size = len(parts) // TENTHS
    first, last = _per_million(parts[:size]), _per_million(parts[-size:])
    return {
        f"{name}_cpu_s_per_million": phase["broker"]["cpu_s_per_million"],
        f"{name}_cpu_first_tenth": first,
        f"{name}_cpu_last_tenth": last,
        f"{name}_cpu_last_over_first": last / first if first else 0.0,
    }


def _per_million(parts: list[dict[str, Any]]) -> float:
    return float(median(part["cpu_s"] * 1e6 / part["messages"] for part in parts))
