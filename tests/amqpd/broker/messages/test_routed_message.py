"""What exchanges may ask of a message."""

from amqpd.broker.messages.message import Message
from amqpd.broker.messages.routed_message import RoutedHeaders, RoutedMessage
from amqpd.wire.properties import walk_properties
from tests.support.content import content_of, short_string, string_array, with_headers


def routed(properties: bytes) -> RoutedMessage:
    content = content_of(b"hello", properties)
    end = len(content) - len(b"\x03\x00\x01\x00\x00\x00\x05hello\xce") - 1
    facts = walk_properties(content, 7, end)
    message = Message(b"\x01x\x01k\xce", content, None, facts, 0)
    return RoutedMessage(message, [b"k"])


def test_it_is_a_message_with_keys() -> None:
    message = routed(b"\x00\x00")
    assert message.is_message
    assert message.keys == [b"k"]


def test_headers_are_decoded_once() -> None:
    message = routed(with_headers(string_array("CC", "a", "b")))
    assert message.headers() == {"CC": ["a", "b"]}
    assert message.headers() is message.headers()


def test_a_message_without_headers_has_an_empty_table() -> None:
    assert routed(b"\x00\x00").headers() == {}


def test_properties_are_read_by_name() -> None:
    message = routed(b"\x00\x80" + short_string("m1"))
    assert message.property_text("message_id") == b"m1"
    assert message.property_text("correlation_id") is None


def test_only_the_headers_that_are_asked_for_are_decoded() -> None:
    properties = with_headers(string_array("a", "1") + string_array("b", "2"))
    names = {b"b": "b", b"c": "c"}
    assert routed(properties).headers_among(names) == {"b": ["2"]}
    assert routed(b"\x00\x00").headers_among(names) == {}


def test_headers_that_are_decoded_are_not_decoded_again() -> None:
    message = routed(with_headers(string_array("a", "1")))
    assert message.headers() is message.headers_among({b"a": "a"})


def test_a_header_table_stands_for_every_message_that_has_it() -> None:
    table = string_array("a", "1") + string_array("b", "2")
    data = b"\xff" + table + b"\xff"
    asking = RoutedHeaders([b"k"], data, 1, 1 + len(table))
    assert not asking.is_message
    assert asking.keys == [b"k"]
    assert asking.headers() == {"a": ["1"], "b": ["2"]}
    assert asking.headers_among({b"a": "a"}) == {"a": ["1"]}
