"""A load that leaves garbage behind, and what clearing it away costs.

Messages of 1 KiB are published and consumed at the same rate. First all of them are
acked; then one in a thousand is not, so that no segment ever empties by itself and
the log can only be kept small by merging. Told are the size of the log on the disk
over time, how much was written again for each octet published, and the 99th percentile
from publish to deliver beside that of the first run.

What merging writes is what the threads other than the one that writes the log have
written to files: checkpoints are in it, so the figure is an upper bound.
"""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Final

from tests.bench.broker import Target
from tests.bench.figures import Figures
from tests.bench.generator import Generator, Result
from tests.bench.machine import directory_mb, file_written_mb_by_thread

RATE: Final = 20_000
SIZE: Final = 1024
HOLD_ONE_IN: Final = 1000
SAMPLE_SECONDS: Final = 0.25
LOAD: Final = (
    *("--rate", str(RATE), "--latency", "--size", str(SIZE), "--persistent", "y"),
    *("--confirm", "10000", "--ack", "manual", "--prefetch", "20000"),
)


class DiskSampler(threading.Thread):
    """Notes the size of a directory again and again."""

    def __init__(self, directory: Path) -> None:
        super().__init__(daemon=True)
        self._directory = directory
        self._is_ending = threading.Event()
        self.sizes_mb: list[float] = []

    def run(self) -> None:
        while not self._is_ending.wait(SAMPLE_SECONDS):
            self.sizes_mb.append(directory_mb(self._directory))

    def end(self) -> None:
        """Take no more samples."""
        self._is_ending.set()
        self.join()


def measure_steady(generator: Generator, target: Target, seconds: float) -> Figures:
    """Run the load for so many seconds with everything acked, then with some held."""
    lasting = ("--seconds", str(seconds))
    acked = generator.run(target, *LOAD, *lasting)
    before = file_written_mb_by_thread(target.pid)
    sampler = DiskSampler(target.process.data_directory / "log")
    sampler.start()
    try:
        held = generator.run(
            target, *LOAD, *lasting, "--hold", str(HOLD_ONE_IN), "--keep"
        )
    finally:
        sampler.end()
    after = file_written_mb_by_thread(target.pid)
    published_mb = held["result"]["published"] * SIZE / 1e6
    rewritten_mb = _rewritten_mb(before, after, target.pid)
    return {
        **_latency(acked, "acked"),
        **_latency(held, "held"),
        "held_over_acked_p99": held["latency_us"]["p99"] / acked["latency_us"]["p99"],
        "published_mb": published_mb,
        "rewritten_mb": rewritten_mb,
        "rewritten_over_published": rewritten_mb / published_mb,
        **_disk(sampler.sizes_mb),
        "cpu_s_per_million": held["result"]["broker"]["cpu_s_per_million"],
        "resident_peak_mb": held["result"]["broker"]["rss_peak_mb"],
    }


def _latency(result: Result, name: str) -> Figures:
    latency = result["latency_us"]
    return {f"{name}_{share}_us": latency[share] for share in ("p50", "p99", "max")}


def _disk(sizes_mb: list[float]) -> Figures:
    """Return the largest size in each half: bounded means that they are alike."""
    middle = len(sizes_mb) // 2
    return {
        "disk_peak_first_half_mb": max(sizes_mb[:middle]),
        "disk_peak_second_half_mb": max(sizes_mb[middle:]),
        "disk_at_end_mb": sizes_mb[-1],
    }


def _rewritten_mb(
    before: dict[int, float], after: dict[int, float], main_thread: int
) -> float:
    written = [
        size - before.get(thread, 0.0)
        for thread, size in after.items()
        if thread != main_thread
    ]
    return sum(written) - max(written, default=0.0)
