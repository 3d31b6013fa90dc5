"""A publisher that waits for each confirm, beside what the disk and a socket take.

A lone confirm is a message, a write, a sync and an answer; a consumer takes and acks
the messages meanwhile, as it does in the load of larger windows. So it is measured
between two measurements of the machine, with as many octets as the log gets for a
message:

    bare    write and fdatasync over and over, nothing around them
    floor   a server in C that does nothing but read, write, sync and answer
            (sync_floor.c), in its loop and on a thread

Bare syncs follow each other at once, and are faster for it than the same ones with a
round trip in between: below the floor no broker gets on the machine.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
from pathlib import Path
from statistics import mean
from typing import Final

from tests.bench.broker import Target
from tests.bench.disk import bare_sync_us, percentile
from tests.bench.figures import Figures, figures_of
from tests.bench.generator import Generator, compile_c
from tests.bench.machine import pinned

#: What a message of 1 KiB becomes in the log: the record, and a batch around it.
WRITTEN_SIZE: Final = 1200
SOURCE: Final = Path(__file__).with_name("sync_floor.c")
LOAD: Final = (
    *("--size", "1024", "--persistent", "y", "--confirm", "1"),
    *("--ack", "manual", "--ack-batch", "100", "--prefetch", "1000"),
)


def measure_lone_confirm(
    generator: Generator,
    target: Target,
    core: int | None,
    seconds: float,
    directory: Path,
) -> Figures:
    """Measure a window of one between two measurements of the machine."""
    bare: list[float] = []
    with tempfile.TemporaryDirectory() as place:
        floor = compile_c(SOURCE, Path(place) / "sync_floor", "-pthread")
        cores = (str(core or 0), str(generator.core or 0))
        machine = [_floor(floor, directory, seconds / 4, cores)]
        with pinned(core):
            bare += bare_sync_us(directory, WRITTEN_SIZE, seconds / 4)
        result = generator.run(target, *LOAD, "--seconds", str(seconds))
        with pinned(core):
            bare += bare_sync_us(directory, WRITTEN_SIZE, seconds / 4)
        machine.append(_floor(floor, directory, seconds / 4, cores))
    figures = figures_of(result)
    figures["bare_sync_p50_us"] = percentile(bare, 0.5)
    figures["bare_sync_p99_us"] = percentile(bare, 0.99)
    for way in ("echo", "loop", "thread"):
        figures[f"floor_{way}_p50_us"] = mean(found[way] for found in machine)
    confirm = figures["confirm_p50_us"]
    figures["confirm_over_bare_sync_p50"] = confirm / figures["bare_sync_p50_us"]
    figures["confirm_over_floor_p50"] = confirm / figures["floor_thread_p50_us"]
    return figures


def _floor(
    program: Path, directory: Path, seconds: float, cores: tuple[str, str]
) -> dict[str, float]:
    """Run the server in C and return the medians in microseconds."""
    command = [str(program), str(directory), str(WRITTEN_SIZE), str(seconds), *cores]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    found: dict[str, float] = json.loads(ran.stdout)
    return found
