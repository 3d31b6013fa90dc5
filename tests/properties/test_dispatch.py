"""Dispatch against the model: priorities, shared limits that change, acks at any time.

The same script runs with visits of different sizes; every run gives the sequence of
the model that decides message by message.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from amqpd.broker.queues.queue import Queue
from tests.support.connection_pair import Bench
from tests.support.deliveries import ConsumingChannel, message_of
from tests.support.dispatch_model import Model, ModelChannel, ModelConsumer
from tests.support.fast_directory import fast_directory

MESSAGES: Final = 120

#: Consumers: on which of two channels, own limit, priority.
CONSUMERS = st.lists(
    st.tuples(st.integers(0, 1), st.integers(0, 4), st.integers(-1, 1)),
    min_size=1,
    max_size=4,
)
#: A step: deliver some, ack the oldest of a consumer, or change a channel's limit.
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("deliver"), st.integers(1, 12), st.just(0)),
        st.tuples(st.just("ack"), st.integers(0, 3), st.just(0)),
        st.tuples(st.just("limit"), st.integers(0, 1), st.integers(0, 6)),
    ),
    max_size=40,
)
Consumers = list[tuple[int, int, int]]
Steps = list[tuple[str, int, int]]


@contextmanager
def open_bench() -> Iterator[Bench]:
    with fast_directory() as directory:
        bench = Bench(directory)
        yield bench
        bench.close()


@pytest.fixture(scope="module")
def shared() -> Iterator[Bench]:
    """One broker for all examples: each has a queue of its own."""
    with open_bench() as bench:
        yield bench


@given(CONSUMERS, STEPS, st.integers(1, 9))
@settings(max_examples=150, deadline=None)
def test_any_script_gives_the_sequence_of_the_model(
    shared: Bench, consumers: Consumers, steps: Steps, visit: int
) -> None:
    assert run_real(shared, consumers, steps, visit) == run_model(consumers, steps)


def run_model(consumers: Consumers, steps: Steps) -> list[str]:
    model = Model(MESSAGES)
    channels = [ModelChannel(), ModelChannel()]
    members = [
        model.subscribe(ModelConsumer(str(at), prefetch, priority, channels[where]))
        for at, (where, prefetch, priority) in enumerate(consumers)
    ]
    for what, first, second in steps:
        if what == "deliver":
            model.deliver(first)
        elif what == "limit":
            model.set_prefetch(channels[first], second)
        elif first < len(members) and members[first].unacked_count:
            model.ack(members[first])
    return model.sequence


def run_real(bench: Bench, consumers: Consumers, steps: Steps, visit: int) -> list[str]:
    dispatch, pager = bench.broker.dispatch, bench.broker.pager
    queue = Queue(1, "q", "/", False, False, None, {}, b"", dispatch, pager)
    channels = [ConsumingChannel(1), ConsumingChannel(2)]
    for at, (where, prefetch, priority) in enumerate(consumers):
        channels[where].subscribe(queue, str(at), prefetch, priority)
    for _ in range(MESSAGES):
        queue.publish(message_of())
    outstanding: list[list[int]] = [[] for _ in consumers]
    sequence: list[str] = []
    for what, first, second in steps:
        if what == "deliver":
            deliver(queue, first, visit)
            # Only one channel's output is looked at a time: the order is lost between
            # channels, so the queue is asked who has which seq.
            sequence += order_of(channels, outstanding)
        elif what == "limit":
            channels[first].consuming.set_prefetch(second)
        elif first < len(consumers) and outstanding[first]:
            where = consumers[first][0]
            channels[where].consuming.ack(outstanding[first].pop(0), False)
    bench.outputs.take_dirty()
    return sequence


def deliver(queue: Queue, count: int, visit: int) -> None:
    """Deliver so many, in visits of at most `visit`."""
    before = queue.ready_count
    while (left := count - (before - queue.ready_count)) > 0:
        at_first = queue.ready_count
        queue.dispatch(min(left, visit), 1 << 40)
        if queue.ready_count == at_first:
            return


def order_of(
    channels: list[ConsumingChannel], outstanding: list[list[int]]
) -> list[str]:
    """Who was delivered to since the last time, in the order of the messages."""
    found: list[tuple[int, str]] = []
    for channel in channels:
        for tag, delivery_tag, _, _ in channel.take_deliveries():
            reference = channel.consuming.unacked.take(delivery_tag)
            channel.consuming.unacked.restore(delivery_tag, reference)
            outstanding[int(tag)].append(delivery_tag)
            found.append((int(reference.seq), tag))
    return [tag for _, tag in sorted(found)]
