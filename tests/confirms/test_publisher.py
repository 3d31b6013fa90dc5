"""Which publisher confirms may be written, and in what order."""

import pytest

from confirms.publisher import PublisherConfirms


def published(count: int) -> PublisherConfirms:
    confirms = PublisherConfirms()
    for _ in range(count):
        confirms.take_number()
    return confirms


def answers(confirms: PublisherConfirms) -> list[str]:
    """Take the answers, written as `+3*`: ack, number 3, multiple."""
    return [
        f"{'+' if answer.positive else '-'}{answer.number}{'*' * answer.multiple}"
        for answer in confirms.take_answers()
    ]


def test_numbers_begin_at_one() -> None:
    confirms = PublisherConfirms()
    assert confirms.next_number == 1
    assert [confirms.take_number(), confirms.take_number()] == [1, 2]
    assert confirms.next_number == 3


def test_nothing_settled_gives_no_answer() -> None:
    assert answers(published(3)) == []


def test_one_number_is_answered_without_multiple() -> None:
    confirms = published(2)
    confirms.confirm(1, 1)
    assert answers(confirms) == ["+1"]


def test_adjoining_numbers_share_one_answer() -> None:
    confirms = published(5)
    confirms.confirm(1, 1)
    confirms.confirm(2, 4)
    assert answers(confirms) == ["+4*"]


def test_an_answer_is_given_once() -> None:
    confirms = published(2)
    confirms.confirm(1, 2)
    confirms.take_answers()
    assert answers(confirms) == []


def test_numbers_beyond_a_gap_are_answered_one_by_one() -> None:
    confirms = published(5)
    confirms.confirm(2, 3)
    confirms.confirm(5, 5)
    assert answers(confirms) == ["+2", "+3", "+5"]


def test_a_closed_gap_is_answered_alone_when_the_rest_is_answered() -> None:
    confirms = published(3)
    confirms.confirm(2, 3)
    confirms.take_answers()
    confirms.confirm(1, 1)
    assert answers(confirms) == ["+1"]


def test_multiple_reaches_over_numbers_acked_before() -> None:
    confirms = published(4)
    confirms.confirm(2, 2)
    confirms.take_answers()
    confirms.confirm(1, 1)
    confirms.confirm(3, 3)
    assert answers(confirms) == ["+3*"]


def test_multiple_does_not_reach_over_numbers_nacked_before() -> None:
    confirms = published(4)
    confirms.refuse(3, 3)
    assert answers(confirms) == ["-3"]
    confirms.confirm(1, 2)
    confirms.confirm(4, 4)
    assert answers(confirms) == ["+2*", "+4"]


def test_numbers_behind_an_acked_run_begin_a_new_answer() -> None:
    confirms = published(5)
    confirms.confirm(2, 3)
    confirms.take_answers()
    confirms.refuse(1, 1)
    confirms.confirm(4, 5)
    assert answers(confirms) == ["-1", "+5*"]


def test_one_number_behind_an_acked_run_is_answered_without_multiple() -> None:
    confirms = published(4)
    confirms.confirm(2, 3)
    confirms.take_answers()
    confirms.refuse(1, 1)
    confirms.confirm(4, 4)
    assert answers(confirms) == ["-1", "+4"]


def test_a_gap_that_closes_in_the_same_batch_leaves_one_answer() -> None:
    confirms = published(3)
    confirms.confirm(2, 3)
    confirms.confirm(1, 1)
    assert answers(confirms) == ["+3*"]


def test_a_refused_number_splits_the_answers_around_it() -> None:
    confirms = published(6)
    confirms.confirm(1, 3)
    confirms.refuse(4, 4)
    confirms.confirm(5, 6)
    assert answers(confirms) == ["+3*", "-4", "+6*"]


def test_refused_numbers_share_one_answer() -> None:
    confirms = published(3)
    confirms.refuse(1, 3)
    assert answers(confirms) == ["-3*"]


def test_refusals_beyond_a_gap_are_answered_in_rising_order() -> None:
    confirms = published(6)
    confirms.refuse(5, 5)
    confirms.confirm(3, 4)
    confirms.refuse(2, 2)
    assert answers(confirms) == ["-2", "+3", "+4", "-5"]


def test_the_lowest_unsettled_number_stops_multiple() -> None:
    confirms = published(9)
    confirms.confirm(1, 3)
    confirms.confirm(5, 6)
    assert answers(confirms) == ["+3*", "+5", "+6"]
    confirms.confirm(7, 7)
    confirms.confirm(4, 4)
    assert answers(confirms) == ["+7*"]


def test_unanswered_counts_what_was_taken_and_not_answered() -> None:
    confirms = published(6)
    confirms.confirm(1, 2)
    confirms.confirm(4, 4)
    confirms.refuse(6, 6)
    assert confirms.unanswered_count == 6
    confirms.take_answers()
    assert confirms.unanswered_count == 2


def test_numbers_that_nobody_took_cannot_be_settled() -> None:
    confirms = published(2)
    with pytest.raises(AssertionError):
        confirms.confirm(1, 3)
    with pytest.raises(AssertionError):
        confirms.refuse(3, 3)
