"""When what was freed goes back to the system: as soon as nobody has work for a while.

The C library keeps what is freed between what is still used, for whoever comes next.
While there is work that is right: pages that are given away have to be made anew. But
then each coincidence of loads leaves the process a little larger, for good: thirty
minutes of mixed load had grown from 46 to over 52 MB, of which most was free.

An idle broker gives it back once, after it has let go of what it only keeps for the
next turn or has not found yet: spare writers, what was read of the logs, and the
collector's garbage. Under an alarm it is the resources' business.
"""

from collections.abc import Callable
from typing import Final, final

from amqpd.process import give_back_memory

#: Fewer turns than this between two sweeps are heartbeats and timers.
TURNS_OF_WORK: Final = 10
#: Not amid work that comes every second.
IDLE_SECONDS: Final = 1.5


@final
class IdleMemory:
    """Sees from the number of turns when work has ended."""

    def __init__(
        self,
        let_go: Callable[[], None],
        give_back: Callable[[], None] = give_back_memory,
    ) -> None:
        self.let_go = let_go
        self._give_back = give_back
        self._turns = 0
        self._worked_s = 0.0
        # What is to be done once there is no work.
        self._is_due = False
        self._is_let_go = False

    def on_time(self, now_s: float, turns: int) -> None:
        """A sweep: so many turns have been made since the start."""
        made = turns - self._turns
        self._turns = turns
        if made >= TURNS_OF_WORK:
            self._worked_s = now_s
            self._is_due = True
            self._is_let_go = False
        elif self._is_let_go:
            self._is_let_go = False
            self._give_back()
        elif self._is_due and now_s - self._worked_s >= IDLE_SECONDS:
            self._is_due = False
            self._is_let_go = True
            self.let_go()
