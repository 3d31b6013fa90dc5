"""What blocks is done on threads: windows, pages, files that go; and when it ends."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from pamqp import commands

from amqpd.broker.broker import BUDGETS
from amqpd.broker.queues.pager import MemoryBudgets
from amqpd.broker.queues.queue import Queue
from amqpd.broker.queues.survey import SLICE_COUNT
from amqpd.clock import Clock
from amqpd.net import disk as disk_module
from amqpd.net import ticker as ticker_module
from amqpd.net.disk import TimedStep
from amqpd.net.ticker import Client, Ticker
from tests.support.connection_pair import Bench
from tests.support.content import PERSISTENT_PROPERTIES, publish
from tests.support.deliveries import ConsumingChannel, message_of, persistent_message
from tests.support.failing_disk import FailingDisk
from tests.support.little_memory import UnreadableDisk
from tests.support.waiting import wait_until

BODY = bytes(1500)


@pytest.fixture
def failing() -> FailingDisk:
    return FailingDisk()


@pytest.fixture
def budgets() -> MemoryBudgets:
    """No memory at all, unless a test wants another budget."""
    return MemoryBudgets(0, 0)


@pytest.fixture
def bench(
    fast_path: Path, failing: FailingDisk, budgets: MemoryBudgets
) -> Iterator[Bench]:
    bench = Bench(fast_path, failing, budgets=budgets)
    pair = bench.connect()
    pair.declare("q", durable=True)
    pair.declare("t")
    yield bench
    if not failing.is_broken:
        bench.close()


@pytest.fixture
def fatal() -> list[BaseException]:
    return []


@pytest.fixture
async def ticker(bench: Bench, fatal: list[BaseException]) -> AsyncIterator[Ticker]:
    """A ticker with a short tick."""
    loop = asyncio.get_running_loop()
    ticker = Ticker(bench.broker, Clock(), loop, 0.002, fatal.append)
    bench.outputs = ticker.outputs
    bench.pending = ticker.pending
    yield ticker
    await ticker.drain()
    ticker.close()


def queue_of(bench: Bench, name: str) -> Queue:
    return bench.broker.vhosts["/"].queues[name]


def no_clients() -> list[Client]:
    return []


@pytest.mark.parametrize("name", ["q", "t"])
async def test_messages_leave_memory_and_come_back(
    bench: Bench, ticker: Ticker, name: str
) -> None:
    queue = queue_of(bench, name)
    make = persistent_message if name == "q" else message_of
    for _ in range(100):
        queue.publish(make(BODY))
    ticker.start_sweep(no_clients)
    ticker.wake()
    await wait_until(lambda: not queue.has_memory())
    channel = ConsumingChannel()
    channel.subscribe(queue, "t", no_ack=True)
    taken = []

    def takes() -> bool:
        taken.extend(channel.take_deliveries())
        channel.output.wake_consumers()
        ticker.wake()
        return len(taken) == 100

    await wait_until(takes)
    assert [tag for _, tag, _, _ in taken] == list(range(1, 101))


@pytest.fixture
def unreadable() -> UnreadableDisk:
    return UnreadableDisk()


@pytest.fixture
def restarted(fast_path: Path, unreadable: UnreadableDisk) -> Iterator[Bench]:
    """A broker that has found cold messages whose time is over: two slices of them."""
    bench = Bench(fast_path / "d", unreadable)
    bench.connect().declare("q", durable=True)
    for _ in range(SLICE_COUNT + 1):
        message = persistent_message()
        message.expires_ms = 1
        queue_of(bench, "q").publish(message)
    bench.close()
    bench = Bench(fast_path / "d", unreadable)
    yield bench
    bench.close()


@pytest.fixture
async def restarted_ticker(
    restarted: Bench, fatal: list[BaseException]
) -> AsyncIterator[Ticker]:
    loop = asyncio.get_running_loop()
    ticker = Ticker(restarted.broker, Clock(), loop, 0.002, fatal.append)
    yield ticker
    await ticker.drain()
    ticker.close()


async def test_deadlines_that_a_start_has_found_are_read_in_passing(
    restarted: Bench, restarted_ticker: Ticker
) -> None:
    queue = queue_of(restarted, "q")
    assert queue.ready_count == SLICE_COUNT + 1
    restarted_ticker.start_sweep(no_clients)
    await wait_until(lambda: queue.ready_count == 0)
    assert not restarted.broker.survey.has_work


async def test_deadlines_that_cannot_be_read_are_told_of(
    restarted: Bench,
    restarted_ticker: Ticker,
    unreadable: UnreadableDisk,
    caplog: pytest.LogCaptureFixture,
) -> None:
    unreadable.is_unreadable = True
    restarted_ticker.start_sweep(no_clients)
    await wait_until(lambda: "times to live cannot be read" in caplog.text)
    unreadable.is_unreadable = False
    assert restarted.broker.survey.has_work


async def test_settles_reach_the_paging_log_with_the_tick(
    bench: Bench, ticker: Ticker
) -> None:
    queue = queue_of(bench, "t")
    for _ in range(3):
        queue.publish(message_of(BODY))
    ticker.start_sweep(no_clients)
    ticker.wake()
    await wait_until(lambda: not queue.has_memory())
    (paged,) = bench.paging.index.queues.values()
    assert paged.live_count == 3
    queue.purge()
    ticker.wake()
    await wait_until(lambda: paged.live_count == 0)


async def test_a_window_that_cannot_be_read_is_tried_again(
    bench: Bench,
    ticker: Ticker,
    monkeypatch: pytest.MonkeyPatch,
    fast_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(ticker_module, "SWEEP_SECONDS", 0.01)
    queue = queue_of(bench, "q")
    queue.publish(persistent_message(BODY))
    bench.sync()
    bench.page_out()
    log, away = fast_path / "log", fast_path / "away"
    log.rename(away)
    channel = ConsumingChannel()
    channel.subscribe(queue, "t")
    ticker.start_sweep(no_clients)
    ticker.wake()
    await wait_until(lambda: "messages cannot be read" in caplog.text)
    away.rename(log)
    await wait_until(lambda: len(channel.take()) == 1)


class ThreadsOfReads(FailingDisk):
    """A disk that knows on which thread it was read, and what may be at hand."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []
        self.is_all_far = False

    def read(self, descriptor: int, size: int, offset: int) -> bytes:
        self.names.append(threading.current_thread().name)
        return super().read(descriptor, size, offset)

    def is_at_hand(self, descriptor: int, size: int, offset: int) -> bool:
        return not self.is_all_far


