"""What a broker does when its time has come, with nobody doing anything."""

from __future__ import annotations

from typing import Any

import pytest
from pamqp import commands
from pamqp.commands import Basic, Queue

from amqpd.testing import AmqpdServer
from tests.server.conftest import FreshName
from tests.support.differences import Expectations
from tests.support.raw_client import Endpoint, RawClient


def wait_until_gone(client: RawClient, queue: str) -> None:
    """Publish to a queue until the messages come back: that does not count as use."""
    confirm = commands.Confirm.Select()
    client.call(1, confirm, commands.Confirm.SelectOk)
    while True:
        client.publish(1, Basic.Publish(0, "", queue, mandatory=True))
        method = client.next_frame().method
        if isinstance(method, Basic.Return):
            client.content_of(1, method)
            client.expect_method(1, Basic.Ack)
            return
        assert isinstance(method, Basic.Ack)


@pytest.mark.parametrize("durable", [False, True])
def test_a_queue_that_nobody_uses_expires(
    client: RawClient, fresh_name: FreshName, durable: bool
) -> None:
    name = fresh_name()
    declare = Queue.Declare(0, name, durable=durable, arguments={"x-expires": 150})
    client.call(1, declare, Queue.DeclareOk)
    wait_until_gone(client, name)


def test_a_queue_with_a_consumer_does_not_expire_before_that_is_gone(
    client: RawClient, fresh_name: FreshName
) -> None:
    name = fresh_name()
    short = fresh_name()
    for queue, expires_ms in ((name, 500), (short, 700)):
        declare = Queue.Declare(0, queue, arguments={"x-expires": expires_ms})
        client.call(1, declare, Queue.DeclareOk)
    client.call(1, Basic.Consume(0, name, "tag"), Basic.ConsumeOk)
    # The other one, which has more time, is gone, this one is not.
    wait_until_gone(client, short)
    client.call(1, Basic.Cancel("tag"), Basic.CancelOk)
    client.publish(1, Basic.Publish(0, "", name, mandatory=True))
    assert isinstance(client.next_frame().method, Basic.Ack)
    wait_until_gone(client, name)


def test_a_delivery_that_is_kept_too_long_goes_back(
    client: RawClient, expectations: Expectations
) -> None:
    queue = client.temporary_queue()
    arguments: Any = {"x-consumer-timeout": 100}
    consume = Basic.Consume(0, queue, "tag", arguments=arguments)
    client.call(1, consume, Basic.ConsumeOk)
    client.publish_to_queue(queue, b"slow")
    first = client.expect_message(1, Basic.Deliver)
    if expectations.differ("consumer-timeout"):
        return
    again = client.expect_message(1, Basic.Deliver)
    assert (first.body, again.body) == (b"slow", b"slow")
    assert isinstance(again.method, Basic.Deliver)
    assert again.method.redelivered


def test_a_durable_queue_expires_after_a_restart_without_any_client(
    amqpd_server: AmqpdServer,
) -> None:
    declare = Queue.Declare(0, "q", durable=True, arguments={"x-expires": 300})
    with RawClient(Endpoint.from_url(amqpd_server.url)) as client:
        client.open().open_channel()
        client.call(1, declare, Queue.DeclareOk)
    amqpd_server.restart()
    with RawClient(Endpoint.from_url(amqpd_server.url)) as client:
        client.open().open_channel()
        wait_until_gone(client, "q")
