"""Whose turn it is among queues, and among the consumers of one queue.

The long test holds dispatch against a model that decides message by message.
"""

from collections import deque
from typing import Final

import pytest

from amqpd.broker.queues.dispatch import VISIT_MESSAGES_MAX, VISIT_SIZE_MAX, Dispatch
from amqpd.broker.queues.queue import Queue
from tests.support.connection_pair import Bench
from tests.support.deliveries import ConsumingChannel, message_of
from tests.support.dispatch_model import Model, ModelConsumer

MANY: Final = 1 << 40


def queue_on(bench: Bench, name: str = "q") -> Queue:
    dispatch, pager = bench.broker.dispatch, bench.broker.pager
    return Queue(1, name, "/", False, False, None, {}, b"", dispatch, pager)


def test_without_a_dirty_queue_a_visit_does_nothing() -> None:
    dispatch = Dispatch()
    dispatch.visit_next()
    assert not dispatch.has_work()


def test_a_visit_delivers_at_most_256_messages(bench: Bench) -> None:
    queue, channel = queue_on(bench), ConsumingChannel()
    channel.subscribe(queue, "t", no_ack=True)
    for _ in range(600):
        queue.publish(message_of())
    counts = []
    while bench.broker.dispatch.has_work():
        bench.broker.dispatch.visit_next()
        counts.append(len(channel.take()))
    assert counts == [256, 256, 88]
    assert VISIT_MESSAGES_MAX == 256


def test_a_visit_ends_once_it_has_delivered_256_kib(bench: Bench) -> None:
    queue, channel = queue_on(bench), ConsumingChannel()
    channel.subscribe(queue, "t", no_ack=True)
    body = bytes(60_000)
    for _ in range(6):
        queue.publish(message_of(body))
    bench.broker.dispatch.visit_next()
    # Five are the first that are more than the limit together.
    assert len(channel.take()) == 5
    assert 4 * 60_000 < VISIT_SIZE_MAX < 5 * 60_000


def test_queues_are_visited_round_robin(bench: Bench) -> None:
    channel = ConsumingChannel()
    for name in ("long", "short"):
        queue = queue_on(bench, name)
        channel.subscribe(queue, name, no_ack=True)
        for _ in range(600 if name == "long" else 300):
            queue.publish(message_of())
    visited = []
    while bench.broker.dispatch.has_work():
        bench.broker.dispatch.visit_next()
        taken = channel.take()
        assert len({tag for tag, _ in taken}) == 1
        visited.append((taken[0][0], len(taken)))
    assert visited == [
        ("long", 256),
        ("short", 256),
        ("long", 256),
        ("short", 44),
        ("long", 88),
    ]


def test_a_queue_stands_in_the_line_once(bench: Bench) -> None:
    queue, channel = queue_on(bench), ConsumingChannel()
    channel.subscribe(queue, "t", no_ack=True)
    for _ in range(3):
        queue.publish(message_of())
    bench.broker.dispatch.visit_next()
    assert len(channel.take()) == 3
    assert not bench.broker.dispatch.has_work()
    assert not queue.is_dirty


def test_a_queue_without_room_waits_outside_the_line(bench: Bench) -> None:
    queue, channel = queue_on(bench), ConsumingChannel()
    channel.subscribe(queue, "t", prefetch=1)
    queue.publish(message_of())
    queue.publish(message_of())
    bench.dispatch()
    assert not queue.is_dirty
    channel.consuming.ack(1, False)
    assert queue.is_dirty


# -- the exact sequence -------------------------------------------------------


def run_real(bench: Bench, visit: int, count: int) -> list[str]:
    """10,000 messages to three consumers that ack at points fixed by the script."""
    queue = queue_on(bench)
    channel = ConsumingChannel()
    for tag, prefetch in (("one", 1), ("ten", 10), ("all", 0)):
        channel.subscribe(queue, tag, prefetch)
    for _ in range(count):
        queue.publish(message_of())
    sequence: list[str] = []
    held: dict[str, deque[int]] = {"one": deque(), "ten": deque(), "all": deque()}
    step = 0
    while len(sequence) < count:
        goal = len(sequence) + script_run(step)
        while len(sequence) < min(goal, count):
            queue.dispatch(min(visit, min(goal, count) - len(sequence)), MANY)
            taken = channel.take_deliveries()
            if not taken:
                break
            for tag, delivery_tag, _, _ in taken:
                sequence.append(tag)
                held[tag].append(delivery_tag)
        for tag, acks in script_acks(step):
            for _ in range(min(acks, len(held[tag]))):
                channel.consuming.ack(held[tag].popleft(), False)
        step += 1
    return sequence


def run_model(count: int) -> list[str]:
    model = Model(count)
    consumers = {
        tag: model.subscribe(ModelConsumer(tag, prefetch))
        for tag, prefetch in (("one", 1), ("ten", 10), ("all", 0))
    }
    step = 0
    while len(model.sequence) < count:
        model.deliver(script_run(step))
        for tag, acks in script_acks(step):
            consumer = consumers[tag]
            for _ in range(min(acks, consumer.unacked_count)):
                model.ack(consumer)
        step += 1
    return model.sequence


def script_run(step: int) -> int:
    """How many messages go out before the acks of this step."""
    return 1 + step * 7 % 23


def script_acks(step: int) -> list[tuple[str, int]]:
    """Who acks how many at the end of this step, in order."""
    return [
        [("one", 1), ("ten", step % 4)],
        [("ten", 11)],
        [],
        [("all", step % 9), ("one", 1)],
        [("ten", 2), ("one", 1), ("all", 3)],
    ][step % 5]


@pytest.mark.parametrize("visit", [1, 2, 3, 7, 16, 256])
def test_three_consumers_get_the_exact_sequence_for_any_size_of_turn(
    bench: Bench, visit: int
) -> None:
    sequence = run_real(bench, visit, 10_000)
    assert sequence == run_model(10_000)
    assert {tag: sequence.count(tag) > 100 for tag in ("one", "ten", "all")} == {
        "one": True,
        "ten": True,
        "all": True,
    }
