"""What the generator itself takes: processor time, and time it stood in line for one.

A generator that had the processor all the time, or wanted it all the time, measures
itself and not the broker. The second is only known on Linux (/proc/self/schedstat:
nanoseconds run, nanoseconds waited, slices); elsewhere it is 0.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

_SCHEDSTAT: Final = Path("/proc/self/schedstat")


@dataclass(frozen=True)
class OwnCost:
    """Seconds since some moment, or, as `now`, since the process began."""

    wall_s: float = 0.0
    cpu_s: float = 0.0
    in_line_s: float = 0.0

    @classmethod
    def now(cls) -> Self:
        """Return what was taken so far."""
        return cls(time.monotonic(), time.process_time(), _in_line_s())

    def since(self, earlier: OwnCost) -> OwnCost:
        """Return what was taken between the two."""
        return OwnCost(
            self.wall_s - earlier.wall_s,
            self.cpu_s - earlier.cpu_s,
            self.in_line_s - earlier.in_line_s,
        )

    @property
    def cpu_share(self) -> float:
        """How much of one core it had."""
        return self.cpu_s / self.wall_s if self.wall_s else 0.0

    @property
    def in_line_share(self) -> float:
        """How much of the time it wanted a core and had none."""
        if not self.wall_s:
            return 0.0
        # The kernel books a wait when it is over, so some may be from before.
        return max(0.0, min(self.in_line_s, self.wall_s - self.cpu_s) / self.wall_s)


def _in_line_s() -> float:
    try:
        return int(_SCHEDSTAT.read_text().split()[1]) / 1e9
    except (OSError, ValueError, IndexError):
        return 0.0
