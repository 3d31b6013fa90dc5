"""Consumers that come and go, against the model: who gets which message.

Priorities, limits, cancels and acks in any order, on a queue where all consumers are
active and on one where a single one is. Visits of any size give the model's sequence.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from amqpd.broker.queues.queue import Queue
from tests.support.connection_pair import Bench
from tests.support.deliveries import ConsumingChannel, message_of
from tests.support.dispatch_model import Model, ModelChannel, ModelConsumer
from tests.support.fast_directory import fast_directory

MESSAGES: Final = 150
CHANNELS: Final = 2

#: What happens: its name and up to three numbers.
Step = tuple[str, int, int, int]
# channel, prefetch, priority
SUBSCRIPTION = st.tuples(
    st.just("subscribe"),
    st.integers(0, CHANNELS - 1),
    st.integers(0, 3),
    st.integers(-2, 1),
)
STEPS = st.lists(
    st.one_of(
        SUBSCRIPTION,
        st.tuples(st.just("deliver"), st.integers(1, 9), st.just(0), st.just(0)),
        # which consumer, counted round those there are
        st.tuples(st.just("ack"), st.integers(0, 7), st.just(0), st.just(0)),
        st.tuples(st.just("cancel"), st.integers(0, 7), st.just(0), st.just(0)),
        # channel, limit
        st.tuples(
            st.just("limit"),
            st.integers(0, CHANNELS - 1),
            st.integers(0, 5),
            st.just(0),
        ),
    ),
    min_size=10,
    max_size=60,
)


@pytest.fixture(scope="module")
def bench() -> Iterator[Bench]:
    """One broker for all examples: each has a queue of its own."""
    with fast_directory() as directory:
        bench = Bench(directory)
        yield bench
        bench.close()


@given(
    first=st.lists(SUBSCRIPTION, min_size=2, max_size=7),
    steps=STEPS,
    visit=st.integers(1, 9),
    has_single_active=st.booleans(),
)
@settings(max_examples=200, deadline=None)
def test_consumers_that_come_and_go_get_what_the_model_gives_them(
    bench: Bench,
    first: list[Step],
    steps: list[Step],
    visit: int,
    has_single_active: bool,
) -> None:
    real = Real(bench, visit, has_single_active)
    model = Modelled(has_single_active)
    for step in first + steps:
        real.do(step)
        model.do(step)
    assert real.sequence == model.model.sequence


class Modelled:
    """The script on the model."""

    def __init__(self, has_single_active: bool) -> None:
        self.model = Model(MESSAGES, has_single_active)
        self.channels = [ModelChannel() for _ in range(CHANNELS)]
        self.consumers: list[ModelConsumer] = []
        self.cancelled: set[str] = set()

    def do(self, step: Step) -> None:
        what, first, second, third = step
        if what == "subscribe":
            tag = str(len(self.consumers))
            consumer = ModelConsumer(tag, second, third, self.channels[first])
            self.consumers.append(self.model.subscribe(consumer))
        elif what == "deliver":
            self.model.deliver(first)
        elif what == "limit":
            self.model.set_prefetch(self.channels[first], second)
        elif self.consumers:
            consumer = self.consumers[first % len(self.consumers)]
            if what == "ack" and consumer.unacked_count:
                self.model.ack(consumer)
            elif what == "cancel" and consumer.tag not in self.cancelled:
                self.cancelled.add(consumer.tag)
                self.model.cancel(consumer)


class Real:
    """The script on a queue; consumers are on channels without a connection."""

    def __init__(self, bench: Bench, visit: int, has_single_active: bool) -> None:
        arguments: dict[str, object] = {"x-single-active-consumer": has_single_active}
        dispatch = bench.broker.dispatch
        self.queue = Queue(
            1,
            "q",
            "/",
            False,
            False,
            None,
            arguments,
            b"",
            dispatch,
            bench.broker.pager,
        )
        self.visit = visit
        self.channels = [ConsumingChannel(number + 1) for number in range(CHANNELS)]
        self.homes: list[ConsumingChannel] = []
        self.outstanding: list[list[int]] = []
        self.sequence: list[str] = []
        for _ in range(MESSAGES):
            self.queue.publish(message_of())

    def do(self, step: Step) -> None:
        what, first, second, third = step
        if what == "subscribe":
            tag = str(len(self.homes))
            self.homes.append(self.channels[first])
            self.outstanding.append([])
            self.channels[first].subscribe(self.queue, tag, second, third)
        elif what == "deliver":
            self._deliver(first)
        elif what == "limit":
            self.channels[first].consuming.set_prefetch(second)
        elif self.homes:
            number = first % len(self.homes)
            consuming = self.homes[number].consuming
            if what == "cancel":
                consuming.cancel(str(number))
            elif self.outstanding[number]:
                consuming.ack(self.outstanding[number].pop(0), False)

    def _deliver(self, count: int) -> None:
        before = self.queue.ready_count
        while (left := count - (before - self.queue.ready_count)) > 0:
            at_first = self.queue.ready_count
            self.queue.dispatch(min(left, self.visit), 1 << 40)
            if self.queue.ready_count == at_first:
                break
        # Several channels were written to: their order is that of the messages.
        found: list[tuple[int, str]] = []
        for channel in self.channels:
            for tag, delivery_tag, _, _ in channel.take_deliveries():
                reference = channel.consuming.unacked.take(delivery_tag)
                channel.consuming.unacked.restore(delivery_tag, reference)
                self.outstanding[int(tag)].append(delivery_tag)
                found.append((int(reference.seq), tag))
        self.sequence += [tag for _, tag in sorted(found)]
