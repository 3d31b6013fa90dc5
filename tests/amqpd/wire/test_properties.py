"""Content headers: what the walk proves and notes, and what can be read after it."""

from datetime import UTC, datetime

import pytest
from pamqp import commands, header

from amqpd.wire import properties
from amqpd.wire.errors import SyntaxMalformed
from tests.support.content import frame, short_string

EVERYTHING: dict[str, object] = {
    "content_type": "text/plain",
    "content_encoding": "utf-8",
    "headers": {"k": "v"},
    "delivery_mode": 2,
    "priority": 9,
    "correlation_id": "c1",
    "reply_to": "replies",
    "expiration": "60000",
    "message_id": "m1",
    "timestamp": datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
    "message_type": "greeting",
    "user_id": "guest",
    "app_id": "app",
    "cluster_id": "cluster",
}


def payload(**values: object) -> bytes:
    """Return a content header payload as pamqp writes it.

    A cluster-id, which is the last property and which pamqp refuses, is added.
    """
    cluster_id = str(values.pop("cluster_id", ""))
    written = commands.Basic.Properties(**values)  # type: ignore[arg-type]
    octets = bytearray(header.ContentHeader(0, 5, written).marshal())
    if cluster_id:
        octets[13] |= 0x04
        octets += bytes([len(cluster_id)]) + cluster_id.encode()
    return bytes(octets)


def with_flags(flags: int, values: bytes = b"") -> bytes:
    return bytes(12) + flags.to_bytes(2, "big") + values


def with_table(content: bytes) -> bytes:
    return with_flags(0x2000, len(content).to_bytes(4, "big") + content)


def walk(data: bytes) -> int:
    return int(properties.walk_properties(data, 0, len(data)))


@pytest.mark.parametrize(
    ("values", "facts"),
    [
        ({}, 0),
        ({"delivery_mode": 1}, 0),
        ({"delivery_mode": 2}, properties.PERSISTENT),
        ({"content_type": "a", "delivery_mode": 2}, properties.PERSISTENT),
        ({"content_type": "a", "delivery_mode": 1}, 0),
        ({"priority": 5}, properties.HAS_PRIORITY | 5 << properties.PRIORITY_SHIFT),
        ({"priority": 255}, properties.HAS_PRIORITY | 255 << properties.PRIORITY_SHIFT),
        ({"expiration": "1"}, properties.HAS_EXPIRATION),
        ({"reply_to": "q"}, 0),
        ({"reply_to": "amq.rabbitmq.reply-to"}, properties.ASKS_DIRECT_REPLY),
        ({"reply_to": "amq.rabbitmq.reply-tx"}, 0),
        ({"reply_to": "amq.rabbitmq.reply-to.x"}, 0),
        (
            {
                "correlation_id": "1",
                "reply_to": "amq.rabbitmq.reply-to",
                "message_type": "t",
            },
            properties.ASKS_DIRECT_REPLY,
        ),
        ({"user_id": "u"}, properties.HAS_USER_ID),
        ({"app_id": "a", "cluster_id": "c", "message_id": "m"}, 0),
        ({"headers": {"k": 1}}, properties.HAS_HEADERS),
        ({"headers": {"CC": ["a"]}}, properties.HAS_HEADERS | properties.HAS_CC),
        ({"headers": {"BCC": ["a"]}}, properties.HAS_HEADERS | properties.HAS_BCC),
        ({"headers": {"x-delay": 1}}, properties.HAS_HEADERS | properties.HAS_DELAY),
        ({"headers": {"x-death": []}}, properties.HAS_HEADERS | properties.HAS_DEATH),
        (
            {"headers": {"x-deduplication-header": "1"}},
            properties.HAS_HEADERS | properties.HAS_DEDUPLICATION,
        ),
        (
            {"headers": {"x-stream-filter-value": "1"}},
            properties.HAS_HEADERS | properties.HAS_STREAM_FILTER,
        ),
        (
            {"headers": {"a": {"CC": ["nested"]}, "x-delay": 1, "CC": []}},
            properties.HAS_HEADERS | properties.HAS_DELAY | properties.HAS_CC,
        ),
        (
            EVERYTHING,
            properties.PERSISTENT
            | properties.HAS_HEADERS
            | properties.HAS_PRIORITY
            | 9 << properties.PRIORITY_SHIFT
            | properties.HAS_EXPIRATION
            | properties.HAS_USER_ID,
        ),
    ],
)
def test_the_walk_notes_what_decides_about_a_message(
    values: dict[str, object], facts: int
) -> None:
    assert walk(payload(**values)) == facts


