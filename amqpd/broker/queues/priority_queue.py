"""A queue with priorities: one queue for each level, behind the face of the lowest.

    publish > level 9    ready, unacked, cold        its id in the logs: id + 9
            > level 4    ready, unacked, cold                            id + 4
            > level 0    ready, unacked, cold                            id
                         name, consumers, place in the line of dispatch

The highest level that has anything is served, always: if what it has is on the disk,
everything below waits for it. A level is a whole queue, with its own numbers, its own
memory and its own id in the logs, so order within a level, requeueing, paging and
recovery are those of any queue. It has no consumers of its own and never stands in
line: both are the business of level 0, which is what everybody else knows as the queue.
Levels above 0 are made when a message for them comes; their ids are reserved when the
queue is declared.
"""

from typing import final

from mypy_extensions import i64

from amqpd.broker.messages.message import Message
from amqpd.broker.queues.cold_load import ColdLoad, LoadedWindow
from amqpd.broker.queues.delivery import Consumer, Reference
from amqpd.broker.queues.dispatch import Dispatch
from amqpd.broker.queues.pager import Pager
from amqpd.broker.queues.queue import Queue
from amqpd.wire.properties import PRIORITY_SHIFT


@final
class PriorityQueue(Queue):
    """The lowest level, and the face of all."""

    def __init__(
        self,
        queue_id: i64,
        name: str,
        vhost_name: str,
        durable: bool,
        auto_delete: bool,
        exclusive_owner: object | None,
        arguments: dict[str, object],
        raw_arguments: bytes,
        dispatch: Dispatch,
        pager: Pager,
        priority_max: i64,
    ) -> None:
        super().__init__(
            queue_id,
            name,
            vhost_name,
            durable,
            auto_delete,
            exclusive_owner,
            arguments,
            raw_arguments,
            dispatch,
            pager,
        )
        self.priority_max: i64 = priority_max
        self._by_priority: list[PriorityLevel | None] = [None] * (priority_max + 1)
        # Those that were ever used, the highest first; level 0 is this object.
        self._levels: list[PriorityLevel] = []

    @property
    def ready_count(self) -> int:
        """Messages of all levels that can be delivered."""
        count = self._ready.count
        for level in self._levels:
            count += level.ready_count
        return int(count)

    def oldest_ready_age(self, now_ms: i64) -> i64:
        """The age of the oldest message that is first in its level."""
        age = super().oldest_ready_age(now_ms)
        for level in self._levels:
            age = max(age, level.oldest_ready_age(now_ms))
        return age

    def oldest_unacked_age(self, now_ms: i64) -> i64:
        """The age of the oldest message that is unacked, `NO_AGE` if none is."""
        age = super().oldest_unacked_age(now_ms)
        for level in self._levels:
            age = max(age, level.oldest_unacked_age(now_ms))
        return age

    def oldest_delivery_age(self, now_ms: i64) -> i64:
        """How long ago the oldest unacked delivery was, `NO_AGE` if there is none."""
        age = super().oldest_delivery_age(now_ms)
        for level in self._levels:
            age = max(age, level.oldest_delivery_age(now_ms))
        return age

    @property
    def mean_time_in_queue_ms(self) -> float:
        """How long messages were in the queue: the mean of a sample."""
        count, total_ms = self.ages.left_count, self.ages.left_total_ms
        for level in self._levels:
            count += level.ages.left_count
            total_ms += level.ages.left_total_ms
        return int(total_ms) / int(count) if count else 0.0

    def ids(self) -> list[int]:
        """Its ids in the log, those of levels that were never used included."""
        return [int(self.id) + level for level in range(self.priority_max + 1)]

    def part(self, queue_id: i64) -> Queue:
        """Return the level that has this id in the log."""
        priority = queue_id - self.id
        return self if priority == 0 else self._level(priority)

    def _level(self, priority: i64) -> "PriorityLevel":
        level = self._by_priority[priority]
        if level is None:
            level = PriorityLevel(self, priority, self._dispatch, self._pager)
            if self.keeper is not None:
                level.keeper = self.keeper.for_level(level)
            self._by_priority[priority] = level
            self._levels = [
                used for used in reversed(self._by_priority) if used is not None
            ]
        return level

    def parts(self) -> list[Queue]:
        """The levels that were ever used, the highest first, and this one."""
        parts: list[Queue] = [*self._levels, self]
        return parts

    def _top(self) -> Queue | None:
        """The highest level that has anything ready, in memory or not."""
        for level in self._levels:
            if level.has_ready():
                return level
        return self if self.has_ready() else None

    # -- messages come and go -------------------------------------------------

    def publish(self, message: Message) -> None:
        """Take a message as the last one of its level."""
        priority = min((message.facts >> PRIORITY_SHIFT) & 255, self.priority_max)
        if priority == 0:
            super().publish(message)
            return
        self._level(priority).publish(message)
        if self._ring.count and not self.is_dirty:
            self._dispatch.mark(self)

    def pass_on(
        self, address: bytes, content: bytes, channel: i64, now_ms: i64
    ) -> bool:
        """Send a message on as if it had never been here, if no level has anything."""
        if self._top() is not None:
            return False
        return super().pass_on(address, content, channel, now_ms)

    def get(self, no_ack: bool) -> Reference | None:
        """Take the first message of the highest level; None when there is none.

        Raises:
            ResourceError: it is on the disk and cannot be read.
        """
        while True:
            top = self._top()
            if top is None:
                return None
            if top is self:
                return super().get(no_ack)
            reference = top.get(no_ack)
            # What was read for it may be what consumers wait for.
            self.wake()
            if reference is not None:
                if not no_ack:
                    self.unacked_count += 1
                return reference
            if top.has_ready():
                # What is first has expired and cannot go: the disk is full.
                return None
            # The log has lost what the level had, or it has expired.

    def dispatch(self, messages_max: i64, size_max: i64) -> bool:
        """Deliver a run of the highest level; return whether more could be delivered.

        The next level's turn is the next visit, so that a visit stays bounded.
        """
        top = self._top()
        if top is None:
            return False
        if top is self:
            return super().dispatch(messages_max, size_max)
        before = top.unacked_count
        has_more = top.dispatch(messages_max, size_max)
        self.unacked_count += top.unacked_count - before
        if top.has_ready():
            # What is not at hand is being loaded, and is waited for.
            return has_more
        return self._ring.count > 0 and self._top() is not None

    def purge(self) -> int:
        """Drop all ready messages; return how many there were."""
        count = super().purge()
        for level in self._levels:
            count += level.purge()
        return count

    def delete(self) -> int:
        """Drop everything and tell the consumers; return how many were ready."""
        count = 0
        for level in self._levels:
            count += level.delete()
        self._levels = []
        return count + super().delete()

    # -- consumers ------------------------------------------------------------

    def offer(self, consumer: Consumer) -> None:
        """The consumer may have room again: it stands in line from now on."""
        super().offer(consumer)
        self.wake()

    def wake(self) -> None:
        """Something may be deliverable."""
        if self._ring.count and not self.is_dirty and self._top() is not None:
            self._dispatch.mark(self)

    def remove_consumer(self, consumer: Consumer) -> None:
        """End a subscription. What the consumer has unacked stays with its channel."""
        super().remove_consumer(consumer)
        if not self.consumers:
            for level in self._levels:
                self._pager.end_draining(level)


