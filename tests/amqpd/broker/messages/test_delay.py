"""The header x-delay."""

from __future__ import annotations

import struct

import pytest

from amqpd.broker.arguments import TIME_MAX_MS
from amqpd.broker.messages.delay import delay_of, due_ms_of, released
from amqpd.broker.messages.message import Message
from amqpd.wire.frames import HEAD_SIZE, read_u32
from amqpd.wire.properties import (
    HAS_DELAY,
    HAS_EXPIRATION,
    HAS_HEADERS,
    headers,
    walk_properties,
)
from tests.support.content import NO_PROPERTIES, content_of, short_string, with_headers

DELAY = short_string("x-delay")


def text(value: str) -> bytes:
    return b"S" + struct.pack(">I", len(value)) + value.encode()


def content(value: bytes) -> bytes:
    return content_of(b"body", with_headers(short_string("a") + b"V" + DELAY + value))


@pytest.mark.parametrize(
    ("value", "delay_ms"),
    [
        (b"l" + struct.pack(">q", 5000), 5000),
        (b"I" + struct.pack(">i", 5000), 5000),
        (b"s" + struct.pack(">h", 500), 500),
        (b"b\x05", 5),
        (b"i" + struct.pack(">I", 1 << 31), 1 << 31),
        (b"I" + struct.pack(">i", -5000), -5000),
        (b"I" + bytes(4), 0),
        (b"d" + struct.pack(">d", 5000.7), 5000),
        (b"D" + struct.pack(">Bi", 1, 50007), 5000),
        (text("5000"), 5000),
        (text("+5000"), 5000),
        (text("-5000"), -5000),
    ],
)
def test_a_number_of_milliseconds_is_a_delay(value: bytes, delay_ms: int) -> None:
    assert delay_of(content(value)) == delay_ms


@pytest.mark.parametrize(
    "value",
    [
        b"t\x01",
        b"V",
        b"T" + struct.pack(">Q", 5000),
        text(""),
        text("5s"),
        text("5.5"),
        text("5_000"),
        text(" 5"),
        text("\u0665"),
        text("9" * 5000),
        b"S\x00\x00\x00\x01\xff",
        b"d" + struct.pack(">d", float("nan")),
        b"d" + struct.pack(">d", float("inf")),
    ],
)
def test_what_is_no_number_delays_nothing(value: bytes) -> None:
    assert delay_of(content(value)) == 0


def test_without_the_header_there_is_no_delay() -> None:
    assert delay_of(content_of(b"", NO_PROPERTIES)) == 0
    assert delay_of(content_of(b"", with_headers(b""))) == 0


def test_ten_years_are_the_longest_delay() -> None:
    assert delay_of(content(b"l" + struct.pack(">q", (1 << 63) - 1))) == TIME_MAX_MS


def test_a_message_is_due_when_its_delay_is_over() -> None:
    assert due_ms_of(content(b"b\x05"), 1000) == 1005
    assert due_ms_of(content(b"b\xfb"), 1000) == 1000


def message(properties: bytes) -> Message:
    made = content_of(b"body", properties)
    end = HEAD_SIZE + read_u32(made, 3)
    facts = walk_properties(made, HEAD_SIZE, end)
    return Message(b"\x01x\x01k\xce", made, None, facts, 1000)


@pytest.mark.parametrize(
    ("value", "octets"),
    [
        (b"l" + struct.pack(">q", 5000), b"I" + struct.pack(">i", -5000)),
        (text("7"), b"I" + struct.pack(">i", -7)),
        (b"i\xff\xff\xff\xff", b"l" + struct.pack(">q", -(2**32 - 1))),
    ],
)
def test_what_is_released_tells_of_its_delay_by_the_negative(
    value: bytes, octets: bytes
) -> None:
    copy = released(message(with_headers(DELAY + value)), 6000)
    assert DELAY + octets in copy.content
    assert copy.content.endswith(b"body\xce")
    assert copy.enqueued_ms == 6000
    assert copy.facts == HAS_HEADERS | HAS_DELAY
    assert copy.number < 0
    assert delay_of(copy.content) < 0


def test_other_headers_stay() -> None:
    properties = with_headers(short_string("a") + b"b\x01" + DELAY + b"b\x05")
    copy = released(message(properties), 6000)
    assert headers(copy.content, HEAD_SIZE) == {"a": 1, "x-delay": -5}


def test_the_time_to_live_begins_when_the_delay_is_over() -> None:
    table = DELAY + b"b\x05"
    properties = b"\x21\x00" + struct.pack(">I", len(table)) + table
    waiting = message(properties + short_string("300"))
    assert waiting.facts & HAS_EXPIRATION
    assert released(waiting, 6000).expires_ms == 6300


def test_a_message_without_a_delay_is_released_as_it_is() -> None:
    waiting = message(NO_PROPERTIES)
    copy = released(waiting, 6000)
    assert copy.content == waiting.content
    assert copy.expires_ms == 0
