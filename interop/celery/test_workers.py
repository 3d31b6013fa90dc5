"""Celery: workers that come and go, and the tasks they leave to others."""

from __future__ import annotations

from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from interop.celery.conftest import Worker, Workers

WAIT_S = 20


def test_workers_that_stop_or_are_killed_leave_their_tasks_to_the_next(
    tasks: ModuleType, workers: Workers, worker: Worker
) -> None:
    queue = f"{tasks.app.conf.task_default_queue}-handed-on"
    # They start at the same time; the second does not know of the queue yet.
    first, second = workers.start(tasks, first=queue, second=f"{queue}-not")

    def take_over(successor: Worker) -> None:
        to = {"reply": True, "timeout": 10, "destination": [successor.name]}
        tasks.app.control.add_consumer(queue, **to)

    # It holds both unacknowledged when it stops.
    waiting = [
        tasks.add.apply_async((number, 0), countdown=2, queue=queue)
        for number in range(2)
    ]
    assert tasks.add.apply_async((1, 1), queue=queue).get(timeout=WAIT_S) == 2
    first.stop()
    take_over(second)
    assert [result.get(timeout=WAIT_S) for result in waiting] == [0, 1]
    running = tasks.sleep.apply_async((1,), queue=queue)
    inspect = tasks.app.control.inspect([second.name], timeout=10, limit=1)
    while not inspect.active()[second.name]:
        pass
    second.kill()
    take_over(worker)
    try:
        assert running.get(timeout=WAIT_S) == 1
    finally:
        to = {"reply": True, "timeout": 10, "destination": [worker.name]}
        tasks.app.control.cancel_consumer(queue, **to)
        with tasks.app.connection_for_write() as connection:
            for name in (queue, f"{queue}-not"):
                connection.default_channel.queue_delete(name)
                connection.default_channel.exchange_delete(name)
