"""What a dead letter tells: x-death and the headers of the first and the last time."""

from __future__ import annotations

import struct
from datetime import UTC, datetime

import pytest

from amqpd.broker.messages.death import (
    Circumstances,
    Death,
    deaths_of,
    goes_in_circles,
    with_death,
    with_delivery_count,
)
from amqpd.broker.messages.message import Message
from amqpd.wire.frames import HEAD_SIZE, read_u32
from amqpd.wire.properties import headers, walk_properties
from amqpd.wire.tables import encode_table
from tests.support.content import content_of, short_string, with_headers

NOBODY: frozenset[bytes] = frozenset()
ADDRESS = b"\x01x\x01k\xce"


def message_of(properties: bytes, body: bytes = b"body") -> Message:
    content = content_of(body, properties)
    facts = walk_properties(content, HEAD_SIZE, HEAD_SIZE + read_u32(content, 3))
    return Message(ADDRESS, content, None, facts, 0)


def told(queue: str = "q", reason: str = "rejected", time_s: int = 5) -> Circumstances:
    return Circumstances(queue, reason, "x", [b"k", b"c"], time_s * 1000)


def die(message: Message, *circumstances: Circumstances) -> Message:
    for one in circumstances:
        message = with_death(message, one, ADDRESS, NOBODY)
    return message


def table(message: Message) -> dict[str, object]:
    return dict(headers(message.content, HEAD_SIZE))


def entries(message: Message) -> list[tuple[str, str, int]]:
    found = table(message)["x-death"]
    assert isinstance(found, list)
    return [(one["queue"], one["reason"], one["count"]) for one in found]


def test_an_entry_has_its_octets_as_rabbitmq_writes_them() -> None:
    content = die(message_of(b"\x00\x00"), told()).content
    entry = (
        short_string("count")
        + b"l"
        + struct.pack(">q", 1)
        + short_string("reason")
        + b"S\x00\x00\x00\x08rejected"
        + short_string("queue")
        + b"S\x00\x00\x00\x01q"
        + short_string("time")
        + b"T"
        + struct.pack(">Q", 5)
        + short_string("exchange")
        + b"S\x00\x00\x00\x01x"
        + short_string("routing-keys")
        + b"A\x00\x00\x00\x0cS\x00\x00\x00\x01kS\x00\x00\x00\x01c"
    )
    sized = b"F" + len(entry).to_bytes(4, "big") + entry
    array = b"A" + len(sized).to_bytes(4, "big") + sized
    assert short_string("x-death") + array in content


def test_the_body_and_other_properties_stay() -> None:
    properties = struct.pack(">H", 0x1000 | 0x0080) + b"\x02" + short_string("id")
    dead = die(message_of(properties, b"the body"), told())
    assert dead.content.endswith(
        b"\x02" + short_string("id") + b"\xce" + content_of(b"the body")[-16:]
    )
    assert dead.facts & 1


def test_headers_that_are_not_ours_stay() -> None:
    properties = with_headers(encode_table({"mine": 1, "a": [True, {"b": "c"}]}))
    dead = table(die(message_of(properties), told()))
    assert (dead["mine"], dead["a"]) == (1, [True, {"b": "c"}])


def test_a_repeat_counts_and_comes_to_the_front() -> None:
    message = message_of(b"\x00\x00")
    first, second = told("a", "rejected", 1), told("b", "expired", 2)
    dead = die(message, first, second, told("a", "rejected", 3))
    assert entries(dead) == [("a", "rejected", 2), ("b", "expired", 1)]
    found = table(dead)["x-death"]
    assert isinstance(found, list)
    assert found[0]["time"] == datetime.fromtimestamp(1, UTC)


def test_another_reason_is_another_entry() -> None:
    dead = die(message_of(b"\x00\x00"), told("a", "rejected"), told("a", "maxlen"))
    assert entries(dead) == [("a", "maxlen", 1), ("a", "rejected", 1)]


def test_the_first_time_stays_and_the_last_changes() -> None:
    dead = die(message_of(b"\x00\x00"), told("a", "rejected"), told("b", "expired"))
    headers_found = table(dead)
    assert headers_found["x-first-death-reason"] == "rejected"
    assert headers_found["x-first-death-queue"] == "a"
    assert headers_found["x-first-death-exchange"] == "x"
    assert headers_found["x-last-death-reason"] == "expired"
    assert headers_found["x-last-death-queue"] == "b"
    assert list(headers_found).count("x-last-death-queue") == 1


def test_an_expiration_becomes_part_of_the_story() -> None:
    properties = struct.pack(">H", 0x0100 | 0x0200)
    properties += short_string("reply") + short_string("5000")
    dead = die(message_of(properties), told("q", "expired"))
    found = table(dead)["x-death"]
    assert isinstance(found, list)
    assert found[0]["original-expiration"] == "5000"
    assert short_string("reply") + b"\xce" in dead.content
    assert not dead.facts & 8


def test_what_a_publisher_says_counts() -> None:
    death = {"queue": "q", "reason": "rejected", "count": 41}
    story: dict[str, object] = {"x-death": [death]}
    dead = die(message_of(with_headers(encode_table(story))), told())
    assert entries(dead) == [("q", "rejected", 42)]


@pytest.mark.parametrize("value", ["text", 5, [], ["no table"], [{"queue": "q"}]])
def test_a_story_that_is_none_is_dropped(value: object) -> None:
    properties = with_headers(encode_table({"x-death": value}))
    dead = die(message_of(properties), told())
    assert entries(dead) == [("q", "rejected", 1)]
    assert table(dead)["x-first-death-queue"] == "q"


def test_headers_can_be_left_out() -> None:
    message = message_of(with_headers(encode_table({"CC": ["a"], "b": 1})))
    dead = with_death(message, told(), ADDRESS, frozenset({b"CC"}))
    assert "CC" not in table(dead)
    assert table(dead)["b"] == 1


def test_a_delivery_count_is_written_over_the_one_before() -> None:
    message = message_of(with_headers(encode_table({"mine": 1})))
    message.expires_ms = 7
    message.number = 5
    copy = with_delivery_count(with_delivery_count(message, 1), 2)
    assert table(copy) == {"mine": 1, "x-delivery-count": 2}
    assert (copy.expires_ms, copy.number) == (7, 5)
    assert table(message) == {"mine": 1}


def test_a_dead_letter_has_no_delivery_count() -> None:
    message = with_delivery_count(message_of(b"\x00\x00"), 3)
    assert "x-delivery-count" not in table(die(message, told()))


@pytest.mark.parametrize(
    ("story", "is_cycle"),
    [
        ([], False),
        ([("q", "expired")], True),
        ([("q", "rejected")], False),
        ([("a", "expired"), ("q", "maxlen")], True),
        ([("a", "rejected"), ("q", "maxlen")], False),
        ([("a", "expired"), ("q", "maxlen"), ("b", "rejected")], True),
        ([("a", "expired"), ("b", "maxlen")], False),
    ],
)
def test_a_cycle_is_a_way_back_without_a_rejection(
    story: list[tuple[str, str]], is_cycle: bool
) -> None:
    deaths = [Death(queue, reason, b"") for queue, reason in story]
    assert goes_in_circles(deaths, "q") is is_cycle


def test_deaths_are_read_most_recent_first() -> None:
    dead = die(message_of(b"\x00\x00"), told("a"), told("b"))
    assert [death.queue for death in deaths_of(dead)] == ["b", "a"]
