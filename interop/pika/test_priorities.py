"""pika: queues with priorities."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pika
import pytest

Name = Callable[[str], str]


@pytest.fixture
def queue(channel: Any, name: Name) -> str:
    """The name of a durable queue with priorities from 0 to 10."""
    made = name("priorities")
    channel.queue_declare(made, durable=True, arguments={"x-max-priority": 10})
    channel.confirm_delivery()
    return made


def publish(channel: Any, queue: str, body: bytes, priority: int | None) -> None:
    properties = pika.BasicProperties(delivery_mode=2, priority=priority)
    channel.basic_publish("", queue, body, properties)


def test_urgent_messages_overtake(channel: Any, queue: str) -> None:
    for body, priority in (
        (b"none", None),
        (b"low", 1),
        (b"urgent", 10),
        (b"low too", 1),
        (b"above", 200),
    ):
        publish(channel, queue, body, priority)
    found = []
    for method, properties, body in channel.consume(queue, inactivity_timeout=20):
        found.append((body, properties.priority))
        channel.basic_ack(method.delivery_tag)
        if len(found) == 5:
            break
    assert found == [
        (b"urgent", 10),
        (b"above", 200),
        (b"low", 1),
        (b"low too", 1),
        (b"none", None),
    ]


def test_a_rejected_message_is_next_again_unless_something_is_more_urgent(
    channel: Any, queue: str
) -> None:
    publish(channel, queue, b"a", 5)
    publish(channel, queue, b"b", 5)
    method, _, _ = channel.basic_get(queue)
    channel.basic_reject(method.delivery_tag, requeue=True)
    publish(channel, queue, b"c", 6)
    found = [channel.basic_get(queue, auto_ack=True)[2] for _ in range(3)]
    assert found == [b"c", b"a", b"b"]
