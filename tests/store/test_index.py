"""The index: which segments are still needed."""

import pytest

from store.index import Index
from store.seq_ranges import ranges_of


def filled() -> Index:
    """Queue 7: seqs 1-3 in segment 1, 5-6 in 2, 10 in 3; queue 8: seq 1 in 2."""
    index = Index()
    queue = index.queue(7)
    queue.add(index.segment(1), 1, 3, 3)
    queue.add(index.segment(2), 5, 5, 1)
    queue.add(index.segment(2), 6, 6, 1)
    queue.add(index.segment(3), 10, 10, 1)
    index.queue(8).add(index.segment(2), 1, 1, 1)
    return index


def counts(index: Index) -> list[int]:
    return [int(index.reference_count(number)) for number in (1, 2, 3)]


def test_every_reference_is_counted_in_its_segment() -> None:
    assert counts(filled()) == [3, 3, 1]


def test_a_segment_nobody_wrote_to_has_no_references() -> None:
    assert Index().reference_count(5) == 0


def test_settling_across_segments_drops_each_where_it_lies() -> None:
    index = filled()
    index.queue(7).settle(ranges_of([2, 3]))
    assert counts(index) == [1, 3, 1]
    index.queue(7).settle(ranges_of([5, 6, 10]))
    assert counts(index) == [1, 1, 0]


def test_one_range_may_reach_over_several_segments() -> None:
    index = Index()
    queue = index.queue(7)
    for number in (1, 2, 3):
        queue.add(index.segment(number), number * 2 - 1, number * 2, 2)
    queue.settle(ranges_of([2, 3, 4, 5]))
    assert counts(index) == [1, 0, 1]


def test_new_references_after_a_run_emptied_are_counted() -> None:
    index = filled()
    index.queue(7).settle(ranges_of([1, 2, 3, 5, 6, 10]))
    index.queue(7).add(index.segment(3), 11, 12, 2)
    assert counts(index) == [0, 1, 2]


def test_settling_what_was_never_written_is_our_mistake() -> None:
    with pytest.raises(AssertionError, match="written"):
        filled().queue(7).settle(ranges_of([0]))


def test_settling_twice_is_our_mistake() -> None:
    index = filled()
    index.queue(7).settle(ranges_of([1, 2]))
    with pytest.raises(AssertionError, match="once"):
        index.queue(7).settle(ranges_of([1, 2]))


def test_seqs_that_do_not_rise_are_our_mistake() -> None:
    index = filled()
    with pytest.raises(AssertionError, match="rise"):
        index.queue(7).add(index.segment(3), 10, 10, 1)


def test_a_purge_drops_all_but_the_kept_that_are_written() -> None:
    index = filled()
    # 12 is kept and not written yet: it is counted when it is.
    index.queue(7).purge(ranges_of([2, 6, 12]))
    assert counts(index) == [1, 2, 0]
    index.queue(7).add(index.segment(3), 12, 12, 1)
    index.queue(7).settle(ranges_of([2, 6, 12]))
    assert counts(index) == [0, 1, 0]


def test_a_forgotten_queue_holds_nothing() -> None:
    index = filled()
    index.forget_queue(7)
    index.forget_queue(99)
    assert counts(index) == [0, 1, 0]


def test_a_dropped_segment_is_not_counted_any_more() -> None:
    index = filled()
    index.drop_segment(1)
    index.drop_segment(77)
    assert counts(index) == [0, 3, 1]
