"""A turn of the loop: what it does, when it asks the disk, what it leaves for later."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from pamqp import commands

from amqpd.broker.ports import DurabilityWaiter
from amqpd.broker.timers import NEVER_MS, Timed
from amqpd.clock import Clock
from amqpd.net import disk as disk_module
from amqpd.net import ticker as ticker_module
from amqpd.net.busy_time import BusySelector
from amqpd.net.garbage import GarbageRounds
from amqpd.net.ticker import Client, Ticker
from amqpd.protocol.connection import UNITS_PER_TURN
from amqpd.protocol.output import Output
from tests.support.connection_pair import Bench, ConnectionPair, method
from tests.support.content import PERSISTENT_PROPERTIES, publish
from tests.support.failing_disk import FailingDisk
from tests.support.noting_client import NotingClient
from tests.support.waiting import wait_until

NEVER_S = 3600.0


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


@pytest.fixture
async def ticker(bench: Bench, fatal: list[BaseException]) -> AsyncIterator[Ticker]:
    """A ticker whose tick never comes: what happens was asked for."""
    loop = asyncio.get_running_loop()
    ticker = Ticker(bench.broker, Clock(), loop, NEVER_S, fatal.append)
    bench.outputs = ticker.outputs
    bench.pending = ticker.pending
    yield ticker
    ticker.close()


@pytest.fixture
def pair(bench: Bench, ticker: Ticker) -> ConnectionPair:
    """A publisher in confirm mode, with the durable queue d."""
    pair = bench.connect()
    pair.declare("d", durable=True)
    pair.call(1, commands.Confirm.Select(), commands.Confirm.SelectOk)
    return pair


@pytest.fixture
def client(pair: ConnectionPair) -> NotingClient:
    """The socket of that publisher."""
    client = NotingClient(pair.output)
    pair.output.sink = client
    return client


def persistent(body: bytes = b"x") -> bytes:
    return publish("d", body, properties=PERSISTENT_PROPERTIES)


def noted_steps(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Return a list that gets each step that comes back from now on."""
    loop = asyncio.get_running_loop()
    call_soon_threadsafe = loop.call_soon_threadsafe
    steps: list[object] = []

    def note(complete: Callable[[object], None], step: object) -> asyncio.Handle:
        steps.append(step)
        return call_soon_threadsafe(complete, step)

    monkeypatch.setattr(loop, "call_soon_threadsafe", note)
    return steps


async def test_one_turn_serves_all_who_woke_it(
    ticker: Ticker, pair: ConnectionPair, client: NotingClient
) -> None:
    pair.send(publish("nowhere"))
    ticker.wake()
    pair.send(publish("nowhere"))
    ticker.wake()
    assert client.written == b""
    await wait_until(lambda: client.written != b"")
    # One ack for both.
    assert client.written == method(1, commands.Basic.Ack(2, True))


async def test_what_comes_alone_is_answered_at_once(
    ticker: Ticker, pair: ConnectionPair, client: NotingClient
) -> None:
    ticker.busy = BusySelector()
    pair.send(publish("nowhere"))
    ticker.serve()
    assert client.written == method(1, commands.Basic.Ack(1, False))


async def test_those_who_come_together_share_a_turn(
    ticker: Ticker, pair: ConnectionPair, client: NotingClient
) -> None:
    ticker.busy = BusySelector()
    ticker.busy.ready_count = 2
    for _ in range(2):
        pair.send(publish("nowhere"))
        ticker.serve()
        assert client.written == b""
    await wait_until(lambda: client.written != b"")
    assert client.written == method(1, commands.Basic.Ack(2, True))


async def test_a_turn_that_will_come_anyway_is_waited_for(
    ticker: Ticker, pair: ConnectionPair, client: NotingClient
) -> None:
    ticker.busy = BusySelector()
    ticker.wake()
    pair.send(publish("nowhere"))
    ticker.serve()
    assert client.written == b""
    await wait_until(lambda: client.written != b"")


