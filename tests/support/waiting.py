"""Waiting for what must happen, and failing when it does not."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Final

PATIENCE_S: Final = 20.0


def has_waited(since_s: float, wait_ms: float, waits: int = 1) -> bool:
    """Tell whether `waits` times `wait_ms` have passed, one wait after the other.

    The broker counts whole milliseconds: each wait may begin in the middle of one, and
    is then shorter by less than that. `since_s` is of the monotonic clock.
    """
    return (time.monotonic() - since_s) * 1000 > waits * (wait_ms - 1)


async def wait_until(is_so: Callable[[], bool]) -> None:
    """Let the loop run until `is_so`.

    Raises:
        AssertionError: it never was.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + PATIENCE_S
    while not is_so():
        assert loop.time() < deadline, "waited for something that did not happen"
        await asyncio.sleep(0.001)


def eventually(is_so: Callable[[], bool]) -> None:
    """Ask again and again until `is_so`.

    Raises:
        AssertionError: it never was.
    """
    deadline = time.monotonic() + PATIENCE_S
    while not is_so():
        assert time.monotonic() < deadline, "waited for something that did not happen"
        time.sleep(0.002)
