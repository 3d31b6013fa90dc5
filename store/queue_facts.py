"""What happened in a queue since the last batch, and the records it becomes.

Facts are collected per queue, so that a batch holds a settle record with ranges
for a queue and not a record for every ack:

    settled ranges, delivered (per lane), returned (per seq)

`begin` turns them into records and into a `BegunFacts`, which is kept until the
batch is written (then the segment's index has it) and durable (then the index of all
is told) or refused (then the facts are carried into the next batch; messages are
not: they were refused).
"""

from typing import Final, final

from librt.strings import BytesWriter
from mypy_extensions import i64, mypyc_attr

from store.batch import BatchWriter
from store.index import Index
from store.record import QUEUE_ID_MAX, Returned
from store.segment_index import SegmentIndex, write_deadline, write_entry
from store.seq_ranges import Ranges, SeqRanges

_NONE: Final = -1


@final
@mypyc_attr(acyclic=True)
class BegunFacts:
    """One queue's part of a batch."""

    __slots__ = (
        "deadlines",
        "delivered",
        "entries",
        "first",
        "gaps",
        "last",
        "queue_id",
        "returned",
        "settled",
        "size",
        "written_count",
    )

    def __init__(self, queue_id: i64) -> None:
        self.queue_id = queue_id
        self.first: i64 = 0
        self.last: i64 = 0
        self.written_count: i64 = 0
        # Bytes of the records, and where each of them lies.
        self.size: i64 = 0
        self.entries = b""
        # When the time is over of those that have one.
        self.deadlines = b""
        # Seqs between first and last that are not in the batch.
        self.gaps: Ranges | None = None
        self.settled: Ranges | None = None
        # Mostly there are none: a thousand queues have such facts a tick.
        self.delivered: dict[int, int] | None = None
        self.returned: dict[int, Returned] | None = None

    def note_in(self, segment: SegmentIndex) -> None:
        """Tell the index of the segment that the batch is in: it is written."""
        share = segment.share(self.queue_id)
        if self.written_count > 0:
            share.add(
                self.first, self.last, self.written_count, self.size, self.entries
            )
            self.entries = b""
            if self.deadlines:
                share.deadlines += self.deadlines
                self.deadlines = b""
        if self.settled is not None:
            share.settle(self.settled)
        if self.delivered is not None:
            share.delivered.update(self.delivered)
        if self.returned is not None:
            share.returned.update(self.returned)

    def apply(self, index: Index, segment: int) -> None:
        """Tell the index; the batch, which is in `segment`, is durable."""
        queue = index.queue(self.queue_id)
        if self.written_count > 0:
            queue.add(
                index.segment(segment),
                self.first,
                self.last,
                self.written_count,
                self.size,
                self.gaps,
            )
        if self.settled is not None:
            queue.settle(self.settled)
        if self.delivered is not None:
            for lane, upper_seq in self.delivered.items():
                queue.note_delivered(lane, upper_seq)
        if self.returned is not None:
            for returned in self.returned.values():
                queue.note_returned(returned)


@final
class Refused:
    """Seqs of a queue whose messages the disk refused: settling one is no fact."""

    __slots__ = ("lost", "seqs")

    def __init__(self) -> None:
        self.seqs = SeqRanges()
        # Those of them that were not settled since.
        self.lost = SeqRanges()


