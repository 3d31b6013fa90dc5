"""The exchange types of RabbitMQ's plugins, and of RabbitMQ 4."""

from __future__ import annotations

import struct
from collections import Counter

import pytest
from pamqp.commands import Exchange, Queue

from tests.support.content import short_string, string_array, with_headers
from tests.support.differences import Expectations
from tests.support.raw_client import METHOD, Closed, channel_closed, longstr
from tests.support.wiring import Wiring

HASH = "x-consistent-hash"
HISTORY = "x-recent-history"
LENGTH = short_string("x-recent-history-length")


def spread(wiring: Wiring, exchange: str, count: int, queues: list[str]) -> list[int]:
    """Send messages with different keys; return how many came to each queue."""
    for number in range(count):
        assert wiring.send(exchange, f"key {number}", mandatory=True) is None
    found = [len(wiring.bodies(queue)) for queue in queues]
    assert sum(found) == count
    return found


def declare_raw(wiring: Wiring, kind: str, table: bytes) -> None:
    """Send exchange.declare with a table of arguments as it is, and await no answer."""
    payload = struct.pack(">HHH", 40, 10, 0)
    payload += short_string(wiring.fresh_name()) + short_string(kind) + b"\x00"
    wiring.client.send_frame(METHOD, 1, payload + longstr(table))


def expect_declare_refused(
    wiring: Wiring, kind: str, arguments: dict[str, object], text: str
) -> None:
    declare = Exchange.Declare(0, wiring.fresh_name(), kind, arguments=arguments)  # type: ignore[arg-type]
    wiring.client.send_method(1, declare)
    text = f"PRECONDITION_FAILED - {text}"
    wiring.client.expect_refusal(channel_closed(406, text, 40, 10))


def expect_bind_refused(
    wiring: Wiring, queue: str, exchange: str, key: str, text: str
) -> None:
    wiring.client.send_method(1, Queue.Bind(0, queue, exchange, key))
    text = f"PRECONDITION_FAILED - {text}"
    wiring.client.expect_refusal(channel_closed(406, text, 50, 20))


# -- x-consistent-hash --------------------------------------------------------


def test_consistent_hash_gives_each_message_one_queue_by_weight(wiring: Wiring) -> None:
    exchange = wiring.exchange(HASH)
    light, heavy = wiring.queue(), wiring.queue()
    wiring.bind(light, exchange, "1")
    wiring.bind(heavy, exchange, "3")
    found = spread(wiring, exchange, 400, [light, heavy])
    assert 55 < found[0] < 145


def test_consistent_hash_gives_a_key_the_same_queue_again(wiring: Wiring) -> None:
    exchange = wiring.exchange(HASH)
    queues = [wiring.queue(exchange, key="2") for _ in range(3)]
    for number in range(60):
        wiring.send(exchange, f"key {number % 20}", b"%d" % (number % 20))
    for queue in queues:
        assert set(Counter(wiring.bodies(queue)).values()) <= {3}


def test_consistent_hash_hashes_the_header_that_is_named(wiring: Wiring) -> None:
    exchange = wiring.exchange(HASH, {"hash-header": "id"})
    queues = [wiring.queue(exchange, key="1") for _ in range(3)]
    for number in range(60):
        value = b"S\x00\x00\x00\x02" + b"%02d" % (number % 20)
        properties = with_headers(short_string("id") + value)
        wiring.send(exchange, f"key {number}", value, properties)
    found = [Counter(wiring.bodies(queue)) for queue in queues]
    assert all(set(counter.values()) == {3} for counter in found)


@pytest.mark.parametrize(
    ("name", "flag"),
    [
        ("correlation_id", b"\x04\x00"),
        ("message_id", b"\x00\x80"),
        ("timestamp", b"\x00\x40"),
    ],
)
def test_consistent_hash_hashes_the_property_that_is_named(
    wiring: Wiring, name: str, flag: bytes
) -> None:
    exchange = wiring.exchange(HASH, {"hash-property": name})
    queues = [wiring.queue(exchange, key="1") for _ in range(2)]
    for number in range(60):
        value = short_string(str(number % 20))
        if name == "timestamp":
            value = (number % 20).to_bytes(8, "big")
        wiring.send(exchange, f"key {number}", value, flag + value)
    found = [Counter(wiring.bodies(queue)) for queue in queues]
    assert all(set(counter.values()) == {3} for counter in found)


