"""nowait: nothing is answered when it went well, and errors close as always."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from pamqp import base, commands
from pamqp.commands import Basic, Exchange, Queue

from tests.support.raw_client import RawClient, channel_closed


def expect_silence(client: RawClient) -> None:
    """Fail unless the next answer is to this question."""
    client.call(1, Basic.Qos(), Basic.QosOk)


def test_queue_methods_with_nowait_are_not_answered(
    client: RawClient, fresh_name: Callable[[], str]
) -> None:
    name = fresh_name()
    client.send_method(1, Queue.Declare(0, name, nowait=True))
    client.send_method(1, Queue.Declare(0, name, passive=True, nowait=True))
    client.send_method(1, Queue.Bind(0, name, "amq.direct", name, nowait=True))
    client.publish(1, Basic.Publish(0, "amq.direct", name), b"x")
    client.send_method(1, Queue.Purge(0, name, nowait=True))
    expect_silence(client)
    assert client.get(name) is None
    client.send_method(1, Queue.Delete(0, name, nowait=True))
    expect_silence(client)
    client.send_method(1, Queue.Declare(0, name, passive=True))
    text = f"NOT_FOUND - no queue '{name}' in vhost '/'"
    client.expect_refusal(channel_closed(404, text, 50, 10))


def test_exchange_methods_with_nowait_are_not_answered(
    client: RawClient, fresh_name: Callable[[], str]
) -> None:
    name, queue = fresh_name(), client.temporary_queue()
    client.call(1, Queue.Bind(0, queue, "amq.direct", name), Queue.BindOk)
    client.send_method(1, Exchange.Declare(0, name, nowait=True))
    client.send_method(1, Exchange.Bind(0, "amq.direct", name, name, nowait=True))
    client.publish(1, Basic.Publish(0, name, name), b"x")
    expect_silence(client)
    assert client.get(queue) is not None
    client.send_method(1, Exchange.Unbind(0, "amq.direct", name, name, nowait=True))
    client.publish(1, Basic.Publish(0, name, name), b"y")
    expect_silence(client)
    assert client.get(queue) is None
    client.send_method(1, Exchange.Delete(0, name, nowait=True))
    expect_silence(client)


def test_consume_and_cancel_with_nowait_are_not_answered(client: RawClient) -> None:
    queue = client.temporary_queue()
    client.send_method(1, Basic.Consume(0, queue, "tag", no_ack=True, nowait=True))
    client.publish_to_queue(queue, b"x")
    assert client.expect_message(1, Basic.Deliver).body == b"x"
    client.send_method(1, Basic.Cancel("tag", nowait=True))
    client.publish_to_queue(queue, b"y")
    message = client.get(queue)
    assert message is not None
    assert message.body == b"y"


def test_confirm_select_with_nowait_is_not_answered(client: RawClient) -> None:
    client.send_method(1, commands.Confirm.Select(nowait=True))
    client.publish_to_queue("nowhere")
    assert client.expect_method(1, Basic.Ack).delivery_tag == 1


@pytest.mark.parametrize(
    ("method", "class_id", "method_id"),
    [
        (Queue.Declare(0, "nowhere", passive=True, nowait=True), 50, 10),
        (Queue.Bind(0, "nowhere", "amq.direct", "k", nowait=True), 50, 20),
        (Queue.Purge(0, "nowhere", nowait=True), 50, 30),
        (Basic.Consume(0, "nowhere", "tag", nowait=True), 60, 20),
    ],
    ids=["declare", "bind", "purge", "consume"],
)
def test_an_error_is_told_in_spite_of_nowait(
    client: RawClient, method: base.Frame, class_id: int, method_id: int
) -> None:
    client.send_method(1, method)
    text = "NOT_FOUND - no queue 'nowhere' in vhost '/'"
    client.expect_refusal(channel_closed(404, text, class_id, method_id))
