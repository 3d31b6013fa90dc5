"""x-consumer-timeout: what is not acked in time goes back; nobody is closed for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pamqp.commands import Basic, Queue

from tests.support.differences import Expectations
from tests.support.raw_client import Message, RawClient

Connect = Callable[[], RawClient]

TIMEOUT_MS = 300
ARGUMENTS: Any = {"x-consumer-timeout": TIMEOUT_MS}


def consume(client: RawClient, queue: str, arguments: Any = None) -> None:
    client.call(1, Basic.Qos(0, 1), Basic.QosOk)
    sent = Basic.Consume(0, queue, "t", arguments=arguments)
    client.call(1, sent, Basic.ConsumeOk)


def delivery(client: RawClient) -> tuple[Basic.Deliver, Message]:
    message = client.expect_message(1, Basic.Deliver)
    assert isinstance(message.method, Basic.Deliver)
    return message.method, message


@pytest.mark.parametrize("whose", ["queue", "consumer"])
def test_another_consumer_gets_what_was_not_acked_in_time(
    client: RawClient,
    connect: Connect,
    fresh_name: Callable[[], str],
    expectations: Expectations,
    whose: str,
) -> None:
    name = fresh_name()
    declare = Queue.Declare(0, name, arguments=ARGUMENTS if whose == "queue" else {})
    client.call(1, declare, Queue.DeclareOk)
    stuck, quick = connect(), connect()
    consume(stuck, name, ARGUMENTS if whose == "consumer" else None)
    client.publish_to_queue(name, b"job")
    method, _ = delivery(stuck)
    if expectations.differ("consumer-timeout"):
        return
    consume(quick, name)
    again, message = delivery(quick)
    assert (again.redelivered, message.body) == (True, b"job")
    quick.send_method(1, Basic.Ack(again.delivery_tag or 0))
    # The one that was stuck comes back late; its channel is as it was.
    stuck.send_method(1, Basic.Ack(method.delivery_tag or 0))
    quick.call(1, Basic.Cancel("t"), Basic.CancelOk)
    client.publish_to_queue(name, b"next")
    method, message = delivery(stuck)
    assert (method.redelivered, message.body) == (False, b"next")
