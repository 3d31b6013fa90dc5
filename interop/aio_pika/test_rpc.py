"""aio-pika: RPC by its own pattern, and by direct reply-to."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import aio_pika
import pytest
from aio_pika import Message
from aio_pika.abc import (
    AbstractChannel,
    AbstractConnection,
    AbstractIncomingMessage,
    AbstractQueue,
)
from aio_pika.patterns import RPC
from aiormq.exceptions import ChannelPreconditionFailed

Name = Callable[[str], str]

REPLY_TO = "amq.rabbitmq.reply-to"


async def multiply(*, x: int, y: int) -> int:
    return x * y


async def fail() -> None:
    raise ZeroDivisionError("on purpose")


async def test_calls_by_the_clients_own_pattern(
    amqp_url: str, connection: AbstractConnection, name: Name
) -> None:
    method = name("multiply")
    async with (
        await aio_pika.connect(amqp_url) as elsewhere,
        elsewhere.channel() as there,
        connection.channel() as here,
    ):
        server, client = await RPC.create(there), await RPC.create(here)
        await server.register(method, multiply, auto_delete=True)
        calls = [client.call(method, {"x": x, "y": 7}) for x in range(30)]
        assert await asyncio.gather(*calls) == [7 * x for x in range(30)]
        await server.close()
        await client.close()


async def test_an_exception_comes_back_to_the_caller(
    connection: AbstractConnection, name: Name
) -> None:
    method = name("fail")
    async with connection.channel() as channel:
        rpc = await RPC.create(channel)
        await rpc.register(method, fail, auto_delete=True)
        with pytest.raises(ZeroDivisionError, match="on purpose"):
            await rpc.call(method)
        await rpc.close()


async def test_a_call_of_a_method_that_nobody_has_comes_back(
    connection: AbstractConnection, name: Name
) -> None:
    async with connection.channel() as channel:
        rpc = await RPC.create(channel)
        with pytest.raises(aio_pika.exceptions.MessageProcessError):
            await rpc.call(name("nobody"))
        await rpc.close()


class Requester:
    """Asks on a channel and gets the answers there, without a queue of its own."""

    def __init__(self, channel: AbstractChannel) -> None:
        self._channel = channel
        self._waiting: dict[str, asyncio.Future[bytes]] = {}

    async def start(self, replies: AbstractQueue) -> None:
        """Await replies."""
        await replies.consume(self._on_answer, no_ack=True)

    async def call(self, queue: str, number: int) -> bytes:
        """Ask and wait for the answer."""
        answer = asyncio.get_running_loop().create_future()
        self._waiting[str(number)] = answer
        asking = Message(b"%d" % number, correlation_id=str(number), reply_to=REPLY_TO)
        await self._channel.default_exchange.publish(asking, queue)
        async with asyncio.timeout(10):
            found: bytes = await answer
        return found

    async def _on_answer(self, message: AbstractIncomingMessage) -> None:
        self._waiting[message.correlation_id or ""].set_result(message.body)


@pytest.mark.parametrize(
    "is_asked_for", [True, False], ids=["declared", "not declared"]
)
async def test_answers_come_by_direct_reply_to(
    amqp_url: str, confirming: AbstractChannel, name: Name, is_asked_for: bool
) -> None:
    async with (
        await aio_pika.connect(amqp_url) as elsewhere,
        elsewhere.channel() as there,
    ):
        requests = await there.declare_queue(name("requests"), auto_delete=True)

        async def serve(message: AbstractIncomingMessage) -> None:
            async with message.process():
                assert message.reply_to is not None
                square = b"%d" % (int(message.body) ** 2)
                answer = Message(square, correlation_id=message.correlation_id)
                await there.default_exchange.publish(
                    answer, message.reply_to, mandatory=False
                )

        await requests.consume(serve)
        requester = Requester(confirming)
        replies = await confirming.get_queue(REPLY_TO, ensure=is_asked_for)
        await requester.start(replies)
        calls = [requester.call(requests.name, number) for number in range(30)]
        assert await asyncio.gather(*calls) == [b"%d" % (at**2) for at in range(30)]


async def test_a_reply_consumer_must_not_ack(confirming: AbstractChannel) -> None:
    replies = await confirming.get_queue(REPLY_TO, ensure=False)

    async def take(message: AbstractIncomingMessage) -> None:
        await message.ack()

    with pytest.raises(
        ChannelPreconditionFailed, match="reply consumer cannot acknowledge"
    ):
        await replies.consume(take)
