"""A queue with rules against a model that looks at every message at every step.

The model is a list. Whatever is published, got, acked, rejected, requeued, and however
time passes: what is ready is what the model says, in its order, and every message that
was not acked or dropped without an exchange is a dead letter once, for the reason that
the model gives. With little memory, messages leave it in between: then they may be late
by a second, but none is delivered after its time, and none is lost or doubled.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import cast

from hypothesis import given, settings
from hypothesis import strategies as st
from pamqp import commands
from pamqp.common import FieldTable

from amqpd.broker.delivery import Reference
from amqpd.broker.pager import MemoryBudgets
from amqpd.broker.queue import Queue
from tests.support.connection_pair import Bench
from tests.support.content import PERSISTENT_PROPERTIES
from tests.support.fast_directory import fast_directory
from tests.support.ruled import RuledQueues, body_of, headers_of

PLENTY = MemoryBudgets(1 << 40, 1 << 40)
NOTHING = MemoryBudgets(0, 0)
NEVER = 1 << 60

TIMES = st.sampled_from([None, None, 0, 5, 20, 200])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("publish"), TIMES),
        st.tuples(st.just("publish"), TIMES),
        st.tuples(st.just("get"), st.just(0)),
        st.tuples(st.just("ack"), st.integers(0)),
        st.tuples(st.just("reject"), st.integers(0)),
        st.tuples(st.just("requeue"), st.integers(0)),
        st.tuples(st.just("wait"), st.sampled_from([0, 1, 5, 10, 40, 100])),
        st.tuples(st.just("sync"), st.just(0)),
        st.tuples(st.just("page_out"), st.just(0)),
    ),
    min_size=5,
    max_size=50,
)


@dataclass
class Entry:
    """A message of the model."""

    number: int
    deadline_ms: int
    enqueued_ms: int


class QueueAndModel:
    """A durable queue whose dead letters go to another, and what should be in both."""

    def __init__(
        self,
        directory: Path,
        budgets: MemoryBudgets,
        ttl_ms: int | None,
        length_max: int | None,
        delivery_max: int | None,
    ) -> None:
        self.bench = Bench(directory, budgets=budgets)
        self.is_exact = budgets is PLENTY
        self.ttl_ms, self.length_max = ttl_ms, length_max
        self.delivery_max = delivery_max
        arguments: dict[str, object] = {
            "x-dead-letter-exchange": "",
            "x-dead-letter-routing-key": "dead",
        }
        limits = {
            "x-message-ttl": ttl_ms,
            "x-max-length": length_max,
            "x-delivery-limit": delivery_max,
        }
        arguments |= {key: value for key, value in limits.items() if value is not None}
        pair = self.bench.connect()
        pair.declare("dead", durable=True)
        table = cast(FieldTable, arguments)
        sent = commands.Queue.Declare(0, "q", durable=True, arguments=table)
        pair.call(1, sent, commands.Queue.DeclareOk)
        self.ready: list[Entry] = []
        self.out: list[tuple[Entry, Reference]] = []
        self.returns: dict[int, int] = {}
        self.dead: list[tuple[int, str]] = []
        self.count = 0

    def queue(self, name: str = "q") -> Queue:
        return self.bench.broker.vhosts["/"].queues[name]

    @property
    def now_ms(self) -> int:
        return self.bench.now_ms

    def do(self, what: str, number: int | None) -> None:
        getattr(self, what)(number)
        if self.is_exact:
            assert self.queue().ready_count == len(self.ready)
        assert self.queue().unacked_count == len(self.out)

    # -- steps ----------------------------------------------------------------

    def publish(self, ttl_ms: int | None) -> None:
        ruled = RuledQueues(self.bench)
        self.count += 1
        body = b"%d" % self.count
        properties = PERSISTENT_PROPERTIES if self.count % 3 else b"\x00\x00"
        self.queue().publish(ruled.message(body, properties, ttl_ms))
        ruled.surroundings.keepers.run()
        times = [time for time in (ttl_ms, self.ttl_ms) if time is not None]
        deadline_ms = self.now_ms + min(times) if times else NEVER
        self.ready.append(Entry(self.count, deadline_ms, self.now_ms))
        self.settle_down()

    def get(self, _: int) -> None:
        self.bench.broker.timers.now_ms = self.now_ms
        reference = self.queue().get(False)
        self.expire()
        if reference is None:
            assert not self.ready
            return
        number = int(body_of(reference.message))
        entry = self.ready.pop(0)
        assert number == entry.number
        assert entry.deadline_ms > self.now_ms
        returned = self.returns.get(number, 0)
        assert reference.redelivered == (returned > 0)
        if self.delivery_max is not None:
            told = headers_of(reference).get("x-delivery-count", 0)
            assert told == returned
        self.out.append((entry, reference))

    def take(self, choice: int) -> tuple[Entry, Reference] | None:
        return self.out.pop(choice % len(self.out)) if self.out else None

    def ack(self, choice: int) -> None:
        taken = self.take(choice)
        if taken is not None:
            self.queue().settle(taken[1])

    def reject(self, choice: int) -> None:
        taken = self.take(choice)
        if taken is not None:
            self.queue().reject(taken[1])
            self.dead.append((taken[0].number, "rejected"))

    def requeue(self, choice: int) -> None:
        taken = self.take(choice)
        if taken is None:
            return
        entry, reference = taken
        self.bench.broker.timers.now_ms = self.now_ms
        self.queue().requeue(reference)
        count = self.returns.get(entry.number, 0) + 1
        self.returns[entry.number] = count
        if self.delivery_max is not None and count > self.delivery_max:
            self.dead.append((entry.number, "delivery_limit"))
        else:
            self.ready.append(entry)
            self.ready.sort(key=lambda one: one.number)
            self.settle_down()

    def wait(self, milliseconds: int) -> None:
        self.bench.pass_time(milliseconds)
        self.expire()

    def sync(self, _: int) -> None:
        self.bench.sync()

    def page_out(self, _: int) -> None:
        before_ms = self.now_ms
        self.bench.page_out()
        # Letting go takes pauses, and time is the model's.
        self.bench.now_ms = before_ms

    # -- the model ------------------------------------------------------------

    def settle_down(self) -> None:
        self.expire()
        while self.length_max is not None and len(self.ready) > self.length_max:
            self.dead.append((self.ready.pop(0).number, "maxlen"))

    def expire(self) -> None:
        for entry in list(self.ready):
            if entry.deadline_ms <= self.now_ms:
                self.ready.remove(entry)
                self.dead.append((entry.number, "expired"))

    def check_dead(self) -> None:
        """In the end every dead letter is there once, with its reason."""
        for _ in range(30):
            self.wait(1000)
        assert self.queue().ready_count == len(self.ready)
        found: list[tuple[int, str]] = []
        while True:
            reference = self.queue("dead").get(True)
            if reference is None:
                break
            number = int(body_of(reference.message))
            found.append((number, str(headers_of(reference)["x-first-death-reason"])))
        assert sorted(found) == sorted(self.dead)


@given(
    st.sampled_from([None, 15, 50]),
    st.sampled_from([None, 0, 1, 3]),
    st.sampled_from([None, 0, 2]),
    STEPS,
)
@settings(max_examples=150, deadline=None)
def test_a_queue_with_rules_does_what_the_model_does(
    ttl_ms: int | None,
    length_max: int | None,
    delivery_max: int | None,
    steps: list[tuple[str, int | None]],
) -> None:
    with fast_directory() as directory:
        pair = QueueAndModel(directory / "d", PLENTY, ttl_ms, length_max, delivery_max)
        for what, number in steps:
            pair.do(what, number)
        pair.check_dead()
        pair.bench.close()


@given(st.sampled_from([None, 15, 50]), st.sampled_from([None, 0, 2]), STEPS)
@settings(max_examples=150, deadline=None)
def test_with_little_memory_nothing_is_late_lost_or_doubled(
    ttl_ms: int | None, delivery_max: int | None, steps: list[tuple[str, int | None]]
) -> None:
    with fast_directory() as directory:
        pair = QueueAndModel(directory / "d", NOTHING, ttl_ms, None, delivery_max)
        for what, number in steps:
            pair.do(what, number)
        pair.check_dead()
        pair.bench.close()