@pytest.mark.parametrize(
    "key",
    [
        "cc",
        "CD",
        "BCD",
        "x-delax",
        "x-deduplication-headex",
        "x-stream-filter-valux",
        "",
        "x-death2",
    ],
)
def test_keys_that_only_look_alike_are_not_noted(key: str) -> None:
    assert walk(payload(headers={key: 1})) == properties.HAS_HEADERS


@pytest.mark.parametrize(
    "values", [{name: value} for name, value in EVERYTHING.items()] + [EVERYTHING]
)
def test_a_header_that_is_cut_off_or_goes_on_is_refused(
    values: dict[str, object],
) -> None:
    whole = payload(**values)
    for cut in range(len(whole)):
        with pytest.raises(SyntaxMalformed):
            walk(whole[:cut])
    with pytest.raises(SyntaxMalformed, match="does not end with its properties"):
        walk(whole + b"\x00")


def test_every_fact_has_a_bit_of_its_own_below_the_priority() -> None:
    facts = [
        properties.PERSISTENT,
        properties.HAS_HEADERS,
        properties.HAS_PRIORITY,
        properties.HAS_EXPIRATION,
        properties.ASKS_DIRECT_REPLY,
        properties.HAS_USER_ID,
        properties.HAS_CC,
        properties.HAS_BCC,
        properties.HAS_DELAY,
        properties.HAS_DEDUPLICATION,
        properties.HAS_STREAM_FILTER,
        properties.HAS_DEATH,
        properties.HAS_UNKNOWN_MODE,
    ]
    assert all(fact.bit_count() == 1 for fact in facts)
    assert len(set(facts)) == len(facts)
    assert max(facts) < 1 << properties.PRIORITY_SHIFT


def test_an_empty_header_table_is_a_header_table() -> None:
    assert walk(with_table(b"")) == properties.HAS_HEADERS
    assert properties.headers(with_table(b""), 0) == {}


def test_octets_behind_a_header_without_properties_are_refused() -> None:
    with pytest.raises(SyntaxMalformed):
        walk(with_flags(0, b"\x00"))


@pytest.mark.parametrize("flags", [0x0001, 0x1001])
def test_a_continuation_of_the_flags_is_refused(flags: int) -> None:
    with pytest.raises(SyntaxMalformed, match="more property flags"):
        walk(with_flags(flags, b"\x02"))


def test_the_flag_that_means_nothing_has_no_value() -> None:
    assert walk(with_flags(0x1002, b"\x02")) == properties.PERSISTENT


def test_a_delivery_mode_that_does_not_exist_is_a_fact() -> None:
    assert walk(with_flags(0x1000, b"\x03")) == properties.HAS_UNKNOWN_MODE


@pytest.mark.parametrize(
    "content",
    [
        b"\x05k",
        b"\x01k",
        b"\x01kZ",
        b"\x01kI\x00",
        b"\x02CC",
        b"\x07x-death",
        b"\x01kA\x00\x00\x00\x01Z",
        b"\x01kF\x00\x00\x00\x02\x01k",
    ],
)
def test_a_malformed_header_table_is_refused(content: bytes) -> None:
    with pytest.raises(SyntaxMalformed):
        walk(with_table(content))


def test_a_header_table_counts_in_the_depth_of_nesting() -> None:
    content = b""
    for _ in range(63):
        content = b"\x01kF" + len(content).to_bytes(4, "big") + content
    walk(with_table(content))
    with pytest.raises(SyntaxMalformed, match="deeper"):
        walk(with_table(b"\x01kF" + len(content).to_bytes(4, "big") + content))


