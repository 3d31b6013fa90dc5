"""A channel: the two halves of its data plane, and the methods that steer them.

    Channel -- publishing   content in, confirms out      (publishing.py)
            -- consuming    deliveries out, acks in       (consuming.py)
            -- HANDLERS     everything that is not sent per message

Topology (classes exchange and queue) is in `declaring.py`. A channel that waits for
the disk is held: the connection keeps its frames and feeds them again afterwards.
"""

from collections.abc import Callable
from typing import Final, cast, final

from mypy_extensions import i64
from pamqp import commands
from pamqp.base import Frame

from amqpd.broker.arguments import Arguments
from amqpd.broker.clients.traffic import Traffic
from amqpd.broker.errors import (
    AmqpError,
    CommandInvalid,
    NotAllowed,
    NotImplementedHere,
    PreconditionFailed,
)
from amqpd.broker.queues.delivery import FAILED, REJECTED, REQUEUED
from amqpd.broker.queues.durability import Durability
from amqpd.broker.queues.queue import Queue
from amqpd.broker.vhosts.direct import check_get
from amqpd.broker.vhosts.firehose import DeliveryTrace
from amqpd.broker.vhosts.reply_queues import REPLY_TO
from amqpd.broker.vhosts.session import Session
from amqpd.protocol import consumer_arguments, declaring
from amqpd.protocol.consuming import ChannelConsumer, Consuming
from amqpd.protocol.delivery_timeout import DeliveryTimeout
from amqpd.protocol.durable_reply import DurableReply
from amqpd.protocol.output import Output
from amqpd.protocol.ports import ChannelFace, ConnectionFace
from amqpd.protocol.publishing import Publishing
from amqpd.protocol.transaction import Transaction
from amqpd.wire.methods import Decoded, encode_method
from amqpd.wire.tables import Table
from confirms.publisher import PublisherConfirms

# A transaction is one batch of the log and lands whole or not at all.
TRANSACTION_SIZE_MAX: Final = 128 * 1024 * 1024

TAG_PREFIX: Final = "amq.ctag-"


@final
class Channel(ChannelFace):
    """One open channel of a connection."""

    def __init__(
        self,
        number: i64,
        session: Session,
        output: Output,
        durability: Durability,
        body_size_max: i64,
        connection: ConnectionFace,
        touched: list[Publishing],
    ) -> None:
        super().__init__(number, session)
        self.traffic = Traffic()
        self.publishing = Publishing(
            number, session, output, durability, body_size_max, touched, self.traffic
        )
        self.consuming = Consuming(number, output, connection, self.traffic)
        self._surroundings = session.vhost.surroundings
        self._surroundings.churn.channels_opened += 1
        if session.vhost.firehose is not None:
            self.follow_tracing()
        self.name = f"{session.connection_name} ({number})"
        self.consuming.note_ends(self._surroundings.events, self.name, session.user)
        events = self._surroundings.events
        events.tell(
            "channel.created",
            {
                "name": self.name,
                "connection": session.connection_name,
                "number": int(number),
                "user": session.user.name,
                "vhost": session.vhost_name,
                "user_who_performed_action": session.user.name,
            },
        )
        self.durability = durability
        # We closed it: everything but the client's close and close-ok is ignored.
        self.is_closing = False
        self.is_closed = False
        # An alarm is on: its frames are looked at one by one.
        self.is_guarded = False
        # Frames that came while it was held, and their size.
        self.kept: list[bytes] = []
        self.kept_size: i64 = 0
        # The method that was handled last; while held, the one it is held for.
        self._method_id = 0
        self._output = output
        self._connection = connection

    def handle(self, method_id: int, decoded: Decoded) -> None:
        """Do what a method says.

        Raises:
            AmqpError: it is refused.
        """
        self._method_id = method_id
        handler = HANDLERS.get(method_id)
        if handler is None:
            raise CommandInvalid("unimplemented method")
        handler(self, decoded)

    def reply(self, method: Frame) -> None:
        """Send a method to the client."""
        if not self.is_closed:
            self._output.writer().write(encode_method(int(self.number), method))

    def hold(self) -> None:
        """Keep the frames that come next: the reply to this one must wait."""
        self.is_held = True
        self.is_ready = False
        self.consuming.hold()

    def release(self) -> None:
        """The reply is written; go on with the frames that were kept."""
        self.is_held = False
        if not self.is_closed:
            self.is_ready = not self.is_guarded
            self.consuming.release()
            self._connection.resume_channel(self.number)

    def guard(self) -> None:
        """An alarm is on: nothing is to be published unseen."""
        self.is_guarded = True
        self.is_ready = False

    def unguard(self) -> None:
        """Frames may be processed as they come, unless they wait for another reason."""
        self.is_guarded = False
        self.is_ready = not self.is_held and not self.is_closing

    def fail(self, error: AmqpError) -> None:
        """Close the channel or the connection: what was held for has failed."""
        self.is_held = False
        if not self.is_closed:
            self._connection.fail_channel(self.number, error, self._method_id)

    def follow_tracing(self) -> None:
        """The firehose of the virtual host was turned on or off."""
        session = self.session
        firehose = session.vhost.firehose
        trace = None
        if firehose is not None:
            user, connection = session.user.name, session.connection_name
            trace = DeliveryTrace(firehose, user, connection, self.number)
        self.consuming.set_trace(trace)

    def cancel_forbidden(self) -> None:
        """End the consumers that the user has lost the right to."""
        exempt = self.publishing.reply_queue
        for queue in self.consuming.cancel_forbidden(self.session, exempt):
            self.session.vhost.queue_unused(queue)

    def keep(self, frame: bytes) -> None:
        """Keep a frame for when the channel is not held any more."""
        self.kept.append(frame)
        self.kept_size += len(frame)

    def take_kept(self) -> bytes:
        """All frames that were kept, in order."""
        frames = b"".join(self.kept)
        self.kept = []
        self.kept_size = 0
        return frames

    def close(self) -> None:
        """End everything on the channel; unacked messages go back to their queues."""
        is_first = not self.is_closed
        self.is_closed = True
        self.is_held = False
        self.kept = []
        self.kept_size = 0
        self.publishing.close()
        for queue in self.consuming.close():
            self.session.vhost.queue_unused(queue)
        if is_first:
            self.session.leave_channel()
            self._surroundings.churn.channels_closed += 1
            self._surroundings.traffic.add(self.traffic)
            user = self.session.user.name
            headers: Table = {"name": self.name, "user_who_performed_action": user}
            self._surroundings.events.tell("channel.closed", headers)


