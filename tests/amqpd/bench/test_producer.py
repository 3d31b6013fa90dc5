"""A producer: what it may publish, what it stamps, and what confirms mean to it."""

from __future__ import annotations

import struct

import pytest
from pamqp import body, commands, frame

from amqpd.bench.histogram import Histogram
from amqpd.bench.message import Message
from amqpd.bench.producer import BATCH_COUNT_MAX, NO_LIMIT, Producer
from amqpd.wire.methods import encode_method

RUN = 0x1234


def producer(window: int = 0, count: int = NO_LIMIT, queues: str = "a") -> Producer:
    messages = [Message("x", queue, {}, False, 16, 4096) for queue in queues]
    return Producer(4096, 7, RUN, messages, count, window, Histogram())


def published(sender: Producer) -> list[tuple[str, int, int, int, int]]:
    """Queue, run, time, producer and number of everything that was written."""
    found: list[tuple[str, int, int, int, int]] = []
    data = sender.take_output()
    queue = ""
    while data:
        size, _, each = frame.unmarshal(data)
        data = data[size:]
        if isinstance(each, commands.Basic.Publish):
            queue = each.routing_key or ""
        if isinstance(each, body.ContentBody):
            first, second = struct.unpack(">QQ", each.value)
            mask = (1 << 48) - 1
            numbers = (first >> 48, first & mask, second >> 48, second & mask)
            found.append((queue, *numbers))
    return found


def ack(number: int, multiple: bool = False) -> bytes:
    return encode_method(1, commands.Basic.Ack(number, multiple))


def nack(number: int, multiple: bool = False) -> bytes:
    return encode_method(1, commands.Basic.Nack(number, multiple))


def test_each_queue_has_its_turn_and_its_own_numbers() -> None:
    sender = producer(queues="abc")
    sender.publish(2, 1000)
    sender.publish(5, 2000)
    assert published(sender) == [
        ("a", RUN, 1000, 7, 0),
        ("b", RUN, 1000, 7, 0),
        ("c", RUN, 2000, 7, 0),
        ("a", RUN, 2000, 7, 1),
        ("b", RUN, 2000, 7, 1),
        ("c", RUN, 2000, 7, 1),
        ("a", RUN, 2000, 7, 2),
    ]
    assert [sender.sent_to(place) for place in range(3)] == [3, 2, 2]


def test_a_batch_is_bounded_and_ends_with_the_count() -> None:
    sender = producer(count=BATCH_COUNT_MAX + 3)
    assert sender.allowance() == BATCH_COUNT_MAX
    sender.publish(BATCH_COUNT_MAX, 0)
    assert (sender.allowance(), sender.is_done) == (3, False)
    sender.publish(3, 0)
    assert (sender.allowance(), sender.is_done) == (0, True)


def test_a_batch_of_large_messages_is_one_message_at_least() -> None:
    message = Message("", "q", {}, False, 200_000, 4096)
    sender = Producer(4096, 0, RUN, [message], NO_LIMIT, 0, Histogram())
    assert sender.allowance() == 1


def test_who_is_stopped_publishes_nothing_more() -> None:
    sender = producer()
    sender.publish(2, 0)
    sender.stop()
    assert (sender.allowance(), sender.is_done) == (0, True)


def test_the_window_is_all_that_may_be_unconfirmed() -> None:
    sender = producer(window=4)
    sender.publish(sender.allowance(), 0)
    assert (sender.published, sender.allowance(), sender.unconfirmed) == (4, 0, 4)
    sender.receive_data(ack(2, multiple=True), 10)
    assert (sender.allowance(), sender.unconfirmed) == (2, 2)
    sender.publish(2, 20)
    # Out of order: the window begins at the lowest that waits.
    sender.receive_data(ack(4), 30)
    assert (sender.allowance(), sender.unconfirmed) == (0, 3)
    sender.receive_data(ack(3), 30)
    assert sender.allowance() == 2


def test_a_confirm_is_measured_from_its_own_publish() -> None:
    latency = Histogram()
    message = Message("", "q", {}, False, 16, 4096)
    sender = Producer(4096, 0, RUN, [message], NO_LIMIT, 10, latency)
    sender.publish(1, 0)
    sender.publish(1, 100)
    sender.receive_data(ack(2, multiple=True), 150)
    assert [latency.percentile(p) for p in (50, 100)] == [50, 150]