@final
class QueueFacts:
    """One queue's facts that are in no batch yet."""

    __slots__ = (
        "_deadlines",
        "_delivered",
        "_delivered_written",
        "_entries",
        "_first",
        "_gaps",
        "_last",
        "_refused",
        "_returned",
        "_size",
        "_written_count",
        "_written_upper",
        "is_touched",
        "queue_id",
        "settled",
    )

    def __init__(self, queue_id: i64, written_upper: i64) -> None:
        self.queue_id = queue_id
        # Whether it is in the store's list of queues that have something to write.
        self.is_touched = False
        self.settled = SeqRanges()
        self._refused: Refused | None = None
        self._delivered: dict[int, int] = {}
        self._delivered_written: dict[int, int] = {}
        self._returned: dict[int, Returned] = {}
        # The share of the batch being written, and the highest seq ever written.
        self._first: i64 = 0
        self._last: i64 = 0
        self._written_count: i64 = 0
        self._size: i64 = 0
        self._gaps = SeqRanges()
        self._entries: BytesWriter | None = None
        self._deadlines: BytesWriter | None = None
        self._written_upper = written_upper

    def note_written(self, seq: i64, offset: i64, size: i64) -> None:
        """A message with this seq is in the batch being written, at an offset."""
        if self._written_count == 0:
            self._first = seq
            self._entries = BytesWriter()
        elif seq != self._last + 1:
            self._gaps.add_range(self._last + 1, seq - 1)
        self._last = seq
        self._written_count += 1
        self._size += size
        assert self._entries is not None, "made with the first of a batch"
        write_entry(self._entries, seq, offset, size)

    def note_deadline(self, seq: i64, deadline_ms: i64) -> None:
        """The message that is being written has a time of its own."""
        if self._deadlines is None:
            self._deadlines = BytesWriter()
        write_deadline(self._deadlines, seq, deadline_ms)

    def settle(self, seq: i64) -> None:
        """A written message is done with.

        Of a queue that is gone an ack may still come: nothing of it is written.
        """
        if self._refused is not None and seq in self._refused.seqs:
            self._refused.lost.discard(seq)
        elif seq <= self._written_upper:
            self.settled.add(seq)

    def settle_all(self, first: i64, last: i64) -> None:
        """Written messages are done with: each seq from `first` to `last` is one."""
        if self._refused is not None:
            seq = first
            while seq <= last:
                self.settle(seq)
                seq += 1
        elif first <= self._written_upper:
            self.settled.add_range(first, min(last, self._written_upper))

    def settle_range(self, first: i64, last: i64) -> None:
        """Written messages are done with; not every seq need have been one."""
        self.settled.add_range(first, min(last, self._written_upper))

    def unsettle(self, seq: i64) -> None:
        """A settle that no batch has taken is void."""
        self.settled.discard(seq)

    def lose(self, seq: i64) -> None:
        """A message that was thought written was refused."""
        if self._refused is None:
            self._refused = Refused()
        self._refused.seqs.add(seq)
        # A settle that waits is of a message that never was: no fact.
        if not self.settled.discard(seq):
            self._refused.lost.add(seq)

    def is_lost(self, seq: i64) -> bool:
        """Say whether a message was refused and is not settled since."""
        return self._refused is not None and seq in self._refused.lost

    def note_delivered(self, lane: i64, upper_seq: i64) -> None:
        """Every seq of the lane up to this one was delivered once."""
        self._delivered[lane] = upper_seq

    def note_returned(self, seq: i64, delivery_count: i64, not_before_ms: i64) -> None:
        """A message came back."""
        self._returned[seq] = Returned(
            self.queue_id, seq, delivery_count, not_before_ms
        )

    @property
    def is_empty(self) -> bool:
        """Say whether there is nothing to write (before messages are written)."""
        return (
            self.settled.is_empty
            and not self._returned
            and not self._is_delivered_news()
        )

    def _is_delivered_news(self) -> bool:
        for lane, upper_seq in self._delivered.items():
            known = self._delivered_written.get(lane, _NONE)
            if min(upper_seq, self._written_upper) > known:
                return True
        return False

    def begin(self, writer: BatchWriter) -> BegunFacts:
        """Write the facts behind the messages and return what the batch holds."""
        begun = BegunFacts(self.queue_id)
        if self._written_count > 0:
            self._begin_share(begun)
        if not self.settled.is_empty:
            begun.settled = self.settled.take()
            writer.settle(self.queue_id, begun.settled)
        if self._delivered:
            self._write_delivered(writer, begun)
        if self._returned:
            begun.returned = self._returned
            for returned in self._returned.values():
                writer.returned(
                    self.queue_id,
                    returned.seq,
                    returned.delivery_count,
                    returned.not_before_ms,
                )
            self._returned = {}
        return begun

    def _begin_share(self, begun: BegunFacts) -> None:
        assert self._entries is not None, "made with the first of a batch"
        begun.first = self._first
        begun.last = self._last
        begun.written_count = self._written_count
        begun.size = self._size
        begun.entries = self._entries.getvalue()
        if self._deadlines is not None:
            begun.deadlines = self._deadlines.getvalue()
            self._deadlines = None
        if not self._gaps.is_empty:
            begun.gaps = self._gaps.take()
        self._written_upper = self._last
        self._written_count = 0
        self._size = 0
        self._entries = None

    def _write_delivered(self, writer: BatchWriter, begun: BegunFacts) -> None:
        delivered: dict[int, int] = {}
        for lane, noted_upper in self._delivered.items():
            # What was delivered and elided leaves no trace in the log.
            upper_seq = min(noted_upper, self._written_upper)
            if upper_seq > self._delivered_written.get(lane, _NONE):
                writer.delivered(self.queue_id, lane, upper_seq)
                self._delivered_written[lane] = upper_seq
                delivered[lane] = upper_seq
        if delivered:
            begun.delivered = delivered
        self._delivered = {}

    def carry(self, begun: BegunFacts) -> None:
        """Put the facts of a batch that the disk refused before what waits."""
        if begun.settled is not None:
            # A seq that was refused with them may be among them: that settles nothing.
            for i in range(len(begun.settled.firsts)):
                self.settled.add_range(begun.settled.firsts[i], begun.settled.lasts[i])
        if begun.delivered is not None:
            for lane, upper_seq in begun.delivered.items():
                self._delivered_written[lane] = _NONE
                known = self._delivered.get(lane, _NONE)
                self._delivered[lane] = max(upper_seq, known)
        if begun.returned is not None:
            for seq, returned in begun.returned.items():
                self._returned.setdefault(seq, returned)


