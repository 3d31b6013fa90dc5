"""What the disk itself takes: a write and an fdatasync, with nothing around them.

It is the yardstick for everything that waits for the disk. The file has its blocks
before the first write, as a segment of the log has them.
"""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path
from typing import Final

FILE_SIZE: Final = 16 * 1024 * 1024


def bare_sync_us(directory: Path, size: int, seconds: float) -> list[float]:
    """Append and sync `size` octets over and over; return the microseconds of each."""
    samples: list[float] = []
    data = os.urandom(size)
    descriptor, name = tempfile.mkstemp(dir=directory)
    try:
        os.posix_fallocate(descriptor, 0, FILE_SIZE)
        os.fsync(descriptor)
        offset, end = 0, time.perf_counter() + seconds
        while time.perf_counter() < end:
            started = time.perf_counter_ns()
            os.pwrite(descriptor, data, offset)
            os.fdatasync(descriptor)
            samples.append((time.perf_counter_ns() - started) / 1000)
            offset = (offset + size) % (FILE_SIZE - size)
    finally:
        os.close(descriptor)
        os.unlink(name)
    return samples


def percentile(samples: list[float], share: float) -> float:
    """Return the value below which that share of the samples lies."""
    ordered = sorted(samples)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]
