"""What a queue has in the logs, and what it tells them besides the common acks.

    the log          persistent messages, if the queue is durable
    the paging log   what memory had no room for and the log has not got

It knows which of the two a message is in, and the two ids that the queue has there.
"""

from typing import Final, final

from mypy_extensions import i64

from amqpd.broker.messages.message import Message
from amqpd.broker.queues.backlog import Backlog
from amqpd.broker.queues.delivery import READ_BACK, Reference, ReferenceOwner
from amqpd.broker.queues.pager import Pager
from amqpd.wire.properties import PERSISTENT

# A level of a priority queue has an id of its own: in the log, each id has one lane.
LANE: Final = 0
# Transient queues count up from here, durable ones from 1: the two never meet.
FIRST_TRANSIENT_ID: Final[i64] = 1 << 40
# In the paging log an id has 32 bits: those of transient queues get the upper half.
TRANSIENT_PAGE_ID: Final[i64] = 1 << 31


@final
class QueueLog:
    """The place of one queue in both logs."""

    def __init__(
        self, owner: ReferenceOwner, queue_id: i64, durable: bool, pager: Pager
    ) -> None:
        self.page_id: i64 = page_id(queue_id)
        self.use = pager.use
        self._owner = owner
        self._id: i64 = queue_id
        self._durable = durable
        self._store = pager.store
        self._pager = pager

    @property
    def is_disk_full(self) -> bool:
        """Whether the log takes no messages."""
        return self._store.is_disk_full

    def append(self, message: Message, seq: i64) -> None:
        """The queue takes a message; who takes most does it himself (`Queue.publish`).

        It has a number afterwards if it is for the log.
        """
        if not self._durable or not message.facts & PERSISTENT:
            return
        if message.number >= 0:
            self._store.add_destination(self._id, seq, LANE)
        else:
            message.number = self._store.append(
                message.address,
                message.content,
                message.body,
                message.enqueued_ms,
                message.expires_ms,
                self._id,
                seq,
                LANE,
            )

    def is_stored(self, message: Message) -> bool:
        """Whether the log has a message that the queue took, or will have it."""
        return self._durable and message.number >= 0

    def is_written(self, message: Message) -> bool:
        """Whether the log has the bytes of a message that the queue took."""
        return self.is_stored(message) and message.number < self._store.written_base

    def has(self, seq: int) -> bool:
        """Whether the log still has a message that it has written."""
        queue = self._store.index.queues.get(int(self._id))
        return queue is not None and queue.is_live(seq)

    def forget(self, reference: Reference, message: Message) -> None:
        """The queue is done with a message."""
        number = message.number
        if number >= 0 and self._durable:
            self._store.settle(number, self._id, reference.seq)
        elif reference.page >= 0:
            paging = self._pager.paging
            assert paging is not None
            paging.settle(reference.page, self.page_id, reference.seq)

    def settle_run(self, references: list[Reference], start: i64, end: i64) -> None:
        """Unacked references from `start` to before `end` are done with.

        The queue is durable. The log is told of ranges; each message is looked at
        just once, since by now it has left the processor's caches.
        """
        store = self._store
        base = store.begun_base
        cost: i64 = 0
        first: i64 = 1
        last: i64 = 0
        at = start
        while at < end:
            reference = references[at]
            at += 1
            message = reference.message
            cost += message.cost
            run = reference.run
            if run is not None:
                run.count -= 1
            if not 0 <= message.number < base:
                self.forget(reference, message)
                continue
            seq = reference.seq
            if seq != last + 1:
                if first <= last:
                    store.settle_written(self._id, first, last)
                first = seq
            last = seq
        if first <= last:
            store.settle_written(self._id, first, last)
        self.use.unacked -= cost

    def forget_moved(
        self,
        reference: Reference,
        message: Message,
        copy_number: i64,
        owner: ReferenceOwner | None = None,
    ) -> None:
        """The queue is done with a message if the log takes the one that was copied.

        If not, the owner, which is the queue if none is named, gets a reference to it
        back.
        """
        number = message.number
        if number < 0 or not self._durable:
            self.forget(reference, message)
            return
        kept = Reference(
            self._owner if owner is None else owner, message, reference.seq
        )
        kept.redelivered = reference.redelivered
        self._store.settle_moved(number, self._id, kept.seq, copy_number, kept)

    def forget_cold(self, seq: int, is_paged: bool) -> None:
        """The queue is done with a cold message."""
        if is_paged:
            paging = self._pager.paging
            assert paging is not None
            paging.settle_range(self.page_id, seq, seq)
        else:
            self._store.settle_range(self._id, seq, seq)

    def purge_cold(self, backlog: Backlog, spared: list[int]) -> None:
        """The queue is done with all that is cold, but for the seqs that are spared."""
        if backlog.cold_stored > 0:
            first, last = int(backlog.cold_first), int(backlog.cold_last)
            for seq in sorted(spared):
                if first <= seq <= last:
                    if first < seq:
                        self._store.settle_range(self._id, first, seq - 1)
                    first = seq + 1
            if first <= last:
                self._store.settle_range(self._id, first, last)
        if backlog.cold_paged > 0:
            paging = self._pager.paging
            assert paging is not None
            paging.settle_range(self.page_id, backlog.cold_first, backlog.cold_last)

    def read_cold(self, seq: int, is_paged: bool) -> Reference | None:
        """Read one message in place; None if it is not there, or cannot be read now."""
        message = self._pager.read_one(
            self.page_id if is_paged else self._id, seq, is_paged
        )
        if message is None:
            return None
        reference = Reference(self._owner, message, seq)
        if is_paged:
            reference.page = READ_BACK
        return reference

    def is_cold_live(self, seq: int, is_paged: bool) -> bool:
        """Whether the log still needs a message that is, or was once, cold."""
        if is_paged:
            return True
        index = self._store.index.queues.get(int(self._id))
        return index is not None and index.is_live(seq)

    def next_cold(self, seq: i64) -> i64:
        """The first seq from this one on that the log still needs; 0 if none is."""
        index = self._store.index.queues.get(int(self._id))
        if index is None:
            return 0
        found = index.next_live(seq)
        return found if found <= index.upper_seq else 0

    def note_returned(
        self, reference: Reference, count: i64, not_before_ms: i64
    ) -> None:
        """A message came back so often; it is not to be delivered before a time.

        A time below 0 is a mark: it is dead (`rules.held_letters`).
        """
        if self._durable and reference.message.number >= 0:
            self._store.note_returned(self._id, reference.seq, count, not_before_ms)

    def forget_queue(self) -> None:
        """The queue is gone."""
        if self._durable:
            self._store.forget_queue(self._id)
        if self._pager.paging is not None:
            self._pager.paging.forget_queue(self.page_id)


def page_id(queue_id: i64) -> i64:
    """Return the id that a queue has in the paging log."""
    if queue_id < FIRST_TRANSIENT_ID:
        return queue_id
    return TRANSIENT_PAGE_ID + queue_id - FIRST_TRANSIENT_ID