async def test_a_turn_that_fails_is_told_and_ends_nothing_else(
    ticker: Ticker, pair: ConnectionPair
) -> None:
    class Broken(NotingClient):
        def flush(self) -> None:
            raise OSError("broken")

    pair.output.sink = Broken(pair.output)
    failures: list[object] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, told: failures.append(told["exception"]))
    ticker.busy = BusySelector()
    pair.send(publish("nowhere"))
    ticker.serve()
    loop.set_exception_handler(None)
    assert [str(failure) for failure in failures] == ["broken"]


async def test_a_backlog_goes_on_turn_by_turn(
    ticker: Ticker, pair: ConnectionPair
) -> None:
    pair.send(publish("d") * UNITS_PER_TURN)
    assert pair.connection.has_backlog()
    ticker.wake()
    queue = pair.bench.broker.vhosts["/"].queues["d"]
    await wait_until(lambda: queue.ready_count == UNITS_PER_TURN)
    await wait_until(lambda: not pair.connection.has_backlog())


async def test_dispatch_that_takes_too_long_goes_on_in_the_next_turn(
    ticker: Ticker,
    pair: ConnectionPair,
    client: NotingClient,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ticker_module, "DISPATCH_SECONDS_MAX", -1.0)
    pair.connection.channels[1].publishing.confirms = None
    # Before anybody consumes, or they would be sent on at once.
    pair.send(publish("d") * 400)
    pair.consume("d", no_ack=True)
    ticker.wake()
    queue = pair.bench.broker.vhosts["/"].queues["d"]
    await asyncio.sleep(0)
    # One visit a turn.
    assert queue.ready_count == 400 - 256
    await wait_until(lambda: queue.ready_count == 0)


async def test_writing_that_takes_too_long_goes_on_in_the_next_turn(
    ticker: Ticker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ticker_module, "WRITE_SECONDS_MAX", -1.0)
    clients = [NotingClient(Output(ticker.outputs)) for _ in range(3)]
    for one in clients:
        one.output.sink = one
        one.output.writer().write(b"hello")
    ticker.wake()
    for written in range(3):
        assert [one.written for one in clients].count(b"hello") == written
        await asyncio.sleep(0)
    assert [one.written for one in clients] == [b"hello"] * 3


async def test_large_bodies_leave_slice_by_slice_without_being_asked(
    ticker: Ticker, pair: ConnectionPair, client: NotingClient
) -> None:
    pair.output.send_body(1, bytes(1_000_000))
    ticker.wake()
    await wait_until(lambda: len(client.written) > 1_000_000)
    assert pair.output.size() == 0


async def test_an_output_without_a_socket_is_left_alone(ticker: Ticker) -> None:
    Output(ticker.outputs).writer().write(b"nobody reads this")
    ticker.wake()
    await wait_until(lambda: not ticker.outputs.has_work())


# -- the disk -----------------------------------------------------------------


async def test_who_waits_for_the_disk_does_not_wait_for_the_tick(
    ticker: Ticker, pair: ConnectionPair, client: NotingClient
) -> None:
    pair.send(persistent())
    ticker.wake()
    await wait_until(lambda: client.written != b"")
    assert client.written == method(1, commands.Basic.Ack(1, False))


async def test_who_comes_during_a_sync_gets_the_next_one(
    ticker: Ticker, pair: ConnectionPair, client: NotingClient
) -> None:
    pair.send(persistent())
    ticker.wake()
    await asyncio.sleep(0)
    pair.send(persistent(), persistent())
    ticker.wake()
    await wait_until(lambda: client.written.endswith(b"\x03\x01\xce"))
    acks = [method(1, commands.Basic.Ack(1, False)), b""]
    assert client.written == acks[0] + method(1, commands.Basic.Ack(3, True))