def test_a_walk_looks_at_its_part_of_the_bytes_only() -> None:
    data = b"\xff" * 3 + payload(**EVERYTHING) + b"\xff" * 3
    assert properties.walk_properties(data, 3, len(data) - 3) == walk(data[3:-3])
    assert properties.user_id(data, 3) == b"guest"
    with pytest.raises(SyntaxMalformed):
        properties.walk_properties(data, 3, len(data) - 4)


def test_single_properties_are_read_out_of_many() -> None:
    data = payload(**EVERYTHING)
    assert properties.delivery_mode(data, 0) == 2
    assert properties.expiration(data, 0) == b"60000"
    assert properties.user_id(data, 0) == b"guest"
    assert properties.headers(data, 0) == {"k": "v"}


@pytest.mark.parametrize("address", [b"", b"r", b"x" * 255])
@pytest.mark.parametrize("body", [b"", b"a body"])
def test_a_reply_to_address_is_exchanged_and_nothing_else(
    address: bytes, body: bytes
) -> None:
    data = payload(**EVERYTHING)
    behind = frame(3, 7, body) if body else b""
    content = properties.with_reply_to(frame(2, 7, data) + behind, address)
    changed = data.replace(short_string("replies"), short_string(address))
    assert content == frame(2, 7, changed) + behind


def test_missing_properties_are_empty() -> None:
    data = payload(priority=1)
    assert properties.delivery_mode(data, 0) is None
    assert properties.expiration(data, 0) == b""
    assert properties.headers(data, 0) == {}
    assert properties.header_strings(data, 0, b"CC") == []


def test_strings_are_read_out_of_a_header_that_is_an_array() -> None:
    data = payload(content_type="x", headers={"k": 1, "CC": ["a", 7, "bc"]})
    assert properties.header_strings(data, 0, b"CC") == [b"a", b"bc"]
    assert properties.header_strings(data, 0, b"BCC") == []


def test_a_header_that_should_be_an_array_is_refused_with_its_type() -> None:
    data = payload(headers={"CC": "a"})
    with pytest.raises(properties.HeaderTypeUnacceptable) as caught:
        properties.header_strings(data, 0, b"CC")
    assert str(caught.value) == '{unacceptable_type_in_header,"CC",longstr}'
    assert (caught.value.key, caught.value.type_name) == ("CC", "longstr")


def test_all_properties_decode() -> None:
    found = properties.property_list(payload(**EVERYTHING), 0)
    assert found.content_type == "text/plain"
    assert found.content_encoding == "utf-8"
    assert found.headers == {"k": "v"}
    assert found.delivery_mode == 2
    assert found.priority == 9
    assert found.correlation_id == "c1"
    assert found.reply_to == "replies"
    assert found.expiration == "60000"
    assert found.message_id == "m1"
    assert found.timestamp == datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    assert found.type == "greeting"
    assert found.user_id == "guest"
    assert found.app_id == "app"
    assert found.cluster_id == "cluster"


def test_properties_that_are_not_there_decode_to_none() -> None:
    found = properties.property_list(payload(), 0)
    assert (found.headers, found.timestamp, found.priority) == (None, None, None)
    assert (found.content_type, found.delivery_mode) == (None, None)


def test_text_that_is_not_utf8_decodes_all_the_same() -> None:
    found = properties.property_list(with_flags(0x8000, b"\x01\xff"), 0)
    assert found.content_type == "\udcff"


@pytest.mark.parametrize(
    ("name", "text"),
    [("correlation_id", b"c1"), ("message_id", b"m1"), ("timestamp", b"1767323045")],
)
def test_three_properties_are_read_by_name_as_text(name: str, text: bytes) -> None:
    assert properties.named_text(payload(**EVERYTHING), 0, name) == text
    assert properties.named_text(payload(), 0, name) is None


def test_a_timestamp_as_text_has_no_sign() -> None:
    data = with_flags(0x0040, b"\xff" * 8)
    assert properties.named_text(data, 0, "timestamp") == b"18446744073709551615"


def test_the_place_of_the_header_table_is_found() -> None:
    data = payload(**EVERYTHING)
    place = int(properties.header_table_at(data, 0))
    assert data[place : place + 7] == b"\x00\x00\x00\x08\x01kS"
    assert properties.header_table_at(payload(content_type="a"), 0) == -1