def test_consistent_hash_keeps_messages_without_the_header_together(
    wiring: Wiring,
) -> None:
    exchange = wiring.exchange(HASH, {"hash-header": "id"})
    queues = [wiring.queue(exchange, key="1") for _ in range(3)]
    assert sorted(spread(wiring, exchange, 20, queues)) == [0, 0, 20]


def test_consistent_hash_counts_a_queue_once(wiring: Wiring) -> None:
    exchange = wiring.exchange(HASH)
    twice, once = wiring.queue(exchange, key="1"), wiring.queue(exchange, key="1")
    wiring.bind(twice, exchange, "9")
    found = spread(wiring, exchange, 200, [twice, once])
    assert 65 < found[1] < 135


def test_consistent_hash_without_bindings_routes_nothing(wiring: Wiring) -> None:
    exchange = wiring.exchange(HASH)
    queue = wiring.queue(exchange, key="1")
    wiring.unbind(queue, exchange, "1")
    assert not wiring.is_routed(exchange)


def test_consistent_hash_looks_at_the_first_key_only(wiring: Wiring) -> None:
    exchange = wiring.exchange(HASH)
    queues = [wiring.queue(exchange, key="1") for _ in range(3)]
    for number in range(20):
        properties = with_headers(string_array("CC", f"copy {number}"))
        wiring.send(exchange, "one key", b"x", properties)
    assert sorted(len(wiring.bodies(queue)) for queue in queues) == [0, 0, 20]


def test_consistent_hash_shares_among_exchanges_too(wiring: Wiring) -> None:
    exchange = wiring.exchange(HASH)
    inner = wiring.exchange("fanout")
    wiring.bind_exchange(inner, exchange, "1")
    queues = [wiring.queue(inner), wiring.queue(exchange, key="1")]
    found = spread(wiring, exchange, 200, queues)
    assert 65 < found[0] < 135


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("abc", 'The binding key must be an integer: <<"abc">>'),
        ("", "The binding key must be an integer: <<>>"),
        (" 1", 'The binding key must be an integer: <<" 1">>'),
        ("5é", 'The binding key must be an integer: <<"5é">>'),
        ("x\n", 'The binding key must be an integer: <<"x\\n">>'),
        ("\x01", "The binding key must be an integer: <<1>>"),
        ("1.0", 'The binding key must be an integer: <<"1.0">>'),
        ("0", "The binding key must be greater than 0"),
        ("-5", "The binding key must be greater than 0"),
    ],
)
def test_consistent_hash_refuses_keys_that_are_no_weight(
    wiring: Wiring, key: str, text: str
) -> None:
    expect_bind_refused(wiring, wiring.queue(), wiring.exchange(HASH), key, text)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"hash-property": "app_id"}, "Unsupported property: app_id"),
        (
            {"hash-header": "h", "hash-property": "message_id"},
            "hash-header and hash-property are mutually exclusive",
        ),
    ],
)
def test_consistent_hash_refuses_arguments_that_make_no_sense(
    wiring: Wiring, arguments: dict[str, object], text: str
) -> None:
    expect_declare_refused(wiring, HASH, arguments, text)


@pytest.mark.parametrize("name", ["hash-header", "hash-property"])
def test_consistent_hash_wants_names_for_what_it_hashes(
    wiring: Wiring, expectations: Expectations, name: str
) -> None:
    declare_raw(wiring, HASH, short_string(name) + b"I\x00\x00\x00\x05")
    text = f"PRECONDITION_FAILED - Invalid argument 5, '{name}' must be a string"
    expected = channel_closed(406, text, 40, 10)
    wiring.client.expect_refusal(expectations.of("hash-argument-no-string", expected))


