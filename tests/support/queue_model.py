"""A queue of a real broker, and a model that takes each step of a script too.

The model is a dict that always has memory: what was published and is not settled, by a
number whose order is that of the queue, its *place*. The queue has as little memory as
the budgets say. `do` takes a step with both and compares; `drain` has all delivered.

With priorities a place is the level, the highest first, and the seq within it.
"""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar, Final

from hypothesis import strategies as st
from pamqp import commands
from pamqp.common import FieldTable

from amqpd.broker.messages.message import Message
from amqpd.broker.queues.cold_load import ColdLoad, ColdLoads
from amqpd.broker.queues.delivery import Reference
from amqpd.broker.queues.pager import MemoryBudgets
from amqpd.broker.queues.queue import Queue
from tests.support.connection_pair import Bench
from tests.support.deliveries import (
    ConsumingChannel,
    message_of,
    message_with_priority,
    persistent_message,
)
from tests.support.little_memory import is_nothing_used

# A window is some ten messages of this size.
BODY_SIZE: Final = 1500
BATCH: Final = 24
PRIORITY_MAX: Final = 3
SEQ_BITS: Final = 32

STEPS: Final = st.lists(
    st.one_of(
        st.tuples(st.just("publish"), st.integers(0, (1 << BATCH) - 1)),
        st.tuples(st.just("publish"), st.sampled_from([0, (1 << BATCH) - 1])),
        st.tuples(st.just("sync"), st.just(0)),
        st.tuples(st.just("page_out"), st.just(0)),
        st.tuples(st.just("page_out"), st.just(0)),
        st.tuples(st.just("get"), st.integers(1, 12)),
        st.tuples(st.just("get_no_ack"), st.integers(1, 12)),
        st.tuples(st.just("consume"), st.integers(0, 30)),
        st.tuples(st.just("cancel"), st.just(0)),
        st.tuples(st.just("dispatch"), st.just(0)),
        st.tuples(st.just("load"), st.just(0)),
        st.tuples(st.just("begin_load"), st.just(0)),
        st.tuples(st.just("finish_load"), st.just(0)),
        st.tuples(st.just("ack"), st.integers(0)),
        st.tuples(st.just("requeue"), st.integers(0)),
        st.tuples(st.just("requeue_all"), st.just(0)),
        st.tuples(st.just("purge"), st.just(0)),
        st.tuples(st.just("restart"), st.just(0)),
    ),
    min_size=5,
    max_size=50,
)


