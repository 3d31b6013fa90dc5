"""Celery: workers that come and go, and the tasks they leave to others."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from interop.celery.conftest import Worker

WAIT_S = 20


def test_workers_that_stop_or_are_killed_leave_their_tasks_to_the_next(
    tasks: ModuleType, start_worker: Callable[[str], Worker]
) -> None:
    first = start_worker("first")
    # It holds both unacknowledged when it stops.
    waiting = [tasks.add.apply_async((number, 0), countdown=3) for number in range(2)]
    assert tasks.add.delay(1, 1).get(timeout=WAIT_S) == 2
    first.stop()
    second = start_worker("second")
    assert [result.get(timeout=WAIT_S) for result in waiting] == [0, 1]
    running = tasks.sleep.delay(1.5)
    inspect = tasks.app.control.inspect([second.name], timeout=10, limit=1)
    while not inspect.active()[second.name]:
        pass
    second.kill()
    third = start_worker("third")
    assert running.get(timeout=WAIT_S) == 1.5
    third.stop()
