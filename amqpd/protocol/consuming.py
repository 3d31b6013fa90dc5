"""What one channel is delivered: consumers, unacked deliveries, limits.

A consumer has room when its own limit and the channel's have, when the channel is not
held and when the connection's output is below its mark. What it lacks decides who
offers it to its queue again: an ack for its own limit, `_wake` for the channel's, the
output for the output's. Ledger entries are the queues' references themselves, so an ack
costs no lookup: the reference knows its queue and its consumer.
"""

from typing import Final, final

from librt.strings import write_i64_be
from mypy_extensions import i64
from pamqp import commands

from amqpd.auth.users import User
from amqpd.broker.clients.traffic import Traffic
from amqpd.broker.errors import PreconditionFailed
from amqpd.broker.events import Events
from amqpd.broker.queues.delivery import (
    ACKED,
    FAILED,
    REJECTED,
    REQUEUED,
    Consumer,
    Reference,
)
from amqpd.broker.queues.queue import Queue
from amqpd.broker.timers import Timed
from amqpd.broker.vhosts.firehose import DeliveryTrace
from amqpd.broker.vhosts.session import Session
from amqpd.protocol.output import PIECE_SIZE_MIN, Output
from amqpd.protocol.ports import ConnectionFace
from amqpd.protocol.sending import (
    DeliverHead,
    write_content,
    write_frames,
    write_get_ok,
)
from amqpd.protocol.transaction import Transaction
from amqpd.wire.methods import encode_method
from confirms.errors import UnknownDeliveryTag
from confirms.unacked import Unacked

# So many answers that come too late are known for a channel.
OVERDUE_MAX: Final = 65536


class ConsumerWatch(Timed):
    """Who watches how long a consumer keeps its deliveries."""

    def on_rules_changed(self) -> None:
        """The queue may have another timeout now."""
        raise NotImplementedError


@final
class ChannelConsumer(Consumer):
    """A consumer on a channel."""

    def __init__(
        self,
        consuming: "Consuming",
        queue: Queue,
        tag: str,
        no_ack: bool,
        exclusive: bool,
        priority: int,
        prefetch: i64,
        arguments: dict[str, object],
    ) -> None:
        super().__init__(queue, tag, no_ack, exclusive, priority, prefetch, arguments)
        self._consuming = consuming
        self._head = DeliverHead(consuming.number, tag.encode())
        # The same queue, known to be one: the base knows it by its face.
        self.source = queue
        # Until the subscription ends; then the watch sees to what is unacked by itself.
        self.watch: ConsumerWatch | None = None

    def has_room(self) -> bool:
        """Whether it can take one more message now."""
        consuming = self._consuming
        if not self.no_ack:
            if self.prefetch and self.unacked_count >= self.prefetch:
                return False
            if consuming.prefetch and consuming.unacked_count >= consuming.prefetch:
                consuming.wait_for_room(self)
                return False
        if consuming.is_held:
            consuming.wait_for_room(self)
            return False
        if not consuming.output.has_room():
            consuming.output.wait_for_room(self)
            return False
        return True

    def deliver(self, reference: Reference) -> None:
        """Write basic.deliver and the content."""
        consuming = self._consuming
        traffic = consuming.traffic
        if self.no_ack:
            delivery_tag = consuming.unacked.skip(1)
            traffic.delivered_no_ack += 1
        else:
            delivery_tag = consuming.unacked.add(reference)
            reference.delivery_tag = delivery_tag
            consuming.unacked_count += 1
            traffic.delivered += 1
        message = reference.message
        output = consuming.output
        out = output.writer()
        out.write(self._head.for_address(message.address))
        write_i64_be(out, delivery_tag)
        if reference.redelivered:
            traffic.redelivered += 1
            out.append(1)
        else:
            out.append(0)
        out.write(message.address)
        content = message.content
        if (
            message.channel == consuming.own_channel
            and message.body is None
            and len(content) <= output.frame_max
        ):
            if len(content) < PIECE_SIZE_MIN:
                out.write(content)
            else:
                output.insert(content)
        else:
            write_content(output, consuming.number, message)
            if consuming.trace is not None:
                consuming.trace.on_deliver(
                    message, self.source.name, reference.redelivered
                )

    def pass_on(self, address: bytes, content: bytes, channel: i64) -> bool:
        """Write what no queue has ever held, if it wants no ack and there is room."""
        consuming = self._consuming
        output = consuming.output
        if not self.no_ack or consuming.is_held or consuming.trace is not None:
            return False
        if not output.has_room_to_pass():
            return False
        consuming.traffic.delivered_no_ack += 1
        out = output.writer()
        out.write(self._head.for_address(address))
        write_i64_be(out, consuming.unacked.skip(1))
        out.append(0)
        out.write(address)
        if channel == consuming.number and len(content) <= output.frame_max:
            if len(content) < PIECE_SIZE_MIN:
                out.write(content)
            else:
                output.insert(content)
        else:
            write_frames(output, consuming.number, content, channel)
        output.note_passed()
        return True

    def on_rules_changed(self) -> None:
        """The queue may have another timeout now."""
        if self.watch is not None:
            self.watch.on_rules_changed()

    def on_queue_gone(self) -> None:
        """Forget the subscription; tell the client if it understands that."""
        self._consuming.on_queue_gone(self)


