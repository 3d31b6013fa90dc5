"""What is written by hand is what pamqp reads, content in every shape and channel."""

import struct

import pytest
from pamqp import commands

from amqpd.broker.messages.message import Message
from amqpd.protocol.output import Output, OutputQueue
from amqpd.protocol.sending import (
    DeliverHead,
    write_ack,
    write_content,
    write_get_ok,
    write_return,
)
from tests.support.connection_pair import contents, cut, octets_of
from tests.support.content import content_of, short_string
from tests.support.raw_client import ReceivedFrame

PROPERTIES = b"\x90\x00" + short_string("text/plain") + b"\x02"
ADDRESS = short_string("an.exchange") + short_string("a.key") + b"\xce"


def message_on(channel: int, body: bytes) -> Message:
    return Message(ADDRESS, content_of(body, PROPERTIES, channel), None, 0, 0)


def written(output: Output) -> list[ReceivedFrame]:
    taken = octets_of(output)
    while piece := octets_of(output):
        taken += piece
    frames, rest = cut(taken)
    assert not rest
    return frames


@pytest.fixture
def output() -> Output:
    return Output(OutputQueue())


# -- deliver ------------------------------------------------------------------


@pytest.mark.parametrize("tag", [b"t", b"ctag-" + b"x" * 250])
def test_a_delivery_begins_as_the_method_says(tag: bytes) -> None:
    head = DeliverHead(0xFEDC, tag)
    octets = head.for_address(ADDRESS)
    frame = octets + struct.pack(">QB", 1 << 40, 1) + ADDRESS
    (received,), rest = cut(frame)
    assert not rest
    assert received.channel == 0xFEDC
    deliver = received.method
    assert isinstance(deliver, commands.Basic.Deliver)
    assert (deliver.consumer_tag or "").encode() == tag
    assert deliver.delivery_tag == 1 << 40
    assert deliver.redelivered is True
    assert deliver.exchange == "an.exchange"
    assert deliver.routing_key == "a.key"


def test_the_beginning_is_made_anew_for_another_size_only() -> None:
    head = DeliverHead(1, b"t")
    first = head.for_address(ADDRESS)
    assert head.for_address(ADDRESS.replace(b"key", b"KEY")) is first
    other = head.for_address(ADDRESS + b"!")
    assert struct.unpack_from(">I", other, 3)[0] == (
        struct.unpack_from(">I", first, 3)[0] + 1
    )


# -- content ------------------------------------------------------------------


@pytest.mark.parametrize("body", [b"", b"x", b"body" * 1000])
def test_content_for_the_publishers_channel_is_pasted(
    output: Output, body: bytes
) -> None:
    write_content(output, 5, message_on(5, body))
    assert octets_of(output) == content_of(body, PROPERTIES, 5)


@pytest.mark.parametrize("body", [b"", b"x", b"body" * 1000])
@pytest.mark.parametrize(("one", "other"), [(1, 2), (1, 0xFEDC), (0xFEDC, 1)])
def test_content_for_another_channel_is_patched(
    output: Output, body: bytes, one: int, other: int
) -> None:
    message = message_on(one, body)
    output.writer().write(b"written before")
    write_content(output, other, message)
    assert octets_of(output) == b"written before" + content_of(body, PROPERTIES, other)
    assert message.content == content_of(body, PROPERTIES, one)


@pytest.mark.parametrize("channel", [1, 2])
@pytest.mark.parametrize("size", [4088, 4089, 8176, 8177, 60_000])
def test_content_is_cut_for_a_client_with_smaller_frames(
    output: Output, channel: int, size: int
) -> None:
    body = bytes(range(256)) * (size // 256) + bytes(size % 256)
    output.frame_max = 4096
    write_content(output, channel, message_on(1, body))
    assert octets_of(output) == content_of(body, PROPERTIES, channel, frame_size=4088)


def test_content_that_just_fits_is_not_cut(output: Output) -> None:
    content = content_of(b"x" * 1000, PROPERTIES, 1)
    output.frame_max = len(content)
    write_content(output, 1, message_on(1, b"x" * 1000))
    assert octets_of(output) == content


def test_a_header_larger_than_a_frame_goes_out_whole(output: Output) -> None:
    # A header cannot be cut; RabbitMQ sends it as well.
    properties = b"\x80\x00" + short_string("x" * 200)
    message = Message(ADDRESS, content_of(b"", properties, 1), None, 0, 0)
    output.frame_max = 100
    write_content(output, 2, message)
    assert octets_of(output) == content_of(b"", properties, 2)


@pytest.mark.parametrize("frame_max", [4096, 131072])
def test_a_large_body_follows_its_header_in_frames_that_fit(
    output: Output, frame_max: int
) -> None:
    body = bytes(range(256)) * 800
    header = content_of(b"", PROPERTIES, 3, size=len(body))
    output.frame_max = frame_max
    write_content(output, 9, Message(ADDRESS, header, body, 0, 0))
    frames = written(output)
    assert {frame.channel for frame in frames} == {9}
    assert [frame.kind for frame in frames] == [2] + [3] * (len(frames) - 1)
    assert frames[0].payload == header[7:-1]
    assert b"".join(frame.payload for frame in frames[1:]) == body
    assert {len(frame.payload) for frame in frames[1:-1]} == {frame_max - 8}


# -- the other methods --------------------------------------------------------


def test_a_return_says_why_and_what(output: Output) -> None:
    write_return(output, 2, message_on(1, b"body"), 312, b"NO_ROUTE")
    ((returned, properties, body),) = contents(written(output), commands.Basic.Return)
    assert (returned.reply_code, returned.reply_text) == (312, "NO_ROUTE")
    assert (returned.exchange, returned.routing_key) == ("an.exchange", "a.key")
    assert (properties, body) == (PROPERTIES, b"body")


@pytest.mark.parametrize("redelivered", [True, False])
def test_a_get_is_answered_with_message_tag_and_count(
    output: Output, redelivered: bool
) -> None:
    write_get_ok(output, 2, message_on(1, b"body"), 1 << 40, redelivered, 70_000)
    ((got, properties, body),) = contents(written(output), commands.Basic.GetOk)
    assert got.delivery_tag == 1 << 40
    assert got.redelivered is redelivered
    assert (got.exchange, got.routing_key) == ("an.exchange", "a.key")
    assert got.message_count == 70_000
    assert (properties, body) == (PROPERTIES, b"body")


@pytest.mark.parametrize("multiple", [True, False])
def test_a_confirm_has_number_and_range(output: Output, multiple: bool) -> None:
    write_ack(output, 0xFEDC, 1 << 40, multiple, True)
    (frame,) = written(output)
    assert frame.channel == 0xFEDC
    ack = frame.method
    assert isinstance(ack, commands.Basic.Ack)
    assert (ack.delivery_tag, ack.multiple) == (1 << 40, multiple)


@pytest.mark.parametrize("multiple", [True, False])
def test_a_refusal_has_number_and_range(output: Output, multiple: bool) -> None:
    write_ack(output, 1, 7, multiple, False)
    nack = written(output)[0].method
    assert isinstance(nack, commands.Basic.Nack)
    assert (nack.delivery_tag, nack.multiple, nack.requeue) == (7, multiple, False)
