"""A queue that holds nothing sends on what it could only hand out again at once."""

from __future__ import annotations

import pytest

from amqpd.broker.arguments import SINGLE_ACTIVE_CONSUMER
from amqpd.broker.queues.priority_queue import PriorityQueue
from amqpd.broker.queues.queue import Queue
from amqpd.protocol.output import CONSUMERS_MARK
from tests.support.connection_pair import Bench, ConnectionPair
from tests.support.content import content_of
from tests.support.deliveries import (
    ADDRESS,
    ConsumingChannel,
    message_of,
    message_with_priority,
)


@pytest.fixture
def queue(bench: Bench) -> Queue:
    dispatch, pager = bench.broker.dispatch, bench.broker.pager
    return Queue(1, "q", "/", False, False, None, {}, b"", dispatch, pager)


@pytest.fixture
def channel() -> ConsumingChannel:
    return ConsumingChannel()


def pass_on(queue: Queue, body: bytes, channel: int = 1) -> bool:
    return queue.pass_on(ADDRESS, content_of(body, channel=channel), channel, 0)


def test_the_only_consumer_gets_it_at_once(
    queue: Queue, channel: ConsumingChannel
) -> None:
    channel.subscribe(queue, "t", no_ack=True)
    assert pass_on(queue, b"a")
    assert pass_on(queue, b"b")
    assert queue.ready_count == 0
    deliveries = [("t", 1, False, b"a"), ("t", 2, False, b"b")]
    assert channel.take_deliveries() == deliveries


def test_without_a_consumer_nothing_is_sent_on(queue: Queue) -> None:
    assert not pass_on(queue, b"a")


def test_what_has_to_be_acked_is_not_sent_on(
    queue: Queue, channel: ConsumingChannel
) -> None:
    channel.subscribe(queue, "t")
    assert not pass_on(queue, b"a")
    assert channel.take() == []


def test_one_of_two_consumers_gets_nothing_out_of_turn(
    bench: Bench, queue: Queue, channel: ConsumingChannel
) -> None:
    channel.subscribe(queue, "a", no_ack=True)
    second = channel.subscribe(queue, "b", no_ack=True)
    assert not pass_on(queue, b"1")
    queue.remove_consumer(second)
    assert pass_on(queue, b"2")
    bench.dispatch()
    assert channel.take() == [("a", b"2")]


def test_the_active_one_of_two_gets_what_comes_by_the_queue(bench: Bench) -> None:
    arguments: dict[str, object] = {SINGLE_ACTIVE_CONSUMER: True}
    dispatch, pager = bench.broker.dispatch, bench.broker.pager
    queue = Queue(1, "q", "/", False, False, None, arguments, b"", dispatch, pager)
    channel = ConsumingChannel()
    channel.subscribe(queue, "a", no_ack=True)
    assert pass_on(queue, b"1")
    channel.subscribe(queue, "b", no_ack=True)
    assert not pass_on(queue, b"2")


def test_nothing_overtakes_what_is_ready(
    bench: Bench, queue: Queue, channel: ConsumingChannel
) -> None:
    queue.publish(message_of(b"1"))
    channel.subscribe(queue, "t", no_ack=True)
    assert not pass_on(queue, b"2")
    bench.dispatch()
    assert pass_on(queue, b"3")
    assert channel.take() == [("t", b"1"), ("t", b"3")]


def test_nothing_overtakes_what_came_back(
    bench: Bench, queue: Queue, channel: ConsumingChannel
) -> None:
    queue.publish(message_of(b"1"))
    reference = queue.get(False)
    assert reference is not None
    channel.subscribe(queue, "t", no_ack=True)
    queue.requeue(reference)
    assert not pass_on(queue, b"2")


def test_nothing_overtakes_another_level(
    bench: Bench, channel: ConsumingChannel
) -> None:
    dispatch, pager = bench.broker.dispatch, bench.broker.pager
    queue = PriorityQueue(1, "q", "/", False, False, None, {}, b"", dispatch, pager, 9)
    channel.subscribe(queue, "t", no_ack=True)
    queue.publish(message_with_priority(b"high", 5))
    assert not pass_on(queue, b"low")
    bench.dispatch()
    assert pass_on(queue, b"low")
    assert channel.take() == [("t", b"high"), ("t", b"low")]


