"""The application under test, as a project would write it; the worker imports it."""

from __future__ import annotations

import os
import time
from typing import Any

from celery import Celery

app = Celery("interop", broker=os.environ["AMQP_URL"], backend="rpc://")
app.conf.update(
    # Names of its own, so that several of these can share a broker.
    task_default_queue=os.environ["INTEROP_QUEUE"],
    task_default_exchange=os.environ["INTEROP_QUEUE"],
    task_default_routing_key=os.environ["INTEROP_QUEUE"],
    control_exchange=f"{os.environ['INTEROP_QUEUE']}-control",
    event_exchange=f"{os.environ['INTEROP_QUEUE']}-event",
    worker_prefetch_multiplier=1,
    task_acks_late=True,
    broker_connection_retry_on_startup=False,
    result_expires=60,
)


@app.task
def add(left: int, right: int) -> int:
    return left + right


@app.task(bind=True, max_retries=5)
def fail_until(self: Any, attempt: int) -> int:
    """Fail until the given attempt, counted from 0, and return its number."""
    retries: int = self.request.retries
    if retries < attempt:
        raise self.retry(countdown=0.1)
    return retries


@app.task
def refuse(reason: str) -> None:
    raise ValueError(reason)


@app.task
def now() -> float:
    return time.time()


@app.task
def sleep(seconds: float) -> float:
    time.sleep(seconds)
    return seconds
