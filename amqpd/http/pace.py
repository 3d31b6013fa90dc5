"""Long work on the loop, in slices: clients are not kept waiting for a list.

pace = Pace()
for queue in queues:
    ...
    await pace.step()        gives the loop back every few milliseconds
"""

from __future__ import annotations

import asyncio
import heapq
import time
from collections.abc import Callable, Iterable
from typing import Any, Final, TypeVar, final

T = TypeVar("T")

SLICE_SECONDS: Final = 0.001
#: Sorting so many takes less than a slice.
SORTED_AT_ONCE: Final = 1000
NAMES_AT_ONCE: Final = 10_000


@final
class Pace:
    """Knows how long the loop has been held."""

    def __init__(self) -> None:
        self._until = time.perf_counter() + SLICE_SECONDS

    async def step(self) -> None:
        """Let others go on if it is time."""
        if time.perf_counter() > self._until:
            await asyncio.sleep(0)
            self._until = time.perf_counter() + SLICE_SECONDS


async def sorted_names(names: Iterable[str], pace: Pace) -> list[str]:
    """Return names in order; so many are sorted before anybody notices."""
    found = list(names)
    if len(found) > NAMES_AT_ONCE:
        return await sorted_slowly(found, str, pace)
    found.sort()
    await pace.step()
    return found


async def sorted_slowly(
    items: Iterable[T], key: Callable[[T], Any], pace: Pace
) -> list[T]:
    """Return the items in order, without holding the loop however many there are."""
    runs: list[list[T]] = [[]]
    for item in items:
        if len(runs[-1]) == SORTED_AT_ONCE:
            runs[-1].sort(key=key)
            runs.append([])
        runs[-1].append(item)
        await pace.step()
    runs[-1].sort(key=key)
    if len(runs) == 1:
        return runs[0]
    merged: list[T] = []
    for item in heapq.merge(*runs, key=key):
        merged.append(item)
        await pace.step()
    return merged
