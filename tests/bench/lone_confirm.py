"""A publisher that waits for each confirm, beside what the disk and a socket take.

A lone confirm is a message, a write, a sync and an answer; a consumer takes and acks
the messages meanwhile, as it does in the load of larger windows. So it is measured
between two measurements of the machine, with as many octets as the log gets for a
message:

    bare    write and fdatasync over and over, nothing around them
    floor   a server in C that does nothing but read, write, sync and answer
            (floor.py), in its loop and on a thread

Bare syncs follow each other at once, and are faster for it than the same ones with a
round trip in between. A broker may be faster than the floor, probably because the
consumer's messages and acks keep a virtual machine's cores from falling asleep.
"""

from __future__ import annotations

from statistics import mean
from typing import Final

from tests.bench.broker import Target
from tests.bench.disk import bare_sync_us, percentile
from tests.bench.figures import Figures, figures_of
from tests.bench.floor import compiled_floor
from tests.bench.machine import pinned
from tests.bench.scenario import Bench

#: What a message of 1 KiB becomes in the log: the record, and a batch around it.
WRITTEN_SIZE: Final = 1200
LOAD: Final = (
    *("--size", "1024", "--persistent", "y", "--confirm", "1"),
    *("--ack", "manual", "--ack-batch", "100", "--prefetch", "1000"),
)


def measure_lone_confirm(bench: Bench, target: Target) -> Figures:
    """Measure a window of one between two measurements of the machine."""
    core, directory, seconds = bench.broker_core, bench.directory, bench.seconds
    bare: list[float] = []
    with compiled_floor(bench) as floor:
        machine = [floor.medians_us(WRITTEN_SIZE, seconds / 4)]
        with pinned(core):
            bare += bare_sync_us(directory, WRITTEN_SIZE, seconds / 4)
        result = bench.load(target, *LOAD)
        with pinned(core):
            bare += bare_sync_us(directory, WRITTEN_SIZE, seconds / 4)
        machine.append(floor.medians_us(WRITTEN_SIZE, seconds / 4))
    figures = figures_of(result)
    figures["bare_sync_p50_us"] = percentile(bare, 0.5)
    figures["bare_sync_p99_us"] = percentile(bare, 0.99)
    for way in ("echo", "loop", "thread"):
        figures[f"floor_{way}_p50_us"] = mean(found[way] for found in machine)
    confirm = figures["confirm_p50_us"]
    figures["confirm_over_bare_sync_p50"] = confirm / figures["bare_sync_p50_us"]
    figures["confirm_over_floor_p50"] = confirm / figures["floor_thread_p50_us"]
    return figures
