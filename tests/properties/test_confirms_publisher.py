"""Publisher confirms against a model that knows every single number."""

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from confirms.publisher import PublisherConfirms


class PublisherConfirmsMachine(RuleBasedStateMachine):
    """Settles random runs of numbers and plays the client that reads the answers."""

    def __init__(self) -> None:
        super().__init__()
        self.confirms = PublisherConfirms()
        self.taken = 0
        self.signs: dict[int, bool] = {}  # number -> settled positively
        self.answered: set[int] = set()

    @rule(count=st.integers(1, 6))
    def publish(self, count: int) -> None:
        for _ in range(count):
            self.taken += 1
            assert self.confirms.take_number() == self.taken

    @rule(data=st.data(), positive=st.booleans())
    def settle(self, data: st.DataObject, positive: bool) -> None:
        free = [n for n in range(1, self.taken + 1) if n not in self.signs]
        if not free:
            return
        first = last = data.draw(st.sampled_from(free))
        while last + 1 in free and data.draw(st.booleans()):
            last += 1
        if positive:
            self.confirms.confirm(first, last)
        else:
            self.confirms.refuse(first, last)
        self.signs.update(dict.fromkeys(range(first, last + 1), positive))

    @rule()
    def settle_the_lowest(self) -> None:
        lowest = next(n for n in range(1, self.taken + 2) if n not in self.signs)
        if lowest <= self.taken:
            self.confirms.confirm(lowest, lowest)
            self.signs[lowest] = True

    @rule()
    def answer(self) -> None:
        for answer in self.confirms.take_answers():
            number = answer.number
            assert number not in self.answered, "the number itself is news"
            covered = {number}
            if answer.multiple:
                covered = set(range(1, number + 1)) - self.answered
                assert len(covered) > 1, "multiple is for more than one"
            for each in covered:
                assert self.signs.get(each) is answer.positive
            if answer.multiple and answer.positive:
                start = min(covered)
                assert all(self.signs[n] for n in range(start, number))
            elif not answer.multiple:
                # Nothing below may come later in the same batch.
                assert not any(
                    n < number and n in self.signs
                    for n in range(1, number)
                    if n not in self.answered
                )
            self.answered |= covered
        assert self.answered == set(self.signs), "all that is settled is answered"

    @invariant()
    def the_count_is_right(self) -> None:
        assert self.confirms.unanswered_count == self.taken - len(self.answered)


TestPublisherConfirms = PublisherConfirmsMachine.TestCase
