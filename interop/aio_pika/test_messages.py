"""aio-pika: publishing, consuming, acknowledging, transactions."""

from __future__ import annotations

import asyncio
import datetime
from collections.abc import Callable
from typing import Any

import aio_pika
import pytest
from aio_pika import DeliveryMode, ExchangeType, Message, exceptions
from aio_pika.abc import (
    AbstractChannel,
    AbstractConnection,
    AbstractIncomingMessage,
    AbstractQueue,
)
from aiormq.exceptions import ChannelAccessRefused

Name = Callable[[str], str]


async def drain(queue: AbstractQueue) -> list[bytes]:
    """Take everything out of a queue."""
    bodies = []
    while message := await queue.get(no_ack=True, fail=False):
        bodies.append(message.body)
    return bodies


async def send(channel: AbstractChannel, queue: AbstractQueue, *bodies: bytes) -> None:
    for body in bodies:
        await channel.default_exchange.publish(Message(body), queue.name)


class Inbox:
    """Collects what a consumer gets, and keeps it unacknowledged."""

    def __init__(self) -> None:
        self._arrived: asyncio.Queue[AbstractIncomingMessage] = asyncio.Queue()

    async def __call__(self, message: AbstractIncomingMessage) -> None:
        await self._arrived.put(message)

    async def take(self, count: int) -> list[AbstractIncomingMessage]:
        async with asyncio.timeout(10):
            return [await self._arrived.get() for _ in range(count)]

    @property
    def is_empty(self) -> bool:
        return self._arrived.empty()


@pytest.mark.parametrize("size", [0, 1, 131_064, 131_065, 3_000_000])
async def test_a_body_of_any_size_arrives(
    confirming: AbstractChannel, queue: AbstractQueue, size: int
) -> None:
    body = bytes(range(256)) * (size // 256) + b"x" * (size % 256)
    await send(confirming, queue, body)
    assert (await queue.get(no_ack=True)).body == body


async def test_every_property_arrives(
    confirming: AbstractChannel, queue: AbstractQueue
) -> None:
    sent = Message(
        b"body",
        headers={"text": "ä", "number": 5, "list": [1, {"deep": True}], "no": None},
        content_type="text/plain",
        content_encoding="utf-8",
        delivery_mode=DeliveryMode.PERSISTENT,
        priority=3,
        correlation_id="correlation",
        reply_to="reply",
        expiration=60,
        message_id="id",
        timestamp=datetime.datetime(2026, 1, 2, tzinfo=datetime.UTC),
        type="type",
        user_id="guest",
        app_id="app",
    )
    await confirming.default_exchange.publish(sent, queue.name)
    received = await queue.get(no_ack=True)
    assert received.properties == sent.properties


async def test_every_type_of_header_arrives(
    confirming: AbstractChannel, queue: AbstractQueue
) -> None:
    headers: dict[str, Any] = {
        "true": True,
        "small": 1,
        "negative": -70_000,
        "large": 2**50,
        "float": 0.5,
        "text": "text",
        "bytes": bytearray(b"\x00\xff"),
        "time": datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.UTC),
        "none": None,
        "list": [1, "two", [3]],
        "table": {"a": {"b": "c"}},
    }
    message = Message(b"x", headers=headers)
    await confirming.default_exchange.publish(message, queue.name)
    assert (await queue.get(no_ack=True)).headers == headers


async def test_an_unroutable_message_raises(confirming: AbstractChannel) -> None:
    with pytest.raises(exceptions.DeliveryError):
        await confirming.default_exchange.publish(Message(b"x"), "interop-nowhere")


async def test_an_unroutable_message_is_returned(
    connection: AbstractConnection,
) -> None:
    async with connection.channel() as channel:
        returned: asyncio.Queue[AbstractIncomingMessage] = asyncio.Queue()
        channel.return_callbacks.add(lambda _, message: returned.put_nowait(message))
        exchange = await channel.get_exchange("amq.topic")
        await exchange.publish(Message(b"lost"), "no.such.key")
        async with asyncio.timeout(10):
            message = await returned.get()
        assert (message.body, message.routing_key) == (b"lost", "no.such.key")


async def test_many_messages_are_confirmed_in_one_go(
    confirming: AbstractChannel, name: Name
) -> None:
    queue = await confirming.declare_queue(name("queue"), durable=True)
    messages = [
        Message(str(number).encode(), delivery_mode=DeliveryMode.PERSISTENT)
        for number in range(300)
    ]
    publish = confirming.default_exchange.publish
    await asyncio.gather(*(publish(message, queue.name) for message in messages))
    again = await confirming.declare_queue(queue.name, passive=True)
    assert again.declaration_result.message_count == 300
    assert await drain(queue) == [message.body for message in messages]


async def test_the_iterator_consumes_and_acknowledges(
    confirming: AbstractChannel, queue: AbstractQueue
) -> None:
    await send(confirming, queue, b"1", b"2", b"3", b"last")
    bodies = []
    async with queue.iterator(timeout=10) as iterator:
        async for message in iterator:
            async with message.process():
                bodies.append(message.body)
                if message.body == b"last":
                    break
    assert bodies == [b"1", b"2", b"3", b"last"]
    assert await queue.get(fail=False) is None


async def test_a_failed_message_is_rejected_or_requeued(
    confirming: AbstractChannel, queue: AbstractQueue
) -> None:
    await send(confirming, queue, b"again", b"gone")
    first = await queue.get()
    with pytest.raises(ValueError, match="failed"):
        async with first.process(requeue=True):
            raise ValueError("failed")
    again = await queue.get()
    assert (again.body, again.redelivered) == (b"again", True)
    await again.ack()
    second = await queue.get()
    with pytest.raises(ValueError, match="failed"):
        async with second.process():
            raise ValueError("failed")
    assert await queue.get(fail=False) is None


