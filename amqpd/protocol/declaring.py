"""The methods of the classes exchange and queue: what a channel declares and binds.

A handler takes a method apart, hands the wish to the virtual host and answers when it
is done, often at once. When it waits for the disk, the channel is held until the
answer is written, so the client's next methods find what this one made. What is
allowed, and in which order things happen, is the virtual host's business.
"""

from typing import Final, Protocol, cast, final

from pamqp import commands
from pamqp.base import Frame

from amqpd.broker.arguments import Arguments
from amqpd.broker.errors import AmqpError, NotFound
from amqpd.broker.exchange import Exchange
from amqpd.broker.queues.queue import Queue
from amqpd.broker.vhosts.queue_changes import QueueProperties
from amqpd.broker.vhosts.reply_queues import is_reply_name
from amqpd.protocol.durable_reply import DurableReply
from amqpd.protocol.ports import ChannelFace
from amqpd.wire.methods import Decoded
from amqpd.wire.tables import Table

PURGE_REFUSED: Final = "the disk refused the purge; the messages come back"


class NamesQueue(Protocol):
    """A method that names a queue; an empty name is the last one declared."""

    queue: str


@final
class Answer:
    """What a client is told of an operation, at once or when the disk has it."""

    def __init__(self, channel: ChannelFace, method: Frame | None) -> None:
        self._channel = channel
        # None: the client asked for no reply.
        self._method = method
        self._is_held = False
        self._is_done = False
        self._error: AmqpError | None = None

    def on_done(self, error: AmqpError | None) -> None:
        """The operation is over."""
        if error is None:
            self._succeed(self._method)
        else:
            self._fail(error)

    def on_queue_declared(self, outcome: Queue | AmqpError) -> None:
        """There is such a queue, or an error why not."""
        if isinstance(outcome, AmqpError):
            self._fail(outcome)
            return
        self._channel.last_queue_name = outcome.name
        if self._method is None:
            self._succeed(None)
        else:
            self._succeed(_declare_ok(outcome))

    def on_queue_deleted(self, outcome: int | AmqpError) -> None:
        """The queue is gone with so many messages, or an error why not."""
        if isinstance(outcome, AmqpError):
            self._fail(outcome)
        elif self._method is None:
            self._succeed(None)
        else:
            self._succeed(commands.Queue.DeleteOk(outcome))

    def wait(self) -> None:
        """The operation was begun: hold the channel unless it is over.

        Raises:
            AmqpError: it was refused.
        """
        if self._error is not None:
            raise self._error
        if not self._is_done:
            self._is_held = True
            self._channel.hold()

    def _succeed(self, method: Frame | None) -> None:
        self._is_done = True
        if method is not None:
            self._channel.reply(method)
        if self._is_held:
            self._channel.release()

    def _fail(self, error: AmqpError) -> None:
        self._is_done = True
        if self._is_held:
            self._channel.fail(error)
        else:
            self._error = error


def queue_name(channel: ChannelFace, method: NamesQueue) -> str:
    """Return the queue that a method is about.

    Raises:
        NotFound: it names none, and none was declared on this channel.
    """
    if method.queue:
        return method.queue
    if not channel.last_queue_name:
        raise NotFound("no previously declared queue")
    return channel.last_queue_name


# -- exchanges ----------------------------------------------------------------


def exchange_declare(channel: ChannelFace, decoded: Decoded) -> None:
    """exchange.declare."""
    method = cast(commands.Exchange.Declare, decoded.method)
    answer = Answer(channel, None if method.nowait else commands.Exchange.DeclareOk())
    vhost = channel.session.vhost
    if method.passive:
        vhost.check_exchange(method.exchange, answer.on_done)
    else:
        exchange = Exchange(
            method.exchange,
            method.exchange_type,
            method.durable,
            method.auto_delete,
            method.internal,
            _arguments(method.arguments, decoded),
        )
        vhost.declare_exchange(channel.session, exchange, answer.on_done)
    answer.wait()


def exchange_delete(channel: ChannelFace, decoded: Decoded) -> None:
    """exchange.delete."""
    method = cast(commands.Exchange.Delete, decoded.method)
    answer = Answer(channel, None if method.nowait else commands.Exchange.DeleteOk())
    channel.session.vhost.delete_exchange(
        channel.session, method.exchange, method.if_unused, answer.on_done
    )
    answer.wait()


def exchange_bind(channel: ChannelFace, decoded: Decoded) -> None:
    """exchange.bind."""
    method = cast(commands.Exchange.Bind, decoded.method)
    answer = Answer(channel, None if method.nowait else commands.Exchange.BindOk())
    channel.session.vhost.bind(
        channel.session,
        method.source,
        method.destination,
        True,
        method.routing_key.encode(),
        _arguments(method.arguments, decoded),
        answer.on_done,
    )
    answer.wait()


