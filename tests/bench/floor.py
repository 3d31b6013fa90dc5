"""What the machine itself takes: a server in C that only reads, syncs and answers.

It is compiled for as long as it is used (floor.c), and runs on the broker's core, its
client on the generator's.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.bench.generator import compile_c
from tests.bench.scenario import Bench

SOURCE: Final = Path(__file__).with_name("floor.c")


@dataclass(frozen=True)
class Floor:
    """The compiled program, and where it runs."""

    program: Path
    #: What is synced lies here.
    directory: Path
    #: Of the server, and of its client.
    cores: tuple[int, int]

    def medians_us(self, size: int, seconds: float) -> dict[str, float]:
        """Return the medians of messages of a size that wait for each other.

        `echo` is answered at once, `loop` after a sync, `thread` after one on a thread.
        """
        return self._run("sync", size, seconds, str(self.directory))

    def paced_us(self, size: int, seconds: float, rate: float) -> dict[str, float]:
        """Return p50, p99 and p999 of so many messages a second that are sent back.

        Each counts from the time when it was due.
        """
        return self._run("pace", size, seconds, str(rate))

    def _run(self, how: str, size: int, seconds: float, last: str) -> dict[str, float]:
        numbers = map(str, (size, seconds, *self.cores))
        command = [str(self.program), how, *numbers, last]
        ran = subprocess.run(command, capture_output=True, text=True, check=True)
        found: dict[str, float] = json.loads(ran.stdout)
        return found


@contextmanager
def compiled_floor(bench: Bench) -> Iterator[Floor]:
    """Compile it for as long as it is used."""
    cores = (bench.broker_core or 0, bench.generator.core or 0)
    with tempfile.TemporaryDirectory() as place:
        program = compile_c(SOURCE, Path(place) / "floor", "-pthread")
        yield Floor(program, bench.directory, cores)
