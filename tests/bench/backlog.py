"""A backlog much larger than memory should be: published, then drained in order.

What must not grow with it is the memory of the broker (its highest resident size is
read by phase) and the price of a message: CPU-seconds per million in the first tenth
against the last. Either one queue, or a thousand that fill together and are drained at
once by one consumer of all of them. The generator checks that nothing is lost or
doubled and that each queue keeps its order.
"""

from __future__ import annotations

from typing import Any, Final

from tests.bench.broker import Target
from tests.bench.figures import Figures
from tests.bench.generator import Generator, Result
from tests.bench.machine import directory_mb

SIZE: Final = 100
PARTS: Final = 10
LOAD: Final = (
    *("--mode", "backlog", "--size", str(SIZE), "--persistent", "y", "--verify"),
    *("--confirm", "10000", "--ack", "manual", "--ack-batch", "100"),
    *("--prefetch", "1000", "--parts", str(PARTS), "--timeout", "120", "--keep"),
)


def measure_backlog(
    generator: Generator, target: Target, count: int, queues: int
) -> Figures:
    """Publish `count` messages to so many queues, then drain all of them at once."""
    scale = ("--count", str(count), "--queues", str(queues))
    result = generator.run(target, *LOAD, *scale)
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
    return figures


def _memory(phase: Result, name: str) -> Figures:
    if "broker" not in phase:
        return {}
    return {f"{name}_resident_peak_mb": phase["broker"]["rss_peak_mb"]}


def _price(phase: Result, name: str) -> Figures:
    """Return what a million messages cost in the first and in the last part."""
    if "broker" not in phase:
        return {}
    parts = phase["parts"]
    first, last = _per_million(parts[0]), _per_million(parts[-1])
    return {
        f"{name}_cpu_s_per_million": phase["broker"]["cpu_s_per_million"],
        f"{name}_cpu_first_tenth": first,
        f"{name}_cpu_last_tenth": last,
        f"{name}_cpu_last_over_first": last / first if first else 0.0,
    }


def _per_million(part: dict[str, Any]) -> float:
    return float(part["cpu_s"] * 1e6 / part["messages"])
