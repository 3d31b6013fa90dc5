"""Contents that are written anew without a header."""

from typing import Any

import pytest
from pamqp import commands, frame, header

from amqpd.wire import properties
from amqpd.wire.frames import HEAD_SIZE
from amqpd.wire.rewriting import without_header
from tests.support.content import content_of, header_frame

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
