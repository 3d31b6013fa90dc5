"""Consumers: tags, exclusive use, priorities, prefetch, cancelling, cancel notices."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from typing import Any

import pytest
from pamqp import commands
from pamqp.commands import Basic, Queue

from tests.support.raw_client import (
    METHOD,
    PROTOCOL_HEADER,
    Endpoint,
    RawClient,
    channel_closed,
    connection_closed,
    encode_start_ok,
    plain,
)


def consume(client: RawClient, queue: str, tag: str, **fields: object) -> None:
    method = Basic.Consume(0, queue, tag, **fields)  # type: ignore[arg-type]
    client.call(1, method, Basic.ConsumeOk)


def next_delivery(client: RawClient, channel: int = 1) -> Basic.Deliver:
    method = client.expect_message(channel, Basic.Deliver).method
    assert isinstance(method, Basic.Deliver)
    return method


def delivery_tag(client: RawClient) -> int:
    tag = next_delivery(client).delivery_tag
    assert tag is not None
    return tag


def expect_no_delivery(client: RawClient, channel: int = 1) -> None:
    """Fail unless the next thing the broker says is the answer to a question."""
    client.call(channel, Basic.Cancel("no such tag"), Basic.CancelOk)


def test_a_consumer_without_a_tag_gets_one(client: RawClient) -> None:
    queue = client.temporary_queue()
    reply = client.call(1, Basic.Consume(0, queue), Basic.ConsumeOk)
    assert reply.consumer_tag is not None
    assert re.fullmatch(r"amq\.ctag-[A-Za-z0-9_-]{22}", reply.consumer_tag)


@pytest.mark.parametrize("queue", ["", "nowhere"], ids=["there", "missing queue"])
def test_a_tag_in_use_is_530(client: RawClient, queue: str) -> None:
    consume(client, client.temporary_queue(), "tag")
    client.send_method(1, Basic.Consume(0, queue, "tag"))
    text = "NOT_ALLOWED - attempt to reuse consumer tag 'tag'"
    client.expect_refusal(connection_closed(530, text, 60, 20))


def test_a_tag_is_free_again_after_cancel_and_on_other_channels(
    client: RawClient,
) -> None:
    queue = client.temporary_queue()
    consume(client, queue, "tag")
    client.open_channel(2)
    client.call(2, Basic.Consume(0, queue, "tag"), Basic.ConsumeOk)
    client.call(1, Basic.Cancel("tag"), Basic.CancelOk)
    consume(client, queue, "tag")


@pytest.mark.parametrize("first", [True, False], ids=["before", "after"])
def test_an_exclusive_consumer_bears_no_other(client: RawClient, first: bool) -> None:
    queue = client.temporary_queue()
    consume(client, queue, "one", exclusive=first)
    client.send_method(1, Basic.Consume(0, queue, "two", exclusive=not first))
    text = f"ACCESS_REFUSED - queue '{queue}' in vhost '/' in exclusive use"
    client.expect_refusal(channel_closed(403, text, 60, 20))


def test_cancelling_an_unknown_tag_is_answered(client: RawClient) -> None:
    reply = client.call(1, Basic.Cancel("nobody"), Basic.CancelOk)
    assert reply.consumer_tag == "nobody"


def test_cancelling_keeps_the_unacknowledged_messages(client: RawClient) -> None:
    queue = client.temporary_queue()
    consume(client, queue, "tag")
    client.publish_to_queue(queue, b"x")
    tag = delivery_tag(client)
    client.call(1, Basic.Cancel("tag"), Basic.CancelOk)
    assert client.get(queue) is None
    client.send_method(1, Basic.Reject(tag, requeue=True))
    message = client.get(queue)
    assert message is not None
    assert isinstance(message.method, Basic.GetOk)
    assert message.method.redelivered


def test_a_cancelled_consumer_gets_nothing_more(client: RawClient) -> None:
    queue = client.temporary_queue()
    consume(client, queue, "tag")
    client.call(1, Basic.Cancel("tag"), Basic.CancelOk)
    client.publish_to_queue(queue, b"x")
    assert client.get(queue) is not None


def test_a_consumer_is_told_when_its_queue_is_deleted(
    client: RawClient, fresh_name: Callable[[], str]
) -> None:
    name = fresh_name()
    client.call(1, Queue.Declare(0, name), Queue.DeclareOk)
    client.open_channel(2)
    client.call(2, Basic.Consume(0, name, "tag"), Basic.ConsumeOk)
    client.send_method(1, Queue.Delete(0, name))
    frames = [client.next_frame() for _ in range(2)]
    methods = {frame.channel: frame.method for frame in frames}
    assert isinstance(methods[1], Queue.DeleteOk)
    notice = methods[2]
    assert isinstance(notice, Basic.Cancel)
    assert (notice.consumer_tag, notice.nowait) == ("tag", True)


def test_a_client_that_does_not_know_cancel_notices_gets_none(
    broker: Endpoint,
) -> None:
    with RawClient(broker) as client:
        client.send_bytes(PROTOCOL_HEADER)
        response = plain(broker.user, broker.password)
        client.send_frame(METHOD, 0, encode_start_ok(b"PLAIN", response))
        client.send_method(0, commands.Connection.TuneOk(2047, 131072, 0))
        client.send_method(0, commands.Connection.Open(broker.vhost))
        for kind in ("Start", "Tune", "OpenOk"):
            client.expect_method(0, getattr(commands.Connection, kind))
        client.open_channel()
        queue = client.temporary_queue()
        consume(client, queue, "tag")
        client.call(1, Queue.Delete(0, queue), Queue.DeleteOk)
        expect_no_delivery(client)


def test_prefetch_size_is_540(client: RawClient) -> None:
    client.send_frame(METHOD, 1, struct.pack(">HHIHB", 60, 10, 7, 1, 0))
    text = "NOT_IMPLEMENTED - prefetch_size!=0 (7)"
    client.expect_refusal(connection_closed(540, text, 60, 10))


def test_prefetch_limits_each_consumer_that_comes_after_it(client: RawClient) -> None:
    queue = client.temporary_queue()
    client.call(1, Basic.Qos(0, 2), Basic.QosOk)
    consume(client, queue, "limited")
    for _ in range(3):
        client.publish_to_queue(queue, b"x")
    deliveries = [delivery_tag(client) for _ in range(2)]
    expect_no_delivery(client)
    client.send_method(1, Basic.Ack(deliveries[0]))
    assert next_delivery(client).consumer_tag == "limited"
    expect_no_delivery(client)


def test_a_changed_prefetch_leaves_consumers_that_are_there_alone(
    client: RawClient,
) -> None:
    queue = client.temporary_queue()
    client.call(1, Basic.Qos(0, 1), Basic.QosOk)
    consume(client, queue, "one")
    client.call(1, Basic.Qos(0, 10), Basic.QosOk)
    for _ in range(3):
        client.publish_to_queue(queue, b"x")
    next_delivery(client)
    expect_no_delivery(client)


def test_a_global_prefetch_is_shared_by_the_channels_consumers(
    client: RawClient,
) -> None:
    queues = [client.temporary_queue() for _ in range(2)]
    client.call(1, Basic.Qos(0, 3, True), Basic.QosOk)
    for queue in queues:
        consume(client, queue, queue)
    for queue in queues * 3:
        client.publish_to_queue(queue, b"x")
    tags = [delivery_tag(client) for _ in range(3)]
    expect_no_delivery(client)
    client.send_method(1, Basic.Ack(tags[-1], multiple=True))
    for _ in range(3):
        next_delivery(client)
    expect_no_delivery(client)


def test_a_raised_global_prefetch_delivers_at_once(client: RawClient) -> None:
    queue = client.temporary_queue()
    client.call(1, Basic.Qos(0, 1, True), Basic.QosOk)
    consume(client, queue, "tag")
    for _ in range(4):
        client.publish_to_queue(queue, b"x")
    next_delivery(client)
    expect_no_delivery(client)
    client.send_method(1, Basic.Qos(0, 3, True))
    # The answer and the deliveries come in any order.
    frames = [client.next_frame() for _ in range(1 + 2 * 3)]
    methods = [frame.method for frame in frames if frame.kind == METHOD]
    assert sorted(type(method).__name__ for method in methods) == [
        "Deliver",
        "Deliver",
        "QosOk",
    ]
    expect_no_delivery(client)


def test_a_global_prefetch_of_zero_takes_the_limit_away(client: RawClient) -> None:
    queue = client.temporary_queue()
    client.call(1, Basic.Qos(0, 1, True), Basic.QosOk)
    client.call(1, Basic.Qos(0, 0, True), Basic.QosOk)
    consume(client, queue, "tag")
    for _ in range(4):
        client.publish_to_queue(queue, b"x")
    for _ in range(4):
        next_delivery(client)


def test_both_limits_hold_together(client: RawClient) -> None:
    queue = client.temporary_queue()
    client.call(1, Basic.Qos(0, 2, False), Basic.QosOk)
    client.call(1, Basic.Qos(0, 3, True), Basic.QosOk)
    for tag in ("one", "two"):
        consume(client, queue, tag)
    for _ in range(6):
        client.publish_to_queue(queue, b"x")
    tags = [next_delivery(client).consumer_tag for _ in range(3)]
    expect_no_delivery(client)
    assert sorted({tags.count("one"), tags.count("two")}) == [1, 2]


def test_prefetch_does_not_hold_a_consumer_without_acknowledgements(
    client: RawClient,
) -> None:
    queue = client.temporary_queue()
    client.call(1, Basic.Qos(0, 1), Basic.QosOk)
    consume(client, queue, "tag", no_ack=True)
    for _ in range(5):
        client.publish_to_queue(queue, b"x")
    for _ in range(5):
        next_delivery(client)


def test_messages_go_round_the_consumers(client: RawClient) -> None:
    queue = client.temporary_queue()
    for tag in ("one", "two", "three"):
        consume(client, queue, tag)
    for _ in range(6):
        client.publish_to_queue(queue, b"x")
    tags = [next_delivery(client).consumer_tag for _ in range(6)]
    assert tags[:3] == tags[3:]
    assert set(tags) == {"one", "two", "three"}


def test_the_consumer_with_the_higher_priority_is_served_first(
    client: RawClient,
) -> None:
    queue = client.temporary_queue()
    client.call(1, Basic.Qos(0, 2), Basic.QosOk)
    consume(client, queue, "low", arguments={"x-priority": -5})
    consume(client, queue, "default")
    consume(client, queue, "high", arguments={"x-priority": 10})
    for _ in range(6):
        client.publish_to_queue(queue, b"x")
    tags = [next_delivery(client).consumer_tag for _ in range(6)]
    assert tags == ["high"] * 2 + ["default"] * 2 + ["low"] * 2


def test_the_one_with_the_higher_priority_gets_all_while_it_has_room(
    client: RawClient,
) -> None:
    queue = client.temporary_queue()
    consume(client, queue, "low", arguments={"x-priority": -1 << 40})
    consume(client, queue, "high", arguments={"x-priority": 1 << 40})
    consume(client, queue, "also high", arguments={"x-priority": 1 << 40})
    for _ in range(6):
        client.publish_to_queue(queue, b"x")
    tags = [next_delivery(client).consumer_tag for _ in range(6)]
    assert tags == ["high", "also high"] * 3


@pytest.mark.parametrize(
    ("value", "kind"),
    [("5", "longstr"), (True, "bool"), (1.5, "float"), (None, "void"), ([], "array")],
    ids=str,
)
def test_a_priority_that_is_no_number_is_406(
    client: RawClient, value: object, kind: str
) -> None:
    queue = client.temporary_queue()
    arguments: Any = {"x-priority": value}
    client.send_method(1, Basic.Consume(0, queue, "tag", arguments=arguments))
    text = (
        f"PRECONDITION_FAILED - invalid arg 'x-priority' for queue '{queue}' "
        f"in vhost '/': \"expected integer, got {kind}\""
    )
    client.expect_refusal(channel_closed(406, text, 60, 20))


def test_get_tells_how_many_messages_are_left(client: RawClient) -> None:
    queue = client.temporary_queue()
    for _ in range(3):
        client.publish_to_queue(queue, b"x")
    counts = []
    while message := client.get(queue):
        assert isinstance(message.method, Basic.GetOk)
        counts.append(message.method.message_count)
    assert counts == [2, 1, 0]


def test_no_local_means_nothing(client: RawClient) -> None:
    queue = client.temporary_queue()
    consume(client, queue, "tag", no_local=True)
    client.publish_to_queue(queue, b"x")
    assert next_delivery(client).consumer_tag == "tag"
