"""The ready list against a sorted list: any mixture of taking and returning."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from amqpd.broker.delivery import Reference
from amqpd.broker.ready_list import ReadyList
from tests.support.deliveries import reference_of


class ReadyListAgainstSortedList(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.ready = ReadyList()
        self.model: list[int] = []
        self.out: list[Reference] = []
        self.next_seq = 1

    @rule(size=st.integers(0, 5))
    def append(self, size: int) -> None:
        self.ready.append(reference_of(self.next_seq, bytes(size)))
        self.model.append(self.next_seq)
        self.next_seq += 1

    @precondition(lambda self: self.model)
    @rule()
    def pop(self) -> None:
        reference = self.ready.pop()
        assert reference.seq == self.model.pop(0)
        self.out.append(reference)

    @precondition(lambda self: self.out)
    @rule(choice=st.integers(0))
    def put_back(self, choice: int) -> None:
        reference = self.out.pop(choice % len(self.out))
        self.ready.put_back(reference)
        self.model = sorted([*self.model, reference.seq])

    @rule(seqs=st.sets(st.integers(1, 30)))
    def remove(self, seqs: set[int]) -> None:
        removed = [reference.seq for reference in self.ready.remove(seqs)]
        assert removed == [seq for seq in self.model if seq in seqs]
        self.model = [seq for seq in self.model if seq not in seqs]

    @rule()
    def take_all(self) -> None:
        assert [reference.seq for reference in self.ready.take_all()] == self.model
        self.model = []

    @invariant()
    def counts_agree(self) -> None:
        assert self.ready.count == len(self.model)
        assert (self.ready.size > 0) == bool(self.model)


ReadyListAgainstSortedList.TestCase.settings = settings(
    max_examples=50, stateful_step_count=40, deadline=None
)
TestReadyList = ReadyListAgainstSortedList.TestCase
