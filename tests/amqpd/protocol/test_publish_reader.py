"""Publishes out of a read: what is the same as before is taken for the same."""

from __future__ import annotations

import pytest
from pamqp import commands

from amqpd.wire.tables import encode_table
from tests.support.connection_pair import Bench, ConnectionPair, contents, method
from tests.support.content import (
    PERSISTENT_PROPERTIES,
    content_of,
    frame,
    publish,
    publish_frame,
    short_string,
    with_headers,
)
from tests.support.raw_client import connection_closed

TEXT = b"\x80\x00" + short_string("text/plain")
OTHER_TEXT = b"\x80\x00" + short_string("text/plaim")


@pytest.fixture
def consumer(bench: Bench, pair: ConnectionPair) -> ConnectionPair:
    """Another connection, which gets everything from the queues q and r."""
    pair.declare("q")
    pair.declare("r")
    consumer = bench.connect()
    consumer.consume("q", "q", no_ack=True)
    consumer.consume("r", "r", no_ack=True)
    return consumer


def delivered(consumer: ConnectionPair) -> list[tuple[str, bytes, bytes]]:
    """Consumer tag, properties and body of each delivery."""
    consumer.bench.turn()
    return [
        (deliver.consumer_tag or "", properties, body)
        for deliver, properties, body in contents(
            consumer.take(), commands.Basic.Deliver
        )
    ]


def test_a_publish_that_differs_in_its_body_alone_has_its_own_body(
    pair: ConnectionPair, consumer: ConnectionPair
) -> None:
    pair.send(*[publish("q", body, properties=TEXT) for body in (b"one", b"two")])
    assert delivered(consumer) == [("q", TEXT, b"one"), ("q", TEXT, b"two")]


@pytest.mark.parametrize(
    "second",
    [
        ("r", b"one", TEXT),
        ("q", b"longer", TEXT),
        ("q", b"", TEXT),
        ("q", b"one", OTHER_TEXT),
        ("q", b"one", b"\x00\x00"),
    ],
    ids=["key", "body size", "no body", "last octet of the header", "properties"],
)
def test_what_differs_from_the_publish_before_is_seen(
    pair: ConnectionPair, consumer: ConnectionPair, second: tuple[str, bytes, bytes]
) -> None:
    key, body, properties = second
    first = publish("q", b"one", properties=TEXT)
    pair.send(first, publish(key, body, properties=properties), first)
    expected = [("q", TEXT, b"one"), (key, properties, body), ("q", TEXT, b"one")]
    assert delivered(consumer) == expected


def test_publishes_without_bodies_may_repeat(
    pair: ConnectionPair, consumer: ConnectionPair
) -> None:
    pair.send(*[publish("q", b"", properties=TEXT)] * 3)
    assert delivered(consumer) == [("q", TEXT, b"")] * 3


def test_a_repeated_method_with_another_flag_is_mandatory_alone(
    pair: ConnectionPair,
) -> None:
    pair.send(
        publish("nobody", b"1"),
        publish("nobody", b"2", mandatory=True),
        publish("nobody", b"3"),
    )
    returned = contents(pair.take(), commands.Basic.Return)
    assert [body for _, _, body in returned] == [b"2"]


def test_a_repeated_mandatory_flag_holds_for_each(
    bench: Bench, pair: ConnectionPair
) -> None:
    bound = commands.Exchange.Declare(exchange="x", exchange_type="fanout")
    pair.call(1, bound, commands.Exchange.DeclareOk)
    pair.send(*[publish("k", b"%d" % i, "x", mandatory=True) for i in range(3)])
    returned = contents(pair.take(), commands.Basic.Return)
    assert [body for _, _, body in returned] == [b"0", b"1", b"2"]


def test_the_same_method_on_another_channel_is_that_channels(bench: Bench) -> None:
    pair = bench.connect(131072, 2047, 1, 2)
    pair.declare("q")
    for channel in (1, 2):
        pair.call(channel, commands.Confirm.Select(), commands.Confirm.SelectOk)
    sent = [publish("q", b"x", channel=channel) for channel in (1, 2, 2, 1, 2)]
    pair.send(*sent)
    acks = {taken.channel: taken.method for taken in pair.take()}
    assert {channel: dict(ack)["delivery_tag"] for channel, ack in acks.items()} == {
        1: 2,
        2: 3,
    }


