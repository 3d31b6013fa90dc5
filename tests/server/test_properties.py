"""Content properties: relayed byte for byte, and refused before they are routed."""

from __future__ import annotations

import dataclasses
import struct
from collections.abc import Callable
from typing import Final

import pytest
from pamqp import commands
from pamqp.commands import Basic

from tests.support.differences import Expectations
from tests.support.raw_client import (
    Endpoint,
    RawClient,
    channel_closed,
    connection_closed,
    longstr,
    shortstr,
)

HEADERS: Final = 0x2000


def headers(table: bytes) -> bytes:
    """Return properties that are nothing but a header table."""
    return struct.pack(">H", HEADERS) + longstr(table)


def entry(key: bytes, value: bytes) -> bytes:
    return shortstr(key) + value


#: A value of every type that RabbitMQ's dialect has, also in odd encodings.
VALUES: Final[dict[str, bytes]] = {
    "bool true": b"t\x01",
    "bool false": b"t\x00",
    "bool two": b"t\x02",
    "int8": b"b\x80",
    "uint8": b"B\xff",
    "int16": b"s\x80\x00",
    "uint16": b"u\xff\xff",
    "int32": b"I\x80\x00\x00\x00",
    "uint32": b"i\xff\xff\xff\xff",
    "int64": b"l" + b"\x80" + b"\x00" * 7,
    "int64 as L": b"L" + b"\x00" * 7 + b"\x01",
    "float": b"f" + struct.pack(">f", 1.5),
    "double": b"d" + struct.pack(">d", -0.0),
    "decimal": b"D\x02" + struct.pack(">i", 314),
    "long string": b"S" + longstr(b"text"),
    "long string that is no utf-8": b"S" + longstr(b"\xff\xfe\x00"),
    "empty string": b"S" + longstr(b""),
    "array": b"A" + longstr(b"t\x01I\x00\x00\x00\x05S" + longstr(b"x")),
    "empty array": b"A" + longstr(b""),
    "timestamp": b"T" + struct.pack(">Q", 1_700_000_000),
    "far timestamp": b"T" + b"\xff" * 8,
    "table": b"F" + longstr(entry(b"a", b"V") + entry(b"b", b"F" + longstr(b""))),
    "void": b"V",
    "bytes": b"x" + longstr(bytes(range(256))),
}

#: The fourteen properties, each with a flag and an encoded value.
PROPERTIES: Final[dict[str, tuple[int, bytes]]] = {
    "content-type": (15, shortstr(b"text/plain")),
    "content-encoding": (14, shortstr(b"gzip")),
    "headers": (13, longstr(entry(b"k", b"V"))),
    "delivery-mode": (12, b"\x01"),
    "priority": (11, b"\xff"),
    "correlation-id": (10, shortstr(b"\xff not utf-8")),
    "reply-to": (9, shortstr(b"somewhere")),
    "expiration": (8, shortstr(b"60000")),
    "message-id": (7, shortstr(b"")),
    "timestamp": (6, b"\xff" * 8),
    "type": (5, shortstr(b"t" * 255)),
    "user-id": (4, shortstr(b"guest")),
    "app-id": (3, shortstr(b"app")),
    "cluster-id": (2, shortstr(b"cluster")),
}


def round_trip(client: RawClient, properties: bytes) -> bytes:
    queue = client.temporary_queue()
    client.publish_to_queue(queue, b"body", properties)
    message = client.get(queue)
    assert message is not None
    assert message.body == b"body"
    return message.properties


@pytest.mark.parametrize("value", VALUES.values(), ids=VALUES)
def test_a_header_of_every_type_comes_back_byte_for_byte(
    client: RawClient, value: bytes
) -> None:
    sent = headers(entry(b"key", value))
    assert round_trip(client, sent) == sent


def test_all_types_in_one_table_come_back_byte_for_byte(client: RawClient) -> None:
    table = b"".join(
        entry(str(number).encode(), value)
        for number, value in enumerate(VALUES.values())
    )
    assert round_trip(client, headers(table)) == headers(table)


@pytest.mark.parametrize(
    "table",
    [
        entry(b"same", b"b\x01") + entry(b"same", b"b\x02"),
        entry(b"z", b"V") + entry(b"a", b"V"),
        entry(b"", b"V"),
        entry(b"\xff" * 255, b"V"),
        b"",
    ],
    ids=["same key twice", "not sorted", "empty key", "longest key", "empty table"],
)
def test_unusual_tables_come_back_byte_for_byte(
    client: RawClient, table: bytes
) -> None:
    assert round_trip(client, headers(table)) == headers(table)


@pytest.mark.parametrize("name", PROPERTIES)
def test_each_property_comes_back_byte_for_byte(client: RawClient, name: str) -> None:
    bit, value = PROPERTIES[name]
    sent = struct.pack(">H", 1 << bit) + value
    assert round_trip(client, sent) == sent


def test_all_properties_together_come_back_byte_for_byte(client: RawClient) -> None:
    flags = sum(1 << bit for bit, _ in PROPERTIES.values())
    sent = struct.pack(">H", flags) + b"".join(v for _, v in PROPERTIES.values())
    assert round_trip(client, sent) == sent