def test_all_so_far_are_confirmed_by_number_zero() -> None:
    sender = producer(window=10)
    sender.publish(3, 0)
    sender.receive_data(ack(0, multiple=True), 0)
    assert sender.confirmed == 3


def test_what_is_refused_is_not_confirmed() -> None:
    sender = producer(window=10, queues="ab")
    sender.publish(5, 0)
    sender.receive_data(nack(2, multiple=True) + ack(3), 0)
    assert (sender.confirmed, sender.nacked, sender.unconfirmed) == (1, 2, 2)
    # Publishes 1 to 5 by place and number.
    places = [(0, 0), (1, 0), (0, 1), (1, 1), (0, 2)]
    assert [sender.fate(place, number) for place, number in places] == [
        "nacked",
        "nacked",
        "confirmed",
        "",
        "",
    ]


def test_without_confirms_nothing_has_been_promised() -> None:
    sender = producer()
    sender.publish(1, 0)
    assert (sender.fate(0, 0), sender.unconfirmed) == ("", 0)


@pytest.mark.parametrize("data", [ack(1), ack(3), nack(1, multiple=True), ack(2) * 2])
def test_answers_to_what_waits_for_none_are_astray(data: bytes) -> None:
    sender = producer(window=10)
    sender.publish(2, 0)
    sender.receive_data(ack(1), 0)
    sender.receive_data(data, 0)
    assert sender.answers_astray == 1


def test_a_confirm_that_comes_twice_ahead_of_others_is_astray() -> None:
    sender = producer(window=10)
    sender.publish(3, 0)
    sender.receive_data(ack(2) * 2, 0)
    assert (sender.confirmed, sender.answers_astray) == (1, 1)


def test_a_confirm_where_none_was_asked_for_is_astray() -> None:
    sender = producer()
    sender.publish(1, 0)
    sender.receive_data(ack(1), 0)
    assert sender.answers_astray == 1


def test_the_ring_is_used_again_and_again() -> None:
    sender = producer(window=3)
    for turn in range(10):
        sender.publish(sender.allowance(), turn)
        sender.receive_data(ack(sender.published, multiple=True), turn + 1)
    assert (sender.confirmed, sender.unconfirmed, sender.answers_astray) == (30, 0, 0)


def test_other_methods_are_kept_for_the_edge() -> None:
    sender = producer()
    sender.receive_data(encode_method(0, commands.Connection.Blocked("why")), 0)
    assert [method.name for method in sender.take_methods()] == ["Connection.Blocked"]


def test_after_a_loss_numbers_begin_anew_and_what_waited_is_abandoned() -> None:
    sender = producer(window=4, queues="ab")
    sender.publish(4, 0)
    sender.receive_data(ack(2), 0)
    sender.restart()
    assert (sender.unconfirmed, sender.allowance()) == (0, 4)
    sender.publish(3, 10)
    sender.receive_data(ack(2, multiple=True), 20)
    assert (sender.confirmed, sender.unconfirmed, sender.answers_astray) == (3, 1, 0)
    places = [(0, 0), (1, 0), (0, 1), (1, 1), (0, 2), (1, 2), (0, 3)]
    assert [sender.fate(place, number) for place, number in places] == [
        "abandoned",
        "confirmed",
        "abandoned",
        "abandoned",
        "confirmed",
        "confirmed",
        "",
    ]


def test_after_a_loss_all_so_far_are_those_of_the_new_connection() -> None:
    sender = producer(window=4)
    sender.publish(2, 0)
    sender.restart()
    sender.restart()
    sender.publish(1, 0)
    sender.receive_data(ack(0, multiple=True), 0)
    assert (sender.confirmed, len(sender.abandoned_numbers)) == (1, 2)


def test_after_a_loss_nothing_of_the_old_stream_is_left() -> None:
    sender = producer()
    sender.publish(1, 0)
    sender.receive_data(ack(1)[:5], 0)
    sender.restart()
    assert sender.take_output() == b""
    sender.receive_data(encode_method(0, commands.Connection.Unblocked()), 0)
    assert len(sender.take_methods()) == 1