@pytest.mark.parametrize("is_all_far", [False, True])
async def test_the_loop_reads_what_is_in_memory_and_nothing_else(
    fast_path: Path, fatal: list[BaseException], is_all_far: bool
) -> None:
    disk = ThreadsOfReads()
    disk.is_all_far = is_all_far
    bench = Bench(fast_path, disk, budgets=MemoryBudgets(0, 0))
    bench.connect().declare("q", durable=True)
    queue = queue_of(bench, "q")
    for _ in range(1000):
        queue.publish(persistent_message(BODY))
    bench.sync()
    bench.page_out()
    loop = asyncio.get_running_loop()
    ticker = Ticker(bench.broker, Clock(), loop, 0.002, fatal.append)
    disk.names.clear()
    channel = ConsumingChannel()
    channel.subscribe(queue, "t", no_ack=False)
    taken: list[object] = []

    def takes() -> bool:
        taken.extend(channel.take_deliveries())
        channel.output.wake_consumers()
        ticker.wake()
        return len(taken) == 1000

    await wait_until(takes)
    loop_reads = disk.names.count(threading.current_thread().name)
    # The first window of a segment opens its files, which is not for the loop.
    assert disk.names[0] == "amqpd-read"
    if is_all_far:
        assert not loop_reads
    else:
        assert loop_reads >= len(disk.names) - 5
    await ticker.drain()
    ticker.close()
    bench.close()


