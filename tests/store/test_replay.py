"""What segments say becomes an index; twice is the same, and garbage is garbage."""

import pytest

from store.checkpoint import CheckpointBuilder, CheckpointHeader, read_header
from store.checkpoint import parse_checkpoint as parse
from store.errors import QueueIdUnknown
from store.index import Index, SegmentState
from store.record import Delivered, Message, Returned, Settle
from store.replay import RecoveredQueue, Replay
from store.segment_index import ENTRY_SIZE, IndexedRun, SegmentIndex, read_run
from store.seq_ranges import ranges_of

UUID = b"0123456789abcdef"


class Start:
    """An index that a replay fills."""

    def __init__(self, known: set[int] | None = None) -> None:
        self.index = Index()
        self.replay = Replay(self.index, known or {1, 2}, 9)

    def segment(self, number: int) -> SegmentState:
        self.index.adopt_segment(number, number, 1000)
        return self.index.segment(number)

    def live(self, queue_id: int) -> list[int]:
        queue = self.index.queues[queue_id]
        return [seq for seq in range(1, 100) if queue.is_live(seq)]

    def queue(self, queue_id: int) -> RecoveredQueue:
        return self.replay.queues()[queue_id]


def entries(*seqs: int) -> bytes:
    return b"".join(
        seq.to_bytes(4) + (64 + seq).to_bytes(4) + (10).to_bytes(4) for seq in seqs
    )


def scanned(number: int, **shares: list[int]) -> SegmentIndex:
    """The index of a segment in which queue q1, q2 ... have these seqs."""
    index = SegmentIndex(number, number)
    for name, seqs in shares.items():
        share = index.share(int(name[1:]))
        share.add(seqs[0], seqs[-1], len(seqs), 10 * len(seqs), entries(*seqs))
    return index


def checkpointed(index: Index) -> bytes:
    builder = CheckpointBuilder(index, UUID, CheckpointHeader(1, 1, 64, 1, False))
    builder.advance(1 << 30)
    return b"".join(builder.chunks())


def restore(start: Start, data: bytes) -> None:
    header = read_header(data, "path", UUID)
    assert header is not None
    found = parse(data, header)
    assert found is not None
    start.replay.restore(found)


# -- segments


def test_a_queue_that_nothing_names_is_empty_and_starts_at_one() -> None:
    queue = Start().queue(2)
    assert (queue.count, queue.next_seq, queue.first_seq, queue.size) == (0, 1, 1, 0)
    assert (queue.delivered_upper, queue.returned) == (0, {})


def test_counts_are_those_of_what_was_written() -> None:
    start = Start()
    start.replay.apply_segment(start.segment(1), scanned(1, q1=[1, 2, 3], q2=[1]))
    start.replay.apply_segment(start.segment(2), scanned(2, q1=[5, 7, 8]))
    queue = start.queue(1)
    assert (queue.count, queue.next_seq, queue.first_seq) == (6, 9, 1)
    assert queue.size == 60
    assert start.live(1) == [1, 2, 3, 5, 7, 8]
    assert start.index.segment(1).references == 4
    assert start.index.segment(2).references == 3
    assert start.replay.reference_count == 7


def test_what_is_settled_is_gone_and_its_seq_is_not_given_out_again() -> None:
    start = Start()
    start.replay.apply_segment(start.segment(1), scanned(1, q1=[1, 2, 3]))
    start.replay.apply_fact(Settle(1, ranges_of([1, 3])))
    queue = start.queue(1)
    assert start.live(1) == [2]
    assert (queue.count, queue.next_seq, queue.first_seq) == (1, 4, 2)


def test_facts_of_a_segment_come_after_its_messages() -> None:
    start = Start()
    index = scanned(1, q1=[1, 2, 3])
    share = index.share(1)
    share.settle(ranges_of([1]))
    share.delivered[0] = 2
    share.returned[3] = Returned(1, 3, 2, 70)
    start.replay.apply_segment(start.segment(1), index)
    queue = start.queue(1)
    assert start.live(1) == [2, 3]
    assert queue.delivered_upper == 2
    assert queue.returned[3].delivery_count == 2
    # What a scan found is still there, to be written.
    assert not share.settled.is_empty


def test_everything_applied_twice_changes_nothing() -> None:
    start = Start()
    for _ in range(2):
        index = scanned(1, q1=[1, 2, 3, 5], q2=[4])
        index.share(1).settle(ranges_of([1, 5]))
        index.share(1).returned[2] = Returned(1, 2, 1, 0)
        start.replay.apply_segment(start.segment(1), index)
    assert start.live(1) == [2, 3]
    assert (start.queue(1).count, start.queue(1).next_seq) == (2, 6)
    assert start.index.segment(1).references == 3
    assert start.replay.reference_count == 5


