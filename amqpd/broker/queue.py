"""A queue: messages in order, and the consumers who get them.

    publish -> ready -> (dispatch) -> unacked -> settled
                  ^                      |
                  +------- requeue ------+

A queue numbers its messages densely (`seq`); that number is a message's place for
good. A durable queue tells the log what it takes, hands out and settles, but never
waits: who waits for the disk is the publisher's channel. Names, permissions and
what is bound to what are the virtual host's business.
"""

from typing import Final, final

from mypy_extensions import i64

from amqpd.broker.consumer_ring import ConsumerRing
from amqpd.broker.delivery import Consumer, Reference, ReferenceOwner
from amqpd.broker.dispatch import Dispatch
from amqpd.broker.errors import AccessRefused
from amqpd.broker.message import Message
from amqpd.broker.ports import DurabilityWaiter
from amqpd.broker.ready_list import ReadyList
from amqpd.wire.properties import PERSISTENT
from store.message_store import MessageStore

# Messages have no priority levels yet: every one is in the one lane there is.
LANE: Final = 0


@final
class Queue(ReferenceOwner):
    """One queue of one virtual host."""

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
        store: MessageStore[DurabilityWaiter],
        dispatch: Dispatch,
    ) -> None:
        super().__init__()
        self.id: i64 = queue_id
        self.name = name
        self.vhost_name = vhost_name
        self.durable = durable
        self.auto_delete = auto_delete
        self.exclusive_owner = exclusive_owner
        self.arguments = arguments
        self.raw_arguments = raw_arguments
        self.is_deleted = False
        self.consumers: list[Consumer] = []
        self.unacked_count: i64 = 0
        self.next_seq: i64 = 1
        self._ready = ReadyList()
        self._ring = ConsumerRing()
        self._store = store
        self._dispatch = dispatch
        # Messages up to here have been delivered once; the log knows of those it has.
        self._delivered_seq: i64 = 0
        # The last message that the log has.
        self._stored_seq: i64 = 0

    @property
    def ready_count(self) -> int:
        """Messages that can be delivered."""
        return int(self._ready.count)

    @property
    def consumer_count(self) -> int:
        """Consumers that are subscribed, in line or not."""
        return len(self.consumers)

    @property
    def has_exclusive_consumer(self) -> bool:
        """Whether one consumer has the queue to itself."""
        return len(self.consumers) == 1 and self.consumers[0].exclusive

    # -- messages come and go -------------------------------------------------

    def publish(self, message: Message) -> None:
        """Take a message as the last one."""
        seq = self.next_seq
        self.next_seq = seq + 1
        if self.durable and message.facts & PERSISTENT:
            self._stored_seq = seq
            if message.number >= 0:
                self._store.add_destination(self.id, seq, LANE)
            else:
                message.number = self._store.append(
                    message.address,
                    message.content,
                    message.body,
                    message.enqueued_ms,
                    message.expires_ms,
                    self.id,
                    seq,
                    LANE,
                )
        self._ready.append(Reference(self, message, seq))
        if self._ring.count and not self.is_dirty:
            self._dispatch.mark(self)

    def restore(self, reference: Reference) -> None:
        """Take a recovered message, in the order of seq, before anything else."""
        self._ready.append(reference)
        self._stored_seq = reference.seq
        self.next_seq = reference.seq + 1

    def get(self, no_ack: bool) -> Reference | None:
        """Take the first message for basic.get; None when there is none."""
        if not self._ready.count:
            return None
        reference = self._ready.pop()
        if no_ack:
            self._forget(reference)
        else:
            self.unacked_count += 1
            self._note_delivered(reference)
        return reference

    def dispatch(self, messages_max: i64, size_max: i64) -> bool:
        """Deliver a bounded run; return whether more could be delivered now."""
        ready = self._ready
        ring = self._ring
        sent: i64 = 0
        size: i64 = 0
        while ready.count and sent < messages_max and size < size_max:
            consumer = ring.next()
            if consumer is None:
                break
            alone = ring.is_alone(consumer)
            no_ack = consumer.no_ack
            while True:
                reference = ready.pop()
                sent += 1
                size += reference.message.size
                if no_ack:
                    consumer.deliver(reference)
                    self._forget(reference)
                else:
                    reference.consumer = consumer
                    consumer.unacked_count += 1
                    self.unacked_count += 1
                    consumer.deliver(reference)
                if not alone or not ready.count or not consumer.has_room():
                    break
                if sent >= messages_max or size >= size_max:
                    break
            if not no_ack:
                self._note_delivered(reference)
        return ready.count > 0 and ring.count > 0

    def settle(self, reference: Reference) -> None:
        """An unacked reference is done with: acked, or rejected for good."""
        if self.is_deleted:
            return
        self.unacked_count -= 1
        self._forget(reference)

    def requeue(self, reference: Reference) -> None:
        """An unacked reference goes back to its place."""
        if self.is_deleted:
            return
        self.unacked_count -= 1
        reference.redelivered = True
        reference.consumer = None
        self._ready.put_back(reference)
        if self._ring.count and not self.is_dirty:
            self._dispatch.mark(self)

    def purge(self) -> int:
        """Drop all ready messages; return how many there were."""
        dropped = self._ready.take_all()
        for reference in dropped:
            self._forget(reference)
        return len(dropped)

    def drop_refused(self, seqs: set[int]) -> None:
        """Take out new messages that the disk refused, unless a consumer has them."""
        self._ready.remove(seqs)

    # -- consumers ------------------------------------------------------------

    def add_consumer(self, consumer: Consumer) -> None:
        """Subscribe a consumer; it gets messages from the next dispatch on.

        Raises:
            AccessRefused: somebody has, or would get, the queue exclusively.
        """
        if self.has_exclusive_consumer or (consumer.exclusive and self.consumers):
            raise AccessRefused(
                f"queue '{self.name}' in vhost '{self.vhost_name}' in exclusive use"
            )
        self.consumers.append(consumer)
        self.offer(consumer)

    def remove_consumer(self, consumer: Consumer) -> None:
        """End a subscription. What the consumer has unacked stays with its channel."""
        consumer.is_cancelled = True
        if consumer in self.consumers:
            self.consumers.remove(consumer)
        self._ring.remove(consumer)

    def offer(self, consumer: Consumer) -> None:
        """The consumer may have room again: it stands in line from now on."""
        if consumer.in_ring or consumer.is_cancelled:
            return
        self._ring.add(consumer)
        if self._ready.count and not self.is_dirty:
            self._dispatch.mark(self)

    # -- the end --------------------------------------------------------------

    def delete(self) -> int:
        """Drop everything and tell the consumers; return how many were ready.

        The caller has removed the name and, if the queue is durable, its row.
        """
        self.is_deleted = True
        count = len(self._ready.take_all())
        consumers = self.consumers
        self.consumers = []
        self._ring.clear()
        for consumer in consumers:
            consumer.is_cancelled = True
            consumer.on_queue_gone()
        self.unacked_count = 0
        if self.durable:
            self._store.forget_queue(self.id)
        return count

    # -- what the log is told -------------------------------------------------

    def _forget(self, reference: Reference) -> None:
        number = reference.message.number
        if number >= 0 and self.durable:
            self._store.settle(number, self.id, reference.seq)

    def _note_delivered(self, reference: Reference) -> None:
        """Everything up to this one, the last of a run, has been delivered once."""
        before = self._delivered_seq
        if reference.seq <= before:
            return
        self._delivered_seq = reference.seq
        if self._stored_seq > before:
            self._store.note_delivered(self.id, LANE, reference.seq)
