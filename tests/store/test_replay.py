"""Replay: the order of records does not matter twice, and garbage is garbage."""

import pytest

from store.errors import QueueIdUnknown
from store.index import Index
from store.record import (
    Delivered,
    Destination,
    Message,
    Purge,
    Record,
    Returned,
    Settle,
)
from store.replay import RecoveredQueue, Replay, is_in
from store.seq_ranges import ranges_of


def message(*destinations: tuple[int, int], lane: int = 0) -> Message:
    return Message(
        5,
        6,
        [Destination(queue_id, seq, lane) for queue_id, seq in destinations],
        b"env",
        b"content",
        b"body",
    )


def replayed(
    *records: Record, segment: int = 1
) -> tuple[dict[int, RecoveredQueue], Index, Replay]:
    replay = Replay({1, 2}, 9)
    for one in records:
        replay.apply(one, segment)
    index = Index()
    return replay.finish(index), index, replay


def seqs(queue: RecoveredQueue) -> list[int]:
    return [int(one.seq) for one in queue.messages]


def messages(*seqs: int) -> list[Record]:
    return [message((1, seq)) for seq in seqs]


def test_a_queue_that_no_record_names_is_empty_and_starts_at_one() -> None:
    queues, _, _ = replayed()
    assert sorted(queues) == [1, 2]
    assert (queues[1].messages, queues[1].next_seq) == ([], 1)


def test_messages_come_in_seq_order_with_all_they_had() -> None:
    queues, _, _ = replayed(*messages(3, 1, 2))
    assert seqs(queues[1]) == [1, 2, 3]
    assert queues[1].next_seq == 4
    one = queues[1].messages[0]
    assert (one.envelope, one.content, one.body) == (b"env", b"content", b"body")
    assert (one.enqueued_ms, one.expires_ms, one.lane) == (5, 6, 0)
    assert (one.is_delivered, one.delivery_count) == (False, 0)


def test_copies_of_one_message_share_bytes_and_group() -> None:
    queues, _, _ = replayed(message((1, 1), (2, 1)), message((2, 2)))
    first, second = queues[2].messages
    assert queues[1].messages[0].group_id == first.group_id != second.group_id
    assert queues[1].messages[0].content is first.content


def test_what_is_settled_is_gone_and_its_seq_is_not_given_out_again() -> None:
    queues, _, _ = replayed(*messages(1, 2, 3), Settle(1, ranges_of([1, 3])))
    assert seqs(queues[1]) == [2]
    assert queues[1].next_seq == 4


def test_a_settled_message_met_again_stays_settled() -> None:
    again = messages(1, 2, 3)
    queues, _, _ = replayed(*again, Settle(1, ranges_of([1, 3])), *again)
    assert seqs(queues[1]) == [2]


def test_a_wide_settle_of_few_messages_works_as_well() -> None:
    settled = ranges_of(list(range(1, 100)))
    queues, _, _ = replayed(*messages(1, 2, 200), Settle(1, settled))
    assert seqs(queues[1]) == [200]


def test_everything_applied_twice_changes_nothing() -> None:
    once: list[Record] = [
        *messages(1, 2, 3, 4, 5),
        Settle(1, ranges_of([2])),
        Purge(1, 4, ranges_of([3])),
        Delivered(1, 0, 4, ranges_of([])),
        Returned(1, 3, 2, 70),
    ]
    queues, index, _ = replayed(*once)
    twice, index_twice, _ = replayed(*once, *once)
    assert seqs(queues[1]) == seqs(twice[1]) == [3, 5]
    assert queues[1].next_seq == twice[1].next_seq == 6
    assert index.reference_count(1) == index_twice.reference_count(1) == 2
    assert [one.is_delivered for one in twice[1].messages] == [True, False]
    assert twice[1].messages[0].delivery_count == 2


