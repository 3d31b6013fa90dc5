"""CC and BCC: routing keys that a message brings along in its headers."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from pamqp.commands import Basic

from tests.support.content import short_string, string_array, with_headers
from tests.support.raw_client import RawClient, channel_closed
from tests.support.wiring import Wiring

OTHER = short_string("z") + b"t\x01"


Add = Callable[..., bytes]


def cc(*keys: str) -> bytes:
    return with_headers(string_array("CC", *keys))


def bcc(*keys: str) -> bytes:
    return with_headers(string_array("BCC", *keys))


@pytest.mark.parametrize("add", [cc, bcc])
@pytest.mark.parametrize("kind", ["direct", "topic"])
def test_keys_are_matched_like_the_first(wiring: Wiring, kind: str, add: Add) -> None:
    exchange = wiring.exchange(kind)
    queues = [wiring.queue(exchange, key=key) for key in ("a", "b", "c")]
    wiring.send(exchange, "a", b"x", add("b"))
    assert [wiring.bodies(queue) for queue in queues] == [[b"x"], [b"x"], []]


@pytest.mark.parametrize("add", [cc, bcc])
def test_keys_are_queues_of_the_default_exchange(wiring: Wiring, add: Add) -> None:
    first, second, third = (wiring.queue() for _ in range(3))
    wiring.send("", first, b"x", add(second, "nobody"))
    found = [wiring.bodies(queue) for queue in (first, second, third)]
    assert found == [[b"x"], [b"x"], []]


def test_a_queue_gets_one_copy_however_many_keys_lead_there(wiring: Wiring) -> None:
    exchange = wiring.exchange("direct")
    queue = wiring.queue(exchange, key="a")
    wiring.bind(queue, exchange, "b")
    properties = with_headers(string_array("CC", "b", "b") + string_array("BCC", "a"))
    wiring.send(exchange, "a", b"x", properties)
    assert wiring.bodies(queue) == [b"x"]
    wiring.send("", queue, b"y", with_headers(string_array("CC", queue, queue)))
    assert wiring.bodies(queue) == [b"y"]


def test_everybody_sees_cc_and_nobody_bcc(wiring: Wiring) -> None:
    first, second, third = (wiring.queue() for _ in range(3))
    copies = string_array("CC", second)
    blind = string_array("BCC", third)
    wiring.send("", first, b"x", with_headers(OTHER + blind + copies))
    for queue in (first, second, third):
        (message,) = wiring.messages(queue)
        assert message.properties == with_headers(OTHER + copies)


def test_headers_that_had_nothing_but_bcc_are_empty(wiring: Wiring) -> None:
    queue = wiring.queue()
    wiring.send("", queue, b"x", bcc("nobody"))
    (message,) = wiring.messages(queue)
    assert message.properties == with_headers(b"")


def test_a_message_that_only_a_copy_can_be_routed_of_is_routed(wiring: Wiring) -> None:
    queue = wiring.queue()
    assert wiring.send("", "nobody", b"x", bcc(queue), mandatory=True) is None
    assert wiring.bodies(queue) == [b"x"]


def test_a_returned_message_does_not_show_bcc(wiring: Wiring) -> None:
    properties = with_headers(string_array("BCC", "nobody") + OTHER)
    returned = wiring.send("", "no one", b"x", properties, mandatory=True)
    assert returned is not None
    assert returned.properties == with_headers(OTHER)


def test_what_is_no_string_is_passed_over(wiring: Wiring) -> None:
    first, second = wiring.queue(), wiring.queue()
    items = b"I\x00\x00\x00\x01S" + len(second).to_bytes(4, "big") + second.encode()
    array = short_string("CC") + b"A" + len(items).to_bytes(4, "big") + items
    wiring.send("", first, b"x", with_headers(array))
    assert wiring.bodies(second) == [b"x"]


def test_a_key_longer_than_a_name_may_be_leads_nowhere(wiring: Wiring) -> None:
    queue = wiring.queue()
    wiring.send("", queue, b"x", cc("k" * 300))
    assert wiring.bodies(queue) == [b"x"]


@pytest.mark.parametrize("kind", ["fanout", "headers"])
def test_where_keys_do_not_count_they_change_nothing(wiring: Wiring, kind: str) -> None:
    exchange = wiring.exchange(kind)
    queue, other = wiring.queue(exchange), wiring.queue()
    wiring.send(exchange, "a", b"x", bcc(other))
    (message,) = wiring.messages(queue)
    assert message.properties == with_headers(b"")
    assert wiring.bodies(other) == []


def test_keys_count_behind_other_exchanges(wiring: Wiring) -> None:
    outer, inner = wiring.exchange("fanout"), wiring.exchange("direct")
    wiring.bind_exchange(inner, outer)
    queue = wiring.queue(inner, key="copy")
    wiring.send(outer, "a", b"x", bcc("copy"))
    assert wiring.bodies(queue) == [b"x"]


@pytest.mark.parametrize("exchange", ["", "amq.fanout", "amq.direct"])
@pytest.mark.parametrize(
    ("key", "value", "type_name"),
    [
        ("CC", b"S\x00\x00\x00\x01a", "longstr"),
        ("BCC", b"S\x00\x00\x00\x01a", "longstr"),
        ("CC", b"I\x00\x00\x00\x01", "signedint"),
        ("BCC", b"F\x00\x00\x00\x00", "table"),
        ("CC", b"V", "void"),
        ("BCC", b"t\x01", "bool"),
    ],
)
def test_what_is_no_array_is_406(
    client: RawClient, exchange: str, key: str, value: bytes, type_name: str
) -> None:
    properties = with_headers(short_string(key) + value)
    client.publish(1, Basic.Publish(0, exchange, "nobody"), b"x", properties)
    text = (
        "PRECONDITION_FAILED - invalid message: "
        f'{{unacceptable_type_in_header,"{key}",{type_name}}}'
    )
    client.expect_refusal(channel_closed(406, text, 60, 40))
