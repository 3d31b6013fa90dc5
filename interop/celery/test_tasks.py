"""Celery: tasks with results, retries, ETA, chains and groups, and remote control."""

from __future__ import annotations

import time
from types import ModuleType
from typing import TYPE_CHECKING

import pytest
from celery import chain, group
from celery.exceptions import TaskRevokedError

if TYPE_CHECKING:
    from interop.celery.conftest import Worker

WAIT_S = 20

pytestmark = pytest.mark.usefixtures("worker")


def test_a_task_returns_its_result(tasks: ModuleType) -> None:
    assert tasks.add.delay(2, 3).get(timeout=WAIT_S) == 5


def test_many_tasks_return_their_own_results(tasks: ModuleType) -> None:
    results = [tasks.add.delay(number, 1) for number in range(50)]
    answers = [result.get(timeout=WAIT_S) for result in results]
    assert answers == list(range(1, 51))


def test_an_exception_travels_back(tasks: ModuleType) -> None:
    with pytest.raises(ValueError, match="not like this"):
        tasks.refuse.delay("not like this").get(timeout=WAIT_S)


def test_a_task_that_retries_gets_there(tasks: ModuleType) -> None:
    assert tasks.fail_until.delay(3).get(timeout=WAIT_S) == 3


def test_a_task_with_a_countdown_waits(tasks: ModuleType) -> None:
    sent = time.time()
    result = tasks.now.apply_async(countdown=1)
    assert result.get(timeout=WAIT_S) >= sent + 1


def test_tasks_that_wait_do_not_keep_others_from_running(tasks: ModuleType) -> None:
    # The worker holds them unacknowledged, more of them than its prefetch count was,
    # and raises the count at run time: only a global basic.qos can do that.
    waiting = [tasks.now.apply_async(countdown=6) for _ in range(20)]
    ran_at = tasks.now.delay().get(timeout=WAIT_S)
    assert ran_at < min(result.get(timeout=WAIT_S) for result in waiting)


def test_the_prefetch_count_comes_back_when_nothing_waits(
    tasks: ModuleType, worker: Worker
) -> None:
    waiting = [tasks.add.apply_async((number, 0), countdown=1) for number in range(5)]
    for result in waiting:
        result.get(timeout=WAIT_S)
    assert tasks.add.delay(1, 1).get(timeout=WAIT_S) == 2
    stats = tasks.app.control.inspect([worker.name], timeout=10, limit=1).stats()
    assert stats[worker.name]["prefetch_count"] == 2


def test_a_chain_hands_results_on(tasks: ModuleType) -> None:
    result = chain(tasks.add.s(1, 2), tasks.add.s(3), tasks.add.s(4))()
    assert result.get(timeout=WAIT_S) == 10


def test_a_group_runs_together(tasks: ModuleType) -> None:
    result = group(tasks.add.s(number, number) for number in range(8))()
    assert result.get(timeout=WAIT_S) == [2 * number for number in range(8)]


def test_a_task_may_go_to_another_queue(tasks: ModuleType, worker: Worker) -> None:
    control, queue = tasks.app.control, f"{tasks.app.conf.task_default_queue}-other"
    control.add_consumer(queue, reply=True, timeout=10, destination=[worker.name])
    try:
        result = tasks.add.apply_async((20, 22), queue=queue)
        assert result.get(timeout=WAIT_S) == 42
    finally:
        control.cancel_consumer(
            queue, reply=True, timeout=10, destination=[worker.name]
        )
        with tasks.app.connection_for_write() as connection:
            connection.default_channel.queue_delete(queue)
            connection.default_channel.exchange_delete(queue)


def test_workers_answer_a_ping(tasks: ModuleType, worker: Worker) -> None:
    # A busy worker may answer after the asker has given up: ask again.
    deadline = time.monotonic() + WAIT_S
    while not (answers := tasks.app.control.ping(timeout=10, limit=1)):
        assert time.monotonic() < deadline
    assert answers == [{worker.name: {"ok": "pong"}}]


def test_inspection_tells_what_a_worker_does(tasks: ModuleType, worker: Worker) -> None:
    inspect = tasks.app.control.inspect([worker.name], timeout=10, limit=1)
    assert f"{tasks.__name__}.add" in inspect.registered()[worker.name]
    (queue,) = inspect.active_queues()[worker.name]
    assert queue["name"] == tasks.app.conf.task_default_queue
    result = tasks.add.apply_async((1, 1), countdown=60)
    deadline = time.monotonic() + WAIT_S
    while not (scheduled := inspect.scheduled()[worker.name]):
        assert time.monotonic() < deadline
    assert [task["request"]["id"] for task in scheduled] == [result.id]
    tasks.app.control.revoke(result.id)


def test_the_pool_grows_and_the_prefetch_count_with_it(
    tasks: ModuleType, worker: Worker
) -> None:
    control, to = (
        tasks.app.control,
        {"destination": [worker.name], "reply": True, "timeout": 10},
    )
    inspect = control.inspect([worker.name], timeout=10, limit=1)

    def held_count() -> int:
        """Count the messages that the worker has and has not acknowledged."""
        kinds = (inspect.active(), inspect.reserved(), inspect.scheduled())
        return sum(len(kind[worker.name]) for kind in kinds)

    # What waits for its time counts as well: two, and perhaps more.
    before = inspect.stats()[worker.name]["prefetch_count"]
    control.pool_grow(2, **to)
    assert inspect.stats()[worker.name]["prefetch_count"] == before + 2
    results = [tasks.sleep.delay(0.5) for _ in range(before + 4)]
    deadline = time.monotonic() + WAIT_S
    while held_count() < before + 2:
        assert time.monotonic() < deadline
    assert [result.get(timeout=WAIT_S) for result in results] == [0.5] * (before + 4)
    control.pool_shrink(2, **to)
    assert inspect.stats()[worker.name]["prefetch_count"] == before


def test_a_rate_limit_may_be_set_and_taken_away(
    tasks: ModuleType, worker: Worker
) -> None:
    control, to = (
        tasks.app.control,
        {"destination": [worker.name], "reply": True, "timeout": 10},
    )
    (reply,) = control.rate_limit(f"{tasks.__name__}.add", "100/s", **to)
    assert reply[worker.name] == {"ok": "new rate limit set successfully"}
    results = [tasks.add.delay(number, 0) for number in range(10)]
    assert [result.get(timeout=WAIT_S) for result in results] == list(range(10))
    control.rate_limit(f"{tasks.__name__}.add", 0, **to)


def test_a_revoked_task_does_not_run(tasks: ModuleType) -> None:
    result = tasks.add.apply_async((1, 1), countdown=1)
    tasks.app.control.revoke(result.id)
    with pytest.raises(TaskRevokedError):
        result.get(timeout=WAIT_S)
