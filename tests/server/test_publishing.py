"""Publishing and bindings: what is refused, returned, and routed where."""

from __future__ import annotations

import struct
from collections.abc import Callable

import pytest
from pamqp import base, commands
from pamqp.commands import Basic, Exchange, Queue

from tests.support.raw_client import (
    BODY,
    HEADER,
    METHOD,
    RawClient,
    channel_closed,
    connection_closed,
    encode_frame,
    encode_header,
    shortstr,
)

MESSAGE_SIZE_MAX = 134_217_728
X_MATCH = "PRECONDITION_FAILED - Invalid x-match field "


def declare_exchange(client: RawClient, name: str, **fields: object) -> None:
    method = Exchange.Declare(0, name, **fields)  # type: ignore[arg-type]
    client.call(1, method, Exchange.DeclareOk)


def is_open(client: RawClient, channel: int = 1) -> None:
    """Fail unless the channel answers, which nothing before it kept it from doing."""
    client.call(channel, Basic.Qos(), Basic.QosOk)


def test_publishing_to_a_missing_exchange_is_404(client: RawClient) -> None:
    client.publish(1, Basic.Publish(0, "nowhere", "k"), b"x")
    text = "NOT_FOUND - no exchange 'nowhere' in vhost '/'"
    client.expect_refusal(channel_closed(404, text, 60, 40))


def test_what_was_pipelined_behind_a_failed_publish_is_ignored(
    client: RawClient,
) -> None:
    queue = client.temporary_queue()
    client.publish(1, Basic.Publish(0, "nowhere", "k"), b"x")
    client.publish_to_queue(queue, b"after the error")
    text = "NOT_FOUND - no exchange 'nowhere' in vhost '/'"
    client.expect_refusal(channel_closed(404, text, 60, 40))
    assert client.get(queue) is None


def test_publishing_to_an_internal_exchange_is_403(
    client: RawClient, fresh_name: Callable[[], str]
) -> None:
    name = fresh_name()
    declare_exchange(client, name, internal=True)
    client.publish(1, Basic.Publish(0, name, "k"), b"x")
    text = f"ACCESS_REFUSED - cannot publish to internal exchange '{name}' in vhost '/'"
    client.expect_refusal(channel_closed(403, text, 60, 40))


@pytest.mark.parametrize("exchange", [b"", b"nowhere"])
def test_immediate_is_540_wherever_it_goes(client: RawClient, exchange: bytes) -> None:
    names = shortstr(exchange) + shortstr(b"k")
    publish = struct.pack(">HHH", 60, 40, 0) + names + b"\x02"
    client.send_bytes(
        encode_frame(METHOD, 1, publish) + encode_frame(HEADER, 1, encode_header(0))
    )
    text = "NOT_IMPLEMENTED - immediate=true"
    client.expect_refusal(connection_closed(540, text, 60, 40))


def test_an_unroutable_message_is_dropped_unless_mandatory(client: RawClient) -> None:
    client.publish_to_queue("nowhere", b"dropped")
    is_open(client)


@pytest.mark.parametrize("body", [b"", b"body"])
def test_an_unroutable_mandatory_message_is_returned(
    client: RawClient, body: bytes
) -> None:
    publish = Basic.Publish(0, "amq.direct", "no such key", mandatory=True)
    client.publish(1, publish, body)
    returned = client.expect_message(1, Basic.Return)
    method = returned.method
    assert isinstance(method, Basic.Return)
    assert (method.reply_code, method.reply_text) == (312, "NO_ROUTE")
    assert (method.exchange, method.routing_key) == ("amq.direct", "no such key")
    assert returned.body == body


def test_a_return_comes_before_the_confirm(client: RawClient) -> None:
    client.call(1, commands.Confirm.Select(), commands.Confirm.SelectOk)
    client.publish(1, Basic.Publish(0, "", "nowhere", mandatory=True), b"x")
    client.expect_message(1, Basic.Return)
    ack = client.expect_method(1, Basic.Ack)
    assert (ack.delivery_tag, ack.multiple) == (1, False)


def test_a_message_larger_than_the_largest_size_is_406(
    client: RawClient,
) -> None:
    client.set_timeout(30)
    client.send_method(1, Basic.Publish(0, "", "nowhere"))
    client.send_frame(HEADER, 1, encode_header(MESSAGE_SIZE_MAX + 1))
    part = encode_frame(BODY, 1, b"x" * 131_064)
    count, rest = divmod(MESSAGE_SIZE_MAX + 1, 131_064)
    for _ in range(count):
        client.send_bytes(part)
    client.send_frame(BODY, 1, b"x" * rest)
    text = (
        f"PRECONDITION_FAILED - message size {MESSAGE_SIZE_MAX + 1} "
        f"is larger than configured max size {MESSAGE_SIZE_MAX}"
    )
    client.expect_refusal(channel_closed(406, text, 60, 40))


def test_a_message_in_small_frames_arrives_whole(client: RawClient) -> None:
    queue = client.temporary_queue()
    with RawClient(client.endpoint) as sender:
        sender.open(frame_max=4096).open_channel()
        sender.call(1, commands.Confirm.Select(), commands.Confirm.SelectOk)
        sender.send_method(1, Basic.Publish(0, "", queue))
        sender.send_frame(HEADER, 1, encode_header(12_000))
        for octet in (b"a", b"b", b"c"):
            sender.send_frame(BODY, 1, octet * 4000)
        sender.expect_method(1, Basic.Ack)
    message = client.get(queue)
    assert message is not None
    assert message.body == b"a" * 4000 + b"b" * 4000 + b"c" * 4000


