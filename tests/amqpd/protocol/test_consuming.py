"""Consuming: deliveries, acks, limits, what is held back and what comes again."""

from __future__ import annotations

import pytest
from pamqp import commands

from amqpd.protocol.output import CONSUMERS_MARK
from tests.support.connection_pair import Bench, ConnectionPair, contents, method
from tests.support.content import frame, publish
from tests.support.raw_client import channel_closed

# pamqp warns of this one whenever it is made.
RECOVER_ASYNC = frame(1, 1, b"\x00\x3c\x00\x64\x01")


@pytest.fixture
def queue(pair: ConnectionPair) -> str:
    pair.declare("q")
    return "q"


def send_bodies(pair: ConnectionPair, *bodies: str) -> None:
    for body in bodies:
        pair.send(publish("q", body.encode()))
    pair.bench.turn()


def delivered(pair: ConnectionPair) -> list[tuple[int, str]]:
    """Delivery tags and bodies, since the last time."""
    pair.bench.turn()
    return [
        (deliver.delivery_tag or 0, body.decode())
        for deliver, _, body in contents(pair.take(), commands.Basic.Deliver)
    ]


def ack(tag: int, multiple: bool = False, channel: int = 1) -> bytes:
    return method(channel, commands.Basic.Ack(tag, multiple))


def nack(tag: int, multiple: bool = False, requeue: bool = True) -> bytes:
    return method(1, commands.Basic.Nack(tag, multiple, requeue))


def qos(pair: ConnectionPair, count: int, is_global: bool, channel: int = 1) -> None:
    sent = commands.Basic.Qos(0, count, is_global)
    pair.call(channel, sent, commands.Basic.QosOk)


def counts(bench: Bench) -> tuple[int, int]:
    queue = bench.broker.vhosts["/"].queues["q"]
    return queue.ready_count, int(queue.unacked_count)


# -- deliveries ---------------------------------------------------------------


def test_a_delivery_names_consumer_tag_exchange_and_key(
    pair: ConnectionPair, queue: str
) -> None:
    pair.consume(queue, "me")
    send_bodies(pair, "a")
    ((deliver, properties, body),) = contents(pair.take(), commands.Basic.Deliver)
    assert (deliver.consumer_tag, deliver.delivery_tag) == ("me", 1)
    assert (deliver.exchange, deliver.routing_key) == ("", "q")
    assert deliver.redelivered is False
    assert (properties, body) == (b"\x00\x00", b"a")


def test_delivery_tags_count_for_the_channel_with_and_without_acks(
    pair: ConnectionPair, queue: str
) -> None:
    pair.consume(queue, "a", no_ack=True)
    send_bodies(pair, "1", "2")
    assert delivered(pair) == [(1, "1"), (2, "2")]
    pair.send(method(1, commands.Basic.Cancel("a")))
    pair.expect(1, commands.Basic.CancelOk)
    pair.consume(queue, "b")
    send_bodies(pair, "3")
    assert delivered(pair) == [(3, "3")]
    pair.send(ack(3))
    assert pair.take() == []


def test_a_large_message_reaches_every_consumer_whole(
    bench: Bench, pair: ConnectionPair, queue: str
) -> None:
    body = bytes(range(256)) * 2000
    others = [bench.connect(), bench.connect(frame_max=4096)]
    for other in others:
        other.consume(queue, no_ack=True)
    pair.send(publish("q", body), publish("q", body))
    bench.turn()
    assert [other.deliveries() for other in others] == [[body], [body]]


# -- acks ---------------------------------------------------------------------


def test_an_ack_settles_one_and_multiple_settles_all_up_to_it(
    bench: Bench, pair: ConnectionPair, queue: str
) -> None:
    pair.consume(queue)
    send_bodies(pair, *"abcde")
    pair.take()
    assert counts(bench) == (0, 5)
    pair.send(ack(2))
    assert counts(bench) == (0, 4)
    pair.send(ack(4, multiple=True))
    assert counts(bench) == (0, 1)
    pair.send(ack(0, multiple=True))
    assert counts(bench) == (0, 0)
    pair.send(ack(0, multiple=True))
    assert pair.take() == []


