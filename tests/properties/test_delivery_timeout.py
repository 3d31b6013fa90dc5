"""Deliveries, acks and time in any order: each message is somewhere, and only once.

A queue of messages, two consumers on one channel, one of which is watched. What the
client has not answered when its time is up is in the queue again, what it answers late
changes nothing but its room, and no answer to anything it was sent closes the channel.
"""

from __future__ import annotations

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from pamqp import commands
from pamqp.commands import Basic

from amqpd.broker.queues.queue import Queue
from tests.support.connection_pair import Bench, contents, method
from tests.support.content import publish
from tests.support.fast_directory import fast_directory

TIMEOUT_MS = 800
PREFETCH = 3


class DeliveryTimeoutMachine(RuleBasedStateMachine):
    """The client, as it sees things; the queue is looked at to compare."""

    def __init__(self) -> None:
        super().__init__()
        self._directory = fast_directory()
        self.bench = Bench(self._directory.__enter__())
        self.pair = self.bench.connect()
        self.pair.declare("q")
        self.pair.call(1, Basic.Qos(0, PREFETCH), Basic.QosOk)
        for tag, timeout_ms in (("watched", TIMEOUT_MS), ("other", 0)):
            arguments: Any = {"x-consumer-timeout": timeout_ms}
            consume = Basic.Consume(0, "q", tag, arguments=arguments)
            self.pair.call(1, consume, Basic.ConsumeOk)
        self.bench.pass_time(0)
        self.published = 0
        self.settled = 0
        #: What the client has not answered: tag -> consumer, body and when it came.
        self.held: dict[int, tuple[str, bytes, int]] = {}

    @property
    def queue(self) -> Queue:
        return self.bench.broker.vhosts["/"].queues["q"]

    def receive(self) -> None:
        self.bench.turn()
        for sent, _, body in contents(self.pair.take(), Basic.Deliver):
            came = (sent.consumer_tag or "", body, self.bench.now_ms)
            self.held[sent.delivery_tag or 0] = came

    def is_overdue(self, tag: int) -> bool:
        """Whether the broker has given it to the queue; look at its own books."""
        consuming = self.pair.connection.channels[1].consuming
        outstanding = consuming.unacked.outstanding_before(1 << 40)
        return tag not in [int(one.delivery_tag) for one in outstanding]

    @rule(count=st.integers(1, 5))
    def send(self, count: int) -> None:
        for _ in range(count):
            self.published += 1
            self.pair.send(publish("q", b"%d" % self.published))
        self.receive()

    @rule(milliseconds=st.integers(0, 1200))
    def wait(self, milliseconds: int) -> None:
        self.bench.pass_time(milliseconds)
        self.receive()

    @precondition(lambda self: self.held)
    @rule(data=st.data(), requeue=st.booleans(), multiple=st.booleans())
    def answer(self, data: st.DataObject, requeue: bool, multiple: bool) -> None:
        tag = data.draw(st.sampled_from(sorted(self.held)))
        answered = [one for one in self.held if one <= tag] if multiple else [tag]
        if not requeue:
            self.settled += sum(not self.is_overdue(one) for one in answered)
        for one in answered:
            del self.held[one]
        self.pair.send(method(1, Basic.Nack(tag, multiple, requeue)))
        self.receive()

    @rule()
    def recover(self) -> None:
        self.held.clear()
        self.pair.send(method(1, Basic.Recover(True)))
        self.bench.feed()
        frames = self.pair.take()
        assert isinstance(frames.pop(0).method, commands.Basic.RecoverOk)
        assert frames == []
        self.receive()

    @invariant()
    def every_message_is_in_one_place(self) -> None:
        queue = self.queue
        kept = self.published - self.settled
        assert queue.ready_count + int(queue.unacked_count) == kept
        on_time = [tag for tag in self.held if not self.is_overdue(tag)]
        assert len(on_time) == int(queue.unacked_count)
        bodies = [self.held[tag][1] for tag in on_time]
        assert len(set(bodies)) == len(bodies)

    @invariant()
    def nobody_has_more_than_its_limit_and_nobody_less_than_it_could(self) -> None:
        counts = {"watched": 0, "other": 0}
        for consumer, _, _ in self.held.values():
            counts[consumer] += 1
        assert max(counts.values()) <= PREFETCH
        assert not self.queue.ready_count or set(counts.values()) == {PREFETCH}

    @invariant()
    def only_the_watched_consumers_deliveries_go_back_and_in_time(self) -> None:
        now_ms = self.bench.now_ms
        for tag, (consumer, _, came_ms) in self.held.items():
            if self.is_overdue(tag):
                assert consumer == "watched"
                assert now_ms - came_ms >= TIMEOUT_MS

    def teardown(self) -> None:
        self.bench.close()
        self._directory.__exit__(None, None, None)


TestDeliveryTimeout = DeliveryTimeoutMachine.TestCase
TestDeliveryTimeout.settings = settings(
    deadline=None, max_examples=40, stateful_step_count=40
)
