"""Celery and kombu: urgent tasks and messages overtake, as their guides have it."""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest
from kombu import Connection, Consumer, Exchange, Producer, Queue

if TYPE_CHECKING:
    from interop.celery.conftest import Worker

WAIT_S = 20
HIGHEST = 10


@pytest.fixture
def queue(tasks: ModuleType) -> Iterator[Any]:
    """A queue with priorities, that is deleted afterwards."""
    name = f"{tasks.app.conf.task_default_queue}-priorities"
    queue = Queue(name, Exchange(name), routing_key=name, max_priority=HIGHEST)
    with tasks.app.connection_for_write() as connection:
        queue(connection.default_channel).declare()
        yield queue
        connection.default_channel.queue_delete(name)
        connection.default_channel.exchange_delete(name)


def test_kombu_messages_come_by_priority(amqp_url: str, queue: Any) -> None:
    found: list[int] = []

    def on_message(body: int, message: Any) -> None:
        found.append(body)
        message.ack()

    with Connection(amqp_url, transport_options={"confirm_publish": True}) as here:
        producer = Producer(here, exchange=queue.exchange, routing_key=queue.name)
        for priority in (0, 3, 10, 3, 9, 0):
            producer.publish(priority, priority=priority)
        with Consumer(here, queue, callbacks=[on_message]):
            while len(found) < 6:
                here.drain_events(timeout=WAIT_S)
    assert found == [10, 9, 3, 3, 0, 0]


def test_urgent_tasks_run_before_those_that_came_first(
    tasks: ModuleType, worker: Worker, queue: Any
) -> None:
    lazy = [tasks.now.apply_async(queue=queue, priority=1) for _ in range(10)]
    urgent = [tasks.now.apply_async(queue=queue, priority=9) for _ in range(10)]
    control = tasks.app.control
    options = {"queue_arguments": {"x-max-priority": HIGHEST}}
    to = {"reply": True, "timeout": 10, "destination": [worker.name]}
    control.add_consumer(queue.name, options=options, **to)
    try:
        ends = [(result.get(timeout=WAIT_S), 9) for result in urgent]
        ends += [(result.get(timeout=WAIT_S), 1) for result in lazy]
    finally:
        control.cancel_consumer(queue.name, **to)
    # Two run at a time, so the last urgent one and the first other may.
    assert [priority for _, priority in sorted(ends)[:9]] == [9] * 9
