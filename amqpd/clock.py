"""The one place that reads the time.

Milliseconds since the epoch that never go back: the wall clock is read once, at the
start, and the monotonic clock carries it on. Everything else is handed `now_ms`.
"""

import time
from typing import final


@final
class Clock:
    """A steady clock that counts from the epoch."""

    def __init__(self) -> None:
        self._offset_ns = time.time_ns() - time.monotonic_ns()

    def now_ms(self) -> int:
        """Milliseconds since the epoch."""
        return (time.monotonic_ns() + self._offset_ns) // 1_000_000