def exchange_unbind(channel: ChannelFace, decoded: Decoded) -> None:
    """exchange.unbind."""
    method = cast(commands.Exchange.Unbind, decoded.method)
    answer = Answer(channel, None if method.nowait else commands.Exchange.UnbindOk())
    channel.session.vhost.unbind(
        channel.session,
        method.source,
        method.destination,
        True,
        method.routing_key.encode(),
        _arguments(method.arguments, decoded),
        answer.on_done,
    )
    answer.wait()


# -- queues -------------------------------------------------------------------


def queue_declare(channel: ChannelFace, decoded: Decoded) -> None:
    """queue.declare."""
    method = cast(commands.Queue.Declare, decoded.method)
    if is_reply_name(method.queue):
        _declare_reply_queue(channel, method)
        return
    answer = Answer(
        channel, None if method.nowait else commands.Queue.DeclareOk("", 0, 0)
    )
    vhost = channel.session.vhost
    if method.passive:
        vhost.check_queue(channel.session, method.queue, answer.on_queue_declared)
    else:
        properties = QueueProperties(
            method.durable,
            method.exclusive,
            method.auto_delete,
            _arguments(method.arguments, decoded),
        )
        vhost.declare_queue(
            channel.session, method.queue, properties, answer.on_queue_declared
        )
    answer.wait()


def _declare_reply_queue(channel: ChannelFace, method: commands.Queue.Declare) -> None:
    """Every declaration of it is a question: does somebody await replies there?"""
    channel.session.vhost.reply_queues.check(method.queue)
    channel.last_queue_name = method.queue
    if not method.nowait:
        channel.reply(commands.Queue.DeclareOk(method.queue, 0, 1))


def queue_delete(channel: ChannelFace, decoded: Decoded) -> None:
    """queue.delete."""
    method = cast(commands.Queue.Delete, decoded.method)
    answer = Answer(channel, None if method.nowait else commands.Queue.DeleteOk(0))
    channel.session.vhost.delete_queue(
        channel.session,
        queue_name(channel, method),
        method.if_unused,
        method.if_empty,
        answer.on_queue_deleted,
    )
    answer.wait()


def queue_bind(channel: ChannelFace, decoded: Decoded) -> None:
    """queue.bind."""
    method = cast(commands.Queue.Bind, decoded.method)
    answer = Answer(channel, None if method.nowait else commands.Queue.BindOk())
    name = queue_name(channel, method)
    # No queue and no key: the last queue, under its own name.
    is_short = not method.queue and not method.routing_key
    channel.session.vhost.bind(
        channel.session,
        method.exchange,
        name,
        False,
        (name if is_short else method.routing_key).encode(),
        _arguments(method.arguments, decoded),
        answer.on_done,
    )
    answer.wait()


def queue_unbind(channel: ChannelFace, decoded: Decoded) -> None:
    """queue.unbind; it has no nowait."""
    method = cast(commands.Queue.Unbind, decoded.method)
    answer = Answer(channel, commands.Queue.UnbindOk())
    name = queue_name(channel, method)
    is_short = not method.queue and not method.routing_key
    channel.session.vhost.unbind(
        channel.session,
        method.exchange,
        name,
        False,
        (name if is_short else method.routing_key).encode(),
        _arguments(method.arguments, decoded),
        answer.on_done,
    )
    answer.wait()


def queue_purge(channel: ChannelFace, decoded: Decoded) -> None:
    """queue.purge: what is gone is gone on the disk too when the client is told."""
    method = cast(commands.Queue.Purge, decoded.method)
    queue = channel.session.readable_queue(queue_name(channel, method))
    count = queue.purge()
    reply = None if method.nowait else commands.Queue.PurgeOk(count)
    if queue.durable and count:
        channel.hold()
        waiter = DurableReply(channel, reply, PURGE_REFUSED)
        channel.session.vhost.surroundings.store.wait(waiter, 1, 1)
    elif reply is not None:
        channel.reply(reply)


def _declare_ok(queue: Queue) -> commands.Queue.DeclareOk:
    # Set one by one: pamqp's constructor refuses names that RabbitMQ allows.
    method = commands.Queue.DeclareOk()
    method.queue = queue.name
    method.message_count = queue.ready_count
    method.consumer_count = queue.consumer_count
    return method


def _arguments(table: object, decoded: Decoded) -> Arguments:
    return Arguments(cast(Table, table or {}), decoded.raw_arguments)
