"""From a checkpoint, and what the segments say since, to the index.

Segments are applied in log order, each as its index file has it: what was written for
each queue, then the facts about these messages and older ones. Everything is
idempotent: what is not above a queue's `upper_seq` is known already, and what is
settled twice is settled. So a segment may be applied to an index that knows some of
it, which is what makes it possible to take a checkpoint while the log goes on.

Queues that are gone are garbage: nothing of them enters the index, so nothing is kept
for them. It does not know files.
"""

from bisect import bisect_left
from typing import Final, final

from mypy_extensions import i64

from store.checkpoint import Checkpoint, SavedQueue
from store.errors import QueueIdUnknown
from store.index import Index, QueueIndex, SegmentState
from store.record import Delivered, Record, Returned, Settle
from store.segment_index import (
    ENTRY_SIZE,
    IndexedRun,
    QueueShare,
    SegmentIndex,
    gaps_in,
    read_seq,
)
from store.seq_ranges import Ranges, SeqRanges

_SEQ_MAX: Final = (1 << 62) - 1
_LANE: Final = 0


@final
class RecoveredQueue:
    """What is left in a queue; the messages themselves are read when wanted."""

    __slots__ = (
        "count",
        "delivered_upper",
        "first_seq",
        "next_seq",
        "queue_id",
        "returned",
        "size",
    )

    def __init__(self, queue_id: i64) -> None:
        self.queue_id = queue_id
        # The seq that its next message gets: above any that the log ever named.
        self.next_seq: i64 = 1
        self.count: i64 = 0
        # About how many bytes of the log they take.
        self.size: i64 = 0
        self.first_seq: i64 = 1
        # Every seq up to this one has been delivered once ...
        self.delivered_upper: i64 = 0
        # ... and these came back.
        self.returned: dict[int, Returned] = {}


