"""Alarms over real sockets: who is blocked, what goes on, what is confirmed after."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from pamqp import commands

from amqpd.broker.alarms import DISK, ResourceLimit
from amqpd.net.resources import ResourceWatch
from amqpd.net.server import Server
from amqpd.net.transport import SHORT_READ_SIZE, ClientTransport
from amqpd.protocol.control import ConnectionOptions
from amqpd.protocol.parking import PARKED_SIZE_MAX
from tests.support.connection_pair import HANDSHAKE, Bench, method
from tests.support.content import PERSISTENT_PROPERTIES, publish
from tests.support.stream_client import StreamClient
from tests.support.waiting import wait_until

NO_LIMIT = ResourceLimit(1 << 60)


@pytest.fixture
async def server(bench: Bench, tmp_path: Path) -> AsyncIterator[Server]:
    fatal: list[BaseException] = []
    options = ConnectionOptions(HANDSHAKE)
    server = Server(bench.broker, options, ["127.0.0.1"], 0, 0.025, fatal.append)
    bench.broker.alarms.set_memory_watermark(NO_LIMIT)
    server.watch(ResourceWatch(bench.broker, tmp_path))
    await server.start()
    yield server
    await server.stop("shutdown")
    assert fatal == []


async def test_parked_publishes_do_not_keep_acks_behind_them_from_working(
    bench: Bench, server: Server
) -> None:
    """The disk is full; what would free it is acked behind all that may be parked."""
    alarms = bench.broker.alarms
    client = await StreamClient.open(server.port)
    await client.call(commands.Confirm.Select(), commands.Confirm.SelectOk)
    for name in ("done", "new"):
        declare = commands.Queue.Declare(queue=name, durable=True)
        await client.call(declare, commands.Queue.DeclareOk)
    for number in range(3):
        client.send(publish("done", b"%d" % number, properties=PERSISTENT_PROPERTIES))
        await client.expect(commands.Basic.Ack)
    consume = commands.Basic.Consume(queue="done", consumer_tag="t")
    await client.call(consume, commands.Basic.ConsumeOk)
    await client.deliveries(3)

    alarms.set_disk_free_limit(NO_LIMIT)
    await wait_until(lambda: alarms.has(DISK))
    body_size = 1_000
    count = int(PARKED_SIZE_MAX) // (body_size + 100)
    for number in range(count):
        body = (b"%d " % number).ljust(body_size, b".")
        client.send(publish("new", body, properties=PERSISTENT_PROPERTIES))
    client.send(method(1, commands.Basic.Ack(3, True)))
    blocked = await client.expect(commands.Connection.Blocked)
    assert blocked.reason == "low on disk"

    queues = bench.broker.vhosts["/"].queues
    await wait_until(lambda: queues["done"].unacked_count == 0)
    assert queues["new"].ready_count == 0

    alarms.set_disk_free_limit(ResourceLimit(0))
    await client.expect(commands.Connection.Unblocked)
    confirmed = 0
    while confirmed < count + 3:
        ack = await client.expect(commands.Basic.Ack)
        confirmed = max(confirmed, ack.delivery_tag or 0)
    consume = commands.Basic.Consume(queue="new", no_ack=True)
    await client.call(consume, commands.Basic.ConsumeOk)
    numbers = [int(body.split()[0]) for body in await client.deliveries(count)]
    assert numbers == list(range(count))
    await client.close()


async def test_at_the_bound_nothing_is_read_and_silence_is_no_fault(
    bench: Bench, server: Server
) -> None:
    client = await StreamClient.open(server.port, heartbeat=1)
    await client.call(commands.Queue.Declare(queue="q"), commands.Queue.DeclareOk)
    bench.broker.alarms.set_memory_watermark(ResourceLimit(0))
    await wait_until(lambda: bench.broker.alarms.is_on)
    one = publish("q", bytes(100_000))
    for _ in range(12):
        client.send(one)
    await client.expect(commands.Connection.Blocked)
    await wait_until(lambda: bool(server.ticker.paused))
    # The broker's heartbeats go on, two a second, while nothing comes from us.
    for _ in range(6):
        assert (await client.next_frame()).kind == 8
    bench.broker.alarms.set_memory_watermark(NO_LIMIT)
    await client.expect(commands.Connection.Unblocked)
    queue = bench.broker.vhosts["/"].queues["q"]
    await wait_until(lambda: queue.ready_count == 12)
    await client.close()


async def test_the_alarm_comes_and_goes_with_what_is_measured(
    bench: Bench, server: Server
) -> None:
    alarms = bench.broker.alarms
    client = await StreamClient.open(server.port)
    await wait_until(lambda: alarms.memory_used is not None)
    used = alarms.memory_used
    assert used is not None
    alarms.set_memory_watermark(ResourceLimit(used // 2))
    client.send(publish("nowhere", b"x"))
    blocked = await client.expect(commands.Connection.Blocked)
    assert blocked.reason == "low on memory"
    # Nobody sets the limit back: what is used falls below it, as it is measured.
    alarms.memory_watermark = ResourceLimit(2 * used)
    await client.expect(commands.Connection.Unblocked)
    await client.close()


async def test_a_client_for_whom_there_is_no_descriptor_is_turned_away(
    server: Server,
) -> None:
    stays = await StreamClient.open(server.port)
    assert server.ticker.resources is not None
    server.ticker.resources.descriptors_for_clients = 0
    refused = await StreamClient.connect(server.port)
    assert await refused.is_at_end()
    await refused.close()
    await stays.call(commands.Basic.Qos(), commands.Basic.QosOk)
    assert server.connection_count() == 1
    await stays.close()


async def test_no_read_is_long_while_memory_is_short(
    bench: Bench, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: list[int] = []
    receive = ClientTransport.data_received

    def note(client: ClientTransport, data: bytes) -> None:
        sizes.append(len(data))
        receive(client, data)

    monkeypatch.setattr(ClientTransport, "data_received", note)
    client = await StreamClient.open(server.port)
    resources = server.ticker.resources
    assert resources is not None
    demanded: list[float] = []
    monkeypatch.setattr(server.ticker.garbage, "demand", demanded.append)
    bench.broker.alarms.set_memory_watermark(ResourceLimit(0))
    await wait_until(lambda: resources.is_memory_short)
    assert not server.ticker.outputs.has_bursts
    # What the collector can find is memory, too.
    assert len(demanded) == 1
    sizes.clear()
    client.send(*[publish("nowhere", bytes(1_000))] * 100)
    await wait_until(lambda: sum(sizes) > 100_000)
    assert max(sizes) == SHORT_READ_SIZE
    await client.close()
