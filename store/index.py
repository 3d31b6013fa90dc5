"""What the queues still need, and in which segment it lies.

A *run* is one queue's share of one segment. Seqs of a queue rise along the log, so a
queue's runs stand in the order of both, and a message needs no entry of its own:

    queue 7    first   last   segment   live   written   bytes
                   1    499         1      3       499   81 kB   + dead seqs: bits
                 500    511         2     12        12    2 kB

Without dead seqs every seq of a run is live. What is settled at either end of a run
shortens it; a run with nothing live is gone. So a seq that lies in no run is settled,
and to apply a fact twice changes nothing. A message is new to a queue if its seq is
above `upper_seq`.

The index is told what is durable and nothing else: a segment without references holds
nothing that anybody needs, and that is safe to act on. Where in its segment a message
lies is in the segment's `.idx`. It does not know files.
"""

from array import array
from typing import Final, final

from mypy_extensions import i64, mypyc_attr

from store.dead_seqs import DeadSeqs
from store.record import Returned
from store.seq_ranges import Ranges

# Columns of a run; LIVE and WRITTEN are counts of references, SIZE is of what was
# written, in bytes.
_FIRST: Final = 0
_LAST: Final = 1
_SEGMENT: Final = 2
_COUNTS: Final = 3
_SIZE: Final = 4
COLUMNS: Final = 5

_COUNT_BITS: Final = 32
_WRITTEN: Final = 0xFFFFFFFF


@final
class SegmentState:
    """What one segment file still holds."""

    __slots__ = (
        "file_size",
        "first_number",
        "has_file",
        "live_size",
        "number",
        "references",
    )

    def __init__(self, first_number: i64, number: i64) -> None:
        self.first_number = first_number
        self.number = number
        # Whether the file is there; until a start has looked, nobody knows.
        self.has_file = False
        self.file_size: i64 = 0
        # Live references, and about how many bytes they take.
        self.references: i64 = 0
        self.live_size: i64 = 0


@final
@mypyc_attr(acyclic=True)
class LiveSpan:
    """A stretch of a run, as it was when somebody asked."""

    __slots__ = ("dead", "first", "last", "live", "segment")

    def __init__(
        self, segment: i64, first: i64, last: i64, live: i64, dead: DeadSeqs | None
    ) -> None:
        self.segment = segment
        self.first = first
        self.last = last
        self.live = live
        # A copy: what dies later is not in it.
        self.dead = dead