@final
class FactsTable:
    """The facts of all queues, and which of them the next batch must look at."""

    __slots__ = ("_facts", "_latest", "forgotten", "touched")

    def __init__(self) -> None:
        self._facts: dict[int, QueueFacts] = {}
        # Most calls are about the same queue as the one before.
        self._latest = QueueFacts(_NONE, _NONE)
        self.touched: list[QueueFacts] = []
        # Queues that are gone while batches that name them are under way, and the last
        # of those batches.
        self.forgotten: dict[int, int] = {}

    def adopt(self, queue_id: i64, written_upper: i64) -> None:
        """Take over a queue that was recovered with messages."""
        self._facts[queue_id] = QueueFacts(queue_id, written_upper)

    def touch(self, queue_id: i64) -> QueueFacts:
        """Return a queue's facts, which the next batch will look at."""
        facts = self._latest
        if facts.queue_id != queue_id:
            facts = self._find(queue_id)
            self._latest = facts
        if not facts.is_touched:
            facts.is_touched = True
            self.touched.append(facts)
        return facts

    def _find(self, queue_id: i64) -> QueueFacts:
        found = self._facts.get(queue_id)
        if found is None:
            assert 0 <= queue_id <= QUEUE_ID_MAX, "a queue id has 32 bits"
            found = QueueFacts(queue_id, _NONE)
            self._facts[queue_id] = found
        return found

    def forget(self, queue_id: i64, batch: i64) -> None:
        """A queue is gone; no batch behind this one will name it."""
        facts = self._facts.pop(queue_id, None)
        if facts is not None and facts.is_touched:
            self.touched.remove(facts)
        if self._latest.queue_id == queue_id:
            self._latest = QueueFacts(_NONE, _NONE)
        self.forgotten[queue_id] = batch

    def clear_forgotten(self, batch: i64) -> None:
        """No batch up to this one is under way any more."""
        over: list[int] = []
        for queue_id, last in self.forgotten.items():
            if last > batch:
                # Those that went later stand behind it.
                break
            over.append(queue_id)
        for queue_id in over:
            del self.forgotten[queue_id]

    def has_any(self) -> bool:
        """Say whether a queue has a fact to write; if none has, touch none."""
        for facts in self.touched:
            if not facts.is_empty:
                return True
        for facts in self.touched:
            facts.is_touched = False
        self.touched = []
        return False

    def begin(self, writer: BatchWriter) -> list[BegunFacts]:
        """Write the facts of all touched queues behind the messages of a batch."""
        begun: list[BegunFacts] = []
        for facts in self.touched:
            facts.is_touched = False
            begun.append(facts.begin(writer))
        self.touched = []
        return begun

    def carry(self, refused: list[BegunFacts]) -> None:
        """Put the facts of a refused batch before those that wait."""
        for begun in refused:
            if begun.queue_id not in self.forgotten:
                self.touch(begun.queue_id).carry(begun)

    def lose(self, queue_id: i64, seq: i64) -> None:
        """A message was refused by the disk (a queue id below 0: it was elided)."""
        if queue_id >= 0 and queue_id not in self.forgotten:
            self.touch(queue_id).lose(seq)

    def unsettle(self, queue_id: i64, seq: i64) -> None:
        """A settle that no batch has taken is void."""
        if queue_id not in self.forgotten:
            self.touch(queue_id).unsettle(seq)

    def is_lost(self, queue_id: i64, seq: i64) -> bool:
        """Say whether a message was refused and not settled since."""
        facts = self._facts.get(queue_id)
        return facts is not None and facts.is_lost(seq)