@final
class Consuming:
    """The consuming half of a channel."""

    def __init__(
        self,
        number: i64,
        output: Output,
        connection: ConnectionFace,
        traffic: Traffic,
    ) -> None:
        self.number: i64 = number
        self.traffic = traffic
        # What was published on this channel can be forwarded as it is; -1: nothing, so
        # that all deliveries come by the place where they are traced.
        self.own_channel: i64 = number
        self.trace: DeliveryTrace | None = None
        self.output = output
        self.unacked: Unacked[Reference] = Unacked()
        self.consumers: dict[str, ChannelConsumer] = {}
        # The limit of each consumer that comes (basic.qos without global).
        self.consumer_prefetch: i64 = 0
        # The limit of the whole channel (basic.qos with global), and what counts for
        # it: deliveries to consumers, cancelled ones too, not no-ack nor basic.get.
        self.prefetch: i64 = 0
        self.unacked_count: i64 = 0
        self.is_held = False
        self.transaction: Transaction | None = None
        self._connection = connection
        self._waiting: list[Consumer] = []
        self._events: Events | None = None
        self._channel_name = ""
        self._user: User | None = None
        # Who did not answer these deliveries in time: they are in their queues again,
        # but as long as the client does not answer they count for the limits.
        self._overdue: dict[int, Consumer] = {}

    # -- consumers ------------------------------------------------------------

    def add(self, consumer: ChannelConsumer) -> None:
        """Take in a consumer that its queue has accepted."""
        self.consumers[consumer.tag] = consumer

    def note_ends(self, events: Events, channel_name: str, user: User) -> None:
        """From here on note when a consumer ends."""
        self._events = events
        self._channel_name = channel_name
        self._user = user

    def _note_end(self, consumer: ChannelConsumer) -> None:
        events, user = self._events, self._user
        if events is not None and user is not None:
            events.consumer_deleted(
                consumer.tag, consumer.source, self._channel_name, user.name
            )

    def cancel(self, tag: str) -> Queue | None:
        """End a consumer; return its queue if there was one."""
        consumer = self.consumers.pop(tag, None)
        if consumer is None:
            return None
        consumer.watch = None
        consumer.source.remove_consumer(consumer)
        self._note_end(consumer)
        return consumer.source

    def on_queue_gone(self, consumer: ChannelConsumer) -> None:
        """The queue of a consumer was deleted."""
        consumer.watch = None
        self.consumers.pop(consumer.tag, None)
        self._note_end(consumer)
        if self._connection.can_be_cancelled():
            method = commands.Basic.Cancel(consumer.tag, True)
            self.output.writer().write(encode_method(self.number, method))

    def set_trace(self, trace: DeliveryTrace | None) -> None:
        """Tell of each delivery from here on, or (None) of none."""
        self.trace = trace
        self.own_channel = self.number if trace is None else -1

    def cancel_forbidden(self, session: Session, exempt: Queue | None) -> list[Queue]:
        """End the consumers that the user may not have any more; return their queues.

        Those of `exempt` need no right.
        """
        queues: list[Queue] = []
        for consumer in list(self.consumers.values()):
            queue = consumer.source
            if queue is not exempt and not session.may_read("queue", queue.name):
                queue.remove_consumer(consumer)
                self.on_queue_gone(consumer)
                queues.append(queue)
        return queues

    def set_prefetch(self, prefetch: i64) -> None:
        """Change the limit of the whole channel; it applies at once."""
        self.prefetch = prefetch
        self._wake()

    def hold(self) -> None:
        """Deliver nothing until `release`."""
        self.is_held = True

    def release(self) -> None:
        """Deliver again."""
        self.is_held = False
        self._wake()

    def wait_for_room(self, consumer: Consumer) -> None:
        """Offer the consumer to its queue again when the channel has room."""
        if not consumer.is_waiting:
            consumer.is_waiting = True
            self._waiting.append(consumer)

    def _wake(self) -> None:
        if not self._waiting or self.is_held:
            return
        if self.prefetch and self.unacked_count >= self.prefetch:
            return
        waiting = self._waiting
        self._waiting = []
        for consumer in waiting:
            consumer.is_waiting = False
            consumer.queue.offer(consumer)

    # -- acks -----------------------------------------------------------------

    def ack(self, delivery_tag: i64, multiple: bool) -> None:
        """basic.ack.

        Raises:
            PreconditionFailed: no such delivery is outstanding.
        """
        self._answer(self._take(delivery_tag, multiple), ACKED)

    def reject(self, delivery_tag: i64, multiple: bool, outcome: i64) -> None:
        """basic.nack and basic.reject.

        Raises:
            PreconditionFailed: no such delivery is outstanding.
        """
        self._answer(self._take(delivery_tag, multiple), outcome)

    def _take(self, delivery_tag: i64, multiple: bool) -> list[Reference]:
        try:
            if multiple:
                taken = self.unacked.take_through(delivery_tag)
            else:
                taken = [self.unacked.take(delivery_tag)]
        except UnknownDeliveryTag:
            if int(delivery_tag) not in self._overdue:
                tag = int(delivery_tag) & 0xFFFFFFFFFFFFFFFF
                raise PreconditionFailed(f"unknown delivery tag {tag}") from None
            taken = self._take_before(delivery_tag) if multiple else []
        if self._overdue:
            self._forget_overdue(delivery_tag, multiple)
        return taken

    def _take_before(self, delivery_tag: i64) -> list[Reference]:
        references = self.unacked.outstanding_before(delivery_tag)
        for reference in references:
            self.unacked.take(reference.delivery_tag)
        return references

    def give_back_overdue(self, consumer: Consumer, before_tag: i64) -> int:
        """Requeue what a consumer was delivered before a tag and has not answered.

        Returns how many there were. A late answer is accepted and means nothing.
        """
        count = 0
        for reference in self.unacked.outstanding_before(before_tag):
            if reference.consumer is consumer:
                count += 1
                self.unacked.take(reference.delivery_tag)
                self._overdue[int(reference.delivery_tag)] = consumer
                reference.queue.requeue(reference)
        while len(self._overdue) > OVERDUE_MAX:
            # A client that never answers, and has no limit.
            self._forget_overdue(next(iter(self._overdue)), False)
        return count

    def _forget_overdue(self, delivery_tag: i64, multiple: bool) -> None:
        """The client has answered: its limits have room for what is not overdue."""
        overdue = self._overdue
        answered = [int(delivery_tag)]
        if multiple:
            answered = [tag for tag in overdue if not 0 < delivery_tag < tag]
        for tag in answered:
            consumer = overdue.pop(tag, None)
            if consumer is not None:
                self.unacked_count -= 1
                consumer.unacked_count -= 1
                consumer.queue.offer(consumer)
        self._wake()

    def _answer(self, references: list[Reference], outcome: i64) -> None:
        transaction = self.transaction
        if transaction is not None:
            transaction.add_answers(references, outcome)
        else:
            self.finish(references, outcome)

    def finish(self, references: list[Reference], outcome: i64) -> None:
        """Do with deliveries that have left the ledger what the client has said."""
        if outcome == ACKED:
            self._settle(references)
            return
        for reference in references:
            consumer = reference.consumer
            if outcome == REQUEUED:
                reference.queue.requeue(reference)
            elif outcome == REJECTED:
                reference.queue.reject(reference)
            else:
                reference.queue.requeue(reference, True)
            if consumer is not None:
                self.unacked_count -= 1
                consumer.unacked_count -= 1
                if not consumer.in_ring:
                    consumer.queue.offer(consumer)
        if self._waiting:
            self._wake()

    def _settle(self, references: list[Reference]) -> None:
        """Settle what was acked, at once what a consumer had of a queue in a row."""
        self.traffic.acked += len(references)
        start: i64 = 0
        count: i64 = len(references)
        while start < count:
            queue, consumer = references[start].queue, references[start].consumer
            end = start + 1
            while end < count:
                reference = references[end]
                if reference.queue is not queue or reference.consumer is not consumer:
                    break
                end += 1
            queue.settle_run(references, start, end)
            if consumer is not None:
                self.unacked_count -= end - start
                consumer.unacked_count -= end - start
                if not consumer.in_ring:
                    consumer.queue.offer(consumer)
            start = end
        if self._waiting:
            self._wake()

    def restore(self, references: list[Reference]) -> None:
        """Put deliveries back into the ledger: their acks were rolled back."""
        for reference in references:
            self.unacked.restore(reference.delivery_tag, reference)

    def recover(self, outcome: i64 = REQUEUED) -> None:
        """basic.recover: everything unacked goes back to its queue."""
        self._forget_overdue(0, True)
        self.finish(self.unacked.take_all(), outcome)

    def write_get_ok(self, queue: Queue, reference: Reference, no_ack: bool) -> None:
        """Answer basic.get with a message that was taken from its queue."""
        if reference.redelivered:
            self.traffic.redelivered += 1
        if self.trace is not None:
            name, redelivered = queue.name, reference.redelivered
            self.trace.on_deliver(reference.message, name, redelivered)
        if no_ack:
            self.traffic.got_no_ack += 1
            delivery_tag = self.unacked.skip(1)
        else:
            self.traffic.got += 1
            delivery_tag = self.unacked.add(reference)
            reference.delivery_tag = delivery_tag
        write_get_ok(
            self.output,
            self.number,
            reference.message,
            delivery_tag,
            reference.redelivered,
            queue.ready_count,
        )

    def close(self) -> list[Queue]:
        """End all consumers, requeue all that is unacked; return their queues."""
        queues: list[Queue] = []
        for consumer in self.consumers.values():
            consumer.watch = None
            consumer.source.remove_consumer(consumer)
            self._note_end(consumer)
            queues.append(consumer.source)
        self.consumers.clear()
        if self.transaction is not None:
            for answers in self.transaction.answers:
                self.finish(answers.references, FAILED)
            self.transaction.clear()
        self.recover(FAILED)
        return queues
