"""Connections and channels of aio-pika, and names that are cleaned up."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable

import aio_pika
import pytest
from aio_pika.abc import AbstractChannel, AbstractConnection, AbstractQueue
from yarl import URL

Name = Callable[[str], str]


@pytest.fixture
async def connection(amqp_url: str) -> AsyncIterator[AbstractConnection]:
    """An open connection."""
    async with await aio_pika.connect(amqp_url) as connection:
        yield connection


@pytest.fixture
async def channel(
    connection: AbstractConnection,
) -> AsyncIterator[AbstractChannel]:
    """A channel without confirms, as in the broker's own tutorials."""
    async with connection.channel(publisher_confirms=False) as channel:
        yield channel


@pytest.fixture
async def confirming(
    connection: AbstractConnection,
) -> AsyncIterator[AbstractChannel]:
    """A channel as aio-pika opens it: with confirms, returns raised."""
    async with connection.channel(on_return_raises=True) as channel:
        yield channel


@pytest.fixture
async def queue(confirming: AbstractChannel) -> AbstractQueue:
    """An exclusive queue."""
    return await confirming.declare_queue(exclusive=True)


class Relay:
    """A network between client and broker that can be cut."""

    def __init__(self, broker: URL) -> None:
        self._broker = broker
        self._writers: list[asyncio.StreamWriter] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server

    async def start(self) -> str:
        """Start to relay; return the URL that leads through here."""
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        port = self._server.sockets[0].getsockname()[1]
        return str(self._broker.with_host("127.0.0.1").with_port(port))

    def cut(self) -> None:
        """Reset every connection; new ones are relayed."""
        for writer in self._writers:
            writer.transport.abort()
        self._writers.clear()

    async def stop(self) -> None:
        """Cut everything and relay no more."""
        self._server.close()
        self.cut()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _accept(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        host, port = self._broker.host or "127.0.0.1", self._broker.port or 5672
        there = await asyncio.open_connection(host, port)
        self._writers += [writer, there[1]]
        for source, sink in ((reader, there[1]), (there[0], writer)):
            task = asyncio.create_task(self._pump(source, sink))
            self._tasks.add(task)

    @staticmethod
    async def _pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            while data := await source.read(65536):
                sink.write(data)
                await sink.drain()
        sink.close()


@pytest.fixture
async def relay(amqp_url: str) -> AsyncIterator[Relay]:
    """A relay to the broker, to be started."""
    relay = Relay(URL(amqp_url))
    yield relay
    await relay.stop()


@pytest.fixture
async def name(amqp_url: str, make_name: Name) -> AsyncIterator[Name]:
    """Make names; queues and exchanges that bear them are deleted afterwards."""
    made: list[str] = []

    def make(what: str) -> str:
        made.append(make_name(what))
        return made[-1]

    yield make
    async with await aio_pika.connect(amqp_url) as janitor:
        async with janitor.channel() as channel:
            for one in made:
                await channel.queue_delete(one)
                await channel.exchange_delete(one)