@final
class QueueIndex:
    """The runs of one queue, and what became of its messages."""

    __slots__ = (
        "_dead",
        "_index",
        "delivered",
        "live_count",
        "queue_id",
        "returned",
        "runs",
        "upper_seq",
    )

    def __init__(self, queue_id: i64, index: "Index") -> None:
        self.queue_id = queue_id
        self._index = index
        self.runs: array[int] = array("q")
        # By segment number.
        self._dead: dict[int, DeadSeqs] = {}
        # The highest seq that the log has.
        self.upper_seq: i64 = 0
        self.live_count: i64 = 0
        # By lane: every seq up to this one has been delivered once.
        self.delivered: dict[int, int] = {}
        self.returned: dict[int, Returned] = {}

    # -- what is there

    @property
    def run_count(self) -> i64:
        """Return the number of runs."""
        return len(self.runs) // COLUMNS

    @property
    def first_seq(self) -> i64:
        """Return the lowest live seq; one above all there were if none is live."""
        return self.runs[_FIRST] if len(self.runs) > 0 else self.upper_seq + 1

    @property
    def live_size(self) -> i64:
        """Return about how many bytes of the log the live references take."""
        size: i64 = 0
        for at in range(0, len(self.runs), COLUMNS):
            size += self._share(at, self._live(at))
        return size

    def is_live(self, seq: i64) -> bool:
        """Say whether a message was written and is not settled."""
        at = self._find(seq)
        if at >= len(self.runs) or self.runs[at + _FIRST] > seq:
            return False
        dead = self._dead.get(self.runs[at + _SEGMENT])
        return dead is None or seq not in dead

    def next_live(self, seq: i64) -> i64:
        """Return the first live seq from `seq` on, one above all if there is none."""
        at = self._find(seq)
        if at >= len(self.runs):
            return self.upper_seq + 1
        # The last seq of a run is live.
        first: i64 = max(seq, self.runs[at + _FIRST])
        dead = self._dead.get(self.runs[at + _SEGMENT])
        return first if dead is None else dead.next_alive(first)

    def spans(self, first: i64, last: i64, count_max: i64) -> list[LiveSpan]:
        """Return what is live between two seqs, at least `count_max` if there is."""
        found: list[LiveSpan] = []
        at = self._find(first)
        while at < len(self.runs) and self.runs[at + _FIRST] <= last and count_max > 0:
            low: i64 = max(first, self.runs[at + _FIRST])
            high: i64 = min(last, self.runs[at + _LAST])
            segment: i64 = self.runs[at + _SEGMENT]
            dead = self._dead.get(int(segment))
            live = high - low + 1
            if dead is not None:
                live -= dead.count(low, high)
                dead = DeadSeqs(dead.base, bytearray(dead.bits))
            if live > 0:
                found.append(LiveSpan(segment, low, high, live, dead))
            count_max -= live
            at += COLUMNS
        return found

    def dead_seqs(self) -> list[tuple[int, DeadSeqs]]:
        """Return, by segment number, what `restore` wants back."""
        return list(self._dead.items())

    def live_returned(self) -> list[Returned]:
        """Return who came back and is still there; the others are forgotten."""
        self.returned = {
            seq: returned
            for seq, returned in self.returned.items()
            if self.is_live(seq) or seq > self.upper_seq
        }
        return list(self.returned.values())

    # -- what happens

    def add(
        self,
        segment: SegmentState,
        first: i64,
        last: i64,
        count: i64,
        size: i64,
        gaps: Ranges | None,
    ) -> None:
        """Note `count` new references of a segment: all of a range but the gaps."""
        assert first > self.upper_seq, "seqs of a queue rise along the log"
        runs = self.runs
        at: i64 = len(runs) - COLUMNS
        if at >= 0 and runs[at + _SEGMENT] == segment.number:
            # What lies between was elided, refused or settled.
            self._bury(at, runs[at + _LAST] + 1, first - 1)
            runs[at + _LAST] = last
            runs[at + _COUNTS] += (count << _COUNT_BITS) + count
            runs[at + _SIZE] += size
        else:
            at = len(runs)
            runs.extend((first, last, segment.number, 0, size))
            runs[at + _COUNTS] = (count << _COUNT_BITS) + count
        if gaps is not None:
            for i in range(len(gaps.firsts)):
                self._bury(at, gaps.firsts[i], gaps.lasts[i])
        self.upper_seq = last
        self.live_count += count
        segment.references += count
        segment.live_size += size

    def settle(self, ranges: Ranges) -> None:
        """Drop references; of what is settled or was never written, nothing."""
        for i in range(len(ranges.firsts)):
            self._settle(ranges.firsts[i], ranges.lasts[i])

    def _settle(self, first: i64, last: i64) -> None:
        runs = self.runs
        at = self._find(first)
        begin = at
        while at < len(runs) and runs[at + _FIRST] <= last:
            low: i64 = max(first, runs[at + _FIRST])
            high: i64 = min(last, runs[at + _LAST])
            if low == runs[at + _FIRST] and high == runs[at + _LAST]:
                self._drop(at, self._live(at))
            else:
                self._settle_part(at, low, high)
            at += COLUMNS
        # Only runs that were touched can be empty now, and only at the two ends
        # of them do others stay.
        while at > begin:
            at -= COLUMNS
            if self._live(at) == 0:
                self._dead.pop(runs[at + _SEGMENT], None)
                del runs[at : at + COLUMNS]

    def _settle_part(self, at: i64, low: i64, high: i64) -> None:
        runs = self.runs
        dead = self._dead.get(runs[at + _SEGMENT])
        count = high - low + 1
        if low == runs[at + _FIRST]:
            runs[at + _FIRST] = high + 1
            if dead is not None:
                count -= dead.count(low, high)
                runs[at + _FIRST] = dead.next_alive(high + 1)
                dead.trim(runs[at + _FIRST])
        elif high == runs[at + _LAST]:
            runs[at + _LAST] = low - 1
            if dead is not None:
                count -= dead.count(low, high)
                runs[at + _LAST] = dead.last_alive(low - 1)
        else:
            count = self._bury(at, low, high)
        self._drop(at, count)

    def _bury(self, at: i64, first: i64, last: i64) -> i64:
        """Set the dead bits of a range inside a run; return how many are new."""
        if last < first:
            return 0
        number = self.runs[at + _SEGMENT]
        dead = self._dead.get(number)
        if dead is None:
            dead = DeadSeqs(self.runs[at + _FIRST], bytearray())
            self._dead[number] = dead
        return dead.add(first, last)

    def forget(self) -> None:
        """Drop every reference."""
        for at in range(0, len(self.runs), COLUMNS):
            self._drop(at, self._live(at))
        self.runs = array("q")
        self._dead = {}

    def note_delivered(self, lane: int, upper_seq: int) -> None:
        """Every seq of the lane up to this one was delivered once."""
        if upper_seq > self.delivered.get(lane, 0):
            self.delivered[lane] = upper_seq

    def note_returned(self, returned: Returned) -> None:
        """A message came back."""
        self.returned[returned.seq] = returned

    # -- what a start and a merge do

    def restore(
        self, runs: "array[int]", dead: list[tuple[int, DeadSeqs]], upper_seq: i64
    ) -> None:
        """Take over runs from a checkpoint, into an empty queue."""
        self.runs = runs
        self._dead = dict(dead)
        self.upper_seq = upper_seq
        for at in range(0, len(runs), COLUMNS):
            live = self._live(at)
            segment = self._index.segment(runs[at + _SEGMENT])
            self.live_count += live
            segment.references += live
            segment.live_size += self._share(at, live)

    def written_in(self, segment: SegmentState) -> tuple[int, int]:
        """Return count and bytes written, of runs that a file stands for."""
        count: i64 = 0
        size: i64 = 0
        for at in range(0, len(self.runs), COLUMNS):
            number: i64 = self.runs[at + _SEGMENT]
            if segment.first_number <= number <= segment.number:
                count += self.runs[at + _COUNTS] & _WRITTEN
                size += self.runs[at + _SIZE]
        return count, size

    def merge_runs(self, segment: SegmentState, count: i64, size: i64) -> None:
        """Make one run of those in the segments that a merged file stands for.

        The file holds `count` references of the queue, `size` bytes: all that is
        live, and maybe some that died while it was copied.
        """
        runs = self.runs
        begin: i64 = 0
        while begin < len(runs) and runs[begin + _SEGMENT] < segment.first_number:
            begin += COLUMNS
        end = begin
        live: i64 = 0
        merged = DeadSeqs(runs[begin + _FIRST] if begin < len(runs) else 0, bytearray())
        before: i64 = merged.base
        while end < len(runs) and runs[end + _SEGMENT] <= segment.number:
            live += self._live(end)
            self._move_dead(end, before, merged)
            before = runs[end + _LAST] + 1
            self._drop(end, self._live(end))
            end += COLUMNS
        if begin == end:
            return
        first = runs[begin + _FIRST]
        del runs[begin:end]
        row = (first, before - 1, segment.number, (live << _COUNT_BITS) + count, size)
        runs[begin:begin] = array("q", row)
        if len(merged.bits) > 0:
            self._dead[segment.number] = merged
        self.live_count += live
        segment.references += live
        segment.live_size += self._share(begin, live)

    def _move_dead(self, at: i64, before: i64, merged: DeadSeqs) -> None:
        """Add what is dead between the run before and the end of a run."""
        first: i64 = self.runs[at + _FIRST]
        merged.add(before, first - 1)
        dead = self._dead.pop(self.runs[at + _SEGMENT], None)
        if dead is not None:
            merged.add_from(dead, first, self.runs[at + _LAST])

    # -- columns

    def _live(self, at: i64) -> i64:
        return self.runs[at + _COUNTS] >> _COUNT_BITS

    def _share(self, at: i64, count: i64) -> i64:
        """Return about how many bytes so many references of a run take."""
        written: i64 = self.runs[at + _COUNTS] & _WRITTEN
        size: i64 = self.runs[at + _SIZE]
        return size * count // written if written > 0 else 0

    def _drop(self, at: i64, count: i64) -> None:
        segment = self._index.segment(self.runs[at + _SEGMENT])
        segment.live_size -= self._share(at, count)
        segment.references -= count
        if segment.references == 0:
            # Shares are rounded.
            segment.live_size = 0
        self.runs[at + _COUNTS] -= count << _COUNT_BITS
        self.live_count -= count

    def _find(self, seq: i64) -> i64:
        """Return where the first run that ends at `seq` or later stands."""
        runs = self.runs
        low: i64 = 0
        high: i64 = len(runs) // COLUMNS
        if high == 0 or runs[_LAST] >= seq:
            # Mostly it is the first one that is read or settled.
            return 0
        while low < high:
            middle = (low + high) // 2
            if runs[middle * COLUMNS + _LAST] < seq:
                low = middle + 1
            else:
                high = middle
        return low * COLUMNS


