"""Celery with quorum queues: tasks wait in the broker, not in a worker."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from interop.celery.conftest import Workers

# A worker takes its time to start where much else runs.
WAIT_S = 60


def test_a_task_waits_in_the_broker_for_its_time(
    delayed_tasks: ModuleType, workers: Workers
) -> None:
    workers.start(delayed_tasks, delayed=delayed_tasks.NAME)
    task = delayed_tasks.when_and_whence
    sent = time.time()
    delayed = [(task.apply_async(countdown=wait), wait) for wait in (1, 2, 3)]
    # Celery counts whole seconds: of the two and a half that are left, two.
    eta = datetime.now(UTC) + timedelta(seconds=2.5)
    delayed.append((task.apply_async(eta=eta), 2))
    _, exchange = task.delay().get(timeout=WAIT_S)
    assert exchange == delayed_tasks.NAME
    for result, wait in delayed:
        ran_at, exchange = result.get(timeout=WAIT_S)
        # The two queues on its way, at most, count whole milliseconds.
        assert ran_at > sent + wait - 0.002
        # It comes from where it waited last, and was in no worker before.
        assert exchange in ("celery_delayed_0", "celery_delayed_delivery")
