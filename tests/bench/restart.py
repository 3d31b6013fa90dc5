"""How long a broker takes to serve again what it holds, after a kill and a clean stop.

Messages of 1 KiB are published and confirmed, the process is killed, started, stopped
and started once more; each time the generator must find every message. A start counts
from the process to the line that says where it listens, and is compared with that of
an empty broker. What it reads for it is told by /proc; the page cache is warm, so the
octets say more than the seconds about a machine that was switched off.
"""

from __future__ import annotations

from pathlib import Path
from statistics import median
from typing import Final

from tests.bench.broker import BrokerProcess, Target, started
from tests.bench.figures import Figures
from tests.bench.generator import Generator
from tests.bench.machine import file_read_mb, resident_mb

EMPTY_STARTS: Final = 3
PUBLISH: Final = (
    *("--mode", "publish", "--size", "1024", "--persistent", "y"),
    *("--confirm", "10000", "--timeout", "120"),
)


def measure_restart(
    generator: Generator, target: Target, count: int, parent: Path
) -> Figures:
    """Fill a broker, kill and stop it, and time every start.

    Raises:
        LoadFailed: a restarted broker does not hold exactly what was confirmed.
    """
    process = target.process
    empty_s, empty_read_mb = _empty(process, parent)
    published = generator.run(target, *PUBLISH, "--count", str(count))
    figures = {
        "published_per_s": published["publish"]["publish_rate"],
        "empty_start_s": empty_s,
    }
    process.kill()
    for after in ("kill", "stop"):
        again = process.start()
        figures[f"start_after_{after}_s"] = process.start_seconds
        figures[f"{after}_over_empty_s"] = process.start_seconds - empty_s
        read_mb = file_read_mb(again.pid) - empty_read_mb
        figures[f"read_after_{after}_mb"] = read_mb
        figures[f"resident_after_{after}_mb"] = resident_mb(again.pid)
        generator.run(again, "--mode", "wait", "--ready", str(count))
        process.stop()
    return figures


def _empty(process: BrokerProcess, parent: Path) -> tuple[float, float]:
    """Return the seconds that starts with nothing take, and the megabytes they read."""
    seconds: list[float] = []
    read: list[float] = []
    with started(process.command, process.core, parent) as empty:
        for _ in range(EMPTY_STARTS):
            empty.process.stop()
            again = empty.process.start()
            seconds.append(empty.process.start_seconds)
            read.append(file_read_mb(again.pid))
    return median(seconds), median(read)
