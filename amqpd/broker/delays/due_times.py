"""When something is due, for millions: 16 octets each.

    fresh    a heap of (time, seq): what came last, at most 4096
    runs     what does not fit there, sorted: one array of times, one of seqs

What is due next is the least of the fresh ones and of the first ones of all runs; the
latter are a heap, too. Of what is due at the same time the lower seq is first. A run is
used up from its beginning and shortened now and then. Of runs that are nearly used up
some are put together, so that a few entries of each do not keep thousands of them.

    due = times.take_due(now_ms)         a seq, or NONE_DUE

A seq may be any number but `NONE_DUE`. It does not know what is due.
"""

from array import array
from heapq import heappop, heappush, heapreplace
from typing import Final, final

from mypy_extensions import i64

from amqpd.broker.timers import NEVER_MS

NONE_DUE: Final[i64] = -(1 << 62)

FRESH_MAX: Final = 4096
# What is used up of a run is cut off when it is as much as this.
CUT_COUNT: Final = 512


@final
class Run:
    """Sorted entries, of which the first ones are used up."""

    __slots__ = ("at", "seqs", "times")

    def __init__(self, entries: list[tuple[int, int]]) -> None:
        self.times = array("q", [entry[0] for entry in entries])
        self.seqs = array("q", [entry[1] for entry in entries])
        self.at = 0

    @property
    def count(self) -> int:
        """How many are left."""
        return len(self.times) - self.at

    def entries(self) -> list[tuple[int, int]]:
        """What is left."""
        return list(zip(self.times[self.at :], self.seqs[self.at :], strict=True))

    def step(self) -> bool:
        """The first one is used up; return whether there are more."""
        self.at += 1
        if self.at >= CUT_COUNT:
            del self.times[: self.at]
            del self.seqs[: self.at]
            self.at = 0
        return self.at < len(self.times)


@final
class DueTimes:
    """Seqs by the time when they are due."""

    __slots__ = ("_fresh", "_heads", "_run_count", "_runs", "count")

    def __init__(self) -> None:
        self._fresh: list[tuple[int, int]] = []
        self._runs: dict[int, Run] = {}
        # The first one of each run, and which run that is.
        self._heads: list[tuple[int, int, int]] = []
        self._run_count = 0
        self.count: i64 = 0

    def add(self, due_ms: i64, seq: i64) -> None:
        """One more is due then."""
        heappush(self._fresh, (int(due_ms), int(seq)))
        self.count += 1
        if len(self._fresh) > FRESH_MAX:
            entries = sorted(self._fresh)
            self._fresh = []
            self._join_short_runs()
            self._add_run(entries)

    def _add_run(self, entries: list[tuple[int, int]]) -> None:
        self._run_count += 1
        self._runs[self._run_count] = Run(entries)
        due_ms, seq = entries[0]
        heappush(self._heads, (due_ms, seq, self._run_count))

    def _join_short_runs(self) -> None:
        """Put as many runs as fit one together, if more than half are short."""
        short = [
            number for number, run in self._runs.items() if run.count < FRESH_MAX // 2
        ]
        if len(short) < 2 or len(short) * 2 <= len(self._runs):
            return
        entries: list[tuple[int, int]] = []
        joined: set[int] = set()
        for number in short:
            if len(entries) + self._runs[number].count > FRESH_MAX:
                break
            entries += self._runs.pop(number).entries()
            joined.add(number)
        self._heads = sorted(head for head in self._heads if head[2] not in joined)
        self._add_run(sorted(entries))

    @property
    def run_count(self) -> int:
        """How many runs there are."""
        return len(self._runs)

    @property
    def next_ms(self) -> i64:
        """When the next one is due, `NEVER_MS` if none is left."""
        next_ms = NEVER_MS
        if self._fresh:
            next_ms = self._fresh[0][0]
        if self._heads:
            next_ms = min(next_ms, self._heads[0][0])
        return next_ms

    def take_due(self, now_ms: i64) -> i64:
        """Take the first one whose time has come, `NONE_DUE` if there is none."""
        if self.next_ms > now_ms:
            return NONE_DUE
        self.count -= 1
        if self._heads and (not self._fresh or self._heads[0] < self._fresh[0]):
            return self._take_from_run()
        return heappop(self._fresh)[1]

    def _take_from_run(self) -> i64:
        _, seq, number = self._heads[0]
        run = self._runs[number]
        if run.step():
            heapreplace(self._heads, (run.times[run.at], run.seqs[run.at], number))
        else:
            heappop(self._heads)
            del self._runs[number]
        return seq

    def clear(self) -> None:
        """Nothing is due any more."""
        self._fresh = []
        self._runs = {}
        self._heads = []
        self.count = 0