# -- the channel itself -------------------------------------------------------


def _flow(channel: Channel, decoded: Decoded) -> None:
    method = cast(commands.Channel.Flow, decoded.method)
    if not method.active:
        raise NotImplementedHere("active=false")
    channel.reply(commands.Channel.FlowOk(True))


# -- publishing ---------------------------------------------------------------


def _confirm_select(channel: Channel, decoded: Decoded) -> None:
    method = cast(commands.Confirm.Select, decoded.method)
    if channel.publishing.transaction is not None:
        raise PreconditionFailed("cannot switch from tx to confirm mode")
    if channel.publishing.confirms is None:
        channel.publishing.confirms = PublisherConfirms()
    if not method.nowait:
        channel.reply(commands.Confirm.SelectOk())


def _tx_select(channel: Channel, decoded: Decoded) -> None:
    if channel.publishing.confirms is not None:
        raise PreconditionFailed("cannot switch from confirm to tx mode")
    if channel.publishing.transaction is None:
        transaction = Transaction(TRANSACTION_SIZE_MAX)
        channel.publishing.transaction = transaction
        channel.consuming.transaction = transaction
    channel.reply(commands.Tx.SelectOk())


def _transaction(channel: Channel) -> Transaction:
    transaction = channel.publishing.transaction
    if transaction is None:
        raise PreconditionFailed("channel is not transactional")
    return transaction


def _tx_commit(channel: Channel, decoded: Decoded) -> None:
    transaction = _transaction(channel)
    if not transaction.publications and not transaction.answers:
        channel.reply(commands.Tx.CommitOk())
        return
    is_whole = True
    for publication in transaction.publications:
        # Deleting a queue since then counts as having delivered to it.
        queues = [queue for queue in publication.queues if not queue.is_deleted]
        mandatory = publication.mandatory and not publication.queues
        if not channel.publishing.enqueue(publication.message, queues, mandatory):
            is_whole = False
    for answers in transaction.answers:
        channel.consuming.finish(answers.references, answers.outcome)
    transaction.clear()
    if not is_whole:
        raise PreconditionFailed("partial tx completion")
    channel.hold()
    reply = DurableReply(
        channel,
        commands.Tx.CommitOk(),
        "the disk refused the transaction; nothing of it is kept",
    )
    channel.durability.wait(reply, 1, 1)


def _tx_rollback(channel: Channel, decoded: Decoded) -> None:
    transaction = _transaction(channel)
    for answers in transaction.answers:
        channel.consuming.restore(answers.references)
    transaction.clear()
    channel.reply(commands.Tx.RollbackOk())


# -- consuming ----------------------------------------------------------------


def _qos(channel: Channel, decoded: Decoded) -> None:
    method = cast(commands.Basic.Qos, decoded.method)
    if method.prefetch_size:
        raise NotImplementedHere(f"prefetch_size!=0 ({method.prefetch_size})")
    count = method.prefetch_count or 0
    if method.global_:
        channel.consuming.set_prefetch(count)
    else:
        channel.consuming.consumer_prefetch = count
    channel.reply(commands.Basic.QosOk())