def test_no_frame_to_a_consumer_is_larger_than_its_frame_max(
    client: RawClient, fresh_name: Callable[[], str]
) -> None:
    name = fresh_name()
    client.call(1, Queue.Declare(0, name), Queue.DeclareOk)
    client.call(1, commands.Confirm.Select(), commands.Confirm.SelectOk)
    body = bytes(range(250)) * 400
    client.publish_to_queue(name, body)
    client.expect_method(1, Basic.Ack)
    with RawClient(client.endpoint) as receiver:
        receiver.open(frame_max=4096).open_channel()
        receiver.send_method(1, Basic.Get(0, name, True))
        receiver.expect_method(1, Basic.GetOk)
        receiver.next_frame()
        received = b""
        while len(received) < len(body):
            frame = receiver.next_frame()
            assert frame.kind == BODY
            assert len(frame.payload) + 8 <= 4096
            received += frame.payload
        assert received == body


@pytest.mark.parametrize(
    ("method", "class_id", "method_id", "text"),
    [
        (Queue.Bind(0, "", "nowhere", "k"), 50, 20, "no exchange 'nowhere'"),
        (Queue.Bind(0, "no-q", "no-x", "k"), 50, 20, "no exchange 'no-x'"),
        (Exchange.Bind(0, "amq.direct", "no-x", "k"), 40, 30, "no exchange 'no-x'"),
        (Exchange.Bind(0, "no-x", "amq.direct", "k"), 40, 30, "no exchange 'no-x'"),
        (Exchange.Bind(0, "no-d", "no-s", "k"), 40, 30, "no exchange 'no-s'"),
    ],
    ids=["exchange", "both", "source", "destination", "source and destination"],
)
def test_binding_what_is_missing_is_404(
    client: RawClient, method: base.Frame, class_id: int, method_id: int, text: str
) -> None:
    client.temporary_queue()
    client.send_method(1, method)
    text = f"NOT_FOUND - {text} in vhost '/'"
    client.expect_refusal(channel_closed(404, text, class_id, method_id))


@pytest.mark.parametrize(
    "method",
    [
        Queue.Unbind(0, "", "amq.direct", "never bound"),
        Queue.Unbind(0, "", "nowhere", "k"),
        Queue.Unbind(0, "nowhere", "amq.direct", "k"),
    ],
    ids=["binding", "exchange", "queue"],
)
def test_unbinding_what_is_missing_is_answered(
    client: RawClient, method: base.Frame
) -> None:
    client.temporary_queue()
    client.call(1, method, Queue.UnbindOk)


def test_unbinding_a_missing_exchange_is_answered(client: RawClient) -> None:
    unbind = Exchange.Unbind(0, "amq.direct", "nowhere", "k")
    client.call(1, unbind, Exchange.UnbindOk)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("foo", 'value <<"foo">>; expected all, any, all-with-x, or any-with-x'),
        (5, "type byte (value 5); expected longstr"),
    ],
)
def test_an_unknown_x_match_is_406(
    client: RawClient, value: str | int, text: str
) -> None:
    client.temporary_queue()
    bind = Queue.Bind(0, "", "amq.headers", "", arguments={"x-match": value})
    client.send_method(1, bind)
    client.expect_refusal(channel_closed(406, f"{X_MATCH}{text}", 50, 20))


def test_a_message_reaches_a_queue_once_however_many_bindings_match(
    client: RawClient, fresh_name: Callable[[], str]
) -> None:
    first, second, queue = fresh_name(), fresh_name(), client.temporary_queue()
    declare_exchange(client, first, exchange_type="topic")
    declare_exchange(client, second, exchange_type="fanout")
    # A circle, and three ways into the queue.
    for source, destination in ((first, second), (second, first)):
        bind = Exchange.Bind(0, destination, source, "#")
        client.call(1, bind, Exchange.BindOk)
    for exchange, key in ((first, "#"), (first, "a.*"), (second, "")):
        client.call(1, Queue.Bind(0, queue, exchange, key), Queue.BindOk)
    client.publish(1, Basic.Publish(0, first, "a.b"), b"x")
    assert client.get(queue) is not None
    assert client.get(queue) is None


def test_an_alternate_exchange_takes_what_the_exchange_cannot_route(
    client: RawClient, fresh_name: Callable[[], str]
) -> None:
    alternate, exchange, queue = fresh_name(), fresh_name(), client.temporary_queue()
    declare_exchange(client, alternate, exchange_type="fanout")
    arguments = {"alternate-exchange": alternate}
    declare_exchange(client, exchange, exchange_type="direct", arguments=arguments)
    client.call(1, Queue.Bind(0, queue, alternate, ""), Queue.BindOk)
    publish = Basic.Publish(0, exchange, "no binding", mandatory=True)
    client.publish(1, publish, b"x")
    message = client.get(queue)
    assert message is not None
    assert isinstance(message.method, Basic.GetOk)
    assert message.method.exchange == exchange


def test_a_missing_alternate_exchange_is_no_error(
    client: RawClient, fresh_name: Callable[[], str]
) -> None:
    exchange = fresh_name()
    declare_exchange(client, exchange, arguments={"alternate-exchange": "nowhere"})
    client.publish(1, Basic.Publish(0, exchange, "k"), b"x")
    is_open(client)


def test_one_queues_messages_keep_the_order_they_were_published_in(
    client: RawClient,
) -> None:
    queue = client.temporary_queue()
    for number in range(50):
        client.publish_to_queue(queue, str(number).encode())
    client.call(1, Basic.Consume(0, queue, no_ack=True), Basic.ConsumeOk)
    bodies = [client.expect_message(1, Basic.Deliver).body for _ in range(50)]
    assert bodies == [str(number).encode() for number in range(50)]
