"""How long messages have been in a queue: the first, the unacked, those delivered.

Each message says when its publisher's octets were read (`Message.enqueued_ms`), so the
oldest that is ready is as old as the first in line, and nothing is kept for that. Of
what was delivered and is not answered only *runs* are known, one for each millisecond
in which a queue delivered something that is to be acked:

    run    delivered at 12:00:00.350    the oldest in it came at 11:59:58.020    3 left

A message knows its run, and whoever is done with it counts it down. So the time of the
oldest delivery is exact, and the age of the oldest unacked message is at most that of
another one which was delivered in the same millisecond.

How long messages had been in a queue when they left it is sampled: one for each visit
of dispatch, the last that was delivered, every basic.get, and one for each millisecond
in which something was sent on at once. Nobody here has a clock.
"""

from bisect import bisect_left
from collections import deque
from math import inf
from typing import Final, final

from mypy_extensions import i64, mypyc_attr

# Of no message: nothing of that kind is there, or it is not known how old it is.
NO_AGE: Final[i64] = -1
# Nobody has looked yet.
NO_TIME: Final[i64] = -1

_NEVER_MS: Final[i64] = 1 << 62

# Runs that nothing is left of are taken out when there are more than twice as many.
_RUNS_MIN: Final[i64] = 64

# Upper bounds of the buckets of a histogram, in milliseconds.
PROMPT_MS: Final[i64] = 1
BOUNDS_MS: Final[tuple[int, ...]] = (
    *(1, 5, 10, 50, 100, 500),
    *(1_000, 5_000, 10_000, 60_000, 600_000, 3_600_000, 86_400_000),
)


@final
@mypyc_attr(acyclic=True)
class DeliveryRun:
    """What a queue delivered in a millisecond, to be acked."""

    __slots__ = ("count", "delivered_ms", "enqueued_ms")

    def __init__(self, delivered_ms: i64, enqueued_ms: i64) -> None:
        self.delivered_ms: i64 = delivered_ms
        # When the oldest of them came.
        self.enqueued_ms: i64 = enqueued_ms
        # How many of them are unacked.
        self.count: i64 = 0


@final
class TimesInQueue:
    """Samples of how long messages had been in their queue, of all queues."""

    __slots__ = ("_counts", "_prompt_count", "count", "total_ms")

    def __init__(self) -> None:
        self.count: i64 = 0
        self.total_ms: i64 = 0
        # The first bucket: most messages of a broker that keeps up.
        self._prompt_count: i64 = 0
        self._counts = [0] * len(BOUNDS_MS)

    def note(self, time_ms: i64) -> None:
        """One had been there so long."""
        self.count += 1
        self.total_ms += time_ms
        if time_ms <= PROMPT_MS:
            self._prompt_count += 1
            return
        # Of a long backlog every visit of a queue comes here: no loop.
        at = bisect_left(BOUNDS_MS, time_ms)
        if at < len(BOUNDS_MS):
            self._counts[at] += 1

    def within(self) -> list[tuple[float, int]]:
        """Return, by upper bound in seconds, how many were there so long at most."""
        found: list[tuple[float, int]] = []
        count = int(self._prompt_count)
        for i in range(len(BOUNDS_MS)):
            count += self._counts[i]
            found.append((BOUNDS_MS[i] / 1000, count))
        found.append((inf, int(self.count)))
        return found


@final
class QueueAges:
    """What one queue has delivered, as far as its age goes."""

    __slots__ = (
        "_prune_at",
        "_runs",
        "_times",
        "left_count",
        "left_total_ms",
        "passed_ms",
    )

    def __init__(self, times: TimesInQueue) -> None:
        self._runs: deque[DeliveryRun] = deque()
        self._prune_at: i64 = _RUNS_MIN
        self._times = times
        # The samples of this queue: how many, and their sum.
        self.left_count: i64 = 0
        self.left_total_ms: i64 = 0
        # When the last sample was taken of those that never were in the queue.
        self.passed_ms: i64 = NO_TIME

    def note_passed(self, now_ms: i64) -> None:
        """A message was sent on without being in the queue: a sample each millisecond.

        It came in this very turn, and no later one is to be different.
        """
        self.passed_ms = now_ms
        self.note_left(now_ms, now_ms)

    def note_left(self, now_ms: i64, enqueued_ms: i64) -> None:
        """A message that came then has left the queue now: a sample."""
        time_ms = max(0, now_ms - enqueued_ms)
        self.left_count += 1
        self.left_total_ms += time_ms
        self._times.note(time_ms)

    @property
    def mean_time_ms(self) -> float:
        """How long messages were in the queue on average, 0 if none ever left it."""
        if self.left_count == 0:
            return 0.0
        return int(self.left_total_ms) / int(self.left_count)

    # -- unacked --------------------------------------------------------------

    def run(self, now_ms: i64, enqueued_ms: i64) -> DeliveryRun:
        """Return the run for what is delivered now, the oldest of which came then."""
        runs = self._runs
        if runs:
            last = runs[-1]
            if last.delivered_ms == now_ms:
                if enqueued_ms < last.enqueued_ms or last.count == 0:
                    last.enqueued_ms = enqueued_ms
                return last
            if len(runs) >= self._prune_at:
                self._prune()
        run = DeliveryRun(now_ms, enqueued_ms)
        self._runs.append(run)
        return run

    def _prune(self) -> None:
        self._runs = deque([run for run in self._runs if run.count > 0])
        self._prune_at = max(_RUNS_MIN, 2 * len(self._runs))

    @property
    def run_count(self) -> int:
        """How many runs are kept."""
        return len(self._runs)

    def oldest_delivery_age(self, now_ms: i64) -> i64:
        """How long ago the oldest unacked delivery was, `NO_AGE` if there is none."""
        runs = self._runs
        while runs and runs[0].count == 0:
            runs.popleft()
        return max(0, now_ms - runs[0].delivered_ms) if runs else NO_AGE

    def oldest_unacked_age(self, now_ms: i64) -> i64:
        """The age of the oldest message that is unacked, `NO_AGE` if none is."""
        oldest_ms = _NEVER_MS
        for run in self._runs:
            if run.count > 0 and run.enqueued_ms < oldest_ms:
                oldest_ms = run.enqueued_ms
        return NO_AGE if oldest_ms == _NEVER_MS else max(0, now_ms - oldest_ms)

    def clear(self) -> None:
        """Nothing of the queue is unacked any more."""
        self._runs.clear()
