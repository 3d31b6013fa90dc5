"""Delayed messages, whatever happens to them: each comes once, and leaves no trace.

Persistent and transient ones with delays of all kinds; time passes, memory is taken
away, the disk is full or unreadable for a while, what has come is taken, and the
exchange is deleted and declared anew. Nothing comes before its time or twice, all that
the disk has not refused comes in the end, and then no message takes memory by any
count, nor does one of a room that is gone.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from hypothesis import given, settings
from hypothesis import strategies as st

from amqpd.broker.delays.delay_queue import RETRY_MS
from amqpd.broker.queues.pager import RETRY_MS as READ_RETRY_MS
from amqpd.broker.queues.pager import MemoryBudgets
from tests.support.connection_pair import Bench
from tests.support.delayed import DelayedExchange
from tests.support.fast_directory import fast_directory
from tests.support.little_memory import UnreadableDisk, is_nothing_used

PLENTY: Final = 1 << 40
LONGEST_MS: Final = 400

STEPS: Final = st.lists(
    st.one_of(
        st.tuples(st.just("publish"), st.integers(1, LONGEST_MS)),
        st.tuples(st.just("publish"), st.integers(1, LONGEST_MS)),
        st.tuples(st.just("publish"), st.integers(1, LONGEST_MS)),
        st.tuples(st.just("wait"), st.sampled_from([1, 10, 50, 200])),
        st.tuples(st.just("page_out"), st.just(0)),
        st.tuples(st.just("sync"), st.just(0)),
        st.tuples(st.just("take"), st.just(0)),
        st.tuples(st.just("fill_disk"), st.integers(0, 1)),
        st.tuples(st.just("spoil_reads"), st.integers(0, 1)),
        st.tuples(st.just("delete"), st.just(0)),
    ),
    min_size=10,
    max_size=60,
)
BUDGETS: Final = st.sampled_from([(0, 0), (0, PLENTY), (PLENTY, PLENTY)])


class DelayedAndModel:
    """A delayed exchange, and for each message when it may come at the earliest."""

    def __init__(self, directory: Path, budgets: MemoryBudgets) -> None:
        self.disk = UnreadableDisk()
        self.bench = Bench(directory, self.disk, budgets=budgets)
        self.delayed = DelayedExchange(self.bench)
        self.due_ms: dict[int, int] = {}
        self.count = 0
        self.is_sure = True

    def publish(self, delay_ms: int) -> None:
        self.count += 1
        self.due_ms[self.count] = self.bench.now_ms + delay_ms
        self.delayed.publish(b"%d" % self.count, delay_ms, mode=1 + delay_ms % 2)

    def wait(self, milliseconds: int) -> None:
        self.bench.pass_time(milliseconds)

    def page_out(self, _: int) -> None:
        # On a full disk the paging log tries again and again: the bench would, too.
        if not self.disk.is_full:
            self.bench.page_out()

    def sync(self, _: int) -> None:
        self.bench.sync()

    def take(self, _: int) -> None:
        if self.disk.is_unreadable:
            return
        for body in self.delayed.bodies():
            # A second time it is not there.
            assert self.due_ms.pop(int(body)) <= self.bench.now_ms

    def fill_disk(self, is_full: int) -> None:
        self.disk.is_full = bool(is_full)
        self.is_sure = self.is_sure and not is_full

    def spoil_reads(self, is_spoiled: int) -> None:
        self.disk.is_unreadable = bool(is_spoiled)

    def delete(self, _: int) -> None:
        self.take(0)
        if self.disk.is_full or self.disk.is_unreadable:
            return
        self.delayed.delete()
        self.delayed = DelayedExchange(self.bench)
        self.due_ms.clear()

    def check_end(self) -> None:
        self.disk.is_full = self.disk.is_unreadable = False
        for _ in range(8):
            self.bench.sync()
            self.wait(int(max(RETRY_MS, READ_RETRY_MS)) + LONGEST_MS)
            self.take(0)
        assert self.delayed.count == 0
        assert not self.due_ms or not self.is_sure
        assert is_nothing_used(self.bench)


@given(STEPS, BUDGETS)
@settings(max_examples=60, deadline=None)
def test_what_waits_comes_once_and_leaves_no_trace(
    steps: list[tuple[str, int]], memory: tuple[int, int]
) -> None:
    with fast_directory() as directory:
        both = DelayedAndModel(directory / "d", MemoryBudgets(*memory))
        for what, number in steps:
            getattr(both, what)(number)
        both.check_end()
        both.bench.close()
