"""Celery: workers that come and go, and the tasks they leave to others."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from interop.celery.conftest import Worker

WAIT_S = 20


def test_a_worker_that_stops_leaves_its_waiting_tasks_to_the_next(
    tasks: ModuleType, start_worker: Callable[[str], Worker]
) -> None:
    first = start_worker("first")
    # It holds both unacknowledged when it stops.
    waiting = [tasks.add.apply_async((number, 0), countdown=3) for number in range(2)]
    assert tasks.add.delay(1, 1).get(timeout=WAIT_S) == 2
    first.stop()
    second = start_worker("second")
    assert [result.get(timeout=WAIT_S) for result in waiting] == [0, 1]
    second.stop()


def test_a_worker_that_is_killed_leaves_its_running_task_to_another(
    tasks: ModuleType, start_worker: Callable[[str], Worker]
) -> None:
    victim = start_worker("victim")
    running = tasks.sleep.delay(1.5)
    inspect = tasks.app.control.inspect([victim.name], timeout=1, limit=1)
    while not inspect.active()[victim.name]:
        pass
    victim.kill()
    other = start_worker("other")
    assert running.get(timeout=WAIT_S) == 1.5
    other.stop()
