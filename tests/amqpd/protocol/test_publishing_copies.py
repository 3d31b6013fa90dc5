"""Publishing with CC and BCC, and along ways that depend on the message."""

from __future__ import annotations

from operator import itemgetter

import pytest
from pamqp import commands

from amqpd.auth.permissions import TopicPermission
from tests.support.connection_pair import Bench, ConnectionPair, contents, method
from tests.support.content import (
    publish,
    short_string,
    string_array,
    with_headers,
)
from tests.support.raw_client import channel_closed

CC_R = string_array("CC", "r")
BCC_R = string_array("BCC", "r")
OTHER = short_string("z") + b"t\x01"


@pytest.fixture
def consumer(bench: Bench, pair: ConnectionPair) -> ConnectionPair:
    """Another connection, which gets everything from the queues q and r."""
    pair.declare("q")
    pair.declare("r")
    consumer = bench.connect()
    consumer.consume("q", "q", no_ack=True)
    consumer.consume("r", "r", no_ack=True)
    return consumer


def delivered(bench: Bench, consumer: ConnectionPair) -> list[tuple[str, bytes, bytes]]:
    """Return consumer tag, properties and body of what has come, in order of tags."""
    bench.turn()
    found = contents(consumer.take(), commands.Basic.Deliver)
    messages = [(str(one.consumer_tag), props, body) for one, props, body in found]
    return sorted(messages, key=itemgetter(0))


@pytest.mark.parametrize("size", [0, 5, 100_000])
@pytest.mark.parametrize("frame_size", [131064, 4000])
@pytest.mark.parametrize("key", ["CC", "BCC"])
def test_a_copy_goes_to_the_queue_that_it_names(
    bench: Bench,
    pair: ConnectionPair,
    consumer: ConnectionPair,
    key: str,
    size: int,
    frame_size: int,
) -> None:
    sent = with_headers(string_array(key, "r", "r", "q", "nobody") + OTHER)
    body = bytes(size)
    pair.send(publish("q", body, properties=sent, frame_size=frame_size))
    shown = sent if key == "CC" else with_headers(OTHER)
    found = delivered(bench, consumer)
    assert found == [("q", shown, body), ("r", shown, body)]


def test_a_copy_of_a_message_to_nobody_counts_as_routed(
    bench: Bench, pair: ConnectionPair, consumer: ConnectionPair
) -> None:
    properties = with_headers(BCC_R)
    pair.send(publish("nobody", b"x", properties=properties, mandatory=True))
    assert [tag for tag, _, _ in delivered(bench, consumer)] == ["r"]
    assert pair.take() == []


def test_what_is_returned_does_not_show_blind_copies(
    bench: Bench, pair: ConnectionPair
) -> None:
    properties = with_headers(BCC_R + OTHER)
    pair.send(publish("nobody", b"x", properties=properties, mandatory=True))
    bench.turn()
    ((_, shown, body),) = contents(pair.take(), commands.Basic.Return)
    assert (shown, body) == (with_headers(OTHER), b"x")


def test_a_remembered_way_does_not_keep_copies_away(
    bench: Bench, pair: ConnectionPair, consumer: ConnectionPair
) -> None:
    pair.send(publish("q", b"1"))
    pair.send(publish("q", b"2", properties=with_headers(CC_R)))
    pair.send(publish("q", b"3"))
    found = [(tag, body) for tag, _, body in delivered(bench, consumer)]
    assert found == [("q", b"1"), ("q", b"2"), ("q", b"3"), ("r", b"2")]


def test_a_header_that_is_no_array_closes_the_channel(
    pair: ConnectionPair, consumer: ConnectionPair, bench: Bench
) -> None:
    entry = short_string("CC") + b"S\x00\x00\x00\x01r"
    pair.send(publish("q", b"x", properties=with_headers(entry)))
    text = (
        "PRECONDITION_FAILED - invalid message: "
        '{unacceptable_type_in_header,"CC",longstr}'
    )
    assert pair.expect_close(1) == channel_closed(406, text, 60, 40)
    assert delivered(bench, consumer) == []


def test_a_transaction_keeps_the_copies(
    bench: Bench, pair: ConnectionPair, consumer: ConnectionPair
) -> None:
    pair.call(1, commands.Tx.Select(), commands.Tx.SelectOk)
    pair.send(publish("q", b"x", properties=with_headers(BCC_R)))
    assert delivered(bench, consumer) == []
    pair.send(method(1, commands.Tx.Commit()))
    bench.run_idle()
    assert [tag for tag, _, _ in delivered(bench, consumer)] == ["q", "r"]


def test_a_copy_needs_the_right_to_its_key(
    bench: Bench, pair: ConnectionPair, consumer: ConnectionPair
) -> None:
    rights = TopicPermission("guest", "/", "amq.topic", "^q$", ".*")
    bench.broker.permissions.put_topic(rights)
    pair.send(publish("q", b"x", "amq.topic", with_headers(BCC_R)))
    text = (
        "ACCESS_REFUSED - write access to topic 'r' in exchange 'amq.topic' in vhost "
        "'/' refused for user 'guest'"
    )
    assert pair.expect_close(1) == channel_closed(403, text, 60, 40)


def test_properties_decide_where_an_exchange_hashes_them(
    bench: Bench, pair: ConnectionPair, consumer: ConnectionPair
) -> None:
    declare = commands.Exchange.Declare(
        0,
        "h",
        "x-consistent-hash",
        arguments={"hash-property": "message_id"},
    )
    pair.call(1, declare, commands.Exchange.DeclareOk)
    for queue in ("q", "r"):
        bind = commands.Queue.Bind(0, queue, "h", "1")
        pair.call(1, bind, commands.Queue.BindOk)
    for number in range(20):
        message_id = b"\x00\x80" + short_string(str(number))
        for _ in range(2):
            pair.send(publish("any", b"%d" % number, "h", message_id))
    found = [(tag, body) for tag, _, body in delivered(bench, consumer)]
    assert len(found) == 40
    assert len(set(found)) == 20
    assert {tag for tag, _ in found} == {"q", "r"}
