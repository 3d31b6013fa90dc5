"""Contents that are written anew: without a header, with others, without a deadline."""

from typing import Any

import pytest
from pamqp import commands, frame, header

from amqpd.wire import properties
from amqpd.wire.frames import HEAD_SIZE
from amqpd.wire.rewriting import (
    header_entries,
    with_header_entries,
    without_expiration,
    without_header,
)
from tests.support.content import content_of, header_frame, short_string

EVERYTHING: dict[str, Any] = {
    "content_type": "text/plain",
    "content_encoding": "utf-8",
    "delivery_mode": 2,
    "priority": 9,
    "correlation_id": "c1",
    "reply_to": "replies",
    "message_id": "m1",
    "app_id": "app",
}


def content(headers: dict[str, Any] | None, **values: Any) -> bytes:
    """Return a header frame on channel 3 as pamqp writes it, and a body frame."""
    written = commands.Basic.Properties(headers=headers, **values)
    head = frame.marshal(header.ContentHeader(0, 5, written), 3)
    return bytes(head) + b"\x03\x00\x03\x00\x00\x00\x05hello\xce"


@pytest.mark.parametrize("values", [{}, EVERYTHING])
@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"BCC": ["a", "b"], "z": "1"}, {"z": "1"}),
        ({"a": 1, "BCC": ["q"]}, {"a": 1}),
        ({"BCC": []}, {}),
        ({"BCCC": "BCC", "bcc": {"BCC": "inside"}}, None),
    ],
)
def test_it_is_as_if_the_header_had_never_been_there(
    before: dict[str, Any], after: dict[str, Any] | None, values: dict[str, Any]
) -> None:
    expected = content(before if after is None else after, **values)
    if after == {}:
        # pamqp leaves an empty table out; RabbitMQ keeps it, and so do we.
        found = without_header(content(before, **values), b"BCC")
        assert properties.headers(found, HEAD_SIZE) == {}
        assert properties.header_table_at(found, HEAD_SIZE) > 0
        assert found.endswith(b"hello\xce")
        end = len(found) - len(b"\x03\x00\x03\x00\x00\x00\x05hello\xce") - 1
        properties.walk_properties(found, HEAD_SIZE, end)
        return
    assert without_header(content(before, **values), b"BCC") == expected


def test_every_occurrence_of_the_key_goes() -> None:
    entry = b"\x03BCCA\x00\x00\x00\x00"
    other = b"\x01kt\x01"
    for entries in (entry + other + entry, entry + entry + other):
        table = len(entries).to_bytes(4, "big") + entries
        found = without_header(header_frame(0, b"\x20\x00" + table), b"BCC")
        assert found == header_frame(0, b"\x20\x00\x00\x00\x00\x04" + other)


def test_a_content_without_headers_stays_as_it_is() -> None:
    sent = content_of(b"hello", b"\x10\x00\x02")
    assert without_header(sent, b"BCC") is sent


# -- header tables and expiration that are written anew -----------------------


def sized(entries: bytes) -> bytes:
    return len(entries).to_bytes(4, "big") + entries


ENTRY_A = short_string("a") + b"t\x01"
ENTRY_B = short_string("b") + b"S\x00\x00\x00\x01x"


def test_a_header_table_is_replaced_where_it_is() -> None:
    properties = b"\xa0\x80\x01t" + sized(ENTRY_A) + short_string("id")
    expected = b"\xa0\x80\x01t" + sized(ENTRY_B) + short_string("id")
    before = content_of(b"body", properties)
    assert with_header_entries(before, ENTRY_B) == content_of(b"body", expected)


def test_a_header_table_is_put_where_it_belongs() -> None:
    before = content_of(b"body", b"\x80\x80\x01t" + short_string("id"))
    expected = b"\xa0\x80\x01t" + sized(ENTRY_A) + short_string("id")
    assert with_header_entries(before, ENTRY_A) == content_of(b"body", expected)


def test_entries_are_those_that_are_not_left_out() -> None:
    before = content_of(b"", b"\x20\x00" + sized(ENTRY_A + ENTRY_B + ENTRY_A))
    assert header_entries(before, frozenset()) == ENTRY_A + ENTRY_B + ENTRY_A
    assert header_entries(before, frozenset({b"a"})) == ENTRY_B
    assert header_entries(content_of(b""), frozenset()) == b""


def test_an_expiration_is_taken_out() -> None:
    properties = b"\x03\x80" + short_string("re") + short_string("50")
    expected = b"\x02\x80" + short_string("re")
    before = content_of(b"body", properties + short_string("id"))
    changed = content_of(b"body", expected + short_string("id"))
    assert without_expiration(before) == changed
    assert without_expiration(changed) == changed
