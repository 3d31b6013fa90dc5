"""The ledger of delivery tags against a dictionary."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from confirms.errors import UnknownDeliveryTag
from confirms.unacked import Unacked


class UnackedMachine(RuleBasedStateMachine):
    """Delivers, acks and restores at random; an entry is its own tag."""

    def __init__(self) -> None:
        super().__init__()
        self.unacked = Unacked[int]()
        self.model: dict[int, int] = {}
        self.taken: list[int] = []
        self.next_tag = 1

    @rule(count=st.one_of(st.integers(1, 5), st.integers(100, 400)))
    def deliver(self, count: int) -> None:
        for _ in range(count):
            assert self.unacked.add(self.next_tag) == self.next_tag
            self.model[self.next_tag] = self.next_tag
            self.next_tag += 1

    @rule(count=st.integers(0, 300))
    def deliver_without_ack(self, count: int) -> None:
        assert self.unacked.skip(count) == self.next_tag
        self.next_tag += count

    @rule(data=st.data())
    def ack_some_tag(self, data: st.DataObject) -> None:
        tag = data.draw(st.integers(-1, self.next_tag + 1))
        if tag in self.model:
            assert self.unacked.take(tag) == self.model.pop(tag)
            self.taken.append(tag)
        else:
            with pytest.raises(UnknownDeliveryTag):
                self.unacked.take(tag)

    @precondition(lambda self: self.model)
    @rule(data=st.data(), keep=st.integers(0, 3))
    def ack_most(self, data: st.DataObject, keep: int) -> None:
        kept = data.draw(st.sets(st.sampled_from(sorted(self.model)), max_size=keep))
        for tag in sorted(self.model.keys() - kept):
            assert self.unacked.take(tag) == self.model.pop(tag)

    @rule(data=st.data())
    def ack_multiple(self, data: st.DataObject) -> None:
        tag = data.draw(
            st.one_of(
                st.integers(0, self.next_tag + 1),
                st.sampled_from([0, *sorted(self.model)]),
            )
        )
        if tag and tag not in self.model:
            with pytest.raises(UnknownDeliveryTag):
                self.unacked.take_through(tag)
            return
        due = sorted(each for each in self.model if tag == 0 or each <= tag)
        assert self.unacked.take_through(tag) == due
        for each in due:
            del self.model[each]
        self.taken.extend(due)

    @rule(data=st.data())
    def look_below(self, data: st.DataObject) -> None:
        tag = data.draw(st.integers(-1, self.next_tag + 1))
        below = sorted(each for each in self.model if each < tag)
        assert self.unacked.outstanding_before(tag) == below

    @rule()
    def roll_back(self) -> None:
        for tag in self.taken:
            self.unacked.restore(tag, tag)
            self.model[tag] = tag
        self.taken.clear()

    @rule()
    def recover(self) -> None:
        assert self.unacked.take_all() == sorted(self.model)
        self.model.clear()

    @invariant()
    def the_numbers_are_right(self) -> None:
        assert self.unacked.count == len(self.model)
        assert self.unacked.next_tag == self.next_tag


TestUnacked = UnackedMachine.TestCase
TestUnacked.settings = settings(deadline=None, max_examples=60)
