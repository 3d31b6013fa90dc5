"""Ranges of seqs: whatever the order of adding, the same set comes out."""

import pytest

from store.seq_ranges import Ranges, SeqRanges, ranges_of


def pairs(ranges: Ranges) -> list[tuple[int, int]]:
    return list(zip(ranges.firsts, ranges.lasts, strict=True))


def test_seqs_in_order_are_one_range() -> None:
    assert pairs(ranges_of([1, 2, 3, 4])) == [(1, 4)]


def test_seqs_in_reverse_order_are_one_range() -> None:
    assert pairs(ranges_of([4, 3, 2, 1])) == [(1, 4)]


def test_seqs_of_interleaved_consumers_are_joined() -> None:
    assert pairs(ranges_of([1, 4, 7, 2, 5, 8, 3, 6, 9])) == [(1, 9)]


def test_a_gap_keeps_ranges_apart() -> None:
    assert pairs(ranges_of([9, 1, 2, 5])) == [(1, 2), (5, 5), (9, 9)]


def test_a_range_inside_another_does_not_shorten_it() -> None:
    seqs = SeqRanges()
    seqs.add_range(1, 9)
    seqs.add_range(20, 20)
    seqs.add_range(3, 4)
    assert pairs(seqs.take()) == [(1, 9), (20, 20)]


def test_taking_leaves_nothing() -> None:
    seqs = SeqRanges()
    seqs.add(0)
    seqs.take()
    assert seqs.is_empty
    assert pairs(seqs.take()) == []


@pytest.mark.parametrize("seq", [1, 3, 7, 9])
def test_a_seq_that_was_added_is_in(seq: int) -> None:
    seqs = SeqRanges()
    for one in (7, 9, 1, 2, 3):
        seqs.add(one)
    assert seq in seqs


@pytest.mark.parametrize("seq", [0, 4, 8, 10])
def test_a_seq_that_was_not_added_is_not_in(seq: int) -> None:
    seqs = SeqRanges()
    for one in (7, 9, 1, 2, 3):
        seqs.add(one)
    assert seq not in seqs


@pytest.mark.parametrize(
    ("seq", "left"),
    [
        (1, [(2, 5), (9, 9)]),
        (3, [(1, 2), (4, 5), (9, 9)]),
        (5, [(1, 4), (9, 9)]),
        (9, [(1, 5)]),
    ],
)
def test_a_discarded_seq_is_out_and_the_others_are_in(
    seq: int, left: list[tuple[int, int]]
) -> None:
    seqs = SeqRanges()
    seqs.add_range(1, 5)
    seqs.add(9)
    assert seqs.discard(seq)
    assert pairs(seqs.take()) == left


def test_a_seq_that_is_not_in_cannot_be_discarded() -> None:
    seqs = SeqRanges()
    seqs.add(1)
    assert not seqs.discard(2)
    assert pairs(seqs.take()) == [(1, 1)]


def test_a_range_that_adjoins_is_joined_on_either_side() -> None:
    seqs = SeqRanges()
    seqs.add_range(5, 6)
    seqs.add_range(7, 9)
    seqs.add_range(3, 4)
    assert pairs(seqs.take()) == [(3, 9)]


def test_looking_for_a_seq_sorts_what_was_added_out_of_order() -> None:
    seqs = SeqRanges()
    for first in (9, 5, 1):
        seqs.add_range(first, first + 1)
    seqs.add(30)
    assert 5 in seqs
    assert 7 not in seqs
    assert pairs(seqs.take()) == [(1, 2), (5, 6), (9, 10), (30, 30)]
