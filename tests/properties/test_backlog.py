"""The backlog against a dict: coming, going, expiring, paging and loading, mixed.

The logs are sets of seqs; a number is written when the test says so. After every step
the counts, the sizes and the memory that is accounted for are those of the model, and
whatever is cold is in a log, in a span that holds nothing else.
"""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from amqpd.broker.messages.message import Message
from amqpd.broker.queues.backlog import Backlog
from amqpd.broker.queues.delivery import READ_BACK, Reference, ReferenceOwner
from amqpd.broker.queues.memory_use import MemoryUse, Written
from tests.support.content import content_of

RECOVERED = 0


def message_with(size: int) -> Message:
    return Message(b"\x00\x01q\xce", content_of(bytes(size)), None, 0, 0)


class BacklogAgainstDict(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.use = MemoryUse()
        self.written = Written()
        self.written.stored_base = self.written.paged_base = 1
        self.backlog = Backlog(True, self.use)
        self.backlog.counts_bodies = True
        # Body sizes of what is ready and of what is with a consumer, by seq.
        self.ready: dict[int, int] = {}
        self.out: dict[int, Reference] = {}
        # Who was last made for a seq.
        self.made: dict[int, Reference] = {}
        # What each log has, or will have once it is written: number by seq.
        self.log: dict[int, int] = {}
        self.pages: dict[int, int] = {}
        self.next_seq = 1
        self.next_number = 1
        self.next_page = 1
        self.owner = ReferenceOwner()

    @initialize(kinds=st.lists(st.booleans(), min_size=8), window=st.integers(0, 5))
    def begin_with_cold_ones(self, kinds: list[bool], window: int) -> None:
        for is_stored in kinds:
            self.append(2, is_stored, 1)
        self.shrink(window, 30, 0)
        self.write(30, 30)
        self.shrink(window, 0, 4)

    # -- coming and going -----------------------------------------------------

    @rule(size=st.integers(0, 5), is_stored=st.booleans(), count=st.integers(1, 4))
    def append(self, size: int, is_stored: bool, count: int) -> None:
        for _ in range(count):
            message = message_with(size)
            if is_stored:
                message.number = self.next_number
                self.log[self.next_seq] = self.next_number
                self.next_number += 1
            reference = Reference(self.owner, message, self.next_seq)
            self.made[self.next_seq] = reference
            self.backlog.append(reference)
            self.ready[self.next_seq] = size
            self.next_seq += 1

    @precondition(lambda self: self.backlog.at_hand)
    @rule()
    def pop(self) -> None:
        first = self.backlog.first()
        reference = self.backlog.pop()
        assert reference is first
        seq = int(reference.seq)
        assert seq == min(self.ready)
        del self.ready[seq]
        self.out[seq] = reference

    @precondition(lambda self: self.out)
    @rule(choice=st.integers(0))
    def put_back(self, choice: int) -> None:
        seq, reference = self.take_out(choice)
        self.backlog.put_back(reference)
        self.ready[seq] = reference.message.body_size()

    @precondition(lambda self: self.out)
    @rule(choice=st.integers(0))
    def settle(self, choice: int) -> None:
        seq, _ = self.take_out(choice)
        self.forget(seq)

    @rule(choices=st.lists(st.integers(0, 1000), min_size=1, max_size=40))
    def strike(self, choices: list[int]) -> None:
        """Some that are in memory expire where they stand."""
        for choice in choices:
            in_memory = sorted(set(self.ready) - set(self.cold()))
            if in_memory:
                seq = in_memory[choice % len(in_memory)]
                message = self.backlog.strike(self.made[seq])
                assert message.body_size() == self.ready.pop(seq)
                self.forget(seq)

    @precondition(lambda self: self.next_seq > 30)
    @rule()
    def purge(self) -> None:
        cold = self.cold()
        taken = [int(reference.seq) for reference in self.backlog.take_all()]
        assert sorted(taken + cold) == sorted(self.ready)
        assert taken == sorted(taken)
        for seq in list(self.ready):
            self.forget(seq)
        self.ready.clear()

    @rule(seqs=st.sets(st.integers(1, 40)))
    def refuse(self, seqs: set[int]) -> None:
        """A full disk refuses some of what was not written."""
        base = self.written.stored_base
        refused = {seq for seq in seqs if self.log.get(seq, 0) >= base}
        removed = [int(reference.seq) for reference in self.backlog.remove(refused)]
        assert removed == sorted(refused & set(self.ready))
        for seq in removed:
            del self.ready[seq]
            self.forget(seq)

    # -- leaving memory -------------------------------------------------------

    @rule(log=st.integers(0, 10), pages=st.integers(0, 10))
    def write(self, log: int, pages: int) -> None:
        written = self.written
        written.stored_base = min(written.stored_base + log, self.next_number)
        written.paged_base = min(written.paged_base + pages, self.next_page)

    @rule(window=st.integers(0, 5), leaving=st.integers(0, 10), dropped=st.integers(0))
    def shrink(self, window: int, leaving: int, dropped: int) -> None:
        if not self.backlog.split(window * message_with(2).cost):
            return
        for _ in range(leaving):
            reference = self.backlog.next_to_leave()
            if reference is not None:
                self.page(reference)
                self.backlog.leave()
        while dropped % 8 and self.backlog.drop_written(self.written, 1):
            dropped -= 1

    @rule(dropped=st.integers(1, 10), is_written=st.booleans())
    def shrink_head(self, dropped: int, is_written: bool) -> None:
        for _ in range(dropped):
            if not self.backlog.is_split:
                break
            for reference in self.backlog.unpaged_in_head():
                self.page(reference)
            if is_written:
                self.write(30, 30)
            self.backlog.drop_last_of_head(self.written)

    @rule()
    def write_and_shrink(self) -> None:
        self.shrink(0, 10, 0)
        self.write(10, 10)
        self.shrink(0, 0, 7)

    @precondition(lambda self: not self.out)
    @rule()
    def fold_returned(self) -> None:
        self.backlog.fold_returned(self.next_seq)

    def page(self, reference: Reference) -> None:
        if self.backlog.is_stored(reference) or reference.page >= 0:
            return
        reference.page = self.next_page
        self.pages[int(reference.seq)] = self.next_page
        self.next_page += 1

    # -- coming back ----------------------------------------------------------

    @precondition(lambda self: self.backlog.cold_count)
    @rule(count=st.integers(1, 10))
    def load(self, count: int) -> None:
        cold = self.cold()
        loaded = cold[:count]
        self.backlog.load(
            [self.read(seq) for seq in loaded],
            int(self.backlog.cold_last) + 1 if loaded == cold else cold[count],
        )
        assert self.backlog.is_cold_over == (loaded == cold)
        if self.backlog.is_cold_over:
            self.backlog.join()

    @precondition(lambda self: not self.backlog.cold_count)
    @rule()
    def join(self) -> None:
        if self.backlog.is_split:
            self.backlog.join()

    def read(self, seq: int) -> Reference:
        message = message_with(self.ready[seq])
        reference = Reference(self.owner, message, seq)
        if seq in self.log:
            message.number = RECOVERED
        else:
            reference.page = READ_BACK
        self.made[seq] = reference
        return reference

    # -- the model ------------------------------------------------------------

    def cold(self) -> list[int]:
        """What the logs have in the cold span and nobody has settled."""
        backlog = self.backlog
        if not backlog.cold_count:
            return []
        first, last = int(backlog.cold_first), int(backlog.cold_last)
        there = set(self.log) | set(self.pages)
        return sorted(seq for seq in there if first <= seq <= last)

    def take_out(self, choice: int) -> tuple[int, Reference]:
        seq = sorted(self.out)[choice % len(self.out)]
        return seq, self.out.pop(seq)

    def forget(self, seq: int) -> None:
        self.log.pop(seq, None)
        self.pages.pop(seq, None)

    @invariant()
    def what_is_cold_is_in_a_log_and_nobody_has_it(self) -> None:
        cold = self.cold()
        assert set(cold) <= set(self.ready)
        stored = [seq for seq in cold if seq in self.log]
        assert self.backlog.cold_stored == len(stored)
        assert self.backlog.cold_paged == len(cold) - len(stored)
        for seq in cold:
            if seq in self.log:
                assert self.log[seq] < self.written.stored_base
            else:
                assert self.pages[seq] < self.written.paged_base

    @invariant()
    def counts_and_sizes_agree(self) -> None:
        sizes = {seq: message_with(size).size for seq, size in self.ready.items()}
        assert self.backlog.count == len(self.ready)
        assert self.backlog.size == sum(sizes.values())
        assert self.backlog.cold_size == sum(sizes[seq] for seq in self.cold())
        bodies = self.backlog.body_size + self.backlog.cold_body_size
        assert bodies == sum(self.ready.values())

    @invariant()
    def memory_is_what_is_ready_and_not_cold(self) -> None:
        cold = set(self.cold())
        costs = {
            seq: message_with(size).cost
            for seq, size in self.ready.items()
            if seq not in cold
        }
        stored = sum(cost for seq, cost in costs.items() if seq in self.log)
        assert self.use.stored == self.backlog.stored_cost == stored
        assert self.use.unstored == sum(costs.values()) - stored
        assert self.backlog.has_memory == bool(costs)

    def teardown(self) -> None:
        """Everything comes out in order, whatever was where."""
        while self.ready:
            while self.backlog.at_hand:
                self.pop()
            if self.backlog.cold_count:
                self.load(7)
            elif self.backlog.is_split:
                self.backlog.join()
        assert (self.use.stored, self.use.loaded, self.use.unstored) == (0, 0, 0)
        assert (self.backlog.count, self.backlog.size) == (0, 0)


BacklogAgainstDict.TestCase.settings = settings(
    max_examples=100, stateful_step_count=60, deadline=None
)
TestBacklog = BacklogAgainstDict.TestCase
