"""A queue that never has memory, against a model that always has.

Every step of a script is done by a real broker with both logs on a real directory, and
by a dict. Persistent and transient messages, gets, consumers that come and go, acks,
requeues, purges, restarts; in between memory is taken away, and windows are read whole,
in part, or come back after they are not wanted any more. What is delivered is always
what the model has first, with the right mark, and the counts are those of the model.
"""

from __future__ import annotations

from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from amqpd.broker.cold_load import ColdLoad
from amqpd.broker.delivery import Reference
from amqpd.broker.pager import MemoryBudgets
from amqpd.broker.queue import Queue
from tests.support.connection_pair import Bench
from tests.support.deliveries import ConsumingChannel, message_of, persistent_message
from tests.support.fast_directory import fast_directory

PLENTY = 1 << 40
# A window is some ten messages of this size.
BODY_SIZE = 1500

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("publish"), st.integers(0, (1 << 24) - 1)),
        st.tuples(st.just("publish"), st.sampled_from([0, (1 << 24) - 1])),
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

    def __init__(self, directory: Path, budgets: MemoryBudgets) -> None:
        self.directory = directory
        self.budgets = budgets
        self.bench = Bench(directory, budgets=budgets)
        self.bench.connect().declare("q", durable=True)
        self.channel = ConsumingChannel()
        self.loads: list[ColdLoad] = []
        # What was published and is not settled: whether it is persistent, by seq.
        self.kept: dict[int, bool] = {}
        self.ready: set[int] = set()
        # Who has what: a reference of basic.get, or the tag of a delivery.
        self.out: dict[int, Reference | int] = {}
        self.delivered_upper = 0
        self.next_seq = 1

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
        for bit in range(24):
            is_persistent = bool(kinds >> bit & 1)
            body = (b"%d " % self.next_seq).ljust(BODY_SIZE, b".")
            make = persistent_message if is_persistent else message_of
            self.queue.publish(make(body))
            self.kept[self.next_seq] = is_persistent
            self.ready.add(self.next_seq)
            self.next_seq += 1

    def get(self, count: int, no_ack: bool = False) -> None:
        for _ in range(count):
            reference = self.queue.get(no_ack)
            if reference is None:
                assert not self.ready
                return
            seq = int(reference.seq)
            assert b"%d ...." % seq in reference.message.content
            self.note_first(seq, reference.redelivered, no_ack)
            if not no_ack:
                self.out[seq] = reference

    def get_no_ack(self, count: int) -> None:
        self.get(count, no_ack=True)

    def note_first(self, seq: int, redelivered: bool, no_ack: bool) -> None:
        assert seq == min(self.ready)
        assert redelivered == (seq <= self.delivered_upper)
        self.ready.remove(seq)
        if no_ack:
            del self.kept[seq]
        else:
            self.delivered_upper = max(seq, self.delivered_upper)

    def note_deliveries(self) -> None:
        for _, tag, redelivered, body in self.channel.take_deliveries():
            seq = seq_in(body)
            self.note_first(seq, redelivered, False)
            self.out[seq] = tag
        self.channel.output.wake_consumers()

    def take_out(self, choice: int) -> tuple[int, Reference] | None:
        if not self.out:
            return None
        seq = sorted(self.out)[choice % len(self.out)]
        held = self.out.pop(seq)
        if isinstance(held, Reference):
            return seq, held
        return seq, self.channel.consuming.unacked.take(held)

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
        for seq in self.ready:
            del self.kept[seq]
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
        for load in self.bench.broker.pager.begin_loads(self.bench.now_ms):
            load.run()
            self.loads.append(load)

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
        self.kept = {seq: True for seq, is_kept in self.kept.items() if is_kept}
        self.ready = set(self.kept)
        self.out.clear()
        self.next_seq = int(self.queue.next_seq)
        assert self.next_seq > max(self.kept, default=0)
        # Numbers of transient messages that no log has seen are given out again.
        self.delivered_upper = min(self.delivered_upper, self.next_seq - 1)

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
        assert (pager.use.stored, pager.use.unstored) == (0, 0)
        self.bench.page_out()
        assert not pager.is_over


def seq_in(body: bytes) -> int:
    return int(body.split(b" ", 1)[0])


@given(STEPS, st.booleans())
@settings(max_examples=150, deadline=None)
def test_a_queue_without_memory_is_as_one_with_memory(
    steps: list[tuple[str, int]], pages_all: bool
) -> None:
    budgets = MemoryBudgets(0, 0 if pages_all else PLENTY)
    with fast_directory() as directory:
        both = QueueAndModel(directory, budgets)
        for what, number in steps:
            both.do(what, number)
        both.drain()
        both.bench.close()