class QueueAndModel:
    """A durable queue, and what should be in it."""

    arguments: ClassVar[FieldTable] = {}

    def __init__(self, directory: Path, budgets: MemoryBudgets) -> None:
        self.directory = directory
        self.budgets = budgets
        self.bench = Bench(directory, budgets=budgets)
        declare = commands.Queue.Declare(
            queue="q", durable=True, arguments=self.arguments
        )
        self.bench.connect().call(1, declare, commands.Queue.DeclareOk)
        self.channel = ConsumingChannel()
        self.loads: list[ColdLoad] = []
        # What was published and is not settled: whether it is persistent, by place.
        self.kept: dict[int, bool] = {}
        self.ready: set[int] = set()
        # Who has what: a reference of basic.get, or the tag of a delivery.
        self.out: dict[int, Reference | int] = {}
        # By level, of which there is one unless there are priorities.
        self.delivered_upper: dict[int, int] = {}
        self.next_seq: dict[int, int] = {}

    @property
    def queue(self) -> Queue:
        return self.bench.broker.vhosts["/"].queues["q"]

    def do(self, what: str, number: int) -> None:
        getattr(self, what)(number)
        self.note_deliveries()
        assert self.queue.ready_count == len(self.ready)
        assert self.queue.unacked_count == len(self.out)

    # -- messages -------------------------------------------------------------

    def publish(self, kinds: int) -> None:
        """24 messages, a bit each says whether it is persistent."""
        for bit in range(BATCH):
            self.publish_one(bool(kinds >> bit & 1), kinds >> (bit * 7 % 22) & 7)

    def publish_one(self, is_persistent: bool, priority: int) -> None:
        level = self.level_of(priority)
        seq = self.next_seq.get(level, 1)
        self.next_seq[level] = seq + 1
        place = self.place(level, seq)
        body = (b"%d " % place).ljust(BODY_SIZE, b".")
        self.queue.publish(self.message(body, is_persistent, priority))
        self.kept[place] = is_persistent
        self.ready.add(place)

    def level_of(self, priority: int) -> int:
        return 0

    def message(self, body: bytes, is_persistent: bool, priority: int) -> Message:
        return persistent_message(body) if is_persistent else message_of(body)

    def place(self, level: int, seq: int) -> int:
        return (PRIORITY_MAX - level) << SEQ_BITS | seq

    def get(self, count: int, no_ack: bool = False) -> None:
        for _ in range(count):
            reference = self.queue.get(no_ack)
            if reference is None:
                assert not self.ready
                return
            place = min(self.ready)
            assert b"%d ...." % place in reference.message.content
            assert reference.seq == place & ((1 << SEQ_BITS) - 1)
            self.note_first(place, reference.redelivered, no_ack)
            if not no_ack:
                self.out[place] = reference

    def get_no_ack(self, count: int) -> None:
        self.get(count, no_ack=True)

    def note_first(self, place: int, redelivered: bool, no_ack: bool) -> None:
        assert place == min(self.ready)
        level, seq = level_in(place), place & ((1 << SEQ_BITS) - 1)
        upper = self.delivered_upper.get(level, 0)
        assert redelivered == (seq <= upper)
        self.ready.remove(place)
        if no_ack:
            del self.kept[place]
        else:
            self.delivered_upper[level] = max(seq, upper)

    def note_deliveries(self) -> None:
        for _, tag, redelivered, body in self.channel.take_deliveries():
            place = int(body.split(b" ", 1)[0])
            self.note_first(place, redelivered, False)
            self.out[place] = tag
        self.channel.output.wake_consumers()

    def take_out(self, choice: int) -> tuple[int, Reference] | None:
        if not self.out:
            return None
        place = sorted(self.out)[choice % len(self.out)]
        held = self.out.pop(place)
        if isinstance(held, Reference):
            return place, held
        return place, self.channel.consuming.unacked.take(held)

    def ack(self, choice: int) -> None:
        taken = self.take_out(choice)
        if taken is not None:
            self.channel.consuming.finish([taken[1]], False)
            del self.kept[taken[0]]

    def requeue(self, choice: int) -> None:
        taken = self.take_out(choice)
        if taken is not None:
            self.channel.consuming.finish([taken[1]], True)
            self.ready.add(taken[0])

    def requeue_all(self, _: int) -> None:
        while self.out:
            self.requeue(0)

    def purge(self, _: int) -> None:
        assert self.queue.purge() == len(self.ready)
        for place in self.ready:
            del self.kept[place]
        self.ready.clear()

    # -- consumers ------------------------------------------------------------

    def consume(self, prefetch: int) -> None:
        if not self.channel.consuming.consumers:
            self.channel.subscribe(self.queue, "t", prefetch)

    def cancel(self, _: int) -> None:
        self.channel.consuming.cancel("t")

    def dispatch(self, _: int) -> None:
        self.bench.dispatch()

    # -- memory and disk ------------------------------------------------------

    def sync(self, _: int) -> None:
        self.bench.sync()

    def page_out(self, _: int) -> None:
        self.bench.page_out()

    def load(self, _: int) -> None:
        self.bench.load()

    def begin_load(self, _: int) -> None:
        loads = self.bench.broker.pager.begin_loads(self.bench.now_ms)
        reading = ColdLoads(loads)
        while reading.advance():
            pass
        self.loads.extend(loads)

    def finish_load(self, _: int) -> None:
        for load in self.loads:
            self.bench.broker.pager.complete_load(load, self.bench.now_ms)
        self.loads.clear()

    def restart(self, _: int) -> None:
        self.finish_load(0)
        self.cancel(0)
        self.bench.close()
        self.bench = Bench(self.directory, budgets=self.budgets)
        self.channel = ConsumingChannel()
        self.kept = {place: True for place, is_kept in self.kept.items() if is_kept}
        self.ready = set(self.kept)
        self.out.clear()
        for level in self.next_seq:
            part = self.queue.part(self.queue.id + level)
            next_seq = int(part.next_seq)
            assert all(place < self.place(level, next_seq) for place in self.at(level))
            # Numbers of transient messages that no log has seen are given out again.
            self.next_seq[level] = next_seq
            upper = self.delivered_upper.get(level, 0)
            self.delivered_upper[level] = min(upper, next_seq - 1)

    def at(self, level: int) -> list[int]:
        """What is ready at a level."""
        return [place for place in self.ready if level_in(place) == level]

    def drain(self) -> None:
        """Everything comes, in order, to one who takes all; then nothing is left."""
        self.finish_load(0)
        self.cancel(0)
        self.channel.subscribe(self.queue, "u")
        while self.ready:
            before = len(self.ready)
            self.do("dispatch", 0)
            loads = self.bench.load()
            assert loads or len(self.ready) < before
        while self.out:
            self.do("ack", 0)
        pager = self.bench.broker.pager
        assert is_nothing_used(self.bench)
        self.bench.page_out()
        assert not pager.is_over


class PriorityQueueAndModel(QueueAndModel):
    """A durable queue with priorities."""

    arguments: ClassVar[FieldTable] = {"x-max-priority": PRIORITY_MAX}

    def level_of(self, priority: int) -> int:
        return min(priority, PRIORITY_MAX)

    def message(self, body: bytes, is_persistent: bool, priority: int) -> Message:
        return message_with_priority(body, priority, is_persistent)


def level_in(place: int) -> int:
    return PRIORITY_MAX - (place >> SEQ_BITS)
