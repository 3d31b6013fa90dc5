"""pika: messages for later, and work that is tried again after a while."""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pika

Name = Callable[[str], str]


def test_a_reminder_comes_when_it_is_due(channel: Any, name: Name) -> None:
    exchange, mails = name("reminders"), name("mails")
    channel.exchange_declare(
        exchange,
        "x-delayed-message",
        durable=True,
        arguments={"x-delayed-type": "topic"},
    )
    channel.queue_declare(mails, durable=True)
    channel.queue_bind(mails, exchange, "mail.#")
    channel.confirm_delivery()
    started = time.monotonic()
    for text, delay_ms in ((b"pay", 1200), (b"renew", 600), (b"hello", 0)):
        later = pika.BasicProperties(delivery_mode=2, headers={"x-delay": delay_ms})
        channel.basic_publish(exchange, "mail.customer", text, later, mandatory=True)
    found = []
    for method, properties, body in channel.consume(mails, inactivity_timeout=10):
        assert method is not None, "nothing came"
        found.append((body, properties.headers["x-delay"]))
        channel.basic_ack(method.delivery_tag)
        if len(found) == 3:
            break
    # A broker that counts whole milliseconds may begin in the middle of one.
    assert time.monotonic() - started >= 1.199
    assert found == [(b"hello", 0), (b"renew", -600), (b"pay", -1200)]
    channel.cancel()
    channel.exchange_delete(exchange)


def test_a_web_hook_that_fails_is_called_again_more_and_more_slowly(
    channel: Any, name: Name
) -> None:
    hooks, given_up = name("hooks"), name("given-up")
    channel.queue_declare(given_up)
    channel.queue_declare(
        hooks,
        durable=True,
        arguments={
            "x-delayed-retry-type": "failed",
            "x-delayed-retry-min": 40,
            "x-delayed-retry-max": 60,
            "x-delivery-limit": 3,
            "x-dead-letter-exchange": "",
            "x-dead-letter-routing-key": given_up,
        },
    )
    channel.basic_publish("", hooks, b"POST /hook")
    calls = []
    for method, _, _ in channel.consume(hooks, inactivity_timeout=10):
        assert method is not None, "nothing came"
        calls.append(time.monotonic())
        channel.basic_reject(method.delivery_tag, requeue=True)
        if len(calls) == 4:
            break
    channel.cancel()
    pauses = [later - earlier for earlier, later in pairwise(calls)]
    # Whole milliseconds are counted: a pause may begin in the middle of one.
    assert pauses[0] >= 0.039
    assert min(pauses[1:]) >= 0.059
    for method, properties, body in channel.consume(given_up, inactivity_timeout=10):
        assert method is not None, "nothing came"
        assert body == b"POST /hook"
        assert properties.headers["x-death"][0]["reason"] == "delivery_limit"
        break
    channel.cancel()
