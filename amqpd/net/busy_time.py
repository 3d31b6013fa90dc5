"""How long the loop is busy in one go, in which nobody else is served.

    select > reads, a turn, timers, a request over HTTP, a collection > select
             |<-------------------- one go -------------------->|

Whatever runs on the loop runs between two calls of its selector, Python's garbage
collector included. So the selector is where the time is taken: the clock is read once
in every round of the loop, and once more where it had to wait for something to do. The
time in which the machine gave the processor to somebody else counts: clients wait for
that, too. Here it is known as well how many came together.
"""

from __future__ import annotations

import selectors
import time
from collections.abc import Callable
from typing import final


@final
class BusySelector(selectors.DefaultSelector):
    """The selector of a loop; remembers the longest time between two calls."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        super().__init__()
        self.seconds_max = 0.0
        #: How many sockets were ready at the last call.
        self.ready_count = 0
        self._clock = clock
        self._select = super().select
        self._since = clock()

    def begin(self) -> None:
        """Forget what was: what comes before the first client concerns nobody."""
        self.seconds_max = 0.0
        self._since = self._clock()

    def select(
        self, timeout: float | None = None
    ) -> list[tuple[selectors.SelectorKey, int]]:
        """End one go, and begin the next when there is something to do."""
        now = self._clock()
        seconds = now - self._since
        if seconds > self.seconds_max:
            self.seconds_max = seconds
        ready = self._select(timeout)
        # With nothing to wait for the next go has begun with the end of the last.
        self._since = now if timeout == 0 else self._clock()
        self.ready_count = len(ready)
        return ready