def test_arguments_of_a_type_are_not_compared(wiring: Wiring) -> None:
    name = wiring.exchange(HASH, {"hash-header": "h"})
    wiring.declare(name, HASH, {"hash-property": "app_id"})


# -- x-modulus-hash, x-random, x-local-random ---------------------------------


def test_modulus_hash_gives_each_key_one_binding(wiring: Wiring) -> None:
    exchange = wiring.exchange("x-modulus-hash")
    queues = [wiring.queue(exchange, key=str(number)) for number in range(3)]
    for number in range(90):
        wiring.send(exchange, f"key {number % 30}", b"%d" % (number % 30))
    found = [Counter(wiring.bodies(queue)) for queue in queues]
    assert sum(map(len, found)) == 30
    assert all(set(counter.values()) == {3} for counter in found)


def test_modulus_hash_looks_at_all_keys(wiring: Wiring) -> None:
    exchange = wiring.exchange("x-modulus-hash")
    queues = [wiring.queue(exchange, key=str(number)) for number in range(3)]
    for number in range(30):
        properties = with_headers(string_array("CC", f"copy {number}"))
        wiring.send(exchange, "one key", b"x", properties)
    counts = [len(wiring.bodies(queue)) for queue in queues]
    assert sum(counts) == 30
    assert min(counts) > 0


def test_random_gives_each_message_one_binding(wiring: Wiring) -> None:
    exchange = wiring.exchange("x-random")
    twice, once = wiring.queue(exchange), wiring.queue(exchange)
    wiring.bind(twice, exchange, "another key")
    for _ in range(300):
        assert wiring.is_routed(exchange)
    counts = [len(wiring.bodies(queue)) for queue in (twice, once)]
    assert sum(counts) == 300
    assert 55 < counts[1] < 145


@pytest.mark.parametrize("kind", ["x-modulus-hash", "x-random"])
def test_without_bindings_nothing_is_routed(wiring: Wiring, kind: str) -> None:
    exchange = wiring.exchange(kind)
    queue = wiring.queue(exchange)
    assert wiring.is_routed(exchange)
    wiring.unbind(queue, exchange)
    assert not wiring.is_routed(exchange)


def test_local_random_is_random_for_queues_without_a_key(
    wiring: Wiring, expectations: Expectations
) -> None:
    kind = "x-local-random"
    if expectations.differ("local-random"):
        wiring.client.send_method(1, Exchange.Declare(0, wiring.fresh_name(), kind))
        text = f"COMMAND_INVALID - unknown exchange type '{kind}'"
        wiring.client.expect_refusal(Closed("connection", 503, text, 40, 10))
        return
    exchange = wiring.exchange(kind)
    queues = [wiring.queue(exchange, key="") for _ in range(2)]
    counts = spread(wiring, exchange, 200, queues)
    assert 60 < counts[0] < 140
    text = "Non empty binding 'k' key not permitted"
    expect_bind_refused(wiring, queues[0], exchange, "k", text)


# -- x-recent-history ---------------------------------------------------------


def test_a_newcomer_gets_what_was_said_last(wiring: Wiring) -> None:
    exchange = wiring.exchange(HISTORY, {"x-recent-history-length": 3})
    early = wiring.queue(exchange)
    for number in range(5):
        wiring.send(exchange, f"key {number}", b"%d" % number)
    late = wiring.queue(exchange)
    found = wiring.messages(late)
    assert [message.body for message in found] == [b"2", b"3", b"4"]
    method = dict(found[0].method)
    assert (method["exchange"], method["routing_key"]) == (exchange, "key 2")
    assert not method["redelivered"]
    assert wiring.bodies(early) == [b"0", b"1", b"2", b"3", b"4"]


def test_a_history_is_twenty_long_unless_it_is_said(wiring: Wiring) -> None:
    exchange = wiring.exchange(HISTORY)
    for number in range(25):
        wiring.send(exchange, "k", b"%d" % number)
    found = wiring.bodies(wiring.queue(exchange))
    assert found == [b"%d" % number for number in range(5, 25)]