async def test_windows_that_come_back_together_reach_their_queues_bit_by_bit(
    bench: Bench, ticker: Ticker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(disk_module, "LOADED_SECONDS_MAX", -1.0)
    count = 10
    pair = bench.connect()
    channel = ConsumingChannel()
    for at in range(count):
        pair.declare(f"q{at}", durable=True)
        queue_of(bench, f"q{at}").publish(persistent_message(BODY))
    bench.sync()
    bench.page_out()
    for at in range(count):
        channel.subscribe(queue_of(bench, f"q{at}"), f"t{at}", no_ack=True)
    ticker.wake()
    taken: list[tuple[str, bytes]] = []

    def takes() -> bool:
        taken.extend(channel.take())
        return len(taken) == count

    await wait_until(takes)
    assert sorted(tag for tag, _ in taken) == sorted(f"t{at}" for at in range(count))


async def test_a_wait_has_an_age_until_it_is_over(bench: Bench, ticker: Ticker) -> None:
    pair = bench.connect()
    pair.call(1, commands.Confirm.Select(), commands.Confirm.SelectOk)
    pair.send(publish("q", b"x", properties=PERSISTENT_PROPERTIES))
    ticker.disk.turn(ticker.now_ms() - 5_000)
    assert ticker.wait_seconds >= 5.0
    await wait_until(lambda: ticker.wait_seconds == 0.0)
    assert bench.broker.durability.waiting_count == 0


async def test_with_sync_always_nothing_waits_for_a_tick(bench: Bench) -> None:
    loop = asyncio.get_running_loop()
    ticker = Ticker(bench.broker, Clock(), loop, 0.0, lambda _: None)
    bench.now_ms += 1
    queue_of(bench, "q").publish(persistent_message(BODY))
    syncs = bench.store.statistics.syncs
    ticker.wake()
    await wait_until(lambda: bench.store.statistics.syncs > syncs)
    assert bench.store.statistics.sync_seconds > 0
    await ticker.drain()
    ticker.close()


async def test_a_full_disk_is_asked_again(
    bench: Bench, ticker: Ticker, failing: FailingDisk
) -> None:
    failing.is_full = True
    queue_of(bench, "q").publish(persistent_message(BODY))
    ticker.wake()
    await wait_until(lambda: bench.store.is_disk_full)
    failing.is_full = False
    # The probe's pause is over for who has a clock.
    await wait_until(lambda: not bench.store.is_disk_full)


@pytest.mark.parametrize("budgets", [BUDGETS])
async def test_files_that_nobody_needs_are_removed_in_passing(
    bench: Bench, ticker: Ticker, monkeypatch: pytest.MonkeyPatch, fast_path: Path
) -> None:
    monkeypatch.setattr(ticker_module, "SWEEP_SECONDS", 0.001)
    queue = queue_of(bench, "t")
    pager = bench.broker.pager
    for seq in range(1, 8):
        queue.publish(message_of(bytes(20_000)))
        reference = queue.get(no_ack=False)
        assert reference is not None
        pager.page(reference, seq)
        bench.write_pages()
        bench.paging.forget_queue(seq)
    paging = fast_path / "paging"
    before = len(list(paging.glob("*.seg")))
    ticker.start_sweep(no_clients)
    ticker.wake()
    await wait_until(lambda: len(list(paging.glob("*.seg"))) < before)


async def test_what_goes_wrong_with_upkeep_is_logged(
    bench: Bench, ticker: Ticker, caplog: pytest.LogCaptureFixture
) -> None:
    bench.store.maintenance.problems.append("the moon is full")
    with caplog.at_level(logging.WARNING):
        ticker.disk.on_time(0)
    assert "the moon is full" in caplog.text


async def test_after_a_failed_sync_nothing_is_begun(
    bench: Bench, ticker: Ticker, failing: FailingDisk, fatal: list[BaseException]
) -> None:
    failing.is_broken = True
    queue_of(bench, "q").publish(persistent_message(BODY))
    ticker.wake()
    await wait_until(lambda: fatal != [])
    bench.store.maintenance.problems.append("not told any more")
    ticker.disk.on_time(0)
    assert bench.store.maintenance.problems != []
    ticker.wake()
    await asyncio.sleep(0)
    assert ticker.disk.is_failed


async def test_at_the_end_no_window_is_begun(bench: Bench, ticker: Ticker) -> None:
    queue = queue_of(bench, "q")
    queue.publish(persistent_message(BODY))
    bench.sync()
    bench.page_out()
    await ticker.drain()
    ConsumingChannel().subscribe(queue, "t")
    ticker.wake()
    for _ in range(5):
        await asyncio.sleep(0)
    ticker.disk.on_time(ticker.now_ms() + 600_000)
    assert not ticker.disk.is_busy
    assert queue.is_wanting


def test_a_step_knows_how_long_it_took() -> None:
    class Slow:
        def run(self) -> None:
            sum(range(1000))

    timed = TimedStep(Slow())
    assert timed.seconds == 0
    timed.run()
    assert timed.seconds > 0