def test_a_purge_keeps_the_unacked_and_what_came_later() -> None:
    queues, _, _ = replayed(
        *messages(1, 2, 3), Purge(1, 3, ranges_of([1, 3])), *messages(4)
    )
    assert seqs(queues[1]) == [1, 3, 4]


def test_a_purge_that_keeps_its_last_seq_settles_nothing_behind_it() -> None:
    queues, _, _ = replayed(Purge(1, 3, ranges_of([0, 3])), *messages(1, 2, 3))
    assert seqs(queues[1]) == [3]
    assert queues[1].next_seq == 4


def test_a_kept_message_may_be_written_after_its_purge() -> None:
    queues, _, _ = replayed(*messages(1), Purge(1, 3, ranges_of([2])), *messages(2))
    assert seqs(queues[1]) == [2]


def test_delivered_marks_its_lane_up_to_its_seq() -> None:
    queues, _, _ = replayed(
        message((1, 1)),
        message((1, 2), lane=4),
        message((1, 3)),
        Delivered(1, 0, 2, ranges_of([])),
        Delivered(1, 0, 1, ranges_of([])),
    )
    assert [one.is_delivered for one in queues[1].messages] == [True, False, False]
    assert [one.lane for one in queues[1].messages] == [0, 4, 0]


def test_delivered_with_exceptions_leaves_those_out() -> None:
    queues, _, _ = replayed(
        *messages(1, 2, 3, 4),
        message((1, 5), lane=1),
        Delivered(1, 0, 3, ranges_of([2])),
        Delivered(1, 1, 1, ranges_of([1])),
    )
    marks = [one.is_delivered for one in queues[1].messages]
    assert marks == [True, False, True, False, False]


def test_the_highest_delivery_count_wins_in_any_order() -> None:
    two, one = Returned(1, 1, 2, 70), Returned(1, 1, 1, 50)
    for records in ((one, two), (two, one)):
        queues, _, _ = replayed(*messages(1), *records)
        found = queues[1].messages[0]
        assert (found.is_delivered, found.delivery_count) == (True, 2)
        assert found.not_before_ms == 70


def test_the_index_counts_what_is_live_where_it_lies() -> None:
    replay = Replay({1, 2}, 9)
    replay.apply(message((1, 1), (2, 1)), 1)
    replay.apply(message((1, 2)), 2)
    replay.apply(message((1, 1), (2, 1)), 3)
    replay.apply(Settle(2, ranges_of([1])), 3)
    index = Index()
    replay.finish(index)
    counts = [index.reference_count(number) for number in (1, 2, 3)]
    assert counts == [0, 1, 1]


def test_records_of_a_queue_that_is_gone_are_garbage() -> None:
    queues, _, replay = replayed(message((5, 1), (1, 1)), Settle(5, ranges_of([1])))
    assert seqs(queues[1]) == [1]
    assert 5 not in queues
    assert (replay.garbage_count, replay.record_count) == (2, 2)


@pytest.mark.parametrize("one", [message((10, 1)), Settle(10, ranges_of([1]))])
def test_a_queue_id_that_was_never_given_out_is_refused(one: Record) -> None:
    with pytest.raises(QueueIdUnknown, match="queue id 10"):
        replayed(one)


def test_a_seq_between_ranges_is_in_none() -> None:
    ranges = ranges_of([2, 3, 7])
    assert [is_in(ranges, seq) for seq in (1, 2, 3, 4, 7, 8)] == [
        False,
        True,
        True,
        False,
        True,
        False,
    ]


@pytest.mark.parametrize(
    "one",
    [
        Settle(1, ranges_of([9])),
        Purge(1, 9, ranges_of([])),
        Delivered(1, 0, 9, ranges_of([])),
        Returned(1, 9, 1, 0),
    ],
)
def test_a_seq_that_any_fact_names_is_not_given_out_again(one: Record) -> None:
    # The message's segment is gone; a new one with its seq would be settled at once.
    queues, _, _ = replayed(one)
    assert queues[1].next_seq == 10
