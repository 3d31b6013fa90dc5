"""Publisher confirms of one channel: which numbers may be answered, and how.

Numbers are settled in any order, because a message that waits for the disk may stand
between two that do not. Answers keep three rules (they are tested one by one):

- Every number is answered exactly once, positively or negatively.
- `multiple` speaks for all numbers up to its own, so it is used only when everything
  below is answered by then. It never reaches over a gap or over a refused number:
  answers up to the gap are made in rising order, a new one wherever the sign changes.
- What is settled beyond a gap is answered one by one, in the next batch of answers.

    numbers    1   2   3   4   5   6   7   8        - refused, ? not settled
                           -       ?
    answers    ack 3 multiple, nack 4, ack 5, ack 7, ack 8

Nearly always there is neither gap nor refusal. Then the state is two numbers,
everything between them is settled and unanswered, and `confirm` moves the upper one.

It does not know what is published, nor what a queue or a disk is. Counting down the
queues of one message is the business of whoever calls `confirm`.
"""

from typing import final

from mypy_extensions import i64

from confirms.tag_ranges import TagRanges


@final
class Answer:
    """One basic.ack (`positive`) or basic.nack to a publisher."""

    __slots__ = ("multiple", "number", "positive")

    def __init__(self, number: i64, multiple: bool, positive: bool) -> None:
        self.number: i64 = number
        self.multiple = multiple
        self.positive = positive


@final
class PublisherConfirms:
    """Hands out publish numbers and turns settled ones into answers."""

    __slots__ = (
        "_acked_ahead",
        "_answered_through",
        "_confirmed",
        "_nacked_ahead",
        "_refused",
        "_settled_through",
        "next_number",
    )

    def __init__(self) -> None:
        self.next_number: i64 = 1
        # All up to here have been answered,
        self._answered_through: i64 = 0
        # and from there up to here all may be answered positively.
        self._settled_through: i64 = 0
        # Settled since the last answers, but not next in line.
        self._confirmed = TagRanges()
        self._refused = TagRanges()
        # Answered already, beyond a number that is not settled.
        self._acked_ahead = TagRanges()
        self._nacked_ahead = TagRanges()

    @property
    def unanswered_count(self) -> i64:
        """How many of the numbers taken have not been in an answer yet."""
        ahead = self._acked_ahead.count + self._nacked_ahead.count
        return self.next_number - 1 - self._answered_through - ahead

    def take_number(self) -> i64:
        """Return the number of the message published now."""
        number = self.next_number
        self.next_number = number + 1
        return number

    def confirm(self, first: i64, last: i64) -> None:
        """Settle first..last positively; none of them is settled yet."""
        assert last < self.next_number, "a number is taken before it is settled"
        if first == self._settled_through + 1:
            self._settled_through = last
        else:
            self._confirmed.add(first, last)

    def refuse(self, first: i64, last: i64) -> None:
        """Settle first..last negatively; none of them is settled yet."""
        assert last < self.next_number, "a number is taken before it is settled"
        self._refused.add(first, last)

    def take_answers(self) -> list[Answer]:
        """Return the answers that may be written now, in the order to write them."""
        answers: list[Answer] = []
        self._answer_through_gap(answers)
        if self._confirmed.count or self._refused.count:
            self._answer_beyond_gap(answers)
        return answers

    def _answer_through_gap(self, answers: list[Answer]) -> None:
        """Answer, in rising order, all that has no unsettled number below it."""
        first: i64 = self._answered_through + 1  # lowest number not in an answer
        through: i64 = self._settled_through  # all up to here is settled
        last: i64 = through  # highest positive one of first..through that is new
        while True:
            number = through + 1
            run = self._confirmed.take_from(number)
            if run:
                through = last = run
                continue
            run = self._acked_ahead.take_from(number)
            if run:
                # When nothing new is below it, it does not need to be covered.
                first = first if last >= first else run + 1
                through = run
                continue
            run = self._nacked_ahead.take_from(number)
            refused = run == 0
            if refused:
                run = self._refused.take_from(number)
            if run == 0:
                break
            _append_answer(answers, first, last, True)
            if refused:
                _append_answer(answers, number, run, False)
            through = run
            first = run + 1
        _append_answer(answers, first, last, True)
        self._answered_through = self._settled_through = through

    def _answer_beyond_gap(self, answers: list[Answer]) -> None:
        """Answer one by one, in rising order, what is settled above the gap."""
        confirmed = self._confirmed
        for first in sorted(confirmed.firsts() + self._refused.firsts()):
            last = confirmed.take_from(first)
            positive = last != 0
            if positive:
                self._acked_ahead.add(first, last)
            else:
                last = self._refused.take_from(first)
                self._nacked_ahead.add(first, last)
            number: i64 = first
            while number <= last:
                answers.append(Answer(number, False, positive))
                number += 1


def _append_answer(
    answers: list[Answer], first: i64, last: i64, positive: bool
) -> None:
    """Append the answer for first..last, all below being answered; maybe none."""
    if last >= first:
        answers.append(Answer(last, last > first, positive))