@pytest.mark.parametrize("upper", range(12))
def test_a_run_that_is_known_in_part_is_completed(upper: int) -> None:
    seqs = [2, 3, 5, 6, 7, 10]
    known = [seq for seq in seqs if seq <= upper]
    start = Start()
    if known:
        start.replay.apply_segment(start.segment(1), scanned(1, q1=known))
    start.replay.apply_segment(start.segment(1), scanned(1, q1=seqs))
    assert start.live(1) == seqs
    assert start.queue(1).count == 6
    assert start.index.queue(1).run_count == 1


def test_a_dense_run_that_is_known_in_part_is_completed_without_its_entries() -> None:
    start = Start()
    (whole,) = scanned(1, q1=[4, 5, 6, 7]).shares()
    run = run_of(scanned(1, q1=[4, 5, 6, 7]))
    assert not start.replay.needs_entries(run)
    start.replay.apply_segment(start.segment(1), scanned(1, q1=[4, 5]))
    start.replay.apply_run(start.index.segment(1), run, None)
    assert start.live(1) == [4, 5, 6, 7]
    assert start.queue(1).size == whole.size


def run_of(index: SegmentIndex) -> IndexedRun:
    """The only run of an index, as its file has it."""
    head = b"".join(index.chunks(UUID)[1:2])
    return read_run(head, 0)


def test_entries_are_needed_only_for_gaps_that_are_news() -> None:
    start = Start()
    run = run_of(scanned(1, q1=[1, 2, 4]))
    assert start.replay.needs_entries(run)
    start.replay.apply_run(start.segment(1), run, entries(1, 2, 4))
    assert not start.replay.needs_entries(run)
    assert start.live(1) == [1, 2, 4]
    assert not start.replay.needs_entries(run_of(scanned(1, q5=[1, 3])))


def test_a_seq_that_any_fact_names_is_not_given_out_again() -> None:
    # The message is damaged; the fact would be met again and hit the new one.
    for fact in (
        Settle(1, ranges_of([9])),
        Delivered(1, 0, 9, ranges_of([])),
        Returned(1, 9, 1, 0),
    ):
        start = Start()
        start.replay.apply_fact(fact)
        assert start.queue(1).next_seq == 10


def test_a_settle_of_nothing_changes_nothing() -> None:
    start = Start()
    start.replay.apply_fact(Settle(1, ranges_of([])))
    assert start.queue(1).next_seq == 1


def test_a_message_is_no_fact() -> None:
    start = Start()
    start.replay.apply_fact(Message(1, 1, [], b"", b"", None))
    assert start.index.queues == {}


def test_delivered_keeps_the_highest_of_each_lane() -> None:
    start = Start()
    start.replay.apply_segment(start.segment(1), scanned(1, q1=[1, 2, 3, 4]))
    for upper in (3, 2):
        start.replay.apply_fact(Delivered(1, 0, upper, ranges_of([])))
    start.replay.apply_fact(Delivered(1, 4, 4, ranges_of([])))
    assert start.queue(1).delivered_upper == 3
    assert start.index.queue(1).delivered == {0: 3, 4: 4}


def test_of_returned_messages_only_the_live_ones_are_told() -> None:
    start = Start()
    start.replay.apply_segment(start.segment(1), scanned(1, q1=[1, 2, 3]))
    for seq, count in ((1, 1), (2, 1), (2, 2)):
        start.replay.apply_fact(Returned(1, seq, count, 0))
    start.replay.apply_fact(Settle(1, ranges_of([1])))
    returned = start.queue(1).returned
    assert {seq: one.delivery_count for seq, one in returned.items()} == {2: 2}


# -- queues that are gone, or never were


def test_everything_of_a_queue_that_is_gone_is_garbage() -> None:
    start = Start()
    index = scanned(1, q1=[1], q5=[1, 2, 3])
    index.share(5).settle(ranges_of([1]))
    index.share(6).delivered[0] = 3
    index.share(6).returned[1] = Returned(6, 1, 1, 0)
    start.replay.apply_segment(start.segment(1), index)
    assert sorted(start.replay.queues()) == [1, 2]
    assert sorted(start.index.queues) == [1]
    assert start.replay.garbage_count == 6
    assert start.index.segment(1).references == 1


NEVER_KNOWN = "queue id 10"


def test_a_message_of_a_queue_that_was_never_known_is_refused() -> None:
    start = Start()
    segment = start.segment(1)
    with pytest.raises(QueueIdUnknown, match=NEVER_KNOWN):
        start.replay.apply_segment(segment, scanned(1, q10=[1]))


def test_a_fact_of_a_queue_that_was_never_known_is_refused() -> None:
    start = Start()
    with pytest.raises(QueueIdUnknown, match=NEVER_KNOWN):
        start.replay.apply_fact(Settle(10, ranges_of([1])))


def test_a_checkpoint_of_a_queue_that_was_never_known_is_refused() -> None:
    other = Index()
    other.queue(10)
    start = Start()
    with pytest.raises(QueueIdUnknown, match=NEVER_KNOWN):
        restore(start, checkpointed(other))


# -- checkpoints