def _consume(channel: Channel, decoded: Decoded) -> None:
    method = cast(commands.Basic.Consume, decoded.method)
    consuming = channel.consuming
    session = channel.session
    session.check_consumer(len(consuming.consumers))
    tag = method.consumer_tag or session.new_name(TAG_PREFIX)
    arguments = Arguments(cast(Table, method.arguments or {}), decoded.raw_arguments)
    if method.queue == REPLY_TO:
        _check_reply_consumer(channel, bool(method.no_ack))
        arguments = Arguments({}, b"")
    if tag in consuming.consumers:
        raise NotAllowed(f"attempt to reuse consumer tag '{tag}'")
    queue = _source(channel, method)
    consumer_arguments.check_type(queue, arguments)
    consumer_arguments.check_timeout(queue, arguments)
    consumer = ChannelConsumer(
        consuming,
        queue,
        tag,
        bool(method.no_ack),
        bool(method.exclusive),
        consumer_arguments.priority(queue, arguments),
        consuming.consumer_prefetch,
        arguments.table,
    )
    queue.add_consumer(consumer)
    consuming.add(consumer)
    session.vhost.surroundings.events.consumer_created(
        consumer, queue, channel.name, session.user.name
    )
    if not consumer.no_ack:
        timers = session.vhost.surroundings.timers
        consumer.watch = DeliveryTimeout(consuming, consumer, timers)
    if not method.nowait:
        channel.reply(commands.Basic.ConsumeOk(tag))


def _check_reply_consumer(channel: Channel, no_ack: bool) -> None:
    """One consumer of a channel may get direct replies, and cannot ack them."""
    if not no_ack:
        raise PreconditionFailed("reply consumer cannot acknowledge")
    queue = channel.publishing.reply_queue
    if queue is not None and not queue.is_deleted:
        raise PreconditionFailed("reply consumer already set")


def _source(channel: Channel, method: commands.Basic.Consume) -> Queue:
    """Return the queue that a consumer is to be added to."""
    session = channel.session
    if method.queue == REPLY_TO:
        queue = session.vhost.reply_queues.open()
        channel.publishing.reply_queue = queue
        return queue
    return session.readable_queue(declaring.queue_name(channel, method))


def _cancel(channel: Channel, decoded: Decoded) -> None:
    method = cast(commands.Basic.Cancel, decoded.method)
    tag = method.consumer_tag or ""
    queue = channel.consuming.cancel(tag)
    if queue is not None:
        channel.session.vhost.queue_unused(queue)
    if not method.nowait:
        channel.reply(commands.Basic.CancelOk(tag))


def _get(channel: Channel, decoded: Decoded) -> None:
    method = cast(commands.Basic.Get, decoded.method)
    session = channel.session
    queue = session.readable_queue(declaring.queue_name(channel, method))
    check_get(queue)
    session.vhost.queue_used(queue)
    reference = queue.get(bool(method.no_ack))
    if reference is None:
        channel.traffic.get_empty += 1
        channel.reply(commands.Basic.GetEmpty())
    else:
        channel.consuming.write_get_ok(queue, reference, bool(method.no_ack))


def _nack(channel: Channel, decoded: Decoded) -> None:
    method = cast(commands.Basic.Nack, decoded.method)
    outcome = REQUEUED if method.requeue else REJECTED
    channel.consuming.reject(method.delivery_tag or 0, bool(method.multiple), outcome)


def _reject(channel: Channel, decoded: Decoded) -> None:
    method = cast(commands.Basic.Reject, decoded.method)
    outcome = FAILED if method.requeue else REJECTED
    channel.consuming.reject(method.delivery_tag or 0, False, outcome)


def _recover_async(channel: Channel, decoded: Decoded) -> None:
    method = cast(commands.Basic.RecoverAsync, decoded.method)
    _recover_with(channel, bool(method.requeue))


def _recover(channel: Channel, decoded: Decoded) -> None:
    method = cast(commands.Basic.Recover, decoded.method)
    _recover_with(channel, bool(method.requeue))
    channel.reply(commands.Basic.RecoverOk())


def _recover_with(channel: Channel, requeue: bool) -> None:
    if not requeue:
        raise NotImplementedHere("requeue=false")
    channel.consuming.recover()


Handler = Callable[[Channel, Decoded], None]

# basic.publish and basic.ack are not here: the connection knows them by sight.
HANDLERS: Final[dict[int, Handler]] = {
    0x00140014: _flow,
    0x0028000A: declaring.exchange_declare,
    0x00280014: declaring.exchange_delete,
    0x0028001E: declaring.exchange_bind,
    0x00280028: declaring.exchange_unbind,
    0x0032000A: declaring.queue_declare,
    0x00320014: declaring.queue_bind,
    0x0032001E: declaring.queue_purge,
    0x00320028: declaring.queue_delete,
    0x00320032: declaring.queue_unbind,
    0x003C000A: _qos,
    0x003C0014: _consume,
    0x003C001E: _cancel,
    0x003C0046: _get,
    0x003C005A: _reject,
    0x003C0064: _recover_async,
    0x003C006E: _recover,
    0x003C0078: _nack,
    0x0055000A: _confirm_select,
    0x005A000A: _tx_select,
    0x005A0014: _tx_commit,
    0x005A001E: _tx_rollback,
}