@pytest.mark.parametrize(("value", "kept"), [(b"t\x01", 0), (b"t\x00", 1)])
def test_a_message_may_ask_not_to_be_kept(
    wiring: Wiring, value: bytes, kept: int
) -> None:
    exchange = wiring.exchange(HISTORY)
    early = wiring.queue(exchange)
    entry = short_string("x-recent-history-no-store") + value
    wiring.send(exchange, "k", b"x", with_headers(entry))
    assert wiring.bodies(early) == [b"x"]
    assert len(wiring.bodies(wiring.queue(exchange))) == kept


def test_binding_again_brings_the_history_only_under_another_key(
    wiring: Wiring,
) -> None:
    exchange = wiring.exchange(HISTORY)
    wiring.send(exchange)
    queue = wiring.queue(exchange, key="1")
    wiring.bind(queue, exchange, "1")
    assert wiring.bodies(queue) == [b"x"]
    wiring.bind(queue, exchange, "2")
    assert wiring.bodies(queue) == [b"x"]


def test_a_history_goes_along_a_binding_to_an_exchange(
    wiring: Wiring, expectations: Expectations
) -> None:
    exchange, inner = wiring.exchange(HISTORY), wiring.exchange("topic")
    some, everything = wiring.queue(inner, key="a.*"), wiring.queue(inner, key="#")
    for key in ("a.1", "b.2"):
        wiring.send(exchange, key, key.encode())
    wiring.bind_exchange(inner, exchange)
    assert wiring.bodies(some) == [b"a.1"]
    oldest_first = [b"a.1", b"b.2"]
    if expectations.differ("history-to-an-exchange"):
        oldest_first.reverse()
    assert wiring.bodies(everything) == oldest_first


def test_a_history_shows_no_blind_copies(wiring: Wiring) -> None:
    exchange = wiring.exchange(HISTORY)
    wiring.send(exchange, "k", b"x", with_headers(string_array("BCC", "copy")))
    (message,) = wiring.messages(wiring.queue(exchange))
    assert message.properties == with_headers(b"")


def test_a_durable_queue_gets_the_history_too(wiring: Wiring) -> None:
    exchange = wiring.exchange(HISTORY, durable=True)
    wiring.send(exchange, "k", b"x", b"\x10\x00\x02")
    queue = wiring.fresh_name()
    wiring.client.call(1, Queue.Declare(0, queue, durable=True), Queue.DeclareOk)
    wiring.bind(queue, exchange)
    (message,) = wiring.messages(queue)
    assert (message.body, message.properties) == (b"x", b"\x10\x00\x02")


@pytest.mark.parametrize(
    "value", [b"b\x05", b"s\x00\x05", b"I\x00\x00\x00\x05", b"l" + bytes(7) + b"\x05"]
)
def test_a_length_may_be_of_any_size(wiring: Wiring, value: bytes) -> None:
    declare_raw(wiring, HISTORY, LENGTH + value)
    wiring.client.expect_method(1, Exchange.DeclareOk)


@pytest.mark.parametrize("value", [b"B\x05", b"u\x00\x05", b"i\x00\x00\x00\x05"])
def test_a_length_may_be_unsigned(
    wiring: Wiring, expectations: Expectations, value: bytes
) -> None:
    declare_raw(wiring, HISTORY, LENGTH + value)
    if expectations.differ("unsigned-history-length"):
        text = (
            "PRECONDITION_FAILED - Invalid argument 5, 'x-recent-history-length' must "
            "be a positive integer"
        )
        wiring.client.expect_refusal(channel_closed(406, text, 40, 10))
    else:
        wiring.client.expect_method(1, Exchange.DeclareOk)


@pytest.mark.parametrize(
    ("value", "shown"), [(0, "0"), (-1, "-1"), ("5", '<<"5">>'), (True, "true")]
)
def test_a_history_needs_a_length(wiring: Wiring, value: object, shown: str) -> None:
    text = (
        f"Invalid argument {shown}, 'x-recent-history-length' must be a positive "
        "integer"
    )
    expect_declare_refused(wiring, HISTORY, {"x-recent-history-length": value}, text)