@pytest.mark.parametrize(
    ("sent", "tag", "method_id"),
    [
        (ack(7), 7, 80),
        (ack(7, multiple=True), 7, 80),
        (ack(0), 0, 80),
        (nack(7), 7, 120),
        (method(1, commands.Basic.Reject(7, True)), 7, 90),
        (ack(1) + ack(1), 1, 80),
        (ack(1) + ack(1, multiple=True), 1, 80),
    ],
)
def test_an_unknown_delivery_tag_closes_the_channel(
    bench: Bench,
    pair: ConnectionPair,
    queue: str,
    sent: bytes,
    tag: int,
    method_id: int,
) -> None:
    pair.consume(queue)
    send_bodies(pair, "a")
    pair.take()
    pair.send(sent)
    text = f"PRECONDITION_FAILED - unknown delivery tag {tag}"
    assert pair.expect_close(1) == channel_closed(406, text, 60, method_id)


def test_a_huge_delivery_tag_is_named_without_sign(pair: ConnectionPair) -> None:
    payload = b"\x00\x3c\x00\x50" + b"\xff" * 8 + b"\x00"
    pair.send(b"\x01\x00\x01\x00\x00\x00\x0d" + payload + b"\xce")
    assert "unknown delivery tag 18446744073709551615" in pair.expect_close(1).text


@pytest.mark.parametrize("is_rejected", [True, False])
def test_what_is_rejected_for_good_is_gone(
    bench: Bench, pair: ConnectionPair, queue: str, is_rejected: bool
) -> None:
    pair.consume(queue)
    send_bodies(pair, "a")
    pair.take()
    reject = method(1, commands.Basic.Reject(1, False))
    pair.send(reject if is_rejected else nack(1, requeue=False))
    assert counts(bench) == (0, 0)
    assert delivered(pair) == []


def test_what_is_returned_comes_again_in_its_place_and_marked(
    bench: Bench, pair: ConnectionPair, queue: str
) -> None:
    qos(pair, 3, is_global=False)
    pair.consume(queue)
    send_bodies(pair, *"abcde")
    assert delivered(pair) == [(1, "a"), (2, "b"), (3, "c")]
    pair.send(nack(2))
    bench.turn()
    ((deliver, _, body),) = contents(pair.take(), commands.Basic.Deliver)
    assert (deliver.delivery_tag, deliver.redelivered, body) == (4, True, b"b")
    pair.send(nack(0, multiple=True))
    assert delivered(pair) == [(5, "a"), (6, "b"), (7, "c")]
    pair.send(ack(7, multiple=True))
    assert delivered(pair) == [(8, "d"), (9, "e")]


@pytest.mark.parametrize("is_async", [True, False])
def test_recover_returns_all_that_is_unacked(
    bench: Bench, pair: ConnectionPair, queue: str, is_async: bool
) -> None:
    pair.consume(queue)
    send_bodies(pair, *"abc")
    pair.send(ack(2))
    pair.take()
    if is_async:
        pair.send(RECOVER_ASYNC)
    else:
        pair.send(method(1, commands.Basic.Recover(True)))
        pair.expect(1, commands.Basic.RecoverOk)
    assert delivered(pair) == [(4, "a"), (5, "c")]
    assert counts(bench) == (0, 2)


# -- limits -------------------------------------------------------------------


def test_a_consumer_gets_no_more_than_its_limit(
    pair: ConnectionPair, queue: str
) -> None:
    qos(pair, 2, is_global=False)
    pair.consume(queue)
    send_bodies(pair, *"abcd")
    assert delivered(pair) == [(1, "a"), (2, "b")]
    pair.send(ack(1))
    assert delivered(pair) == [(3, "c")]