@final
class PriorityLevel(Queue):
    """A level above the lowest."""

    def __init__(
        self, face: PriorityQueue, priority: i64, dispatch: Dispatch, pager: Pager
    ) -> None:
        super().__init__(
            face.id + priority,
            face.name,
            face.vhost_name,
            face.durable,
            face.auto_delete,
            face.exclusive_owner,
            face.arguments,
            face.raw_arguments,
            dispatch,
            pager,
        )
        self._face = face
        self.consumers = face.consumers
        self._ring = face._ring
        # As if it stood in line for dispatch already: its face does in its stead.
        self.is_dirty = True

    def settle(self, reference: Reference) -> None:
        """An unacked reference is done with: acked, or rejected for good."""
        if not self.is_deleted:
            self._face.unacked_count -= 1
        super().settle(reference)

    def settle_run(self, references: list[Reference], start: i64, end: i64) -> None:
        """Its unacked references from `start` to before `end` are done with."""
        for at in range(start, end):
            self.settle(references[at])

    def reject(self, reference: Reference) -> None:
        """An unacked reference is not wanted: it may be a dead letter."""
        if not self.is_deleted:
            self._face.unacked_count -= 1
        super().reject(reference)

    def take_back(self, reference: Reference) -> None:
        """The disk refused to have a message moved elsewhere: it is still here."""
        super().take_back(reference)
        self._face.wake()

    def requeue(self, reference: Reference, is_failed: bool = False) -> None:
        """An unacked reference goes back to its place in its level."""
        if not self.is_deleted:
            self._face.unacked_count -= 1
        super().requeue(reference, is_failed)
        self._face.wake()

    def complete_load(self, load: ColdLoad, found: LoadedWindow) -> bool:
        """Take a window in; return False if it is to be tried again later."""
        is_loaded = super().complete_load(load, found)
        self._face.wake()
        return is_loaded

    def delete(self) -> int:
        """Drop everything; return how many were ready. The face tells the consumers."""
        self.consumers = []
        return super().delete()