async def test_requeued_messages_keep_their_place(
    confirming: AbstractChannel, queue: AbstractQueue
) -> None:
    await send(confirming, queue, b"1", b"2", b"3")
    taken = [await queue.get() for _ in range(2)]
    await taken[1].nack(multiple=True, requeue=True)
    assert await drain(queue) == [b"1", b"2", b"3"]


async def test_prefetch_holds_back_what_is_not_acknowledged(
    confirming: AbstractChannel, queue: AbstractQueue
) -> None:
    await confirming.set_qos(prefetch_count=2)
    inbox = Inbox()
    await queue.consume(inbox)
    await send(confirming, queue, b"1", b"2", b"3")
    first, _ = await inbox.take(2)
    await confirming.declare_queue(queue.name, passive=True)
    assert inbox.is_empty
    await first.ack()
    (third,) = await inbox.take(1)
    assert third.body == b"3"


async def test_a_global_prefetch_changes_for_consumers_that_are_there(
    confirming: AbstractChannel, queue: AbstractQueue
) -> None:
    await confirming.set_qos(prefetch_count=1, global_=True)
    inbox = Inbox()
    await queue.consume(inbox)
    await send(confirming, queue, b"1", b"2", b"3")
    await inbox.take(1)
    await confirming.set_qos(prefetch_count=3, global_=True)
    assert [message.body for message in await inbox.take(2)] == [b"2", b"3"]


async def test_a_cancelled_consumer_gets_nothing_more(
    confirming: AbstractChannel, queue: AbstractQueue
) -> None:
    inbox = Inbox()
    tag = await queue.consume(inbox, no_ack=True)
    await send(confirming, queue, b"1")
    await inbox.take(1)
    await queue.cancel(tag)
    await send(confirming, queue, b"2")
    assert await drain(queue) == [b"2"]
    assert inbox.is_empty


async def test_an_exclusive_consumer_is_alone(queue: AbstractQueue) -> None:
    inbox = Inbox()
    await queue.consume(inbox, exclusive=True)
    with pytest.raises(ChannelAccessRefused) as caught:
        await queue.consume(inbox)
    assert f"queue '{queue.name}' in vhost '/' in exclusive use" in str(caught.value)


async def test_a_transaction_commits_and_rolls_back(
    channel: AbstractChannel, connection: AbstractConnection
) -> None:
    queue = await channel.declare_queue(exclusive=True)
    async with connection.channel(publisher_confirms=False) as transactional:
        async with transactional.transaction():
            await send(transactional, queue, b"kept")
            assert await queue.get(fail=False) is None
        transaction = transactional.transaction()
        await transaction.select()
        await send(transactional, queue, b"dropped")
        await transaction.rollback()
        assert await drain(queue) == [b"kept"]


async def test_exchanges_of_all_types_route(
    confirming: AbstractChannel, name: Name
) -> None:
    queue = await confirming.declare_queue(exclusive=True)
    routes: list[tuple[ExchangeType, str, dict[str, Any], str]] = [
        (ExchangeType.DIRECT, "a.b", {}, "a.b"),
        (ExchangeType.FANOUT, "", {}, "anything"),
        (ExchangeType.TOPIC, "a.*", {}, "a.b"),
        (ExchangeType.HEADERS, "", {"kind": "pdf"}, "anything"),
    ]
    for kind, binding, arguments, key in routes:
        exchange = await confirming.declare_exchange(name(kind.value), kind)
        await queue.bind(exchange, binding, arguments=arguments)
        message = Message(kind.value.encode(), headers={"kind": "pdf"})
        await exchange.publish(message, key)
        assert (await queue.get(no_ack=True)).body == kind.value.encode()
        await queue.unbind(exchange, binding, arguments=arguments)
        with pytest.raises(exceptions.DeliveryError):
            await exchange.publish(message, key)


async def test_exchanges_may_be_bound_to_exchanges(
    confirming: AbstractChannel, name: Name
) -> None:
    source = await confirming.declare_exchange(name("source"), ExchangeType.TOPIC)
    internal = await confirming.declare_exchange(
        name("internal"), ExchangeType.FANOUT, internal=True
    )
    queue = await confirming.declare_queue(exclusive=True)
    await internal.bind(source, "#.error")
    await queue.bind(internal)
    await source.publish(Message(b"x"), "web.error")
    assert await drain(queue) == [b"x"]
    await internal.unbind(source, "#.error")
    with pytest.raises(exceptions.DeliveryError):
        await source.publish(Message(b"y"), "web.error")


async def test_purge_and_delete(
    confirming: AbstractChannel, queue: AbstractQueue
) -> None:
    await send(confirming, queue, b"1", b"2")
    assert (await queue.purge()).message_count == 2
    await send(confirming, queue, b"3")
    with pytest.raises(exceptions.ChannelPreconditionFailed) as caught:
        await queue.delete(if_empty=True)
    assert f"queue '{queue.name}' in vhost '/' not empty" in str(caught.value)


async def test_a_connection_that_goes_gives_its_messages_back(
    amqp_url: str, confirming: AbstractChannel, name: Name
) -> None:
    queue = await confirming.declare_queue(name("queue"))
    await send(confirming, queue, b"1", b"2")
    async with await aio_pika.connect(amqp_url) as other:
        channel = await other.channel()
        taken = await (await channel.get_queue(queue.name)).get()
        assert taken.body == b"1"
    first = await queue.get(no_ack=True)
    second = await queue.get(no_ack=True)
    assert (first.body, first.redelivered) == (b"1", True)
    assert (second.body, second.redelivered) == (b"2", False)