def test_a_repeated_method_after_the_queue_went_leads_nowhere(
    bench: Bench, pair: ConnectionPair
) -> None:
    pair.declare("q")
    delete = method(1, commands.Queue.Delete(queue="q", nowait=True))
    same = publish("q", b"x", mandatory=True)
    pair.send(same, same, delete, same)
    bench.turn()
    returned = contents(pair.take(), commands.Basic.Return)
    assert [body for _, _, body in returned] == [b"x"]


def test_a_repeated_publish_may_be_cut_off_by_the_read(
    bench: Bench, pair: ConnectionPair, consumer: ConnectionPair
) -> None:
    same = publish("q", b"hello", properties=TEXT)
    stream = same * 3
    for cut in range(len(same), 2 * len(same)):
        pair.send_in_pieces(stream, cut)
        assert delivered(consumer) == [("q", TEXT, b"hello")] * 3


def test_a_repeated_method_whose_content_comes_in_pieces_is_taken_frame_by_frame(
    pair: ConnectionPair, consumer: ConnectionPair
) -> None:
    whole = publish("q", b"hello")
    pair.send(whole, publish("q", b"hello", frame_size=2), whole)
    assert [body for _, _, body in delivered(consumer)] == [b"hello"] * 3


def test_a_repeated_content_without_frame_end_closes_the_connection(
    pair: ConnectionPair, consumer: ConnectionPair
) -> None:
    whole = publish("q", b"hello")
    pair.send(whole, whole[:-1] + b"\x00")
    assert [body for _, _, body in delivered(consumer)] == [b"hello"]
    closed = pair.expect_close()
    assert closed.code == 501


def test_a_method_in_the_place_of_a_repeated_content_is_refused(
    pair: ConnectionPair,
) -> None:
    pair.declare("q")
    head = publish_frame("", "q")
    pair.send(head, content_of(b"hello"), head, head)
    assert pair.expect_close() == connection_closed(
        505,
        "UNEXPECTED_FRAME - expected content header for class 60, "
        "got non content header frame instead",
        60,
        40,
    )


def test_an_ack_between_two_publishes_is_no_publish(
    bench: Bench, pair: ConnectionPair
) -> None:
    pair.declare("q")
    pair.consume("q")
    same = publish("q", b"x", properties=PERSISTENT_PROPERTIES)
    pair.send(same)
    bench.turn()
    pair.send(same, method(1, commands.Basic.Ack(1)), same)
    bench.turn()
    assert [body for _, _, body in contents(pair.take(), commands.Basic.Deliver)] == [
        b"x"
    ] * 3
    assert bench.broker.vhosts["/"].queues["q"].unacked_count == 2


def test_a_heartbeat_between_two_publishes_changes_nothing(
    pair: ConnectionPair, consumer: ConnectionPair
) -> None:
    same = publish("q", b"x")
    pair.send(same, frame(8, 0, b""), same)
    assert [body for _, _, body in delivered(consumer)] == [b"x", b"x"]


# -- by headers


def by_headers(body: bytes, frame_size: int = 131064, **table: int) -> bytes:
    properties = with_headers(encode_table(dict(table)))
    return publish("k", body, "amq.headers", properties, frame_size=frame_size)


def binding(queue: str, **table: int) -> commands.Queue.Bind:
    return commands.Queue.Bind(
        queue=queue, exchange="amq.headers", routing_key="", arguments=dict(table)
    )


def told(consumer: ConnectionPair) -> list[tuple[str, bytes]]:
    return [(tag, body) for tag, _, body in delivered(consumer)]


def test_each_message_goes_where_its_headers_lead(
    pair: ConnectionPair, consumer: ConnectionPair
) -> None:
    pair.call(1, binding("q", a=1), commands.Queue.BindOk)
    pair.call(1, binding("r", a=2), commands.Queue.BindOk)
    numbers = [1, 1, 2, 1, 3, 2, 2]
    pair.send(*[by_headers(b"%d" % number, a=number) for number in numbers])
    to = {1: "q", 2: "r"}
    expected = [(to[one], b"%d" % one) for one in numbers if one in to]
    assert sorted(told(consumer)) == sorted(expected)


