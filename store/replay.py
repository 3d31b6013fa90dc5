"""From records, in log order, to what each queue holds.

A queue is rebuilt from the messages that list it, less what was settled or purged,
with what was delivered or returned. Everything is idempotent: what is settled is
kept as ranges, so that a message record that is met again (a copied tail, later a
merged segment) does not come back to life, and a message met twice counts once.

Records of queues that are gone are garbage. It does not know files.
"""

from bisect import bisect_right
from typing import Final, final

from mypy_extensions import i64

from store.errors import QueueIdUnknown
from store.index import Index
from store.record import (
    Delivered,
    Destination,
    Message,
    Purge,
    Record,
    Returned,
    Settle,
)
from store.seq_ranges import Ranges, SeqRanges

FIRST_SEQ: Final = 1


@final
class RecoveredMessage:
    """A message of one queue.

    The copies of one message in several queues share their bytes and `group_id`.
    """

    __slots__ = (
        "body",
        "content",
        "delivery_count",
        "enqueued_ms",
        "envelope",
        "expires_ms",
        "group_id",
        "is_delivered",
        "lane",
        "not_before_ms",
        "seq",
    )

    def __init__(self, message: Message, seq: i64, lane: i64, group_id: i64) -> None:
        self.seq = seq
        self.lane = lane
        self.envelope = message.envelope
        self.content = message.content
        self.body = message.body
        self.enqueued_ms = message.enqueued_ms
        self.expires_ms = message.expires_ms
        self.group_id = group_id
        self.is_delivered = False
        self.delivery_count: i64 = 0
        self.not_before_ms: i64 = 0


@final
class RecoveredQueue:
    """What a queue holds, in seq order, and the seq its next message gets."""

    __slots__ = ("messages", "next_seq", "queue_id")

    def __init__(
        self, queue_id: i64, next_seq: i64, messages: list[RecoveredMessage]
    ) -> None:
        self.queue_id = queue_id
        self.next_seq = next_seq
        self.messages = messages


@final
class _Found:
    """A live reference and the segment it lies in."""

    __slots__ = ("message", "segment")

    def __init__(self, message: RecoveredMessage, segment: i64) -> None:
        self.message = message
        self.segment = segment


def is_in(ranges: Ranges, seq: int) -> bool:
    """Say whether a seq is in ranges."""
    index = bisect_right(ranges.firsts, seq) - 1
    return index >= 0 and seq <= ranges.lasts[index]


