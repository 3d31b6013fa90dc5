"""The listeners, over real sockets: accepting, refusing, saying goodbye."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from pamqp import commands

from amqpd.broker.totals import traffic_totals
from amqpd.net import server as server_module
from amqpd.net.server import ListenFailed, Server
from amqpd.protocol.control import ConnectionOptions
from tests.support.connection_pair import HANDSHAKE, Bench, method
from tests.support.content import PERSISTENT_PROPERTIES, publish
from tests.support.failing_disk import FailingDisk
from tests.support.raw_client import HEARTBEAT_FRAME, PROTOCOL_HEADER
from tests.support.stream_client import StreamClient
from tests.support.waiting import wait_until

CLOSE_OK = method(0, commands.Connection.CloseOk())


@pytest.fixture
def disk() -> FailingDisk:
    return FailingDisk()


@pytest.fixture
def bench(fast_path: Path, disk: FailingDisk) -> Iterator[Bench]:
    bench = Bench(fast_path, disk)
    yield bench
    if not disk.is_broken:
        bench.close()


@pytest.fixture
def fatal() -> list[BaseException]:
    return []


def server_on(
    bench: Bench, fatal: list[BaseException], *hosts: str, port: int = 0
) -> Server:
    options = ConnectionOptions(HANDSHAKE)
    return Server(bench.broker, options, list(hosts), port, 0.025, fatal.append)


@pytest.fixture
async def server(bench: Bench, fatal: list[BaseException]) -> AsyncIterator[Server]:
    server = server_on(bench, fatal, "127.0.0.1")
    await server.start()
    yield server
    await server.stop("shutdown")


async def test_a_message_goes_in_and_comes_out(server: Server) -> None:
    client = await StreamClient.open(server.port)
    await client.call(commands.Queue.Declare(queue="q"), commands.Queue.DeclareOk)
    await client.call(
        commands.Basic.Consume(queue="q", no_ack=True), commands.Basic.ConsumeOk
    )
    client.send(publish("q", b"hello"))
    assert await client.deliveries(1) == [b"hello"]
    await client.close()


async def test_a_persistent_message_is_confirmed_without_anybody_asking(
    server: Server,
) -> None:
    client = await StreamClient.open(server.port)
    declare = commands.Queue.Declare(queue="d", durable=True)
    await client.call(declare, commands.Queue.DeclareOk)
    await client.call(commands.Confirm.Select(), commands.Confirm.SelectOk)
    client.send(publish("d", b"x", properties=PERSISTENT_PROPERTIES))
    assert (await client.expect(commands.Basic.Ack)).delivery_tag == 1
    await client.close()


async def test_connections_are_counted_as_they_come_and_go(server: Server) -> None:
    assert server.connection_count() == 0
    clients = [await StreamClient.open(server.port) for _ in range(3)]
    assert server.connection_count() == 3
    await clients[0].close()
    await wait_until(lambda: server.connection_count() == 2)
    for client in clients[1:]:
        await client.close()


async def test_an_orderly_close_is_answered_and_the_socket_closed(
    server: Server,
) -> None:
    client = await StreamClient.open(server.port)
    client.send(method(0, commands.Connection.Close(200, "bye", 0, 0)))
    await client.expect(commands.Connection.CloseOk)
    assert await client.is_at_end()
    await client.close()


async def test_another_protocol_is_answered_with_our_header(server: Server) -> None:
    client = await StreamClient.connect(server.port)
    client.send(b"GET / HTTP/1.1\r\n\r\n")
    assert await client.reader.read() == PROTOCOL_HEADER
    await client.close()


async def test_a_client_that_publishes_and_vanishes_harms_nobody(
    bench: Bench, server: Server
) -> None:
    client = await StreamClient.open(server.port)
    await client.call(commands.Queue.Declare(queue="q"), commands.Queue.DeclareOk)
    client.send(publish("q", bytes(1000)) * 5_000)
    await client.writer.drain()
    await client.close()
    queue = bench.broker.vhosts["/"].queues["q"]
    await wait_until(lambda: queue.ready_count == 5_000)
    other = await StreamClient.open(server.port)
    await other.call(commands.Basic.Qos(), commands.Basic.QosOk)
    await other.close()


async def test_a_client_that_does_not_read_is_delivered_no_more_than_fits(
    bench: Bench, server: Server
) -> None:
    publisher = await StreamClient.open(server.port)
    await publisher.call(commands.Queue.Declare(queue="q"), commands.Queue.DeclareOk)
    slow = await StreamClient.open(server.port)
    slow.writer.transport.pause_reading()  # type: ignore[attr-defined]
    slow.send(method(1, commands.Basic.Consume(queue="q", no_ack=True)))
    queue = bench.broker.vhosts["/"].queues["q"]
    await wait_until(lambda: queue.consumer_count == 1)
    count = 20_000
    publisher.send(publish("q", bytes(1000)) * count)
    # Everything is in, and what is not in sockets and buffers stays in the queue.
    broker = bench.broker
    await wait_until(lambda: traffic_totals(broker).traffic.received == count)
    await wait_until(lambda: not bench.broker.dispatch.has_work())
    assert queue.ready_count > count // 4
    slow.writer.transport.resume_reading()  # type: ignore[attr-defined]
    await slow.expect(commands.Basic.ConsumeOk)
    bodies = await slow.deliveries(count)
    assert len(bodies) == count
    for client in (publisher, slow):
        await client.close()


async def test_idle_clients_are_sent_heartbeats(server: Server) -> None:
    client = await StreamClient.open(server.port, heartbeat=1)
    frame = await client.next_frame()
    assert (frame.kind, frame.channel, frame.payload) == (8, 0, b"")
    client.send(HEARTBEAT_FRAME)
    await client.close()


# -- listening ----------------------------------------------------------------


async def test_localhost_is_both_loopbacks_on_one_port(
    bench: Bench, fatal: list[BaseException]
) -> None:
    server = server_on(bench, fatal, "localhost")
    await server.start()
    assert server.bound_addresses()[0] == "127.0.0.1"
    for address in server.bound_addresses():
        client = await StreamClient.connect(server.port, address.strip("[]"))
        await client.close()
    await server.stop("shutdown")


@pytest.mark.parametrize("number", [errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT])
async def test_a_machine_without_ipv6_listens_on_the_other_loopback(
    bench: Bench,
    fatal: list[BaseException],
    monkeypatch: pytest.MonkeyPatch,
    number: int,
) -> None:
    loop = asyncio.get_running_loop()
    create = loop.create_server

    async def without_ipv6(factory, host, *args, **options):  # type: ignore[no-untyped-def]
        if host == "::1":
            raise OSError(number, "no such address")
        return await create(factory, host, *args, **options)

    monkeypatch.setattr(loop, "create_server", without_ipv6)
    server = server_on(bench, fatal, "localhost")
    await server.start()
    assert server.bound_addresses() == ["127.0.0.1"]
    await server.stop("shutdown")


async def test_an_address_that_is_taken_is_named(
    bench: Bench, server: Server, fatal: list[BaseException]
) -> None:
    second = server_on(bench, fatal, "127.0.0.1", port=server.port)
    with pytest.raises(ListenFailed, match=f"127.0.0.1 port {server.port}: "):
        await second.start()
    second.ticker.close()


# -- the end ------------------------------------------------------------------


async def test_everybody_is_told_that_the_broker_stops(
    bench: Bench, fatal: list[BaseException]
) -> None:
    server = server_on(bench, fatal, "127.0.0.1")
    await server.start()
    client = await StreamClient.open(server.port)
    stopping = asyncio.ensure_future(server.stop("shutdown"))
    closed = await client.expect(commands.Connection.Close)
    assert (closed.reply_code, closed.reply_text) == (
        320,
        "CONNECTION_FORCED - broker forced connection closure with reason 'shutdown'",
    )
    client.send(CLOSE_OK)
    assert await client.is_at_end()
    await stopping
    with pytest.raises(ConnectionError):
        await StreamClient.connect(server.port)
    await client.close()


async def test_who_does_not_answer_the_farewell_is_dropped(
    bench: Bench, fatal: list[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_module, "FAREWELL_SECONDS", 0.05)
    server = server_on(bench, fatal, "127.0.0.1")
    await server.start()
    client = await StreamClient.open(server.port)
    await server.stop("shutdown")
    await client.expect(commands.Connection.Close)
    assert await client.is_at_end()
    assert server.connection_count() == 0
    await client.close()


async def test_what_was_taken_is_on_the_disk_when_the_broker_has_stopped(
    bench: Bench, fatal: list[BaseException], fast_path: Path
) -> None:
    server = server_on(bench, fatal, "127.0.0.1")
    await server.start()
    client = await StreamClient.open(server.port)
    declare = commands.Queue.Declare(queue="d", durable=True)
    await client.call(declare, commands.Queue.DeclareOk)
    client.send(publish("d", b"x", properties=PERSISTENT_PROPERTIES))
    queue = bench.broker.vhosts["/"].queues["d"]
    await wait_until(lambda: queue.ready_count == 1)
    await client.close()
    await server.stop("shutdown")
    assert not bench.broker.durability.has_work


async def test_a_failed_disk_is_told_to_clients_and_to_whoever_started_us(
    bench: Bench, disk: FailingDisk, fatal: list[BaseException]
) -> None:
    server = server_on(bench, fatal, "127.0.0.1")
    await server.start()
    client = await StreamClient.open(server.port)
    declare = commands.Queue.Declare(queue="d", durable=True)
    await client.call(declare, commands.Queue.DeclareOk)
    await client.call(commands.Confirm.Select(), commands.Confirm.SelectOk)
    disk.is_broken = True
    client.send(publish("d", b"x", properties=PERSISTENT_PROPERTIES))
    assert (await client.expect(commands.Basic.Nack)).delivery_tag == 1
    assert (await client.expect(commands.Connection.Close)).reply_code == 541
    assert len(fatal) == 1
    client.send(CLOSE_OK)
    assert await client.is_at_end()
    await client.close()
    await server.stop("shutdown")
