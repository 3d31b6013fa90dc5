"""What a ticker lets go of when work has ended, before memory is given back."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from amqpd.clock import Clock
from amqpd.net import idle_memory as idle_memory_module
from amqpd.net import ticker as ticker_module
from amqpd.net.idle_memory import IdleMemory
from amqpd.net.ticker import Ticker
from tests.support.connection_pair import Bench
from tests.support.waiting import wait_until


@pytest.fixture
async def ticker(
    fast_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Ticker]:
    """A ticker of an empty broker, for which a turn is work, and soon over."""
    monkeypatch.setattr(ticker_module, "SWEEP_SECONDS", 0.01)
    monkeypatch.setattr(idle_memory_module, "IDLE_SECONDS", 0.05)
    monkeypatch.setattr(idle_memory_module, "TURNS_OF_WORK", 1)
    bench = Bench(fast_path)
    loop = asyncio.get_running_loop()
    ticker = Ticker(bench.broker, Clock(), loop, 3600.0, lambda _: None)
    yield ticker
    ticker.close()
    bench.close()


async def test_a_sweep_after_work_gives_memory_back(ticker: Ticker) -> None:
    garbage = ticker.garbage
    garbage._counts = lambda: (0, 1, 0)
    due_s, writer = garbage.due_s, ticker.outputs.lend()
    ticker.outputs.give_back(writer, 1)
    seen: list[tuple[bool, bool]] = []

    def give_back() -> None:
        seen.append((garbage.due_s > due_s, ticker.outputs.lend() is writer))

    ticker.idle_memory = IdleMemory(ticker.idle_memory.let_go, give_back)
    ticker.start_sweep(list)
    ticker.wake()
    await wait_until(lambda: seen == [(True, False)])


async def test_after_work_nothing_is_kept_of_what_was_read(ticker: Ticker) -> None:
    stores = ticker._broker.upkeep._stores
    assert len(stores) > 1
    for store in stores:
        store.cold._reader._blocks.put(1, b"read")
        store.cold._in_place._blocks.put(1, b"read")
    ticker.start_sweep(list)
    assert all(store.cold.cached_size > 0 for store in stores)
    ticker.wake()
    await wait_until(lambda: not any(store.cold.cached_size for store in stores))


async def test_what_was_read_is_let_go_of_in_the_sweep_that_sees_the_end(
    ticker: Ticker,
) -> None:
    """So that it is free in the next, which gives memory back."""
    let_go = ticker.idle_memory.let_go
    in_flight: list[int] = []

    def let_go_and_look() -> None:
        let_go()
        loop = asyncio.get_running_loop()
        loop.call_soon(lambda: in_flight.append(ticker.disk._reads_in_flight))

    ticker.idle_memory.let_go = let_go_and_look
    ticker.start_sweep(list)
    ticker.wake()
    await wait_until(lambda: bool(in_flight))
    assert in_flight[0] > 0
