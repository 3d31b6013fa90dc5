"""A load by name: what it is, how it is run, and what it must reach.

A scenario runs one load against one broker and returns figures, by name; a name ends
in its unit. Limits are the project's own promises, on a machine with a core for the
broker and one for the generator. They hold for the compiled build, unless the scenario
is about the other one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.bench.broker import Target
from tests.bench.figures import Figures, Limit, figures_of
from tests.bench.generator import Generator, Result


@dataclass(frozen=True)
class Bench:
    """What a scenario measures with."""

    generator: Generator
    broker_core: int | None
    seconds: float
    #: On the disk that the broker's data lies on.
    directory: Path
    #: Messages of a backlog.
    count: int

    def load(self, target: Target, *arguments: str) -> Result:
        """Run the generator for as long as this bench runs everything."""
        return self.generator.run(target, *arguments, "--seconds", str(self.seconds))


Measure = Callable[[Bench, Target], Figures]


@dataclass(frozen=True)
class Nearest:
    """Another scenario that costs about the same, and how much more this one may."""

    scenario: str
    times_max: float
    #: How many of its messages have as many octets as one of this one's.
    messages: int = 1

    @property
    def figure(self) -> str:
        """The name of the comparison."""
        unit = "cpu" if self.messages == 1 else "cpu_per_octet"
        return f"{unit}_over_{self.scenario}"


@dataclass(frozen=True)
class Scenario:
    """A load: what it is, how to run it, what it must reach."""

    what: str
    measure: Measure
    limits: Mapping[str, Limit] = field(default_factory=dict)
    #: Its place in the table of targets; "" if it is not in it.
    letter: str = ""
    #: How many times better than RabbitMQ in the same run a figure must be.
    multiples: Mapping[str, float] = field(default_factory=dict)
    #: One of the limits is enough.
    is_one_enough: bool = False
    nearest: Nearest | None = None
    #: It is about the build that nothing of is compiled.
    is_pure: bool = False
    #: It starts brokers itself: nobody else's can be measured by it.
    starts_brokers: bool = False


def load(*arguments: str) -> Measure:
    """Return a measurement that is one run of the generator."""

    def measure(bench: Bench, target: Target) -> Figures:
        return figures_of(bench.load(target, *arguments))

    return measure
