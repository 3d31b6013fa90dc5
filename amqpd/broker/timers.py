"""What happens when its time has come: pulled by whoever has a clock.

    timers.start(timed)             from anywhere, without knowing the time
    timers.on_time(now_ms)          once a turn, and when the time it returned has come

Nobody in here reads a clock, so who wants its clock to begin (anew) leaves itself here
and gets the time with the next `on_time`, which is at most a turn away. Deadlines lie
in a heap. One that moves back stays where it is and asks again when it is looked at, so
a queue that is polled a thousand times a second costs one entry.
"""

from heapq import heappop, heappush
from typing import Final, final

from mypy_extensions import i64, mypyc_attr, trait

NEVER_MS: Final[i64] = 1 << 62

# So many at a time: others want their turn too.
CALLS_MAX: Final = 64


@mypyc_attr(allow_interpreted_subclasses=True)
class Timed:
    """Something that has a time."""

    def __init__(self) -> None:
        # When it will be looked at; `Timers` keeps it.
        self.scheduled_ms: i64 = NEVER_MS
        self.is_starting = False

    def on_start(self, now_ms: i64) -> i64:
        """Its clock begins now; return when it is due, or `NEVER_MS`."""
        raise NotImplementedError

    def on_due(self, now_ms: i64) -> i64:
        """The time has come; return when it is due again, or `NEVER_MS`."""
        raise NotImplementedError


@trait
class Ringing:
    """Whose clock is to ring at a time that may change."""

    def ring_ms(self) -> i64:
        """When the clock is to ring; `NEVER_MS`: not."""
        raise NotImplementedError

    def on_due(self, now_ms: i64) -> i64:
        """The clock rings; return when it is to ring again."""
        raise NotImplementedError


@final
class Clock(Timed):
    """Rings when its owner says; it is started anew when that has become earlier."""

    def __init__(self, owner: Ringing) -> None:
        super().__init__()
        self._owner = owner

    def on_start(self, now_ms: i64) -> i64:
        """The owner has said when."""
        return self._owner.ring_ms()

    def on_due(self, now_ms: i64) -> i64:
        """It is time."""
        return self._owner.on_due(now_ms)


@final
class Timers:
    """All deadlines of a broker."""

    def __init__(self) -> None:
        # What time it was when somebody last told: in the turn, or before a read.
        self.now_ms: i64 = 0
        self._starting: list[Timed] = []
        self._heap: list[tuple[int, int, Timed]] = []
        # Of two that are due at the same time, the first that was scheduled goes first.
        self._count = 0

    @property
    def has_starting(self) -> bool:
        """Whether somebody waits to be told the time."""
        return bool(self._starting)

    def start(self, timed: Timed) -> None:
        """Let its clock begin with the next `on_time`."""
        if not timed.is_starting:
            timed.is_starting = True
            self._starting.append(timed)

    def on_time(self, now_ms: i64) -> i64:
        """Do what is due, within bounds; return when to be called again."""
        self.now_ms = now_ms
        starting = self._starting
        if starting:
            self._starting = []
            for timed in starting:
                timed.is_starting = False
                self._schedule(timed, timed.on_start(now_ms))
        heap = self._heap
        left = CALLS_MAX
        while heap and heap[0][0] <= now_ms and left:
            left -= 1
            due_ms, _, timed = heappop(heap)
            if due_ms == timed.scheduled_ms:
                timed.scheduled_ms = NEVER_MS
                self._schedule(timed, timed.on_due(now_ms))
        if self._starting:
            return now_ms
        return heap[0][0] if heap else NEVER_MS

    def _schedule(self, timed: Timed, due_ms: i64) -> None:
        # Later than it is looked at anyhow: it will say so then.
        if due_ms < timed.scheduled_ms:
            timed.scheduled_ms = due_ms
            self._count += 1
            heappush(self._heap, (int(due_ms), self._count, timed))