async def test_much_that_is_waited_for_is_written_and_synced_in_one_step(
    bench: Bench,
    ticker: Ticker,
    pair: ConnectionPair,
    client: NotingClient,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    steps = noted_steps(monkeypatch)
    pair.send(persistent(bytes(60_000)) * 18)
    bench.turn()
    assert bench.broker.durability.bytes_waiting > disk_module.WRITE_SIZE
    ticker.wake()
    await wait_until(lambda: client.written != b"")
    assert client.written == method(1, commands.Basic.Ack(18, True))
    assert len(steps) == 1


async def test_with_early_confirms_nobody_waits_for_a_sync(
    bench: Bench, ticker: Ticker, pair: ConnectionPair, client: NotingClient
) -> None:
    bench.store.confirms_early = True
    syncs = bench.store.statistics.syncs
    pair.send(persistent())
    ticker.wake()
    await wait_until(lambda: client.written != b"")
    assert client.written == method(1, commands.Basic.Ack(1, False))
    assert bench.store.statistics.syncs == syncs
    # The tick has it to sync.
    assert bench.broker.durability.has_work


async def test_what_nobody_waits_for_is_synced_with_the_tick(
    bench: Bench, ticker: Ticker, pair: ConnectionPair
) -> None:
    pair.connection.channels[1].publishing.confirms = None
    durability = bench.broker.durability
    quick = Ticker(
        bench.broker, Clock(), asyncio.get_running_loop(), 0.001, lambda _: None
    )
    pair.send(persistent())
    ticker.wake()
    for _ in range(10):
        await asyncio.sleep(0)
    assert durability.bytes_waiting > 0
    quick.wake()
    await wait_until(lambda: not durability.has_work)
    await wait_until(lambda: durability.bytes_in_flight == 0)
    assert durability.bytes_waiting == 0
    quick.close()


async def test_much_that_waits_is_written_at_once_and_not_synced(
    bench: Bench, ticker: Ticker, pair: ConnectionPair
) -> None:
    pair.connection.channels[1].publishing.confirms = None
    durability = bench.broker.durability
    pair.send(persistent(bytes(60_000)) * 18)
    bench.turn()
    assert durability.bytes_waiting > disk_module.WRITE_SIZE
    ticker.wake()
    await wait_until(lambda: durability.bytes_waiting == 0)
    await wait_until(lambda: durability.bytes_in_flight == 0)
    assert durability.has_work
    assert not durability.is_wanted


async def test_a_declaration_is_committed(
    bench: Bench, ticker: Ticker, pair: ConnectionPair, client: NotingClient
) -> None:
    pair.send(method(1, commands.Queue.Declare(queue="e", durable=True)))
    pair.send(method(1, commands.Queue.Declare(queue="f", durable=True)))
    ticker.wake()
    await wait_until(lambda: "f" in bench.broker.vhosts["/"].queues)
    await wait_until(lambda: client.written.count(b"\x00\x32\x00\x0b") == 2)


async def test_sockets_are_not_read_while_the_disk_is_far_behind(
    bench: Bench,
    ticker: Ticker,
    pair: ConnectionPair,
    client: NotingClient,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(disk_module, "BEHIND_SIZE", 10_000)
    paused: Client = client
    ticker.paused.add(paused)
    pair.send(persistent(bytes(20_000)))
    ticker.wake()
    await asyncio.sleep(0)
    assert ticker.is_disk_behind
    regulated = client.regulated
    await wait_until(lambda: not ticker.is_disk_behind)
    # Whoever is paused was looked at again after the disk had caught up.
    await wait_until(lambda: client.regulated > regulated)


async def test_the_disk_is_behind_until_half_of_it_is_done(
    ticker: Ticker, pair: ConnectionPair, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(disk_module, "BEHIND_SIZE", 10_000)
    pair.connection.channels[1].publishing.confirms = None
    pair.send(persistent(bytes(6_000)))
    ticker.wake()
    await wait_until(lambda: not ticker.outputs.has_work())
    assert not ticker.is_disk_behind
    ticker.disk.is_behind = True
    ticker.wake()
    await asyncio.sleep(0)
    assert ticker.is_disk_behind


async def test_a_failed_sync_is_fatal_once_and_nothing_is_begun_after_it(
    ticker: Ticker,
    pair: ConnectionPair,
    client: NotingClient,
    disk: FailingDisk,
    fatal: list[BaseException],
) -> None:
    disk.is_broken = True
    pair.send(persistent())
    ticker.wake()
    await wait_until(lambda: fatal != [])
    assert client.written == method(1, commands.Basic.Nack(1, False, False))
    pair.send(persistent())
    ticker.wake()
    for _ in range(10):
        await asyncio.sleep(0)
    assert len(fatal) == 1
    await ticker.drain()


async def test_a_failed_sync_is_the_last_step_though_its_turn_is_made_at_once(
    bench: Bench,
    ticker: Ticker,
    pair: ConnectionPair,
    disk: FailingDisk,
    fatal: list[BaseException],
) -> None:
    ticker.busy = BusySelector()
    disk.is_broken = True
    pair.send(persistent())
    ticker.serve()
    # The next turn would have its commit begun.
    pair.send(method(1, commands.Queue.Declare(0, "late", durable=True)))
    await wait_until(lambda: fatal != [])
    assert bench.broker.metadata_has_work()


# -- the sweep ----------------------------------------------------------------


async def test_the_sweep_looks_at_everybody_again_and_again(
    ticker: Ticker, client: NotingClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ticker_module, "SWEEP_SECONDS", 0.001)
    ticker.start_sweep(lambda: [client])
    await wait_until(lambda: len(client.looked_at) > 3)
    assert client.looked_at == sorted(client.looked_at)


async def test_heartbeats_leave_though_nothing_else_happens(
    ticker: Ticker, client: NotingClient
) -> None:
    class Beating(NotingClient):
        def on_time(self, now_ms: int) -> None:
            self.output.writer().write(b"heartbeat")

    beating = Beating(client.output)
    client.output.sink = beating
    ticker.start_sweep(lambda: [beating])
    await wait_until(lambda: beating.written == b"heartbeat")


async def test_a_round_of_the_collector_takes_the_place_of_a_turn(
    ticker: Ticker, pair: ConnectionPair, client: NotingClient
) -> None:
    ticker.garbage = GarbageRounds(-60.0, lambda: (0, 0), lambda: (0, 1, 0))
    ticker.start_sweep(list)
    # What comes now finds a turn on its way.
    pair.send(publish("nowhere"))
    await asyncio.sleep(0)
    assert ticker.garbage.due_s > 0
    assert client.written == b""
    await asyncio.sleep(0)
    assert client.written == method(1, commands.Basic.Ack(1, False))


async def test_a_client_that_cannot_be_looked_at_does_not_end_the_sweep(
    ticker: Ticker, client: NotingClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ticker_module, "SWEEP_SECONDS", 0.001)
    failures: list[object] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: failures.append(context))

    class Broken(NotingClient):
        def on_time(self, now_ms: int) -> None:
            raise OSError("broken")

    broken = Broken(client.output)
    with pytest.raises(OSError, match="broken"):
        ticker.start_sweep(lambda: [client, broken])
    await wait_until(lambda: len(client.looked_at) > 3)
    assert failures
    loop.set_exception_handler(None)


# -- the broker's own time ----------------------------------------------------


class Alarm(Timed):
    """Is due after a delay and notes when it was called."""

    def __init__(self, delay_ms: int) -> None:
        super().__init__()
        self.delay_ms = delay_ms
        self.deadline_ms = 0
        self.called_ms = 0

    def on_start(self, now_ms: int) -> int:
        self.deadline_ms = now_ms + self.delay_ms
        return self.deadline_ms

    def on_due(self, now_ms: int) -> int:
        self.called_ms = now_ms
        return NEVER_MS


async def test_what_is_due_happens_though_nobody_sends_anything(
    ticker: Ticker, bench: Bench
) -> None:
    late, early = Alarm(40), Alarm(10)
    for alarm in (late, early):
        bench.broker.timers.start(alarm)
    ticker.wake()
    await wait_until(lambda: late.called_ms > 0)
    assert early.deadline_ms <= early.called_ms <= late.called_ms
    assert late.called_ms >= late.deadline_ms


async def test_a_deadline_before_the_one_slept_for_is_kept(
    ticker: Ticker, bench: Bench
) -> None:
    far, near = Alarm(3_600_000), Alarm(10)
    bench.broker.timers.start(far)
    ticker.wake()
    await wait_until(lambda: far.deadline_ms > 0)
    bench.broker.timers.start(near)
    ticker.wake()
    await wait_until(lambda: near.called_ms > 0)
    assert far.called_ms == 0


async def test_a_clock_that_starts_during_a_turn_gets_the_time_without_being_woken(
    ticker: Ticker, bench: Bench
) -> None:
    follower = Alarm(1)

    class Starter(Alarm):
        def on_due(self, now_ms: int) -> int:
            bench.broker.timers.start(follower)
            return NEVER_MS

    bench.broker.timers.start(Starter(1))
    ticker.wake()
    await wait_until(lambda: follower.called_ms > 0)


async def test_a_clock_that_a_backlog_starts_gets_the_time_without_being_woken(
    ticker: Ticker, bench: Bench, pair: ConnectionPair
) -> None:
    arguments: Any = {"x-expires": 1}
    declare = commands.Queue.Declare(queue="e", arguments=arguments, nowait=True)
    pair.connection.channels[1].publishing.confirms = None
    pair.send(publish("nowhere") * UNITS_PER_TURN, method(1, declare))
    assert pair.connection.has_backlog()
    assert not bench.broker.timers.has_starting
    ticker.wake()
    await wait_until(lambda: not pair.connection.has_backlog())
    await wait_until(lambda: "e" not in bench.broker.vhosts["/"].queues)


# -- the end ------------------------------------------------------------------


async def test_draining_waits_for_all_that_was_begun_or_waits(
    bench: Bench, ticker: Ticker, pair: ConnectionPair
) -> None:
    pair.connection.channels[1].publishing.confirms = None
    pair.send(persistent())
    pair.send(method(1, commands.Queue.Declare(queue="e", durable=True)))
    await ticker.drain()
    durability = bench.broker.durability
    assert not durability.has_work
    assert durability.bytes_in_flight == 0
    assert "e" in bench.broker.vhosts["/"].queues


async def test_a_full_disk_does_not_keep_the_broker_from_ending(
    bench: Bench,
    ticker: Ticker,
    pair: ConnectionPair,
    disk: FailingDisk,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(disk_module, "DRAIN_SECONDS_MAX", 0.05)
    disk.is_full = True
    pair.send(persistent())
    await ticker.drain()
    disk.is_full = False


async def test_the_longest_turn_is_known(ticker: Ticker) -> None:
    assert ticker.turn_seconds_max == 0.0
    ticker.wake()
    await wait_until(lambda: ticker.turn_seconds_max > 0.0)


async def test_a_step_that_cannot_be_completed_is_fatal(
    bench: Bench,
    ticker: Ticker,
    pair: ConnectionPair,
    fatal: list[BaseException],
    disk: FailingDisk,
) -> None:
    # It cannot be told anything: it stands for any mistake of ours.
    bench.store.wait(cast(DurabilityWaiter, object()), 1, 1)
    pair.send(persistent())
    ticker.wake()
    await wait_until(lambda: fatal != [])
    disk.is_broken = True
    assert isinstance(fatal[0], (AttributeError, TypeError))