@final
class Index:
    """The runs of all queues and the state of all segments."""

    __slots__ = (
        "applied_batch",
        "applied_offset",
        "applied_segment",
        "queues",
        "segments",
    )

    def __init__(self) -> None:
        # The last batch that the index was told of: its segment, where it ends in
        # there, and its number.
        self.applied_segment: i64 = 0
        self.applied_offset: i64 = 0
        self.applied_batch: i64 = 0
        self.queues: dict[int, QueueIndex] = {}
        self.segments: dict[int, SegmentState] = {}

    def segment(self, number: int) -> SegmentState:
        """Return the state of a segment."""
        found = self.segments.get(number)
        if found is None:
            found = SegmentState(number, number)
            self.segments[number] = found
        return found

    def adopt_segment(self, first_number: int, number: int, file_size: int) -> None:
        """There is a file for these segments."""
        segment = self.segment(number)
        segment.first_number = first_number
        segment.has_file = True
        segment.file_size = file_size

    def drop_segment(self, number: int) -> None:
        """Forget a segment that was deleted."""
        self.segments.pop(number, None)

    def queue(self, queue_id: int) -> QueueIndex:
        """Return a queue's index."""
        found = self.queues.get(queue_id)
        if found is None:
            found = QueueIndex(queue_id, self)
            self.queues[queue_id] = found
        return found

    def forget_queue(self, queue_id: int) -> None:
        """Drop every reference of a queue."""
        found = self.queues.pop(queue_id, None)
        if found is not None:
            found.forget()
