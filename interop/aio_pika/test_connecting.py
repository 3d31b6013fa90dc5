"""aio-pika: logging in, errors as exceptions, and connections that come back."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

import aio_pika
import pytest
from aio_pika import exceptions
from aio_pika.abc import AbstractChannel, AbstractConnection
from aiormq.exceptions import ChannelAccessRefused, ChannelLockedResource
from yarl import URL

if TYPE_CHECKING:
    from interop.aio_pika.conftest import Relay

Name = Callable[[str], str]


async def test_a_connection_has_a_name_and_a_heartbeat(amqp_url: str) -> None:
    connection = await aio_pika.connect(
        amqp_url,
        client_properties={"connection_name": "interop aio-pika"},
        heartbeat=1,
    )
    async with connection:
        channel = await connection.channel()
        # Longer than two intervals, after which a silent client would be dropped.
        await asyncio.sleep(2.5)
        queue = await channel.declare_queue(exclusive=True)
        assert queue.name.startswith("amq.gen-")


async def test_a_wrong_password_is_an_authentication_error(amqp_url: str) -> None:
    url = URL(amqp_url).with_password("wrong")
    with pytest.raises(exceptions.ProbableAuthenticationError) as caught:
        await aio_pika.connect(url)
    assert "Login was refused using authentication mechanism PLAIN" in str(caught.value)


async def test_a_wrong_virtual_host_is_refused(amqp_url: str) -> None:
    # aiormq keeps what the broker said to itself.
    with pytest.raises(exceptions.AMQPError, match=r"Connection\.Close"):
        await aio_pika.connect(URL(amqp_url).with_path("/nowhere"))


async def test_a_missing_queue_closes_the_channel(channel: AbstractChannel) -> None:
    with pytest.raises(exceptions.ChannelNotFoundEntity) as caught:
        await channel.declare_queue("interop-nowhere", passive=True)
    assert "NOT_FOUND - no queue 'interop-nowhere' in vhost '/'" in str(caught.value)


async def test_a_queue_declared_otherwise_closes_the_channel(
    channel: AbstractChannel, name: Name
) -> None:
    queue = name("queue")
    await channel.declare_queue(queue, durable=True)
    with pytest.raises(exceptions.ChannelPreconditionFailed) as caught:
        await channel.declare_queue(queue, durable=True, arguments={"x-max-length": 5})
    # The type is the one that the client chose for the number.
    assert (
        f"PRECONDITION_FAILED - inequivalent arg 'x-max-length' for queue '{queue}' "
        "in vhost '/': received the value '5' of type"
    ) in str(caught.value)
    assert "but current is none" in str(caught.value)


async def test_a_locked_queue_closes_the_channel(
    amqp_url: str, channel: AbstractChannel, name: Name
) -> None:
    queue = name("queue")
    async with await aio_pika.connect(amqp_url) as owner:
        await (await owner.channel()).declare_queue(queue, exclusive=True)
        with pytest.raises(ChannelLockedResource) as caught:
            await channel.declare_queue(queue, exclusive=True)
    assert "RESOURCE_LOCKED - cannot obtain exclusive access" in str(caught.value)


async def test_a_reserved_name_closes_the_channel(channel: AbstractChannel) -> None:
    with pytest.raises(ChannelAccessRefused) as caught:
        await channel.declare_queue("amq.mine")
    assert (
        "ACCESS_REFUSED - queue name 'amq.mine' contains reserved prefix 'amq.*'"
    ) in str(caught.value)


async def test_many_channels_work_at_the_same_time(
    connection: AbstractConnection,
) -> None:
    async def echo(number: int) -> bytes:
        async with connection.channel() as channel:
            queue = await channel.declare_queue(exclusive=True)
            message = aio_pika.Message(str(number).encode())
            await channel.default_exchange.publish(message, queue.name)
            return (await queue.get(no_ack=True)).body

    answers = await asyncio.gather(*(echo(number) for number in range(30)))
    assert answers == [str(number).encode() for number in range(30)]


async def test_a_robust_connection_recovers_a_lost_channel(
    amqp_url: str, name: Name
) -> None:
    async with await aio_pika.connect_robust(amqp_url) as connection:
        channel = await connection.channel()
        queue = await channel.declare_queue(name("queue"), auto_delete=True)
        received: asyncio.Queue[bytes] = asyncio.Queue()

        async def on_message(message: aio_pika.abc.AbstractIncomingMessage) -> None:
            async with message.process():
                await received.put(message.body)

        await queue.consume(on_message)
        async with connection.channel() as broken:
            with pytest.raises(exceptions.ChannelNotFoundEntity):
                await broken.get_exchange("interop-nowhere")
        message = aio_pika.Message(b"still here")
        await channel.default_exchange.publish(message, queue.name)
        async with asyncio.timeout(10):
            assert await received.get() == b"still here"


async def test_a_robust_connection_reconnects_and_consumes_again(
    relay: Relay, name: Name
) -> None:
    async with await aio_pika.connect_robust(
        await relay.start(), reconnect_interval=0.1
    ) as connection:
        channel = await connection.channel()
        exchange = await channel.declare_exchange(name("exchange"), auto_delete=False)
        queue = await channel.declare_queue(name("queue"), exclusive=True)
        await queue.bind(exchange, "key")
        received: asyncio.Queue[bytes] = asyncio.Queue()

        async def on_message(message: aio_pika.abc.AbstractIncomingMessage) -> None:
            async with message.process():
                await received.put(message.body)

        await queue.consume(on_message)
        reconnected = asyncio.Event()
        connection.reconnect_callbacks.add(lambda _: reconnected.set())
        # The broker must have forgotten the exclusive queue by then, or not yet have
        # let anybody declare it.
        relay.cut()
        async with asyncio.timeout(20):
            await reconnected.wait()
            await exchange.publish(aio_pika.Message(b"hello again"), "key")
            assert await received.get() == b"hello again"