def test_a_flag_without_a_property_is_relayed(client: RawClient) -> None:
    assert round_trip(client, b"\x00\x02") == b"\x00\x02"


def test_a_returned_message_bears_its_properties(client: RawClient) -> None:
    sent = headers(entry(b"key", VALUES["decimal"]))
    publish = Basic.Publish(0, "", "nowhere", mandatory=True)
    client.publish(1, publish, b"body", sent)
    returned = client.expect_message(1, Basic.Return)
    assert (returned.properties, returned.body) == (sent, b"body")


@pytest.mark.parametrize(
    "properties",
    [
        b"",
        b"\x80\x00\x20abc",
        b"\x80\x00\x03abczzz",
        b"\x00\x01\x00\x00",
        b"\x00\x40\x00\x00",
        b"\x20\x00\x00\x00\x00\x50\x01aS",
        headers(entry(b"a", b"Zabc")),
        headers(entry(b"a", b"I\x00\x00")),
        headers(b"\x09abc"),
        headers(entry(b"a", b"S\x00\x00\x00\x09abc")),
        headers(entry(b"a", b"F" + longstr(b"\x09abc"))),
        headers(entry(b"a", b"A" + longstr(b"I\x00"))),
        headers(entry(b"a", b"")),
    ],
    ids=[
        "no flags",
        "cut string",
        "bytes left over",
        "continuation flag",
        "cut timestamp",
        "cut table",
        "unknown type",
        "cut integer",
        "cut key",
        "string longer than its table",
        "nested table malformed",
        "array malformed",
        "no value",
    ],
)
def test_malformed_properties_are_502_and_reach_no_queue(
    client: RawClient,
    connect: Callable[[], RawClient],
    expectations: Expectations,
    fresh_name: Callable[[], str],
    properties: bytes,
) -> None:
    bystander = connect()
    queue = fresh_name()
    declare = commands.Queue.Declare(0, queue)
    bystander.call(1, declare, commands.Queue.DeclareOk)
    client.publish_to_queue(queue, b"evil", properties)
    ours = connection_closed(502, "SYNTAX_ERROR - ...", 60, 40)
    client.expect_refusal(expectations.of("undecodable-properties", ours))
    assert bystander.get(queue) is None


@pytest.mark.parametrize(
    ("expiration", "reason"),
    [
        (b"abc", "no_integer"),
        (b"", "no_integer"),
        (b"-1", "{value_negative,-1}"),
        (b"12x", '{leftover_string,"x"}'),
    ],
)
def test_an_invalid_expiration_is_406(
    client: RawClient, expiration: bytes, reason: str
) -> None:
    client.publish_to_queue("nowhere", b"", b"\x01\x00" + shortstr(expiration))
    text = f"PRECONDITION_FAILED - invalid expiration '{expiration.decode()}': {reason}"
    client.expect_refusal(channel_closed(406, text, 60, 40))


def test_another_users_id_is_406(client: RawClient) -> None:
    client.publish_to_queue("nowhere", b"", b"\x00\x10" + shortstr(b"joe"))
    text = (
        "PRECONDITION_FAILED - user_id property set to 'joe' "
        "but authenticated user was 'guest'"
    )
    client.expect_refusal(channel_closed(406, text, 60, 40))


@pytest.mark.parametrize(
    ("properties", "text"),
    [
        # reply-to, expiration, user-id, delivery mode: all of them are wrong
        (
            b"\x13\x10\x09"
            + shortstr(b"amq.rabbitmq.reply-to")
            + shortstr(b"abc")
            + shortstr(b"joe"),
            "fast reply consumer does not exist",
        ),
        (
            b"\x11\x10\x09" + shortstr(b"abc") + shortstr(b"joe"),
            "user_id property set to 'joe' but authenticated user was 'guest'",
        ),
        (b"\x11\x00\x09" + shortstr(b"abc"), "invalid expiration 'abc': no_integer"),
    ],
    ids=["reply-to", "user-id", "expiration"],
)
def test_of_several_wrong_properties_the_same_one_is_told(
    client: RawClient, properties: bytes, text: str
) -> None:
    client.publish_to_queue("nowhere", b"", properties)
    expected = channel_closed(406, f"PRECONDITION_FAILED - {text}", 60, 40)
    client.expect_refusal(expected)


def test_an_impersonator_may_publish_under_any_users_id(broker: Endpoint) -> None:
    mimic = dataclasses.replace(broker, user="mimic", password="mimic")
    properties = b"\x00\x10" + shortstr(b"joe")
    with RawClient(mimic) as client:
        client.open().open_channel()
        queue = client.temporary_queue()
        client.publish_to_queue(queue, b"x", properties)
        message = client.get(queue)
        assert message is not None
        assert message.properties == properties


def test_a_delivery_mode_that_does_not_exist_is_406(client: RawClient) -> None:
    client.publish_to_queue("nowhere", b"", b"\x10\x00\x09")
    text = "PRECONDITION_FAILED - invalid message: {delivery_mode_unknown,9}"
    client.expect_refusal(channel_closed(406, text, 60, 40))