def test_a_limit_without_global_is_for_consumers_that_come(
    pair: ConnectionPair, queue: str
) -> None:
    pair.consume(queue, "old")
    qos(pair, 1, is_global=False)
    send_bodies(pair, *"abc")
    assert len(delivered(pair)) == 3


def test_a_global_limit_is_shared_by_the_channel_and_holds_at_once(
    pair: ConnectionPair, queue: str
) -> None:
    pair.consume(queue, "a")
    pair.consume(queue, "b")
    qos(pair, 3, is_global=True)
    send_bodies(pair, *"12345678")
    assert [body for _, body in delivered(pair)] == ["1", "2", "3"]
    pair.send(ack(1))
    assert [body for _, body in delivered(pair)] == ["4"]
    pair.send(method(1, commands.Basic.Qos(0, 5, True)))
    pair.expect(1, commands.Basic.QosOk)
    assert [body for _, body in delivered(pair)] == ["5", "6"]
    pair.send(method(1, commands.Basic.Qos(0, 1, True)))
    pair.expect(1, commands.Basic.QosOk)
    for tag in (2, 3, 4, 5):
        pair.send(ack(tag))
        assert delivered(pair) == []
    pair.send(ack(6))
    assert [body for _, body in delivered(pair)] == ["7"]
    pair.send(method(1, commands.Basic.Qos(0, 0, True)))
    pair.expect(1, commands.Basic.QosOk)
    assert [body for _, body in delivered(pair)] == ["8"]


def test_both_limits_hold_together(pair: ConnectionPair, queue: str) -> None:
    qos(pair, 3, is_global=True)
    qos(pair, 2, is_global=False)
    pair.consume(queue, "a")
    send_bodies(pair, *"1234")
    assert len(delivered(pair)) == 2
    pair.consume(queue, "b")
    assert len(delivered(pair)) == 1
    # b's own room is no use while the channel has none.
    assert delivered(pair) == []


def test_no_ack_and_get_count_for_no_limit(
    bench: Bench, pair: ConnectionPair, queue: str
) -> None:
    send_bodies(pair, "got")
    qos(pair, 1, is_global=True)
    qos(pair, 1, is_global=False)
    pair.send(method(1, commands.Basic.Get(queue=queue)))
    contents(pair.take(), commands.Basic.GetOk)
    pair.consume(queue, "free", no_ack=True)
    send_bodies(pair, *"ab")
    assert len(delivered(pair)) == 2
    pair.send(method(1, commands.Basic.Cancel("free")))
    pair.expect(1, commands.Basic.CancelOk)
    pair.consume(queue, "bound")
    send_bodies(pair, *"cd")
    assert [body for _, body in delivered(pair)] == ["c"]
    # Acking what get took makes no room for a consumer.
    pair.send(ack(1))
    assert delivered(pair) == []
    assert counts(bench) == (1, 1)


def test_what_a_cancelled_consumer_has_still_counts_for_the_channel(
    pair: ConnectionPair, queue: str
) -> None:
    qos(pair, 2, is_global=True)
    pair.consume(queue, "old")
    send_bodies(pair, *"abc")
    assert len(delivered(pair)) == 2
    pair.send(method(1, commands.Basic.Cancel("old")))
    pair.expect(1, commands.Basic.CancelOk)
    pair.consume(queue, "new")
    assert delivered(pair) == []
    pair.send(ack(1))
    assert [body for _, body in delivered(pair)] == ["c"]


def test_limits_are_free_again_after_a_recover(
    pair: ConnectionPair, queue: str
) -> None:
    qos(pair, 1, is_global=True)
    qos(pair, 1, is_global=False)
    pair.consume(queue)
    send_bodies(pair, *"ab")
    assert delivered(pair) == [(1, "a")]
    pair.send(RECOVER_ASYNC)
    assert delivered(pair) == [(2, "a")]
    pair.send(ack(2))
    assert delivered(pair) == [(3, "b")]


