"""Methods and content on the wrong channel, in the wrong state or order."""

from __future__ import annotations

import struct

import pytest
from pamqp import base, commands

from tests.support.raw_client import (
    BODY,
    HEADER,
    HEARTBEAT_FRAME,
    RawClient,
    connection_closed,
    encode_header,
)

PUBLISH = commands.Basic.Publish(0, "", "nowhere")
NO_CONTENT = "expected method frame, got non method frame instead"
NO_HEADER = "expected content header for class 60, got non content header frame instead"
NO_BODY = "expected content body, got non content body frame instead"


@pytest.mark.parametrize(
    ("method", "class_id", "method_id"),
    [
        (commands.Basic.Qos(), 60, 10),
        (commands.Basic.Ack(1), 60, 80),
        (commands.Channel.Close(200, "x", 0, 0), 20, 40),
        (commands.Channel.CloseOk(), 20, 41),
    ],
    ids=["basic.qos", "basic.ack", "channel.close", "channel.close-ok"],
)
def test_a_method_on_an_unopened_channel_is_504(
    client: RawClient, method: base.Frame, class_id: int, method_id: int
) -> None:
    client.send_method(9, method)
    text = "CHANNEL_ERROR - expected 'channel.open'"
    client.expect_refusal(connection_closed(504, text, class_id, method_id), 9)


def test_opening_an_open_channel_is_504(client: RawClient) -> None:
    client.send_method(1, commands.Channel.Open())
    text = "CHANNEL_ERROR - second 'channel.open' seen"
    client.expect_refusal(connection_closed(504, text, 20, 10))


@pytest.mark.parametrize(
    ("method", "class_id", "method_id"),
    [(commands.Basic.Qos(), 60, 10), (commands.Channel.Open(), 20, 10)],
    ids=["basic.qos", "channel.open"],
)
def test_a_channel_method_on_channel_0_is_504(
    client: RawClient, method: base.Frame, class_id: int, method_id: int
) -> None:
    client.send_method(0, method)
    text = "CHANNEL_ERROR - unexpected method in connection state running"
    client.expect_refusal(connection_closed(504, text, class_id, method_id))


@pytest.mark.parametrize(
    ("method", "class_id", "method_id"),
    [
        (commands.Queue.DeclareOk("q", 1, 1), 50, 11),
        (commands.Channel.CloseOk(), 20, 41),
        (commands.Connection.Open("/"), 10, 40),
        (commands.Connection.Close(200, "x", 0, 0), 10, 50),
    ],
    ids=["queue.declare-ok", "channel.close-ok", "connection.open", "connection.close"],
)
def test_a_method_that_a_channel_does_not_take_is_503(
    client: RawClient, method: base.Frame, class_id: int, method_id: int
) -> None:
    client.send_method(1, method)
    text = "COMMAND_INVALID - unimplemented method"
    client.expect_refusal(connection_closed(503, text, class_id, method_id))


@pytest.mark.parametrize(
    ("kind", "payload"), [(HEADER, encode_header(3)), (BODY, b"abc")]
)
@pytest.mark.parametrize("channel", [1, 9])
def test_content_without_a_method_is_505(
    client: RawClient, kind: int, payload: bytes, channel: int
) -> None:
    client.send_frame(kind, channel, payload)
    text = f"UNEXPECTED_FRAME - {NO_CONTENT}"
    client.expect_refusal(connection_closed(505, text), channel)


def test_content_on_channel_0_is_505(client: RawClient) -> None:
    client.send_frame(BODY, 0, b"abc")
    text = 'UNEXPECTED_FRAME - type 3, all octets = <<"abc">>'
    client.expect_refusal(connection_closed(505, text))


def test_a_body_after_an_empty_message_is_505(client: RawClient) -> None:
    client.publish(1, PUBLISH)
    client.send_frame(BODY, 1, b"")
    text = f"UNEXPECTED_FRAME - {NO_CONTENT}"
    client.expect_refusal(connection_closed(505, text))


@pytest.mark.parametrize("kind", ["method", "body"])
def test_anything_but_a_header_after_publish_is_505(
    client: RawClient, kind: str
) -> None:
    client.send_method(1, PUBLISH)
    if kind == "method":
        client.send_method(1, commands.Basic.Qos())
    else:
        client.send_frame(BODY, 1, b"abc")
    text = f"UNEXPECTED_FRAME - {NO_HEADER}"
    client.expect_refusal(connection_closed(505, text, 60, 40))


@pytest.mark.parametrize("kind", ["method", "header", "channel.close"])
def test_anything_but_a_body_after_a_header_is_505(
    client: RawClient, kind: str
) -> None:
    client.send_method(1, PUBLISH)
    client.send_frame(HEADER, 1, encode_header(3))
    if kind == "header":
        client.send_frame(HEADER, 1, encode_header(3))
    elif kind == "method":
        client.send_method(1, commands.Basic.Qos())
    else:
        client.send_method(1, commands.Channel.Close(200, "x", 0, 0))
    text = f"UNEXPECTED_FRAME - {NO_BODY}"
    client.expect_refusal(connection_closed(505, text, 60, 40))


def test_a_header_of_another_class_is_505(client: RawClient) -> None:
    client.send_method(1, PUBLISH)
    client.send_frame(HEADER, 1, struct.pack(">HHQ", 50, 0, 3) + b"\x00\x00")
    text = (
        "UNEXPECTED_FRAME - expected content header for class 60, "
        "got one for class 50 instead"
    )
    client.expect_refusal(connection_closed(505, text, 60, 40))


def test_more_body_than_announced_is_505(client: RawClient) -> None:
    client.send_method(1, PUBLISH)
    client.send_frame(HEADER, 1, encode_header(3))
    client.send_frame(BODY, 1, b"abcdef")
    # RabbitMQ notices only now that the body has not ended where it should.
    client.send_method(1, commands.Basic.Qos())
    text = f"UNEXPECTED_FRAME - {NO_BODY}"
    client.expect_refusal(connection_closed(505, text, 60, 40))


def test_heartbeats_and_other_channels_may_come_amid_content(
    client: RawClient,
) -> None:
    client.open_channel(2)
    queue = client.temporary_queue()
    client.send_method(1, commands.Basic.Publish(0, "", queue))
    client.send_bytes(HEARTBEAT_FRAME)
    client.send_frame(HEADER, 1, encode_header(6))
    client.call(2, commands.Basic.Qos(0, 5), commands.Basic.QosOk)
    client.send_frame(BODY, 1, b"abc")
    client.send_bytes(HEARTBEAT_FRAME)
    client.publish(2, commands.Basic.Publish(0, "", "nowhere"), b"other")
    client.send_frame(BODY, 1, b"def")
    message = client.get(queue)
    assert message is not None
    assert message.body == b"abcdef"
