"""An application with quorum queues: Celery then leaves waiting to the broker.

A task with a countdown or an ETA does not go to a worker that holds it, but through 28
exchanges and queues, a pair for each bit of the delay in seconds.
"""

from __future__ import annotations

import os
import time
from typing import Any

from celery import Celery

NAME = os.environ["INTEROP_QUEUE"]

app = Celery("interop_delayed", broker=os.environ["AMQP_URL"], backend="rpc://")
app.conf.update(
    task_default_queue=NAME,
    task_default_queue_type="quorum",
    task_default_exchange=NAME,
    task_default_exchange_type="topic",
    task_default_routing_key=NAME,
    broker_native_delayed_delivery_queue_type="quorum",
    worker_detect_quorum_queues=True,
    control_exchange=f"{NAME}-control",
    event_exchange=f"{NAME}-event",
    task_acks_late=True,
    broker_connection_retry_on_startup=False,
    result_expires=60,
)


@app.task(bind=True)
def when_and_whence(self: Any) -> tuple[float, str]:
    """Return when the task runs, and the exchange that it came from."""
    return time.time(), self.request.delivery_info["exchange"]