@final
class Replay:
    """Tells an index what the log says; `queues` is what comes of it."""

    __slots__ = ("_highest", "_index", "_known", "garbage_count", "reference_count")

    def __init__(
        self, index: Index, known_queues: set[int], highest_queue_id: i64
    ) -> None:
        self._index = index
        self._known = known_queues
        self._highest = highest_queue_id
        # References that were new to the index.
        self.reference_count: i64 = 0
        # References and facts of queues that are gone.
        self.garbage_count: i64 = 0

    def _is_known(self, queue_id: i64) -> bool:
        if queue_id in self._known:
            return True
        if queue_id > self._highest:
            raise QueueIdUnknown(
                f"the log names queue id {queue_id}, but the metadata gave out none "
                f"above {self._highest}: meta.db is older than the log"
            )
        return False

    # -- the checkpoint

    def restore(self, checkpoint: Checkpoint) -> None:
        """Begin with a checkpoint; the index knows what files there are.

        Raises:
            QueueIdUnknown: it names a queue that the metadata never knew.
        """
        saved = checkpoint.next_queue()
        while saved is not None:
            if self._is_known(saved.queue_id):
                queue = self._index.queue(saved.queue_id)
                queue.restore(saved.runs, saved.dead, _upper_seq(saved))
                queue.delivered = saved.delivered
                queue.returned = saved.returned
                self.reference_count += queue.live_count
            else:
                self.garbage_count += 1
            saved = checkpoint.next_queue()
        self._gather_runs()

    def _gather_runs(self) -> None:
        """Let runs name the files that stand for their segments by now."""
        files = sorted(
            state.number for state in self._index.segments.values() if state.has_file
        )
        gathering: dict[int, SegmentState] = {}
        for state in list(self._index.segments.values()):
            if state.has_file:
                continue
            at = bisect_left(files, state.number)
            if at < len(files):
                file = self._index.segments[files[at]]
                if file.first_number <= state.number:
                    gathering[file.number] = file
        for file in gathering.values():
            for queue in self._index.queues.values():
                count, size = queue.written_in(file)
                if count > 0:
                    queue.merge_runs(file, count, size)

    # -- what the segments say

    def needs_entries(self, run: IndexedRun) -> bool:
        """Say whether a run can only be applied together with its entries."""
        return run.has_gaps and self._is_news(run.queue_id, run.last)

    def _is_news(self, queue_id: i64, last: i64) -> bool:
        if not self._is_known(queue_id):
            return False
        found = self._index.queues.get(queue_id)
        return found is None or last > found.upper_seq

    def apply_run(
        self, segment: SegmentState, run: IndexedRun, entries: bytes | None
    ) -> None:
        """Apply what a segment holds of one queue.

        Raises:
            QueueIdUnknown: it names a queue that the metadata never knew.
        """
        if not self._is_known(run.queue_id):
            self.garbage_count += run.count
            return
        queue = self._index.queue(run.queue_id)
        first: i64 = max(run.first, queue.upper_seq + 1)
        if first > run.last:
            return
        count = run.last - first + 1
        gaps: Ranges | None = None
        if run.has_gaps:
            assert entries is not None, "what has gaps comes with its entries"
            entries = _entries_above(entries, run.first, queue.upper_seq)
            first = read_seq(entries, 0, run.first)
            count = len(entries) // ENTRY_SIZE
            gaps = gaps_in(entries, first)
        size = run.size * count // run.count
        queue.add(segment, first, run.last, count, size, gaps)
        self.reference_count += count

    def apply_fact(self, fact: Record) -> None:
        """Apply a fact; the messages of its segment have been applied.

        Raises:
            QueueIdUnknown: it names a queue that the metadata never knew.
        """
        if isinstance(fact, Settle):
            self._settle(fact.queue_id, fact.settled)
        elif isinstance(fact, Delivered):
            self._deliver(fact.queue_id, fact.lane, fact.upper_seq)
        elif isinstance(fact, Returned):
            self._give_back(fact.queue_id, fact)

    def _settle(self, queue_id: i64, settled: Ranges) -> None:
        queue = self._told(queue_id, settled.lasts[-1] if settled.lasts else 0)
        if queue is not None:
            queue.settle(settled)

    def _deliver(self, queue_id: i64, lane: int, upper_seq: i64) -> None:
        queue = self._told(queue_id, upper_seq)
        if queue is not None:
            queue.note_delivered(lane, upper_seq)

    def _give_back(self, queue_id: i64, returned: Returned) -> None:
        queue = self._told(queue_id, returned.seq)
        if queue is not None:
            queue.note_returned(returned)

    def _told(self, queue_id: i64, seq: i64) -> QueueIndex | None:
        """Return the queue that a fact is about, None if it is gone.

        No seq that a fact names is given out again, even if its message is not to be
        found: the fact would be met once more and be taken for one about the new.
        """
        if not self._is_known(queue_id):
            self.garbage_count += 1
            return None
        queue = self._index.queue(queue_id)
        queue.upper_seq = max(queue.upper_seq, seq)
        return queue

    def apply_segment(self, segment: SegmentState, found: SegmentIndex) -> None:
        """Apply a segment that was scanned.

        Raises:
            QueueIdUnknown: it names a queue that the metadata never knew.
        """
        shares = found.shares()
        for share in shares:
            if share.count > 0:
                self.apply_run(segment, _run_of(share), bytes(share.entries))
        for share in shares:
            self._apply_facts(share)

    def _apply_facts(self, share: QueueShare) -> None:
        if not share.settled.is_empty:
            settled = share.settled.take()
            share.settle(settled)
            self._settle(share.queue_id, settled)
        for lane, upper_seq in share.delivered.items():
            self._deliver(share.queue_id, lane, upper_seq)
        for returned in share.returned.values():
            self._give_back(share.queue_id, returned)

    def drop_damaged(
        self, segment: SegmentState, found: SegmentIndex
    ) -> list[tuple[int, Ranges]]:
        """Settle what the index has in a segment and a scan did not find there.

        It becomes a fact of the segment's index; it is also returned, by queue.
        """
        dropped: list[tuple[int, Ranges]] = []
        for queue in self._index.queues.values():
            share = found.find(queue.queue_id)
            entries = b"" if share is None else bytes(share.entries)
            first: i64 = 0 if share is None else share.first
            for span in queue.spans(0, _SEQ_MAX, _SEQ_MAX):
                if span.segment != segment.number:
                    continue
                lost = _missing(entries, first, span.first, span.last)
                if lost.firsts:
                    queue.settle(lost)
                    found.share(queue.queue_id).settle(lost)
                    dropped.append((queue.queue_id, lost))
        return dropped

    # -- what comes of it

    def queues(self) -> dict[int, RecoveredQueue]:
        """Return every known queue."""
        found: dict[int, RecoveredQueue] = {}
        for queue_id in sorted(self._known):
            recovered = RecoveredQueue(queue_id)
            queue = self._index.queues.get(queue_id)
            if queue is not None:
                recovered.next_seq = queue.upper_seq + 1
                recovered.count = queue.live_count
                recovered.size = queue.live_size
                recovered.first_seq = queue.first_seq
                recovered.delivered_upper = queue.delivered.get(_LANE, 0)
                for returned in queue.live_returned():
                    recovered.returned[returned.seq] = returned
            found[queue_id] = recovered
        return found


def _upper_seq(saved: SavedQueue) -> i64:
    """Return the highest seq that a checkpoint names of a queue.

    A message that was delivered and settled before it was written is in no run. Its
    seq must not be given out again: a replay would take what it finds for known.
    """
    upper = saved.upper_seq
    for delivered in saved.delivered.values():
        upper = max(upper, delivered)
    for seq in saved.returned:
        upper = max(upper, seq)
    return upper


def _run_of(share: QueueShare) -> IndexedRun:
    return IndexedRun(
        share.queue_id, _LANE, share.first, share.last, share.count, share.size, 0, 0
    )


def _entries_above(entries: bytes, first: i64, upper_seq: i64) -> bytes:
    """Return those of a run's entries whose seqs are above one; some are."""
    at = 0
    while read_seq(entries, at, first) <= upper_seq:
        at += ENTRY_SIZE
    return entries[at:] if at > 0 else entries


def _missing(entries: bytes, base: i64, first: i64, last: i64) -> Ranges:
    """Return the seqs between two that have no entry; `base` is the first's seq."""
    missing = SeqRanges()
    due = first
    for at in range(0, len(entries), ENTRY_SIZE):
        seq = read_seq(entries, at, base)
        if due <= seq <= last:
            if due < seq:
                missing.add_range(due, seq - 1)
            due = seq + 1
    if due <= last:
        missing.add_range(due, last)
    return missing.take()
