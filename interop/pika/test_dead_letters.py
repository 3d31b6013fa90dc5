"""pika: retries, time-outs and bounded queues, as applications build them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pika
import pika.exceptions
import pytest

Name = Callable[[str], str]


def next_message(channel: Any, queue: str) -> tuple[Any, Any, bytes]:
    """Wait for a message and take it, unacked."""
    for method, properties, body in channel.consume(queue, inactivity_timeout=10):
        assert method is not None, "nothing came"
        channel.cancel()
        return method, properties, body
    raise AssertionError("the consumer was cancelled")


def test_failed_work_is_tried_again_after_a_while(channel: Any, name: Name) -> None:
    work, wait = name("work"), name("wait")
    channel.queue_declare(
        work,
        arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": wait},
    )
    channel.queue_declare(
        wait,
        arguments={
            "x-message-ttl": 50,
            "x-dead-letter-exchange": "",
            "x-dead-letter-routing-key": work,
        },
    )
    channel.basic_publish("", work, b"job")
    for attempt in range(3):
        for method, properties, body in channel.consume(work, inactivity_timeout=10):
            assert body == b"job"
            deaths = (properties.headers or {}).get("x-death", [])
            rejections = [one["count"] for one in deaths if one["reason"] == "rejected"]
            assert rejections == ([attempt] if attempt else [])
            channel.basic_nack(method.delivery_tag, requeue=False)
            break
        channel.cancel()


def test_an_order_that_is_not_paid_in_time_is_cancelled(
    channel: Any, name: Name
) -> None:
    unpaid, cancelled, exchange = name("unpaid"), name("cancelled"), name("orders")
    channel.exchange_declare(exchange, "direct")
    channel.queue_declare(cancelled)
    channel.queue_bind(cancelled, exchange, "order")
    channel.queue_declare(unpaid, arguments={"x-dead-letter-exchange": exchange})
    channel.exchange_declare(f"{exchange}-new", "fanout")
    channel.queue_bind(unpaid, f"{exchange}-new")
    expiring = pika.BasicProperties(expiration="50", headers={"customer": 7})
    channel.basic_publish(f"{exchange}-new", "order", b"4711", expiring)
    method, properties, body = next_message(channel, cancelled)
    assert (method.routing_key, body) == ("order", b"4711")
    assert properties.expiration is None
    assert properties.headers["customer"] == 7
    assert properties.headers["x-first-death-reason"] == "expired"
    assert properties.headers["x-death"][0]["original-expiration"] == "50"


def test_a_bounded_queue_keeps_the_newest(channel: Any, name: Name) -> None:
    latest = name("latest")
    channel.queue_declare(latest, arguments={"x-max-length": 10})
    for number in range(100):
        channel.basic_publish("", latest, b"%d" % number)
    found = [channel.basic_get(latest, auto_ack=True)[2] for _ in range(11)]
    assert found == [b"%d" % number for number in range(90, 100)] + [None]


def test_a_publisher_is_told_that_a_queue_is_full(channel: Any, name: Name) -> None:
    bounded = name("bounded")
    arguments = {"x-max-length": 2, "x-overflow": "reject-publish"}
    channel.queue_declare(bounded, arguments=arguments)
    channel.confirm_delivery()
    for _ in range(2):
        channel.basic_publish("", bounded, b"fits")
    with pytest.raises(pika.exceptions.NackError):
        channel.basic_publish("", bounded, b"does not")


def test_poison_is_put_aside(channel: Any, name: Name) -> None:
    work, poison = name("work"), name("poison")
    channel.queue_declare(poison)
    channel.queue_declare(
        work,
        durable=True,
        arguments={
            "x-queue-type": "quorum",
            "x-delivery-limit": 2,
            "x-dead-letter-exchange": "",
            "x-dead-letter-routing-key": poison,
        },
    )
    channel.basic_publish("", work, b"crashes")
    for _ in range(3):
        method, _, _ = channel.basic_get(work)
        while method is None:
            method, _, _ = channel.basic_get(work)
        channel.basic_nack(method.delivery_tag, requeue=True)
    _, properties, body = next_message(channel, poison)
    assert body == b"crashes"
    assert properties.headers["x-death"][0]["reason"] == "delivery_limit"