def test_a_client_that_does_not_read_gets_no_more_until_it_does(
    bench: Bench, pair: ConnectionPair, queue: str
) -> None:
    slow = bench.connect()
    slow.consume(queue, no_ack=True)
    slow.output.in_transport = CONSUMERS_MARK
    send_bodies(pair, *"abc")
    assert slow.take() == []
    assert counts(bench) == (3, 0)
    slow.output.in_transport = 0
    slow.take_octets()
    bench.turn()
    assert slow.deliveries() == [b"a", b"b", b"c"]


def test_one_who_waited_for_the_output_may_wait_for_the_channel_next(
    bench: Bench, pair: ConnectionPair, queue: str
) -> None:
    slow = bench.connect()
    qos(slow, 1, is_global=True)
    slow.consume(queue)
    send_bodies(pair, *"ab")
    assert delivered(slow) == [(1, "a")]
    slow.output.in_transport = CONSUMERS_MARK
    slow.send(ack(1))
    bench.turn()
    assert counts(bench) == (1, 0)
    slow.output.in_transport = 0
    assert slow.take() == []
    assert delivered(slow) == [(2, "b")]


def test_consumers_of_several_queues_share_the_channels_limit(
    bench: Bench, pair: ConnectionPair, queue: str
) -> None:
    pair.declare("r")
    qos(pair, 1, is_global=True)
    pair.consume("q", "q")
    pair.consume("r", "r")
    pair.send(publish("q", b"q"), publish("r", b"r"))
    assert delivered(pair) == [(1, "q")]
    pair.send(ack(1))
    assert delivered(pair) == [(2, "r")]


# -- consumers come and go ----------------------------------------------------


def test_a_consumer_without_a_tag_is_given_one(
    pair: ConnectionPair, queue: str
) -> None:
    tags = []
    for _ in range(2):
        consume = commands.Basic.Consume(queue=queue)
        tags.append(pair.call(1, consume, commands.Basic.ConsumeOk).consumer_tag)
    assert tags[0] != tags[1]
    assert all((tag or "").startswith("amq.ctag-") for tag in tags)


def test_a_consumer_that_is_cancelled_gets_nothing_more(
    bench: Bench, pair: ConnectionPair, queue: str
) -> None:
    pair.consume(queue)
    send_bodies(pair, "a")
    pair.take()
    cancel = commands.Basic.Cancel("t")
    assert pair.call(1, cancel, commands.Basic.CancelOk).consumer_tag == "t"
    send_bodies(pair, "b")
    assert pair.take() == []
    assert counts(bench) == (1, 1)
    pair.call(1, commands.Basic.Cancel("nobody"), commands.Basic.CancelOk)


def test_consuming_and_cancelling_without_an_answer(
    pair: ConnectionPair, queue: str
) -> None:
    consume = commands.Basic.Consume(queue=queue, consumer_tag="t", nowait=True)
    pair.send(method(1, consume))
    send_bodies(pair, "a")
    assert delivered(pair) == [(1, "a")]
    pair.send(method(1, commands.Basic.Cancel("t", nowait=True)))
    send_bodies(pair, "b")
    assert pair.take() == []


@pytest.mark.parametrize("is_told", [True, False])
def test_a_consumer_is_told_that_its_queue_is_gone_if_it_understands(
    bench: Bench, pair: ConnectionPair, queue: str, is_told: bool
) -> None:
    consumer = bench.connect()
    capabilities = consumer.connection.control.handshake.capabilities
    capabilities.consumer_cancel_notify = is_told
    consumer.consume(queue, "me")
    delete = commands.Queue.Delete(queue=queue)
    assert pair.call(1, delete, commands.Queue.DeleteOk).message_count == 0
    if is_told:
        cancel = consumer.expect(1, commands.Basic.Cancel)
        assert (cancel.consumer_tag, cancel.nowait) == ("me", True)
    assert consumer.take() == []
    # The tag is free again.
    pair.declare(queue)
    consumer.consume(queue, "me")