def test_a_binding_between_two_messages_with_the_same_headers_holds_at_once(
    pair: ConnectionPair, consumer: ConnectionPair
) -> None:
    same = by_headers(b"x", a=1)
    pair.send(same, same, method(1, binding("q", a=1)), same, same)
    pair.send(method(1, binding("r", a=1)), same)
    assert told(consumer) == [("q", b"x")] * 3 + [("r", b"x")]


def test_a_message_without_headers_has_a_way_too(
    pair: ConnectionPair, consumer: ConnectionPair
) -> None:
    pair.call(1, binding("q", a=1), commands.Queue.BindOk)
    pair.call(1, binding("r"), commands.Queue.BindOk)
    bare = publish("k", b"x", "amq.headers")
    pair.send(bare, by_headers(b"y", a=1), bare)
    expected = [("q", b"y"), ("r", b"x"), ("r", b"x"), ("r", b"y")]
    assert sorted(told(consumer)) == expected


def test_content_that_comes_in_pieces_goes_where_its_headers_lead(
    pair: ConnectionPair, consumer: ConnectionPair
) -> None:
    pair.call(1, binding("q", a=1), commands.Queue.BindOk)
    for number in (1, 2):
        pair.send(by_headers(b"hello", 2, a=number), by_headers(bytes(70000), a=number))
    assert told(consumer) == [("q", b"hello"), ("q", bytes(70000))]


def test_a_message_that_nobody_asked_for_by_its_headers_is_returned(
    pair: ConnectionPair, consumer: ConnectionPair
) -> None:
    pair.call(1, binding("q", a=1), commands.Queue.BindOk)
    tables = [encode_table({"a": number}) for number in (1, 2, 2, 1)]
    pair.send(
        *[
            publish("k", b"x", "amq.headers", with_headers(table), mandatory=True)
            for table in tables
        ]
    )
    assert len(contents(pair.take(), commands.Basic.Return)) == 2
    assert told(consumer) == [("q", b"x")] * 2


def test_what_is_published_by_headers_in_a_transaction_waits_for_its_end(
    pair: ConnectionPair, consumer: ConnectionPair
) -> None:
    pair.call(1, binding("q", a=1), commands.Queue.BindOk)
    pair.call(1, commands.Tx.Select(), commands.Tx.SelectOk)
    pair.send(*[by_headers(b"x", a=number) for number in (1, 2, 1)])
    assert told(consumer) == []
    pair.call(1, commands.Tx.Commit(), commands.Tx.CommitOk)
    assert told(consumer) == [("q", b"x")] * 2


# -- long headers


@pytest.mark.parametrize("size", [60, 70, 80, 90, 1000, 4000, 4100])
@pytest.mark.parametrize("part", [0, 0.5, 1])
def test_a_difference_anywhere_in_a_long_header_is_seen(
    pair: ConnectionPair, consumer: ConnectionPair, size: int, part: float
) -> None:
    text = bytearray(b"a" * size)
    same = with_headers(b"\x01hS" + size.to_bytes(4, "big") + text)
    text[round(part * (size - 1))] = ord("b")
    other = with_headers(b"\x01hS" + size.to_bytes(4, "big") + text)
    sent = [same, same, same, other, same, other, other, other]
    pair.send(*[publish("q", b"x", properties=properties) for properties in sent])
    assert [properties for _, properties, _ in delivered(consumer)] == sent


@pytest.mark.parametrize("size", [80, 1000, 4000, 4100])
@pytest.mark.parametrize("body_size", [1, 5000])
def test_where_a_message_with_a_long_header_goes_is_said_by_its_own(
    pair: ConnectionPair, consumer: ConnectionPair, size: int, body_size: int
) -> None:
    pair.call(1, binding("q", a=1), commands.Queue.BindOk)
    pair.call(1, binding("r", a=2), commands.Queue.BindOk)
    numbers = [1, 1, 1, 2, 2, 1, 2]
    messages = []
    for number in numbers:
        properties = with_headers(encode_table({"text": "a" * size, "a": number}))
        body = b"%d" % number + bytes(body_size)
        messages.append(publish("k", body, "amq.headers", properties))
    pair.send(*messages)
    to = {1: "q", 2: "r"}
    expected = [(to[one], b"%d" % one + bytes(body_size)) for one in numbers]
    assert sorted(told(consumer)) == sorted(expected)
