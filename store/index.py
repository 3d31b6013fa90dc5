"""Which segments still hold something that a queue needs.

A reference is one queue's hold on one message record. Seqs of a queue rise along
the log, so where a reference lies needs no entry of its own: a *run* says that
from this seq on, until the next run begins, a queue's records are in this segment.

    queue 7   runs   first   1  segment 1   live 3
                     first 500  segment 2   live 12

A segment counts its live references; when none is left it holds nothing that
anybody needs. The index is told what is durable and nothing else, so a count of
zero is safe to act on. It does not know files.
"""

from typing import final

from mypy_extensions import i64

from store.seq_ranges import Ranges


@final
class SegmentReferences:
    """How many references one segment still holds."""

    __slots__ = ("count", "number")

    def __init__(self, number: i64) -> None:
        self.number = number
        self.count: i64 = 0


@final
class Run:
    """One queue's share of one segment."""

    __slots__ = ("first", "live", "segment")

    def __init__(self, first: i64, segment: SegmentReferences) -> None:
        self.first = first
        self.segment = segment
        self.live: i64 = 0


@final
class QueueRuns:
    """All runs of one queue, in seq order."""

    __slots__ = ("_last_seq", "_runs")

    def __init__(self) -> None:
        self._runs: list[Run] = []
        self._last_seq: i64 = -1

    def add(
        self, segment: SegmentReferences, first: i64, last: i64, count: i64
    ) -> None:
        """Note `count` written references between `first` and `last`."""
        assert first > self._last_seq, "seqs of a queue rise along the log"
        self._last_seq = last
        if self._runs and self._runs[-1].segment is segment:
            run = self._runs[-1]
        else:
            run = Run(first, segment)
            self._runs.append(run)
        run.live += count
        segment.count += count

    def settle(self, ranges: Ranges) -> None:
        """Drop references; every seq of the ranges must have been live."""
        runs = self._runs
        is_any_empty = False
        for i in range(len(ranges.firsts)):
            first: i64 = ranges.firsts[i]
            last: i64 = ranges.lasts[i]
            at = self._position(first)
            while first <= last:
                run = runs[at]
                end = last
                if at + 1 < len(runs) and runs[at + 1].first <= last:
                    end = runs[at + 1].first - 1
                self._drop(run, end - first + 1)
                is_any_empty = is_any_empty or run.live == 0
                first = end + 1
                at += 1
        if is_any_empty:
            self._runs = [run for run in runs if run.live > 0]

    def purge(self, kept: Ranges) -> None:
        """Drop every reference but the live ones in `kept`.

        A kept seq that is not written yet is no reference yet: `add` will count it.
        """
        runs = self._runs
        for i in range(len(runs)):
            run = runs[i]
            end = self._last_seq
            if i + 1 < len(runs):
                end = runs[i + 1].first - 1
            self._drop(run, run.live - _overlap(kept, run.first, end))
        self._runs = [run for run in runs if run.live > 0]

    def forget(self) -> None:
        """Drop every reference."""
        for run in self._runs:
            self._drop(run, run.live)
        self._runs = []

    def _drop(self, run: Run, count: i64) -> None:
        run.live -= count
        run.segment.count -= count
        assert run.live >= 0, "a message is settled once"

    def _position(self, seq: i64) -> i64:
        """Return the index of the run that holds a seq."""
        low: i64 = 0
        high: i64 = len(self._runs)
        while low < high:
            middle = (low + high) // 2
            if self._runs[middle].first <= seq:
                low = middle + 1
            else:
                high = middle
        assert low > 0, "only what was written is settled here"
        return low - 1


def _overlap(ranges: Ranges, first: i64, last: i64) -> i64:
    count: i64 = 0
    for i in range(len(ranges.firsts)):
        low: i64 = max(ranges.firsts[i], first)
        high: i64 = min(ranges.lasts[i], last)
        if low <= high:
            count += high - low + 1
    return count


@final
class Index:
    """The runs of all queues and the counts of all segments."""

    __slots__ = ("_queues", "_segments")

    def __init__(self) -> None:
        self._queues: dict[int, QueueRuns] = {}
        self._segments: dict[int, SegmentReferences] = {}

    def segment(self, number: int) -> SegmentReferences:
        """Return the counter of a segment."""
        found = self._segments.get(number)
        if found is None:
            found = SegmentReferences(number)
            self._segments[number] = found
        return found

    def reference_count(self, number: int) -> i64:
        """Return how many live references a segment holds."""
        found = self._segments.get(number)
        return 0 if found is None else found.count

    def drop_segment(self, number: int) -> None:
        """Forget a segment that was deleted."""
        self._segments.pop(number, None)

    def queue(self, queue_id: int) -> QueueRuns:
        """Return the runs of a queue."""
        found = self._queues.get(queue_id)
        if found is None:
            found = QueueRuns()
            self._queues[queue_id] = found
        return found

    def forget_queue(self, queue_id: int) -> None:
        """Drop every reference of a queue."""
        found = self._queues.pop(queue_id, None)
        if found is not None:
            found.forget()
