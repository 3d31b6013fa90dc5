"""When Python's garbage collector looks at everything.

A full collection visits every reference that any queue holds: 0.3 s at ten million
messages, in which nobody is served. There is next to nothing to find, since a
connection that ends takes itself apart (`Connection.lose_socket`). So the collector's
own full rounds are switched off; the young generations, which are small, stay on. A
full round is made from the sweep instead, so rarely that the time it takes is a
vanishing share of all.
"""

import gc
import time
from typing import Final, final

# Young objects as Python does; all objects never.
THRESHOLDS: Final = (700, 10, 1_000_000)
PAUSE_SECONDS_MIN: Final = 60.0
# A round of 5 ms every 100 s, one of 0.3 s every 100 minutes.
PAUSE_PER_SECOND: Final = 20_000


@final
class GarbageRounds:
    """Decides when the next full collection is due, and makes it."""

    def __init__(self, now_s: float) -> None:
        self.due_s = now_s + PAUSE_SECONDS_MIN

    def start(self) -> None:
        """Take what lives as long as the process out of sight; full rounds by us."""
        gc.collect()
        gc.freeze()
        gc.set_threshold(*THRESHOLDS)

    def on_time(self, now_s: float) -> None:
        """Make a full round if one is due."""
        if now_s < self.due_s:
            return
        started = time.perf_counter()
        gc.collect()
        seconds = time.perf_counter() - started
        self.due_s = now_s + max(PAUSE_SECONDS_MIN, PAUSE_PER_SECOND * seconds)


def forget_frozen() -> None:
    """Let go of what was to live as long as the process, and does not."""
    gc.unfreeze()
    gc.collect()
