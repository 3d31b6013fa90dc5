"""Messages by hand: published to an exchange, taken from a queue, purged.

What is published is routed and safe when the answer says so. What is taken is given
back to its place or gone, as the request says, when the answer is on its way.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Final

from amqpd.broker.errors import AmqpError
from amqpd.broker.queues.delivery import Reference
from amqpd.broker.queues.queue import Queue
from amqpd.broker.vhosts.direct import publish, purge, take
from amqpd.broker.vhosts.session import Session
from amqpd.http import fields
from amqpd.http.answer import NO_CONTENT, Answer, encode, json_answer
from amqpd.http.api.queues import queue_of
from amqpd.http.call import Call
from amqpd.http.endpoint import Endpoint, Need
from amqpd.http.errors import BadRequest, channel_refusal, refusal
from amqpd.http.message_json import header_of, message_facts, payload_in
from amqpd.http.pace import Pace
from amqpd.wire.errors import WireError

#: So many at a time, and so many octets: who wants more asks again, or consumes.
COUNT_MAX: Final = 10_000
SIZE_MAX: Final = 64 * 1024 * 1024

ACKED: Final = "ack_requeue_false"
REJECTED: Final = "reject_requeue_false"
RETURNED: Final = ("ack_requeue_true", "reject_requeue_true")
ACK_MODES: Final = (ACKED, REJECTED, *RETURNED)


async def publish_message(call: Call) -> Answer:
    """Publish; says whether the message was routed."""
    body = await call.body_with(
        "routing_key", "properties", "payload", "payload_encoding"
    )
    payload = payload_in(body)
    header = header_of(body["properties"], len(payload))
    exchange = call.name("exchange")
    routing_key = fields.text(body, "routing_key").encode("utf-8", "surrogateescape")
    session = call.session(call.vhost())
    now_ms = call.room.now_ms()
    try:
        routed = await call.ask(
            bool,
            lambda done: publish(
                session, exchange, routing_key, header, payload, now_ms, done
            ),
        )
    except AmqpError as error:
        told = f"{error.reply_code} {error.reply_name} - {error.text}"
        raise BadRequest(told) from None
    except WireError as malformed:
        raise BadRequest(str(malformed)) from None
    finally:
        session.close()
    return json_answer({"routed": routed})


async def purge_queue(call: Call) -> Answer:
    """Drop all messages that are ready."""
    queue = queue_of(call)
    session = call.session(call.vhost())
    try:
        await call.change(lambda done: purge(session, queue.name, done))
    except AmqpError as error:
        raise refusal(error) from None
    finally:
        session.close()
    return NO_CONTENT


@dataclass(frozen=True)
class _Wish:
    """What a request wants of the messages of a queue."""

    count: int
    ack_mode: str
    as_base64: bool
    truncate: int | None


async def _wish_of(call: Call) -> _Wish:
    body = await call.body()
    if "ackmode" not in body and "requeue" in body:
        # As it was called before there were four ways.
        requeue = fields.flag(body, "requeue")
        body["ackmode"] = RETURNED[0] if requeue else ACKED
    fields.require(body, "ackmode", "count", "encoding")
    if body["encoding"] not in ("auto", "base64"):
        raise BadRequest("Unsupported encoding. Please use auto or base64.")
    if body["ackmode"] not in ACK_MODES:
        raise BadRequest(["unknown_ackmode", body["ackmode"]])
    truncate = None
    if body.get("truncate") is not None:
        truncate = fields.count(body, "truncate", SIZE_MAX)
    count = fields.count(body, "count", COUNT_MAX)
    return _Wish(count, body["ackmode"], body["encoding"] == "base64", truncate)


async def get_messages(call: Call) -> Answer:
    """Take messages, and give them back or not."""
    wish = await _wish_of(call)
    session = call.session(call.vhost())
    taken: deque[Reference] = deque()
    ack_mode = RETURNED[0]
    pace = Pace()
    try:
        queue = session.readable_queue(call.name("queue"))
        found = await _take(session, queue, wish, taken, pace)
        ack_mode = wish.ack_mode
        while taken:
            _answer_for(taken.popleft(), ack_mode)
            await pace.step()
    except AmqpError as error:
        raise channel_refusal(error) from None
    finally:
        # Whatever happens, what was taken does not stay with nobody.
        for reference in taken:
            _answer_for(reference, ack_mode)
        session.close()
        call.room.wake()
    return Answer(b"[" + b",".join(found) + b"]")


async def _take(
    session: Session, queue: Queue, wish: _Wish, taken: deque[Reference], pace: Pace
) -> list[bytes]:
    """Take messages, and return what is said of each as JSON."""
    found: list[bytes] = []
    size = 0
    while len(taken) < wish.count and size < SIZE_MAX and not queue.is_deleted:
        reference = take(session, queue)
        if reference is None:
            break
        taken.append(reference)
        size += int(reference.message.size)
        facts = message_facts(
            reference, queue.ready_count, wish.as_base64, wish.truncate
        )
        found.append(encode(facts))
        await pace.step()
    return found


def _answer_for(reference: Reference, ack_mode: str) -> None:
    if ack_mode == ACKED:
        reference.queue.settle(reference)
    elif ack_mode == REJECTED:
        reference.queue.reject(reference)
    else:
        reference.queue.requeue(reference)


_QUEUE = "/api/queues/{vhost}/{queue}"

ENDPOINTS = (
    Endpoint(
        "POST",
        "/api/exchanges/{vhost}/{exchange}/publish",
        Need.VHOST,
        publish_message,
    ),
    Endpoint("DELETE", _QUEUE + "/contents", Need.VHOST, purge_queue),
    Endpoint("POST", _QUEUE + "/get", Need.VHOST, get_messages),
)