def test_acking_what_a_deleted_queue_delivered_is_no_error(
    bench: Bench, pair: ConnectionPair, queue: str
) -> None:
    qos(pair, 1, is_global=True)
    pair.consume(queue)
    send_bodies(pair, "a")
    assert len(delivered(pair)) == 1
    pair.send(method(1, commands.Queue.Delete(queue=queue)))
    bench.run_idle()
    pair.take()
    pair.declare("q")
    pair.consume("q", "again")
    send_bodies(pair, "b")
    assert delivered(pair) == []
    pair.send(ack(1))
    assert delivered(pair) == [(2, "b")]


# -- the channel closes -------------------------------------------------------


@pytest.mark.parametrize("how", ["channel", "connection", "socket", "error"])
def test_what_is_unacked_comes_back_when_its_channel_ends(
    bench: Bench, pair: ConnectionPair, queue: str, how: str
) -> None:
    consumer = bench.connect()
    consumer.consume(queue)
    send_bodies(pair, *"abc")
    consumer.send(ack(2))
    assert counts(bench) == (0, 2)
    if how == "channel":
        consumer.send(method(1, commands.Channel.Close(200, "bye", 0, 0)))
    elif how == "connection":
        consumer.send(method(0, commands.Connection.Close(200, "bye", 0, 0)))
    elif how == "socket":
        consumer.connection.lose_socket("gone")
    else:
        consumer.send(ack(99))
    assert counts(bench) == (2, 0)
    assert bench.broker.vhosts["/"].queues["q"].consumer_count == 0
    pair.consume(queue)
    bench.turn()
    found = contents(pair.take(), commands.Basic.Deliver)
    assert [(deliver.redelivered, body) for deliver, _, body in found] == [
        (True, b"a"),
        (True, b"c"),
    ]


def test_an_auto_delete_queue_ends_with_its_last_consumer(
    bench: Bench, pair: ConnectionPair
) -> None:
    declare = commands.Queue.Declare(queue="q", auto_delete=True)
    pair.call(1, declare, commands.Queue.DeclareOk)
    pair.consume("q", "a")
    pair.consume("q", "b")
    pair.call(1, commands.Basic.Cancel("a"), commands.Basic.CancelOk)
    assert "q" in bench.broker.vhosts["/"].queues
    pair.call(1, commands.Basic.Cancel("b"), commands.Basic.CancelOk)
    assert "q" not in bench.broker.vhosts["/"].queues


# -- get ----------------------------------------------------------------------


def test_get_takes_the_first_message_and_says_how_many_are_left(
    bench: Bench, pair: ConnectionPair, queue: str
) -> None:
    send_bodies(pair, *"abc")
    pair.send(method(1, commands.Basic.Get(queue=queue)))
    ((got, _, body),) = contents(pair.take(), commands.Basic.GetOk)
    assert (got.delivery_tag, got.message_count, body) == (1, 2, b"a")
    pair.send(method(1, commands.Basic.Get(queue=queue, no_ack=True)))
    ((got, _, body),) = contents(pair.take(), commands.Basic.GetOk)
    assert (got.delivery_tag, got.message_count, body) == (2, 1, b"b")
    assert counts(bench) == (1, 1)
    pair.send(ack(1))
    assert counts(bench) == (1, 0)


def test_get_from_an_empty_queue_says_so(pair: ConnectionPair, queue: str) -> None:
    pair.call(1, commands.Basic.Get(queue=queue), commands.Basic.GetEmpty)


def test_what_get_took_comes_back_marked(
    bench: Bench, pair: ConnectionPair, queue: str
) -> None:
    send_bodies(pair, "a")
    for is_redelivered in (False, True):
        pair.send(method(1, commands.Basic.Get(queue=queue)))
        ((got, _, _),) = contents(pair.take(), commands.Basic.GetOk)
        assert got.redelivered is is_redelivered
        pair.send(nack(0, multiple=True))
    assert counts(bench) == (1, 0)