@final
class _Queue:
    """One queue, being rebuilt."""

    __slots__ = (
        "delivered_in_part",
        "delivered_upper",
        "live",
        "returned",
        "settled",
        "upper_seq",
    )

    def __init__(self) -> None:
        self.live: dict[int, _Found] = {}
        self.settled = SeqRanges()
        # By lane; records that except some seqs are kept as they are.
        self.delivered_upper: dict[int, int] = {}
        self.delivered_in_part: list[Delivered] = []
        self.returned: dict[int, Returned] = {}
        # The highest seq that any record names: none of them is given out again.
        self.upper_seq: i64 = FIRST_SEQ - 1

    def see(self, seq: i64) -> None:
        if seq > self.upper_seq:
            self.upper_seq = seq

    def add(self, found: _Found) -> None:
        seq = found.message.seq
        # Most are newer than all before and need no look at what is settled.
        if seq > self.upper_seq or seq not in self.settled:
            self.live[seq] = found
        self.see(seq)

    def settle(self, settled: Ranges) -> None:
        for i in range(len(settled.firsts)):
            first = settled.firsts[i]
            last = settled.lasts[i]
            self.settled.add_range(first, last)
            self.see(last)
            if last - first < len(self.live):
                for seq in range(first, last + 1):
                    self.live.pop(seq, None)
            else:
                self._drop_between(first, last)

    def purge(self, purge: Purge) -> None:
        first: int = 0
        for i in range(len(purge.kept.firsts)):
            if purge.kept.firsts[i] > first:
                self.settled.add_range(first, purge.kept.firsts[i] - 1)
            first = purge.kept.lasts[i] + 1
        if first <= purge.upper_seq:
            self.settled.add_range(first, purge.upper_seq)
        self.see(purge.upper_seq)
        for seq in list(self.live):
            if seq <= purge.upper_seq and not is_in(purge.kept, seq):
                del self.live[seq]

    def _drop_between(self, first: int, last: int) -> None:
        for seq in [seq for seq in self.live if first <= seq <= last]:
            del self.live[seq]

    def deliver(self, delivered: Delivered) -> None:
        self.see(delivered.upper_seq)
        if delivered.excepted.firsts:
            self.delivered_in_part.append(delivered)
        elif delivered.upper_seq > self.delivered_upper.get(delivered.lane, -1):
            self.delivered_upper[delivered.lane] = delivered.upper_seq

    def give_back(self, returned: Returned) -> None:
        self.see(returned.seq)
        known = self.returned.get(returned.seq)
        # Met again in another order, the one that came last still wins.
        if known is None or known.delivery_count <= returned.delivery_count:
            self.returned[returned.seq] = returned

    def finish(self, queue_id: int, index: Index) -> RecoveredQueue:
        """Return the queue and tell the index where its messages lie."""
        messages: list[RecoveredMessage] = []
        runs = index.queue(queue_id)
        for seq in sorted(self.live):
            found = self.live[seq]
            runs.add(index.segment(found.segment), seq, seq, 1)
            messages.append(found.message)
            self._mark(found.message)
        return RecoveredQueue(queue_id, self.upper_seq + 1, messages)

    def _mark(self, message: RecoveredMessage) -> None:
        message.is_delivered = self._is_delivered(message.seq, message.lane)
        returned = self.returned.get(message.seq)
        if returned is not None:
            message.is_delivered = True
            message.delivery_count = returned.delivery_count
            message.not_before_ms = returned.not_before_ms

    def _is_delivered(self, seq: int, lane: int) -> bool:
        if seq <= self.delivered_upper.get(lane, -1):
            return True
        for delivered in self.delivered_in_part:
            is_covered = delivered.lane == lane and seq <= delivered.upper_seq
            if is_covered and not is_in(delivered.excepted, seq):
                return True
        return False


@final
class Replay:
    """Applies records in log order; `finish` returns the queues."""

    __slots__ = ("_group_id", "_highest", "_queues", "garbage_count", "record_count")

    def __init__(self, known_queues: set[int], highest_queue_id: i64) -> None:
        self._queues: dict[int, _Queue] = {
            queue_id: _Queue() for queue_id in sorted(known_queues)
        }
        self._highest = highest_queue_id
        self._group_id: i64 = 0
        self.record_count: i64 = 0
        # References and facts of queues that are gone.
        self.garbage_count: i64 = 0

    def apply(self, record: Record, segment: i64) -> None:
        """Apply one record that lies in a segment.

        Raises:
            QueueIdUnknown: it names a queue that the metadata never knew.
        """
        self.record_count += 1
        if isinstance(record, Message):
            self._group_id += 1
            for destination in record.destinations:
                self._add(record, destination, segment)
            return
        queue = self._queue(record.queue_id)
        if queue is None:
            self.garbage_count += 1
        elif isinstance(record, Settle):
            queue.settle(record.settled)
        elif isinstance(record, Purge):
            queue.purge(record)
        elif isinstance(record, Delivered):
            queue.deliver(record)
        else:
            queue.give_back(record)

    def _add(self, message: Message, destination: Destination, segment: i64) -> None:
        queue = self._queue(destination.queue_id)
        if queue is None:
            self.garbage_count += 1
            return
        recovered = RecoveredMessage(
            message, destination.seq, destination.lane, self._group_id
        )
        queue.add(_Found(recovered, segment))

    def _queue(self, queue_id: i64) -> _Queue | None:
        found = self._queues.get(queue_id)
        if found is None and queue_id > self._highest:
            raise QueueIdUnknown(
                f"the log names queue id {queue_id}, but the metadata gave out none "
                f"above {self._highest}: meta.db is older than the log"
            )
        return found

    def finish(self, index: Index) -> dict[int, RecoveredQueue]:
        """Return every known queue and fill the index."""
        return {
            queue_id: queue.finish(queue_id, index)
            for queue_id, queue in self._queues.items()
        }
