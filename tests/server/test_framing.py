"""Frames that are no frames: sizes, end octets, types, and what is inside a method."""

from __future__ import annotations

import struct

import pytest
from pamqp import commands

from tests.support.differences import Expectations
from tests.support.raw_client import (
    BODY,
    HEADER,
    HEARTBEAT,
    METHOD,
    Endpoint,
    RawClient,
    connection_closed,
    encode_header,
    encode_method,
    longstr,
    shortstr,
)

UNIMPLEMENTED = "COMMAND_INVALID - unimplemented method"


def test_a_frame_larger_than_frame_max_is_501_before_its_payload_came(
    client: RawClient,
) -> None:
    client.send_bytes(struct.pack(">BHI", BODY, 1, 131073))
    text = "FRAME_ERROR - type 3, all octets = <<>>: {frame_too_large,131073,131064}"
    client.expect_refusal(connection_closed(501, text), await_end=False)


def test_a_lowered_frame_max_is_enforced(broker: Endpoint) -> None:
    with RawClient(broker) as client:
        client.open(frame_max=4096).open_channel()
        client.send_bytes(struct.pack(">BHI", BODY, 1, 4097))
        text = "FRAME_ERROR - type 3, all octets = <<>>: {frame_too_large,4097,4088}"
        client.expect_refusal(connection_closed(501, text), await_end=False)


def test_a_payload_of_exactly_frame_max_is_let_through(client: RawClient) -> None:
    queue = client.temporary_queue()
    body = bytes(range(256)) * 512
    client.publish_to_queue(queue, body)
    message = client.get(queue)
    assert message is not None
    assert message.body == body


@pytest.mark.parametrize("channel", [0, 1, 7])
def test_a_wrong_end_octet_is_501(client: RawClient, channel: int) -> None:
    frame = struct.pack(">BHI", METHOD, channel, 4) + b"\x00\x14\x00\x0a" + b"\x00"
    client.send_bytes(frame)
    text = (
        "FRAME_ERROR - type 1, all octets = <<0,20,0,10>>: {invalid_frame_end_marker,0}"
    )
    client.expect_refusal(connection_closed(501, text), await_end=False)


def test_after_a_framing_error_the_socket_ends(client: RawClient) -> None:
    client.send_bytes(struct.pack(">BHI", HEARTBEAT, 0, 0) + b"\x00")
    assert client.expect_close(0).code == 501
    client.expect_end()


@pytest.mark.parametrize(
    ("kind", "channel", "payload", "shown"),
    [
        (9, 1, b"abc", '<<"abc">>'),
        (0, 0, b"", "<<>>"),
        (4, 7, b"", "<<>>"),
        (HEARTBEAT, 0, b"abc", '<<"abc">>'),
        (METHOD, 1, b"\x00\x3c", "<<0,60>>"),
        (HEADER, 1, b"\x00\x3c\x00\x00", "<<0,60,0,0>>"),
    ],
    ids=[
        "type 9",
        "type 0 on channel 0",
        "type 4 on an unopened channel",
        "a heartbeat with a payload",
        "a method without its ids",
        "a content header without its size",
    ],
)
def test_a_frame_of_no_known_shape_is_501(
    client: RawClient, kind: int, channel: int, payload: bytes, shown: str
) -> None:
    client.send_frame(kind, channel, payload)
    text = f"FRAME_ERROR - type {kind}, all octets = {shown}: unknown_frame"
    client.expect_refusal(connection_closed(501, text), await_end=False)


@pytest.mark.parametrize("channel", [1, 7])
def test_a_heartbeat_on_a_channel_is_505(client: RawClient, channel: int) -> None:
    client.send_frame(HEARTBEAT, channel, b"")
    text = "UNEXPECTED_FRAME - type 8, all octets = <<>>"
    client.expect_refusal(connection_closed(505, text))


@pytest.mark.parametrize(("class_id", "method_id"), [(60, 99), (77, 10)])
def test_an_unknown_method_is_503(
    client: RawClient, expectations: Expectations, class_id: int, method_id: int
) -> None:
    client.send_frame(METHOD, 1, struct.pack(">HH", class_id, method_id))
    ours = connection_closed(503, UNIMPLEMENTED, class_id, method_id)
    client.expect_refusal(expectations.of("unknown-method", ours))


@pytest.mark.parametrize(
    ("class_id", "method_id", "arguments"),
    [
        (50, 10, b"\x00\x00\x05a"),
        (50, 20, b"\x00"),
        (60, 10, encode_method(1, commands.Basic.Qos())[11:-1] + b"zz"),
        (50, 10, b"\x00\x00" + shortstr(b"q") + b"\x08" + b"\x00\x00\x00\x10abc"),
    ],
    ids=["cut name", "cut ticket", "too many bytes", "cut table"],
)
def test_undecodable_arguments_are_502(
    client: RawClient,
    expectations: Expectations,
    class_id: int,
    method_id: int,
    arguments: bytes,
) -> None:
    payload = struct.pack(">HH", class_id, method_id) + arguments
    client.send_frame(METHOD, 1, payload)
    ours = connection_closed(502, "SYNTAX_ERROR - ...", class_id, method_id)
    client.expect_refusal(expectations.of("undecodable-arguments", ours))


@pytest.mark.parametrize(
    "table",
    [b"\x01aZabc", b"\x01aS\x00\x00\x00\x09abc", b"\x09abc", b"\x01aI\x00\x00"],
    ids=["unknown type", "value too long", "cut key", "cut integer"],
)
def test_an_undecodable_argument_table_is_502(
    client: RawClient, expectations: Expectations, table: bytes
) -> None:
    arguments = b"\x00\x00" + shortstr(b"q") + b"\x08" + longstr(table)
    client.send_frame(METHOD, 1, struct.pack(">HH", 50, 10) + arguments)
    ours = connection_closed(502, "SYNTAX_ERROR - ...", 50, 10)
    client.expect_refusal(expectations.of("undecodable-argument-table", ours))


def test_a_name_that_is_no_utf_8_is_502(
    client: RawClient, expectations: Expectations
) -> None:
    arguments = b"\x00\x00" + shortstr(b"\xff\xfe") + b"\x04" + longstr(b"")
    client.send_frame(METHOD, 1, struct.pack(">HH", 50, 10) + arguments)
    ours = connection_closed(502, "SYNTAX_ERROR - ...", 50, 10)
    client.expect_refusal(expectations.of("undecodable-name", ours))


def test_an_error_on_one_connection_does_not_touch_another(
    client: RawClient, broker: Endpoint
) -> None:
    with RawClient(broker) as offender:
        offender.open().open_channel()
        offender.send_bytes(b"\xff" * 64)
        assert offender.expect_close(0).code == 501
    client.call(1, commands.Basic.Qos(0, 1), commands.Basic.QosOk)


def test_a_frame_cut_into_single_bytes_is_understood(client: RawClient) -> None:
    for octet in encode_method(1, commands.Basic.Qos(0, 1)):
        client.send_bytes(bytes([octet]))
    client.expect_method(1, commands.Basic.QosOk)


def test_a_content_cut_into_many_body_frames_is_one_message(client: RawClient) -> None:
    queue = client.temporary_queue()
    client.send_method(1, commands.Basic.Publish(0, "", queue))
    client.send_frame(HEADER, 1, encode_header(6))
    for part in (b"", b"a", b"bcd", b"", b"ef"):
        client.send_frame(BODY, 1, part)
    message = client.get(queue)
    assert message is not None
    assert message.body == b"abcdef"
