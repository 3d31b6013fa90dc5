"""So many messages a second: how many are due, and when the next one is.

What is late is caught up with, so the rate is the mean of the run, as long as the
broker keeps up.
"""

from __future__ import annotations

from typing import Final

_SECOND: Final = 1_000_000_000
#: More than any batch.
AT_ONCE: Final = 1 << 30


class Pace:
    """The pace of one producer; times are nanoseconds since the run began."""

    def __init__(self, rate: float) -> None:
        self._rate = rate

    def due(self, now: int, published: int) -> int:
        """Return how many more messages should have been sent by now."""
        if not self._rate:
            return AT_ONCE
        return int(now * self._rate / _SECOND) + 1 - published

    def next_at(self, published: int) -> int:
        """Return when the next message is due."""
        return int(published * _SECOND / self._rate) if self._rate else 0
