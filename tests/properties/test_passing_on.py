"""Whether a message is sent on or stands in its queue first, nobody can tell.

One script is played twice, with messages sent on where the queue lets them pass and
with all of them published: consumers come, go, ack, give back and do not read, and
after each step who got what, under which tag, and what is ready, are the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from amqpd.broker.messages.message import Message
from amqpd.broker.queues.delivery import Reference
from amqpd.broker.queues.queue import Queue
from amqpd.protocol.consuming import ChannelConsumer
from tests.support.connection_pair import Bench
from tests.support.content import content_of
from tests.support.deliveries import ADDRESS, ConsumingChannel
from tests.support.fast_directory import fast_directory

CHANNELS: Final = 2
#: Seven of these fill an output.
LARGE: Final = 130_000

#: What happens, and two numbers.
Step = tuple[str, int, int]
STEPS = st.lists(
    st.one_of(
        # how many, which of them are large
        st.tuples(st.just("publish"), st.integers(1, 8), st.integers(0, 255)),
        # channel, no_ack
        st.tuples(
            st.just("subscribe"),
            st.integers(0, CHANNELS - 1),
            st.sampled_from([0, 1, 1]),
        ),
        st.tuples(st.just("cancel"), st.integers(0, 7), st.just(0)),
        st.tuples(st.just("read"), st.integers(0, CHANNELS - 1), st.just(0)),
        st.tuples(st.just("get"), st.just(0), st.just(0)),
        st.tuples(st.just("give back"), st.integers(0, 7), st.just(0)),
    ),
    max_size=40,
)


@pytest.fixture(scope="module")
def bench() -> Iterator[Bench]:
    """One broker for all examples: each has queues of its own."""
    with fast_directory() as directory:
        bench = Bench(directory)
        yield bench
        bench.close()


@given(steps=STEPS)
@settings(max_examples=150, deadline=None)
def test_what_is_sent_on_is_what_would_have_been_delivered(
    bench: Bench, steps: list[Step]
) -> None:
    passing, queueing = Played(bench, True), Played(bench, False)
    for step in steps:
        assert passing.do(step) == queueing.do(step)


def test_a_script_sends_most_messages_on(bench: Bench) -> None:
    played = Played(bench, True)
    for step in (("subscribe", 0, 1), ("publish", 8, 0), ("publish", 8, 255)):
        played.do(step)
    # Seven large ones fill the output.
    assert played.passed_count == 8 + 7


class Played:
    """The script on a queue; consumers are on channels without a connection."""

    def __init__(self, bench: Bench, passes: bool) -> None:
        self.passes = passes
        self.passed_count = 0
        self.bench = bench
        dispatch, pager = bench.broker.dispatch, bench.broker.pager
        self.queue = Queue(1, "q", "/", False, False, None, {}, b"", dispatch, pager)
        self.channels = [ConsumingChannel(number + 1) for number in range(CHANNELS)]
        self.consumers: list[ChannelConsumer] = []
        self.got: list[Reference] = []
        self.published = 0

    def do(self, step: Step) -> tuple[int, int, list[tuple[str, int, bool, bytes]]]:
        """Take a step, and dispatch; return what is ready, unacked, and was read."""
        what, first, second = step
        seen: list[tuple[str, int, bool, bytes]] = []
        if what == "publish":
            for bit in range(first):
                self.publish(bool(second >> bit & 1))
        elif what == "subscribe":
            tag = str(len(self.consumers))
            consumer = self.channels[first].subscribe(
                self.queue, tag, no_ack=second == 1
            )
            self.consumers.append(consumer)
        elif what == "cancel" and self.consumers:
            self.queue.remove_consumer(self.consumers[first % len(self.consumers)])
        elif what == "read":
            seen = self.channels[first].take_deliveries()
            self.channels[first].output.wake_consumers()
        elif what == "get":
            reference = self.queue.get(False)
            if reference is not None:
                self.got.append(reference)
        elif what == "give back" and self.got:
            self.queue.requeue(self.got.pop(first % len(self.got)))
        self.bench.dispatch()
        return self.queue.ready_count, int(self.queue.unacked_count), seen

    def publish(self, is_large: bool) -> None:
        body = b"%d " % self.published
        self.published += 1
        content = content_of(body.ljust(LARGE, b".") if is_large else body)
        if self.passes and self.queue.pass_on(ADDRESS, content, 1, 0):
            self.passed_count += 1
        else:
            self.queue.publish(Message(ADDRESS, content, None, 0, 0))
