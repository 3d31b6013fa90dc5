"""A queue of whose consumers only one is active: who, until when, and who is next."""

from __future__ import annotations

from typing import Any

import pytest
from pamqp import commands

from amqpd.broker.errors import AccessRefused
from amqpd.broker.queues.queue import Queue
from amqpd.protocol.consuming import ChannelConsumer
from tests.support.connection_pair import Bench
from tests.support.deliveries import ConsumingChannel, message_of

MANY = 1000


@pytest.fixture
def queue(bench: Bench) -> Queue:
    arguments: dict[str, object] = {"x-single-active-consumer": True}
    dispatch = bench.broker.dispatch
    return Queue(
        1, "q", "/", False, False, None, arguments, b"", dispatch, bench.broker.pager
    )


@pytest.fixture
def channel() -> ConsumingChannel:
    return ConsumingChannel()


def publish_and_deliver(queue: Queue, *bodies: bytes) -> None:
    for body in bodies:
        queue.publish(message_of(body))
    queue.dispatch(MANY, MANY * MANY)


def statuses(queue: Queue, *consumers: ChannelConsumer) -> list[str]:
    return [queue.activity_status(consumer) for consumer in consumers]


def test_only_the_first_consumer_gets_messages(
    queue: Queue, channel: ConsumingChannel
) -> None:
    first = channel.subscribe(queue, "a")
    second = channel.subscribe(queue, "b", priority=10)
    publish_and_deliver(queue, b"1", b"2", b"3")
    assert channel.take() == [("a", b"1"), ("a", b"2"), ("a", b"3")]
    assert statuses(queue, first, second) == ["single_active", "waiting"]
    assert queue.single_active_consumer_tag == "a"


def test_others_get_nothing_even_when_the_active_one_is_full(
    queue: Queue, channel: ConsumingChannel
) -> None:
    channel.subscribe(queue, "a", prefetch=1)
    channel.subscribe(queue, "b")
    publish_and_deliver(queue, b"1", b"2")
    ((_, tag, _, _),) = channel.take_deliveries()
    channel.consuming.ack(tag, False)
    queue.dispatch(MANY, MANY)
    assert channel.take() == [("a", b"2")]


def test_the_first_of_the_highest_priority_is_next(
    queue: Queue, channel: ConsumingChannel
) -> None:
    for tag, priority in (("a", 0), ("b", -5), ("c", 10), ("d", 10), ("e", 3)):
        channel.subscribe(queue, tag, priority=priority)
    order = []
    while tag := queue.single_active_consumer_tag:
        order.append(tag)
        channel.consuming.cancel(tag)
    assert order == ["a", "c", "d", "e", "b"]
    assert queue.consumer_count == 0


def test_the_next_one_gets_what_is_ready_at_once(
    queue: Queue, channel: ConsumingChannel
) -> None:
    channel.subscribe(queue, "a", prefetch=1)
    channel.subscribe(queue, "b")
    publish_and_deliver(queue, b"1", b"2", b"3")
    channel.take()
    channel.consuming.cancel("a")
    queue.dispatch(MANY, MANY)
    assert channel.take() == [("b", b"2"), ("b", b"3")]
    assert queue.unacked_count == 3


def test_when_the_active_ones_channel_closes_the_next_gets_everything_in_order(
    queue: Queue, channel: ConsumingChannel
) -> None:
    other = ConsumingChannel()
    channel.subscribe(queue, "a")
    channel.subscribe(queue, "b")
    other.subscribe(queue, "c")
    publish_and_deliver(queue, b"1", b"2", b"3")
    channel.consuming.close()
    queue.dispatch(MANY, MANY)
    assert [(tag, again, body) for tag, _, again, body in other.take_deliveries()] == [
        ("c", True, b"1"),
        ("c", True, b"2"),
        ("c", True, b"3"),
    ]


def test_a_waiting_consumer_that_goes_changes_nothing(
    queue: Queue, channel: ConsumingChannel
) -> None:
    channel.subscribe(queue, "a")
    channel.subscribe(queue, "b")
    channel.consuming.cancel("b")
    publish_and_deliver(queue, b"1")
    assert channel.take() == [("a", b"1")]


def test_whoever_comes_when_nobody_is_left_is_active(
    queue: Queue, channel: ConsumingChannel
) -> None:
    channel.subscribe(queue, "a")
    channel.consuming.cancel("a")
    assert queue.active_consumer is None
    publish_and_deliver(queue, b"1")
    channel.subscribe(queue, "b")
    queue.dispatch(MANY, MANY)
    assert channel.take() == [("b", b"1")]


@pytest.mark.parametrize("others", [0, 1])
def test_nobody_consumes_exclusively(
    queue: Queue, channel: ConsumingChannel, others: int
) -> None:
    for at in range(others):
        channel.subscribe(queue, str(at))
    with pytest.raises(AccessRefused) as caught:
        channel.subscribe(queue, "e", exclusive=True)
    assert caught.value.text == "queue 'q' in vhost '/' in exclusive use"
    assert queue.consumer_count == others


def test_a_deleted_queue_has_no_active_consumer(bench: Bench) -> None:
    pair = bench.connect()
    arguments: Any = {"x-single-active-consumer": True}
    declare = commands.Queue.Declare(queue="q", arguments=arguments)
    pair.call(1, declare, commands.Queue.DeclareOk)
    queue = bench.broker.vhosts["/"].queues["q"]
    pair.consume("q", "a")
    pair.consume("q", "b")
    assert queue.single_active_consumer_tag == "a"
    queue.delete()
    assert queue.active_consumer is None


@pytest.mark.parametrize("value", [False, "true", 1])
def test_without_the_argument_everybody_is_up(
    bench: Bench, channel: ConsumingChannel, value: object
) -> None:
    arguments = {"x-single-active-consumer": value}
    dispatch = bench.broker.dispatch
    queue = Queue(
        1, "q", "/", False, False, None, arguments, b"", dispatch, bench.broker.pager
    )
    consumers = [channel.subscribe(queue, tag) for tag in "ab"]
    publish_and_deliver(queue, b"1", b"2")
    assert channel.take() == [("a", b"1"), ("b", b"2")]
    assert statuses(queue, *consumers) == ["up", "up"]
    assert queue.single_active_consumer_tag == ""
