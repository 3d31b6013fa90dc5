"""Publishes out of a read: what is the same as before is taken for the same."""

from __future__ import annotations

import pytest
from pamqp import commands

from tests.support.connection_pair import Bench, ConnectionPair, contents, method
from tests.support.content import (
    PERSISTENT_PROPERTIES,
    content_of,
    frame,
    publish,
    publish_frame,
    short_string,
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
