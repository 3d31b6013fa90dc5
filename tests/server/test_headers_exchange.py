"""The headers exchange: x-match, and which values of which types are equal."""

from __future__ import annotations

import struct
from typing import Final

import pytest
from pamqp.commands import Basic, Queue

from tests.support.differences import Expectations
from tests.support.raw_client import METHOD, RawClient, longstr, shortstr


def entry(key: bytes, value: bytes) -> bytes:
    return shortstr(key) + value


ONE: Final[dict[str, bytes]] = {
    "int8": b"b\x01",
    "uint8": b"B\x01",
    "int16": b"s\x00\x01",
    "int32": b"I\x00\x00\x00\x01",
    "int64": b"l" + b"\x00" * 7 + b"\x01",
    "float": b"f" + struct.pack(">f", 1.0),
    "double": b"d" + struct.pack(">d", 1.0),
    "timestamp": b"T" + b"\x00" * 7 + b"\x01",
    "true": b"t\x01",
    "string": b"S" + longstr(b"1"),
    "bytes": b"x" + longstr(b"1"),
    "decimal": b"D\x00\x00\x00\x00\x01",
    "array": b"A" + longstr(b"I\x00\x00\x00\x01"),
    "table": b"F" + longstr(entry(b"1", b"I\x00\x00\x00\x01")),
    "void": b"V",
}
#: What is equal to what: by value and kind of value for us, by value for RabbitMQ.
OUR_KINDS: Final[list[set[str]]] = [
    {"int8", "uint8", "int16", "int32", "int64"},
    {"float", "double"},
]
RABBITMQ_KINDS: Final[list[set[str]]] = [
    {"timestamp"}.union(*OUR_KINDS),
    {"string", "bytes"},
]


def bind(client: RawClient, table: bytes) -> str:
    """Bind a new queue to amq.headers with a raw table of arguments."""
    queue = client.temporary_queue()
    names = shortstr(queue.encode()) + shortstr(b"amq.headers") + shortstr(b"")
    arguments = struct.pack(">HHH", 50, 20, 0) + names + b"\x00" + longstr(table)
    client.send_frame(METHOD, 1, arguments)
    client.expect_method(1, Queue.BindOk)
    return queue


def publish(client: RawClient, body: bytes, table: bytes | None) -> None:
    properties = b"\x00\x00" if table is None else b"\x20\x00" + longstr(table)
    client.publish(1, Basic.Publish(0, "amq.headers", ""), body, properties)


def equal_to(bound: str, kinds: list[set[str]]) -> set[str]:
    if bound == "void":
        # It asks only whether the key is there.
        return set(ONE)
    return next((kind for kind in kinds if bound in kind), {bound})


@pytest.mark.parametrize("bound", ONE)
def test_numbers_of_one_kind_are_equal_whatever_their_size(
    client: RawClient, expectations: Expectations, bound: str
) -> None:
    differs = expectations.differ("headers-compared-by-kind")
    equal = equal_to(bound, RABBITMQ_KINDS if differs else OUR_KINDS)
    queue = bind(client, entry(b"one", ONE[bound]))
    for name, value in ONE.items():
        publish(client, name.encode(), entry(b"one", value))
    matched = set()
    while message := client.get(queue):
        matched.add(message.body.decode())
    assert matched == equal


X_ONE: Final = entry(b"x-one", ONE["int32"])
X_TWO: Final = entry(b"x-one", b"I\x00\x00\x00\x02")
OTHER: Final = entry(b"other", b"V")


@pytest.mark.parametrize(
    ("mode", "bound", "published", "matches"),
    [
        ("all", b"", None, True),
        ("all", b"", OTHER, True),
        ("any", b"", None, False),
        ("any", b"", OTHER, False),
        ("all", OTHER, None, False),
        # Keys that begin with x- are left out of account,
        ("all", X_ONE, X_TWO, True),
        ("any", X_ONE, X_ONE, False),
        ("any", X_ONE + OTHER, OTHER, True),
        # unless the mode says otherwise.
        ("all-with-x", X_ONE, X_ONE, True),
        ("all-with-x", X_ONE, X_TWO, False),
        ("all-with-x", X_ONE, None, False),
        ("any-with-x", X_ONE, X_ONE, True),
        ("any-with-x", X_ONE + OTHER, X_TWO + OTHER, True),
        ("any-with-x", X_ONE, X_TWO, False),
        ("any-with-x", b"", X_ONE, False),
    ],
)
def test_the_mode_says_how_many_must_match_and_whether_x_counts(
    client: RawClient,
    mode: str,
    bound: bytes,
    published: bytes | None,
    matches: bool,
) -> None:
    match = entry(b"x-match", b"S" + longstr(mode.encode()))
    queue = bind(client, match + bound)
    publish(client, b"x", published)
    assert (client.get(queue) is not None) is matches
