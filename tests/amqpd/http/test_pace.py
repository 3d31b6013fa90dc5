"""Long work is done in slices, and sorted all the same."""

import asyncio
import random
import time

from amqpd.http.pace import (
    NAMES_AT_ONCE,
    SORTED_AT_ONCE,
    Pace,
    sorted_names,
    sorted_slowly,
)
from tests.support.waiting import PATIENCE_S


async def test_others_go_on_between_slices() -> None:
    seen: list[int] = []

    async def other() -> None:
        while True:
            seen.append(1)
            await asyncio.sleep(0)

    task = asyncio.create_task(other())
    pace = Pace()
    deadline = time.monotonic() + PATIENCE_S
    while len(seen) <= 5:
        assert time.monotonic() < deadline, "the others are kept waiting"
        await pace.step()
    task.cancel()


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
