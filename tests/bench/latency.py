"""Latency at a steady rate, between two measurements of the machine.

A message counts from the time when it was due, so one that the machine is late for is
late, and so are those behind it. How often that happens is measured as well: as many
octets at the same rate, sent back by a server in C (floor.py) in the same manner.
"""

from __future__ import annotations

from statistics import mean
from typing import Final

from tests.bench.broker import Target
from tests.bench.figures import PERCENTILES, Figures, figures_of
from tests.bench.floor import compiled_floor
from tests.bench.scenario import Bench

RATE: Final = 5_000
SIZE: Final = 1024


def measure_latency(bench: Bench, target: Target) -> Figures:
    """Measure the load between two measurements of the machine, half as long each."""
    load = ("--rate", str(RATE), "--latency", "--size", str(SIZE))
    with compiled_floor(bench) as floor:
        machine = [floor.paced_us(SIZE, bench.seconds / 2, RATE)]
        result = bench.load(target, *load)
        machine.append(floor.paced_us(SIZE, bench.seconds / 2, RATE))
    figures = figures_of(result)
    for name in PERCENTILES:
        figures[f"floor_{name}_us"] = mean(found[name] for found in machine)
    return figures
