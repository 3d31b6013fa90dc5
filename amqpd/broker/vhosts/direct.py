"""Messages without a connection: published, taken and purged by the control plane.

The same checks in the same order as for a client's channel, on behalf of a session
whose connection is nobody's. What a publisher in confirm mode would be told is told to
`done`: a message that is routed is safe when it is called.
"""

from collections.abc import Callable
from typing import Final, final

from librt.strings import BytesWriter
from mypy_extensions import i64

from amqpd.broker.arguments import QUORUM, queue_type
from amqpd.broker.errors import (
    AmqpError,
    PreconditionFailed,
    PublishRejected,
    ResourceError,
    ResourceLocked,
)
from amqpd.broker.messages.message import Message
from amqpd.broker.messages.sender_selected import selected_keys, without_blind_copies
from amqpd.broker.ports import DurabilityWaiter
from amqpd.broker.queues.delivery import Reference
from amqpd.broker.queues.queue import Queue
from amqpd.broker.vhosts.deposit import Outcome, check_properties, deposit
from amqpd.broker.vhosts.session import Session
from amqpd.wire.frames import (
    BODY,
    FRAME_END,
    FRAMED_BODY_SIZE_MAX,
    HEAD_SIZE,
    HEADER,
    OVERHEAD,
    read_u32,
    write_head,
)
from amqpd.wire.properties import (
    ASKS_DIRECT_REPLY,
    HAS_BCC,
    HAS_CC,
    HAS_DEATH,
    walk_properties,
)
from amqpd.wire.rewriting import without_header

DEATH: Final = b"x-death"
SHORT_STRING_SIZE_MAX: Final = 255


#: Called with whether the message was routed, or with why it was not published.
PublishDone = Callable[[bool | AmqpError], None]
#: Called with None, or with why it has not happened.
Done = Callable[[AmqpError | None], None]


@final
class Durable(DurabilityWaiter):
    """Calls back when the disk has what was done."""

    def __init__(self, done: Done, refusal: str) -> None:
        self._done = done
        self._refusal = refusal

    def on_durable(self, first: i64, last: i64) -> None:
        """An fsync that covers it has returned."""
        self._done(None)

    def on_refused(self, first: i64, last: i64) -> None:
        """The disk would not take it."""
        self._done(ResourceError(self._refusal))


def publish(
    session: Session,
    exchange: str,
    routing_key: bytes,
    header: bytes,
    body: bytes,
    now_ms: int,
    done: PublishDone,
) -> None:
    """Publish a message; `header` is the payload of its content header.

    Raises:
        AmqpError: the user may not, there is no such exchange, or a property is wrong.
        SyntaxMalformed: the header is none.
    """
    route = session.find_route(_short(exchange.encode()) + _short(routing_key))
    content = framed(header, body)
    large = body if len(body) > FRAMED_BODY_SIZE_MAX else None
    facts = walk_properties(content, HEAD_SIZE, HEAD_SIZE + len(header))
    surroundings = session.vhost.surroundings
    if facts & HAS_DEATH and not surroundings.keeps_published_deaths:
        content = without_header(content, DEATH)
    if facts & ASKS_DIRECT_REPLY:
        raise PreconditionFailed("fast reply consumer does not exist")
    message = Message(route.address, content, large, facts, now_ms)
    check_properties(message, session.user, now_ms)
    queues = route.queues
    if facts & (HAS_CC | HAS_BCC):
        more_keys = selected_keys(message)
        message = without_blind_copies(message)
        queues = session.route_message(message, more_keys)
    elif route.asks_message:
        queues = session.route_message(message, [])
    is_seen = session.has_met_duplicate()
    outcome = deposit(message, queues, surroundings.keepers)
    if outcome is Outcome.REFUSED:
        done(PublishRejected("Unable to publish message. Check queue limits."))
        return
    session.note_taken()
    if message.number >= 0 or is_seen or outcome is Outcome.SEEN:
        waiter = Durable(
            lambda error: done(bool(queues) if error is None else error),
            "the disk refused the message",
        )
        surroundings.store.wait(waiter, 1, 1)
    else:
        done(bool(queues))


def purge(session: Session, name: str, done: Done) -> None:
    """Drop everything that is ready in a queue.

    Raises:
        AmqpError: the user may not, there is no such queue, or it is another's.
    """
    queue = session.readable_queue(name)
    if queue.purge() and queue.durable:
        waiter = Durable(done, "the disk refused the purge")
        session.vhost.surroundings.store.wait(waiter, 1, 1)
    else:
        done(None)


def take(session: Session, queue: Queue) -> Reference | None:
    """Take the first message of a queue as basic.get does; it is unacked then.

    Raises:
        AmqpError: the queue is not to be taken from so, or cannot be read.
    """
    check_get(queue)
    session.vhost.queue_used(queue)
    return queue.get(False)


def check_get(queue: Queue) -> None:
    """Check that messages may be taken without being a consumer.

    Raises:
        ResourceLocked: only one consumer at a time may have them.
    """
    if queue.has_single_active and queue_type(queue.arguments) == QUORUM:
        raise ResourceLocked(
            f"cannot obtain access to locked queue '{queue.name}' in vhost "
            f"'{queue.vhost_name}'. basic.get operations are not supported by quorum "
            "queues with single active consumer"
        )


def framed(header: bytes, body: bytes) -> bytes:
    """Return the canonical content: the header frame, and a small body's frame."""
    out = BytesWriter()
    write_head(out, HEADER, 0, len(header))
    out.write(header)
    out.append(FRAME_END)
    if 0 < len(body) <= FRAMED_BODY_SIZE_MAX:
        write_head(out, BODY, 0, len(body))
        out.write(body)
        out.append(FRAME_END)
    return out.getvalue()


def body_of(message: Message) -> bytes:
    """Return the body of a message."""
    if message.body is not None:
        return message.body
    body_at = read_u32(message.content, 3) + OVERHEAD + HEAD_SIZE
    return message.content[body_at:-1] if message.body_size() else b""


def names_of(message: Message) -> tuple[bytes, bytes]:
    """Return the exchange and the routing key that a message was published with."""
    address = message.address
    key_at = 1 + address[0]
    return address[1:key_at], address[key_at + 1 : key_at + 1 + address[key_at]]


def _short(octets: bytes) -> bytes:
    if len(octets) > SHORT_STRING_SIZE_MAX:
        raise PreconditionFailed("a name or routing key is longer than 255 octets")
    return bytes((len(octets),)) + octets
