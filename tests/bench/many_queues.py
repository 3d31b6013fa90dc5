"""Ten thousand durable queues, each of them touched again and again.

All share one log, so what they cost must not grow with their number: the broker syncs
once a tick however many queues took a message since the last, holds a bounded number
of files open, and starts in a bounded time. Nobody waits for a confirm here: syncs
that somebody waits for come as fast as the disk makes them.

Syncs are counted by a library that is preloaded into the broker (count_syncs.c).
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tests.bench.broker import Target, started
from tests.bench.figures import Figures
from tests.bench.generator import Generator, compile_c
from tests.bench.machine import descriptor_count, resident_mb

QUEUES: Final = 10_000
RATE: Final = 20_000
TICK_SECONDS: Final = 0.025
COUNTER_SIZE: Final = 8
SOURCE: Final = Path(__file__).with_name("count_syncs.c")
LOAD: Final = (
    *("--mode", "publish", "--size", "100", "--persistent", "y"),
    *("--queues", str(QUEUES), "--timeout", "120"),
)


def measure_many_queues(
    generator: Generator, target: Target, seconds: float, parent: Path
) -> Figures:
    """Declare the queues, touch all of them for so many seconds, start again."""
    process = target.process
    counter = process.directory / "syncs"
    counter.write_bytes(bytes(COUNTER_SIZE))
    library = process.directory / "count_syncs.so"
    compile_c(SOURCE, library, "-shared", "-fPIC")
    environment = {"LD_PRELOAD": str(library), "SYNC_COUNTER": str(counter)}
    with started(process.command, process.core, parent, environment) as counted:
        declared = generator.run(counted, *LOAD, "--confirm", "100", "--count", "10000")
        before = _syncs(counter)
        paced = ("--no-declare", "--rate", str(RATE), "--seconds", str(seconds))
        touched = generator.run(counted, *LOAD, *paced)["publish"]
        ticks = touched["wall_s"] / TICK_SECONDS
        syncs = _syncs(counter) - before
        figures = {
            "declare_s": declared["setup_s"],
            "syncs_per_tick": syncs / ticks,
            "syncs_per_s": syncs / touched["wall_s"],
            "cpu_s_per_million": touched["broker"]["cpu_s_per_million"],
            "descriptors_loaded": float(descriptor_count(counted.pid)),
        }
        # One confirm: everything before it is on the disk.
        _wait(generator, counted, QUEUES + touched["published"])
        one = ("--no-declare", "--confirm", "1", "--count", "1")
        generator.run(counted, *LOAD, *one)
        for after, end in (
            ("kill", counted.process.kill),
            ("stop", counted.process.stop),
        ):
            end()
            again = counted.process.start()
            figures[f"start_after_{after}_s"] = counted.process.start_seconds
            figures[f"descriptors_after_{after}"] = float(descriptor_count(again.pid))
            figures[f"resident_after_{after}_mb"] = resident_mb(again.pid)
        _wait(generator, again, QUEUES + touched["published"] + 1)
    return figures


def _wait(generator: Generator, target: Target, count: int) -> None:
    """Wait until the queues together hold so many messages."""
    wait = ("--mode", "wait", "--queues", str(QUEUES), "--ready", str(count))
    generator.run(target, *wait)


def _syncs(counter: Path) -> int:
    return int.from_bytes(counter.read_bytes(), "little")