def test_a_checkpoint_is_where_a_replay_goes_on() -> None:
    before = Start()
    before.replay.apply_segment(before.segment(1), scanned(1, q1=[1, 2, 3], q5=[1]))
    before.index.queue(5).add(before.index.segment(1), 1, 2, 2, 20, None)
    before.replay.apply_fact(Settle(1, ranges_of([2])))
    before.replay.apply_fact(Delivered(1, 0, 3, ranges_of([])))
    before.replay.apply_fact(Returned(1, 3, 7, 0))
    start = Start()
    start.segment(1)
    restore(start, checkpointed(before.index))
    start.replay.apply_segment(start.segment(2), scanned(2, q1=[4]))
    queue = start.queue(1)
    assert start.live(1) == [1, 3, 4]
    assert (queue.count, queue.next_seq, queue.delivered_upper) == (3, 5, 3)
    assert queue.returned[3].delivery_count == 7
    assert start.replay.garbage_count == 1
    # The queue that is gone holds nothing.
    assert start.index.segment(1).references == 2


def before_a_merge() -> bytes:
    """A checkpoint of queue 1 in segments 1, 2 and 3, of queue 2 in segment 4."""
    before = Start()
    for number in (1, 2, 3):
        seqs = [number * 10, number * 10 + 1]
        before.replay.apply_segment(before.segment(number), scanned(number, q1=seqs))
    before.replay.apply_segment(before.segment(4), scanned(4, q2=[1, 2]))
    before.replay.apply_fact(Settle(1, ranges_of([11, 20])))
    return checkpointed(before.index)


def test_runs_name_the_files_that_stand_for_their_segments() -> None:
    start = Start()
    start.index.adopt_segment(1, 2, 500)
    start.index.adopt_segment(3, 5, 500)
    restore(start, before_a_merge())
    assert start.live(1) == [10, 21, 30, 31]
    assert start.live(2) == [1, 2]
    assert start.index.segment(2).references == 2
    assert start.index.segment(5).references == 4
    assert start.index.queue(1).run_count == 2
    start.replay.apply_fact(Settle(1, ranges_of([10, 21])))
    assert start.index.segment(2).references == 0
    # Added to the run that is there.
    start.replay.apply_segment(start.index.segment(5), scanned(5, q1=[30, 31, 32]))
    assert start.live(1) == [30, 31, 32]
    assert start.index.queue(1).run_count == 1


def test_runs_without_a_file_keep_their_segments() -> None:
    start = Start()
    start.index.adopt_segment(2, 3, 500)
    restore(start, before_a_merge())
    states = start.index.segments.values()
    missing = {
        int(one.number): int(one.references) for one in states if not one.has_file
    }
    assert missing == {1: 1, 2: 0, 4: 2}


# -- damage


def test_what_the_index_had_and_a_scan_did_not_find_is_settled() -> None:
    start = Start()
    start.replay.apply_segment(start.segment(1), scanned(1, q1=[1, 2, 3, 4], q2=[1, 2]))
    start.replay.apply_segment(start.segment(2), scanned(2, q1=[5]))
    found = scanned(1, q1=[2, 4])
    dropped = start.replay.drop_damaged(start.index.segment(1), found)
    assert start.live(1) == [2, 4, 5]
    assert start.live(2) == []
    assert [queue_id for queue_id, _ in dropped] == [1, 2]
    # The next start reads it in the index file.
    share = found.find(2)
    assert share is not None
    assert 1 in share.settled


@pytest.mark.parametrize(
    ("left", "live"),
    [([1, 2, 3], [1, 2, 3]), ([1, 2], [1, 2]), ([2, 3], [2, 3]), ([3], [3]), ([9], [])],
)
def test_whatever_is_left_of_a_run_stays(left: list[int], live: list[int]) -> None:
    start = Start()
    start.replay.apply_segment(start.segment(1), scanned(1, q1=[1, 2, 3]))
    dropped = start.replay.drop_damaged(start.index.segment(1), scanned(1, q1=left))
    assert start.live(1) == live
    assert bool(dropped) == (live != [1, 2, 3])


def test_entries_are_twelve_bytes() -> None:
    assert len(entries(1)) == ENTRY_SIZE


@pytest.mark.parametrize("fact", ["delivered", "returned"])
def test_a_seq_that_only_a_checkpointed_fact_names_is_not_given_out_again(
    fact: str,
) -> None:
    """Delivered and settled before it was written: no run has ever had it.

    A replay of that fact, which comes before the next message, would otherwise take
    the next message for known.
    """
    before = Index()
    before.adopt_segment(1, 1, 1000)
    before.queue(1).add(before.segment(1), 1, 4, 4, 40, None)
    if fact == "delivered":
        before.queue(1).note_delivered(0, 5)
    else:
        before.queue(1).note_returned(Returned(1, 5, 1, 0))
    start = Start()
    start.segment(1)
    restore(start, checkpointed(before))
    assert start.queue(1).next_seq == 6
    assert start.live(1) == [1, 2, 3, 4]
