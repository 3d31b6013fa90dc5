"""The index: which messages are live, and which segments are still needed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from store.index import Index, QueueIndex
from store.record import Returned
from store.seq_ranges import Ranges, ranges_of


def filled() -> Index:
    """Queue 7: seqs 1-3 in segment 1, 5-6 in 2, 10 in 3; queue 8: seq 1 in 2."""
    index = Index()
    queue = index.queue(7)
    queue.add(index.segment(1), 1, 3, 3, 300, None)
    queue.add(index.segment(2), 5, 5, 1, 100, None)
    queue.add(index.segment(2), 6, 6, 1, 100, None)
    queue.add(index.segment(3), 10, 10, 1, 100, None)
    index.queue(8).add(index.segment(2), 1, 1, 1, 100, None)
    return index


def counts(index: Index) -> list[int]:
    return [int(index.segment(number).references) for number in (1, 2, 3)]


def live_in(queue: QueueIndex, upper: int = 40) -> list[int]:
    return [seq for seq in range(upper) if queue.is_live(seq)]


def test_every_reference_is_counted_in_its_segment() -> None:
    index = filled()
    assert counts(index) == [3, 3, 1]
    assert (index.queue(7).live_count, index.queue(7).run_count) == (6, 3)
    assert index.queue(7).upper_seq == 10
    assert live_in(index.queue(7)) == [1, 2, 3, 5, 6, 10]


def test_settling_across_segments_drops_each_where_it_lies() -> None:
    index = filled()
    index.queue(7).settle(ranges_of([2, 3]))
    assert counts(index) == [1, 3, 1]
    index.queue(7).settle(ranges_of([5, 6, 10]))
    assert counts(index) == [1, 1, 0]


def test_one_range_may_settle_across_gaps_and_segments() -> None:
    index = filled()
    index.queue(7).settle(Ranges([2], [9]))
    assert live_in(index.queue(7)) == [1, 10]
    assert counts(index) == [1, 1, 1]
    assert index.queue(7).run_count == 2


def test_settling_twice_changes_nothing() -> None:
    index = filled()
    for _ in range(2):
        index.queue(7).settle(ranges_of([2, 5]))
    assert live_in(index.queue(7)) == [1, 3, 6, 10]
    assert counts(index) == [2, 2, 1]


def test_a_message_behind_a_settled_end_of_its_segment_is_live() -> None:
    index = filled()
    queue = index.queue(7)
    queue.add(index.segment(3), 11, 12, 2, 200, None)
    queue.settle(ranges_of([11, 12]))
    queue.add(index.segment(3), 14, 14, 1, 100, None)
    assert live_in(queue) == [1, 2, 3, 5, 6, 10, 14]
    assert counts(index)[2] == 2


def test_seqs_that_do_not_rise_are_our_mistake() -> None:
    index = filled()
    with pytest.raises(AssertionError, match="rise along the log"):
        index.queue(7).add(index.segment(3), 10, 10, 1, 100, None)


def test_a_forgotten_queue_needs_no_segment() -> None:
    index = filled()
    index.forget_queue(7)
    index.forget_queue(9)
    assert counts(index) == [0, 1, 0]
    assert 7 not in index.queues


def test_live_bytes_are_a_share_of_what_was_written() -> None:
    index = filled()
    index.queue(7).settle(ranges_of([2]))
    assert index.segment(1).live_size == 200
    assert index.queue(7).live_size == 500
    index.queue(7).settle(ranges_of([1, 3]))
    assert index.segment(1).live_size == 0


def test_an_empty_queue_begins_behind_all_there_was() -> None:
    index = filled()
    assert index.queue(7).first_seq == 1
    index.queue(7).settle(Ranges([1], [10]))
    assert index.queue(7).first_seq == 11


def test_spans_are_cut_to_what_is_asked_for_and_end_when_there_is_enough() -> None:
    queue = filled().queue(7)
    queue.settle(ranges_of([2]))
    spans = queue.spans(2, 5, 10)
    assert [(s.segment, s.first, s.last, s.live) for s in spans] == [
        (1, 2, 3, 1),
        (2, 5, 5, 1),
    ]
    assert [span.segment for span in queue.spans(1, 10, 2)] == [1]
    assert queue.spans(7, 9, 10) == []


def test_the_next_live_seq_is_found_across_gaps_and_segments() -> None:
    queue = filled().queue(7)
    queue.settle(ranges_of([2, 5]))
    assert [int(queue.next_live(seq)) for seq in (0, 2, 3, 4, 7, 11)] == [
        *(1, 3, 3, 6, 10, 11)
    ]


def test_no_seq_is_live_behind_the_last_one_that_is() -> None:
    queue = Index().queue(7)
    queue.add(Index().segment(1), 1, 9, 9, 900, None)
    queue.settle(ranges_of([5, 8]))
    queue.settle(ranges_of([9]))
    assert [int(queue.next_live(seq)) for seq in (5, 8, 9)] == [6, 10, 10]


def test_a_span_does_not_see_what_dies_later() -> None:
    queue = filled().queue(7)
    queue.add(Index().segment(4), 11, 15, 5, 500, None)
    queue.settle(ranges_of([13]))
    (span,) = queue.spans(11, 15, 10)
    queue.settle(ranges_of([12]))
    assert span.dead is not None
    assert (12 in span.dead, 13 in span.dead) == (False, True)


def test_the_latest_delivery_and_return_stand() -> None:
    queue = filled().queue(7)
    queue.note_delivered(0, 5)
    queue.note_delivered(0, 3)
    assert queue.delivered == {0: 5}


def test_who_came_back_and_is_settled_is_forgotten() -> None:
    queue = filled().queue(7)
    for seq in (1, 2, 11):
        queue.note_returned(Returned(7, seq, 1, 0))
    queue.settle(ranges_of([1]))
    assert [one.seq for one in queue.live_returned()] == [2, 11]


def test_a_merged_file_takes_the_runs_of_its_segments() -> None:
    index = filled()
    queue = index.queue(7)
    queue.settle(ranges_of([2]))
    index.adopt_segment(1, 2, 1000)
    queue.merge_runs(index.segment(2), 4, 400)
    index.queue(8).merge_runs(index.segment(2), 1, 100)
    index.drop_segment(1)
    assert live_in(queue) == [1, 3, 5, 6, 10]
    assert (queue.run_count, queue.live_count) == (2, 5)
    assert index.segment(2).references == 5
    queue.settle(Ranges([1], [5]))
    assert live_in(queue) == [6, 10]
    assert index.segment(2).references == 2


def test_a_queue_that_a_merged_file_has_nothing_of_stays_as_it_is() -> None:
    index = filled()
    index.adopt_segment(3, 4, 1000)
    index.queue(8).merge_runs(index.segment(4), 0, 0)
    assert live_in(index.queue(8)) == [1]


EVENTS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.integers(0, 3), st.integers(1, 9)),
        st.tuples(st.just("settle"), st.integers(0, 99), st.integers(0, 30)),
        st.tuples(st.just("roll"), st.just(0), st.just(0)),
        st.tuples(st.just("merge"), st.integers(0, 5), st.integers(1, 5)),
    ),
    max_size=60,
)


@given(EVENTS, st.sets(st.integers(1, 300)))
def test_an_index_agrees_with_a_set(
    events: list[tuple[str, int, int]], missing: set[int]
) -> None:
    index = Index()
    queue = index.queue(7)
    live: dict[int, int] = {}
    segment, upper = 1, 0
    for kind, first, second in events:
        if kind == "roll":
            segment += 1
        elif kind == "add":
            seqs = range(upper + 1 + first, upper + 1 + first + second)
            written = [seq for seq in seqs if seq not in missing]
            if not written:
                continue
            gaps = [s for s in range(written[0], written[-1]) if s not in written]
            queue.add(
                index.segment(segment),
                written[0],
                written[-1],
                len(written),
                10 * len(written),
                ranges_of(gaps) if gaps else None,
            )
            upper = written[-1]
            live.update((seq, segment) for seq in written)
        elif kind == "settle":
            queue.settle(Ranges([first], [first + second]))
            for seq in range(first, first + second + 1):
                live.pop(seq, None)
        elif first + second < segment:
            low, high = first + 1, first + second
            index.adopt_segment(low, high, 0)
            inside = [seq for seq, number in live.items() if low <= number <= high]
            queue.merge_runs(index.segment(high), len(inside), 10 * len(inside))
            live.update((seq, high) for seq in inside)
        _check(index, queue, live, upper)


def _check(index: Index, queue: QueueIndex, live: dict[int, int], upper: int) -> None:
    assert [seq for seq in range(upper + 2) if queue.is_live(seq)] == sorted(live)
    assert queue.live_count == len(live)
    for number, state in index.segments.items():
        assert state.references == list(live.values()).count(number)
        assert (state.live_size == 0) == (state.references == 0) or state.live_size >= 0
    restored = Index()
    restored.queue(7).restore(queue.runs[:], queue.dead_seqs(), queue.upper_seq)
    again = restored.queue(7)
    assert [s for s in range(upper + 2) if again.is_live(s)] == sorted(live)
    assert again.live_count == len(live)
    spans = queue.spans(0, upper, upper + 1)
    found = [
        seq
        for span in spans
        for seq in range(span.first, span.last + 1)
        if span.dead is None or seq not in span.dead
    ]
    assert found == sorted(live)
    assert sum(span.live for span in spans) == len(live)
