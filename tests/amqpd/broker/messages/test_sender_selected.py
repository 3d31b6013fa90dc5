"""CC and BCC: which keys they add, and what is left of them."""

import pytest

from amqpd.broker.errors import PreconditionFailed
from amqpd.broker.messages.message import Message
from amqpd.broker.messages.sender_selected import selected_keys, without_blind_copies
from amqpd.wire.properties import HAS_BCC, HAS_CC, HAS_HEADERS, walk_properties
from tests.support.content import header_frame, short_string, string_array, with_headers


def message(*entries: bytes) -> Message:
    content = header_frame(0, with_headers(b"".join(entries)))
    facts = walk_properties(content, 7, len(content) - 1)
    made = Message(b"\x00\x01q\xce", content, None, facts, 5)
    made.expires_ms = 99
    return made


CC = string_array("CC", "a", "b")
BCC = string_array("BCC", "c")
OTHER = short_string("z") + b"t\x01"


def test_keys_of_both_are_returned() -> None:
    assert selected_keys(message(BCC, OTHER, CC)) == [b"a", b"b", b"c"]
    assert selected_keys(message(OTHER)) == []


def test_what_is_no_string_in_the_array_is_passed_over() -> None:
    mixed = short_string("CC") + b"A\x00\x00\x00\x09t\x01S\x00\x00\x00\x01aV"
    assert selected_keys(message(mixed)) == [b"a"]


@pytest.mark.parametrize(
    ("key", "value", "type_name"),
    [
        ("CC", b"S\x00\x00\x00\x01a", "longstr"),
        ("BCC", b"I\x00\x00\x00\x01", "signedint"),
        ("CC", b"F\x00\x00\x00\x00", "table"),
        ("BCC", b"V", "void"),
    ],
)
def test_what_is_no_array_is_refused(key: str, value: bytes, type_name: str) -> None:
    with pytest.raises(PreconditionFailed) as caught:
        selected_keys(message(short_string(key) + value))
    assert caught.value.text == (
        f'invalid message: {{unacceptable_type_in_header,"{key}",{type_name}}}'
    )


def test_blind_copies_are_taken_out_and_the_rest_stays() -> None:
    sent = message(CC, BCC, OTHER)
    shown = without_blind_copies(sent)
    assert shown.content == message(CC, OTHER).content
    assert shown.facts == HAS_HEADERS | HAS_CC
    assert (shown.address, shown.enqueued_ms, shown.expires_ms) == (
        sent.address,
        5,
        99,
    )
    assert sent.facts & HAS_BCC


def test_a_message_without_blind_copies_stays_itself() -> None:
    sent = message(CC)
    assert without_blind_copies(sent) is sent
