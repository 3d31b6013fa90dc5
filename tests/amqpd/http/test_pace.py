"""Long work is done in slices, and sorted all the same."""

import asyncio
import random
from types import SimpleNamespace

import pytest

from amqpd.http import pace as pace_module
from amqpd.http.pace import (
    NAMES_AT_ONCE,
    SLICE_SECONDS,
    SORTED_AT_ONCE,
    Pace,
    sorted_names,
    sorted_slowly,
)


async def test_others_go_on_between_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = 100.0
    clock = SimpleNamespace(perf_counter=lambda: now_s)
    monkeypatch.setattr(pace_module, "time", clock)
    seen: list[int] = []

    async def other() -> None:
        while True:
            seen.append(1)
            await asyncio.sleep(0)

    task = asyncio.create_task(other())
    pace = Pace()
    for _ in range(60):
        now_s += 0.4 * SLICE_SECONDS
        await pace.step()
    task.cancel()
    # Every third step ends a slice.
    assert len(seen) == 20


async def test_many_are_sorted_like_few() -> None:
    numbers = list(range(3 * SORTED_AT_ONCE + 7))
    random.Random(1).shuffle(numbers)
    found = await sorted_slowly(numbers, lambda number: -number, Pace())
    assert found == sorted(numbers, reverse=True)
    assert await sorted_slowly([], str, Pace()) == []


async def test_equals_keep_their_order() -> None:
    pairs = [(0, number) for number in range(2 * SORTED_AT_ONCE)]
    assert await sorted_slowly(pairs, lambda pair: pair[0], Pace()) == pairs


async def test_names_are_sorted_however_many() -> None:
    for count in (0, 10, NAMES_AT_ONCE + 1):
        names = [f"n{number}" for number in range(count)]
        assert await sorted_names(reversed(names), Pace()) == sorted(names)