@pytest.mark.parametrize("rule", ["is_ruled", "has_deadlines", "can_refuse"])
def test_a_queue_with_rules_holds_everything(
    queue: Queue, channel: ConsumingChannel, rule: str
) -> None:
    channel.subscribe(queue, "t", no_ack=True)
    setattr(queue, rule, True)
    assert not pass_on(queue, b"a")


def test_a_held_channel_is_sent_nothing(
    queue: Queue, channel: ConsumingChannel
) -> None:
    channel.subscribe(queue, "t", no_ack=True)
    channel.consuming.hold()
    assert not pass_on(queue, b"a")
    channel.consuming.release()
    assert pass_on(queue, b"a")


def test_a_full_output_is_sent_nothing(queue: Queue, channel: ConsumingChannel) -> None:
    channel.subscribe(queue, "t", no_ack=True)
    channel.output.in_transport = CONSUMERS_MARK
    assert not pass_on(queue, b"a")


def test_who_waits_for_room_on_the_same_output_is_not_overtaken(
    bench: Bench, queue: Queue, channel: ConsumingChannel
) -> None:
    dispatch, pager = bench.broker.dispatch, bench.broker.pager
    other = Queue(2, "r", "/", False, False, None, {}, b"", dispatch, pager)
    channel.subscribe(queue, "t", no_ack=True)
    channel.subscribe(other, "waiting")
    channel.output.in_transport = CONSUMERS_MARK
    other.publish(message_of(b"1"))
    bench.dispatch()
    channel.output.in_transport = 0
    assert not pass_on(queue, b"2")
    channel.output.take()
    channel.output.wake_consumers()
    assert not pass_on(queue, b"2")
    bench.dispatch()
    assert channel.take() == [("waiting", b"1")]
    assert pass_on(queue, b"2")


def test_who_fills_an_output_is_told_to_have_it_written(
    queue: Queue, channel: ConsumingChannel
) -> None:
    outputs = channel.output.queue
    channel.subscribe(queue, "t", no_ack=True)
    assert pass_on(queue, b"a")
    assert not outputs.is_full
    channel.output.in_transport = CONSUMERS_MARK - 1
    channel.output.take()
    assert pass_on(queue, b"b")
    assert outputs.is_full
    outputs.take_dirty()
    assert not outputs.is_full


def test_a_deleted_queue_sends_nothing_on(bench: Bench, pair: ConnectionPair) -> None:
    pair.declare("q")
    pair.consume("q", no_ack=True)
    queue = bench.broker.vhosts["/"].queues["q"]
    assert pass_on(queue, b"a")
    queue.delete()
    assert not pass_on(queue, b"b")


@pytest.mark.parametrize("frame_max", [131072, 12])
def test_frames_are_those_of_the_consumers_channel(
    queue: Queue, frame_max: int
) -> None:
    channel = ConsumingChannel(7)
    channel.output.frame_max = frame_max
    channel.subscribe(queue, "t", no_ack=True)
    assert pass_on(queue, b"hello", 300)
    assert channel.take() == [("t", b"hello")]


def test_what_was_sent_on_is_counted_and_sampled_once_a_millisecond(
    bench: Bench, queue: Queue, channel: ConsumingChannel
) -> None:
    channel.subscribe(queue, "t", no_ack=True)
    for now_ms in (10, 10, 11):
        queue.pass_on(ADDRESS, content_of(b"a"), 1, now_ms)
    bench.dispatch()
    assert channel.consuming.traffic.delivered_no_ack == 3
    assert queue.ages.left_count == 2
    assert queue.mean_time_in_queue_ms == 0


def test_what_a_priority_queue_sent_on_is_sampled_in_the_same_turn(
    bench: Bench, channel: ConsumingChannel
) -> None:
    dispatch, pager = bench.broker.dispatch, bench.broker.pager
    queue = PriorityQueue(1, "q", "/", False, False, None, {}, b"", dispatch, pager, 9)
    channel.subscribe(queue, "t", no_ack=True)
    dispatch.timers.now_ms = 10
    queue.pass_on(ADDRESS, content_of(b"a"), 1, 10)
    bench.dispatch()
    dispatch.timers.now_ms = 20
    queue.pass_on(ADDRESS, content_of(b"b"), 1, 20)
    queue.publish(message_with_priority(b"high", 5))
    bench.dispatch()
    dispatch.timers.now_ms = 5_000
    queue.publish(message_of(b"low"))
    bench.dispatch()
    # Both that were sent on had been there for no time.
    assert queue.ages.left_count == 3
    assert queue.ages.left_total_ms == 5_000
