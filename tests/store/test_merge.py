"""A merge, step by step, on files in memory."""

import errno
import itertools
import struct
from collections.abc import Callable

import pytest

from store.batch import BatchWriter
from store.index import SegmentState
from store.merge import Merge, MergePhase, read_message, write_message
from store.merge_step import MergeSource, MergeStep
from store.record import Message
from store.segment_index import SegmentIndex
from store.seq_ranges import ranges_of
from tests.support.log_builder import LOG, UUID, LogBuilder, Put
from tests.support.memory_filesystem import Fault


def begin(log: LogBuilder, *numbers: int) -> Merge:
    sources = []
    for number in numbers:
        state = log.index.segments[number]
        sources.append(MergeSource(LOG, state.first_number, state.number))
    return Merge(log.filesystem, LOG, UUID, log.index, sources)


def next_step(merge: Merge, units: int) -> MergeStep:
    for _ in range(1_000_000):
        step = merge.advance(units)
        if step is not None:
            return step
    raise AssertionError("the merge does not come to a step")


def run(
    merge: Merge, units: int = 2000, between: Callable[[], None] = lambda: None
) -> int:
    """Go on until the merge is over; return how many steps that took."""
    count = 0
    while merge.phase not in (MergePhase.PUBLISHED, MergePhase.ENDED):
        step = next_step(merge, units)
        step.run()
        merge.complete(step)
        between()
        count += 1
    return count


def switch(log: LogBuilder, merge: Merge) -> SegmentState:
    """Let the index use the new file, and remove the old ones."""
    assert merge.phase is MergePhase.PUBLISHED
    number = int(merge.number)
    log.index.adopt_segment(int(merge.first_number), number, int(merge.file_size))
    state = log.index.segments[number]
    for share in merge.index_of_new.shares():
        queue = log.index.queues.get(int(share.queue_id))
        if queue is not None:
            queue.merge_runs(state, share.count, share.size)
    for source in merge.sources:
        if source.number != merge.number:
            assert log.index.segments[int(source.number)].references == 0
            log.index.drop_segment(int(source.number))
        log.filesystem.remove(source.path)
        log.filesystem.remove(source.path.replace(".seg", ".idx"))
    return state


def some(queue_id: int, first: int, count: int, size: int = 50) -> list[Put]:
    return [
        Put([(queue_id, seq)], b"%d/%d:" % (queue_id, seq) + b"x" * size)
        for seq in range(first, first + count)
    ]


def two_segments() -> LogBuilder:
    """Queue 1 and 2 interleaved in two segments, most of it settled."""
    log = LogBuilder()
    log.segment(some(1, 1, 10), some(2, 1, 5))
    log.segment(some(2, 6, 5) + some(1, 11, 10))
    log.settle(1, *range(2, 10), *range(12, 20))
    log.settle(2, 1, 2, 4, 7, 8, 10)
    return log


def test_what_is_live_is_in_the_new_file_and_nothing_else() -> None:
    log = two_segments()

    merge = begin(log, 1, 2)
    run(merge)
    state = switch(log, merge)

    assert log.read() == log.model
    assert log.names() == ["00000001-00000002.idx", "00000001-00000002.seg"]
    assert state.references == sum(map(len, log.model.values()))
    size = log.filesystem.size(f"{LOG}/00000001-00000002.seg")
    assert size == merge.file_size == state.file_size
    assert merge.problem == ""


@pytest.mark.parametrize("units", [1, 3, 17, 2000])
def test_slices_of_any_size_copy_the_same(units: int) -> None:
    log = two_segments()

    merge = begin(log, 1, 2)
    run(merge, units)
    switch(log, merge)

    assert log.read() == log.model


def test_a_slice_is_as_long_as_it_was_asked_to_be() -> None:
    log = LogBuilder()
    log.segment(some(1, 1, 300))
    log.segment(some(1, 301, 300))

    merge = begin(log, 1, 2)
    slices = 0
    while merge.phase is not MergePhase.PUBLISHED:
        step = merge.advance(40)
        slices += 1
        if step is not None:
            step.run()
            merge.complete(step)

    # Found one by one, copied at four units each.
    assert slices >= 600 // 40 + 600 // 10


def test_what_is_settled_while_it_is_copied_stays_settled() -> None:
    log = two_segments()
    merge = begin(log, 1, 2)
    doomed = [(1, 1), (1, 11), (2, 3), (2, 9), (1, 20)]

    def settle_one() -> None:
        if doomed:
            queue_id, seq = doomed.pop()
            log.settle(queue_id, seq)

    run(merge, 3, settle_one)
    while doomed:
        settle_one()
    switch(log, merge)

    assert log.read() == log.model


def test_a_message_of_several_queues_is_copied_once_for_those_that_need_it() -> None:
    log = LogBuilder()
    puts = [
        Put([(1, seq), (2, seq), (3, seq)], b"%d" % seq * 40, b"body" * seq)
        for seq in range(1, 21)
    ]
    log.segment(puts[:10])
    log.segment(puts[10:])
    log.settle(1, *range(1, 19))
    log.settle(2, *range(1, 16))
    log.forget(3)

    merge = begin(log, 1, 2)
    run(merge)
    switch(log, merge)

    assert log.read() == log.model
    assert merge.copied_size < 5 * (40 * 2 + 80 + 100)


def test_a_queue_that_is_deleted_meanwhile_leaves_nothing() -> None:
    log = two_segments()
    merge = begin(log, 1, 2)
    step = next_step(merge, 2000)
    step.run()
    merge.complete(step)
    log.forget(2)

    run(merge)
    switch(log, merge)

    assert log.read() == log.model
    assert [share.queue_id for share in merge.index_of_new.shares()] == [1]


def test_a_merged_file_is_merged_again() -> None:
    log = two_segments()
    merge = begin(log, 1, 2)
    run(merge)
    switch(log, merge)
    log.segment(some(1, 21, 30))
    log.settle(1, 1, *range(22, 50))

    merge = begin(log, 2, 3)
    run(merge)
    switch(log, merge)

    assert log.read() == log.model
    assert log.names() == ["00000001-00000003.idx", "00000001-00000003.seg"]


def test_priorities_and_gaps_are_found() -> None:
    log = LogBuilder()
    seqs = [1, 4, 5, 9, 17, 18, 40]
    log.segment([Put([(1, seq)], b"%d" % seq, lane=seq % 3) for seq in seqs])
    log.segment(some(1, 50, 2))
    log.settle(1, 4, 17, 50)

    merge = begin(log, 1, 2)
    run(merge)
    switch(log, merge)

    assert log.read() == log.model


def test_large_and_small_messages_come_through_in_reads_of_a_mebibyte() -> None:
    log = LogBuilder()
    puts = []
    for seq in range(1, 40):
        size = (10, 20_000, 400_000, 3_000_000 if seq % 13 == 0 else 5)[seq % 4]
        puts.append(Put([(1, seq)], b"%d:" % seq, bytes([seq]) * size))
    log.segment(puts)
    log.segment(some(1, 40, 3, 2_000_000))
    log.settle(1, *range(3, 30, 3))

    merge = begin(log, 1, 2)
    run(merge)
    switch(log, merge)

    assert log.read() == log.model


def test_no_step_reads_or_writes_much_more_than_a_mebibyte() -> None:
    log = LogBuilder()
    log.segment(some(1, 1, 250, 5_000))
    log.segment(some(1, 251, 250, 5_000))
    merge = begin(log, 1, 2)

    while merge.phase is not MergePhase.PUBLISHED:
        step = next_step(merge, 2000)
        assert sum(int(extent.size) for extent in step.extents) <= 1 << 20
        assert sum(map(len, step.chunks)) <= 1.6 * (1 << 20)
        step.run()
        merge.complete(step)

    switch(log, merge)
    assert log.read() == log.model


def test_far_between_records_are_read_alone() -> None:
    log = LogBuilder()
    log.segment(some(1, 1, 300, 5_000))
    log.segment(some(1, 301, 2))
    log.settle(1, *[seq for seq in range(1, 301) if seq % 10])
    merge = begin(log, 1, 2)

    read = 0
    while merge.phase is not MergePhase.PUBLISHED:
        step = next_step(merge, 2000)
        read += sum(int(extent.size) for extent in step.extents)
        step.run()
        merge.complete(step)

    assert read < 40 * 6_000


def two_sizes(seq: int) -> list[Put]:
    return some(1, seq, 1) + some(1, seq + 1, 1, 17_000)


def test_no_step_reads_more_than_256_places() -> None:
    log = LogBuilder()
    puts = [put for seq in range(1, 600, 2) for put in two_sizes(seq)]
    log.segment(puts)
    log.segment(some(1, 601, 1))
    log.settle(1, *range(2, 601, 2))
    merge = begin(log, 1, 2)

    counts = []
    while merge.phase is not MergePhase.PUBLISHED:
        step = next_step(merge, 2000)
        counts.append(len(step.extents))
        step.run()
        merge.complete(step)

    assert sum(counts) == 301
    assert max(counts) == 256
    switch(log, merge)
    assert log.read() == log.model


def test_a_last_file_of_which_nothing_is_live_adds_nothing() -> None:
    log = LogBuilder()
    log.segment(some(1, 1, 3, 300_000))
    log.segment(some(1, 4, 3))
    log.settle(1, 4, 5, 6)

    merge = begin(log, 1, 2)
    run(merge)
    switch(log, merge)

    assert log.read() == log.model


def test_only_a_message_of_a_known_version_is_read() -> None:
    writer = BatchWriter(7, 3, 7, 64)
    offsets = [int(writer.position)]
    writer.settle(1, ranges_of([4]))
    offsets.append(int(writer.position))
    write_message(writer, Message(0, 0, [], b"", b"content", None), [])
    offsets.append(int(writer.position))
    writer.copy(bytes.fromhex("00000012 63 01 00 00 00000000 0102"))
    offsets.append(int(writer.position))
    writer.copy(bytes.fromhex("00000012 01 01 00 00 00000000 0102"))
    offsets.append(int(writer.position))
    data = b"".join(writer.finish())

    read = [
        read_message(data, at, end - at, 7) for at, end in itertools.pairwise(offsets)
    ]

    # A settle, a message, a record of an unknown type, a message cut short.
    assert [message is not None for message in read] == [False, True, False, False]
    assert read_message(data, offsets[1], offsets[2] - offsets[1], 8) is None


def test_nothing_is_left_of_a_merge_whose_messages_all_died() -> None:
    log = two_segments()
    merge = begin(log, 1, 2)
    step = next_step(merge, 2000)
    step.run()
    merge.complete(step)
    for queue_id in (1, 2):
        log.settle(queue_id, *list(log.model[queue_id]))

    run(merge)

    assert merge.phase is MergePhase.ENDED
    assert merge.problem == ""
    assert merge.damaged_number == 0
    assert log.names() == [
        "00000001.idx",
        "00000001.seg",
        "00000002.idx",
        "00000002.seg",
    ]


def originals(log: LogBuilder) -> bool:
    return log.read() == log.model and log.names() == [
        "00000001.idx",
        "00000001.seg",
        "00000002.idx",
        "00000002.seg",
    ]


def count_calls() -> int:
    log = two_segments()
    log.filesystem.calls = []
    run(begin(log, 1, 2))
    return len(log.filesystem.calls)


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO])
@pytest.mark.parametrize("n", range(1, count_calls() + 1))
def test_a_call_that_fails_leaves_the_originals(n: int, code: int) -> None:
    log = two_segments()
    merge = begin(log, 1, 2)
    log.filesystem.fault = Fault(n, code)

    run(merge)

    log.filesystem.fault = None
    if merge.phase is MergePhase.PUBLISHED:
        # The index file is made again when it is missing.
        assert n > count_calls() - 2
    else:
        assert originals(log)
        assert "error" in merge.problem or "No space" in merge.problem
        assert merge.damaged_number == 0 or code == errno.EIO
        assert log.filesystem.open_count == 0


@pytest.mark.parametrize("call", ["open_for_reading", "read", "read_file"])
def test_a_segment_that_the_disk_has_lost_is_named(call: str) -> None:
    log = two_segments()
    merge = begin(log, 1, 2)
    log.filesystem.fault = Fault(2, errno.EIO, call)

    run(merge)

    assert merge.damaged_number == 2
    assert originals(log)


@pytest.mark.parametrize("call", ["create", "write", "sync", "rename"])
def test_a_disk_that_does_not_take_the_new_file_blames_no_segment(call: str) -> None:
    log = two_segments()
    merge = begin(log, 1, 2)
    log.filesystem.fault = Fault(1, errno.EIO, call)

    run(merge)

    assert merge.phase is MergePhase.ENDED
    assert merge.damaged_number == 0


def test_a_file_that_need_not_last_is_not_synced() -> None:
    log = two_segments()
    sources = [MergeSource(LOG, number, number) for number in (1, 2)]
    merge = Merge(log.filesystem, LOG, UUID, log.index, sources, syncs=False)
    log.filesystem.calls = []

    run(merge)
    switch(log, merge)

    assert "sync" not in log.filesystem.calls
    assert log.read() == log.model


def test_a_name_that_may_not_be_durable_is_said_to_be_uncertain() -> None:
    log = two_segments()
    merge = begin(log, 1, 2)
    log.filesystem.fault = Fault(1, errno.EIO, "sync_directory")

    run(merge)

    assert merge.phase is MergePhase.ENDED
    assert merge.is_name_uncertain
    assert originals(log)


def test_a_damaged_record_ends_the_merge_and_names_its_segment() -> None:
    log = two_segments()
    data = log.filesystem.content(f"{LOG}/00000002.seg")
    log.filesystem.damage(f"{LOG}/00000002.seg", bytes(data).index(b"1/20:"))

    merge = begin(log, 1, 2)
    run(merge)

    assert merge.phase is MergePhase.ENDED
    assert merge.damaged_number == 2
    assert "segment 2 is damaged" in merge.problem
    assert len(log.names()) == 4


def test_a_file_that_ends_early_ends_the_merge() -> None:
    log = two_segments()
    del log.filesystem.content(f"{LOG}/00000001.seg")[300:]

    merge = begin(log, 1, 2)
    run(merge)

    assert merge.phase is MergePhase.ENDED
    assert merge.damaged_number == 1


def missing(log: LogBuilder) -> None:
    log.filesystem.remove(f"{LOG}/00000002.idx")


def damaged_head(log: LogBuilder) -> None:
    log.filesystem.damage(f"{LOG}/00000002.idx", 70)


def damaged_entries(log: LogBuilder) -> None:
    path = f"{LOG}/00000002.idx"
    log.filesystem.damage(path, log.filesystem.size(path) - 1)


def of_another_segment(log: LogBuilder) -> None:
    data = log.filesystem.content(f"{LOG}/00000001.idx")
    log.filesystem.content(f"{LOG}/00000002.idx")[:] = data


@pytest.mark.parametrize(
    "harm", [missing, damaged_head, damaged_entries, of_another_segment]
)
def test_an_index_file_that_is_no_use_is_made_again(
    harm: Callable[[LogBuilder], None],
) -> None:
    log = two_segments()
    harm(log)

    merge = begin(log, 1, 2)
    run(merge)
    switch(log, merge)

    assert log.read() == log.model
    assert log.filesystem.open_count == 0


def test_a_message_that_no_index_can_name_ends_the_merge() -> None:
    log = two_segments()
    missing(log)
    data = log.filesystem.content(f"{LOG}/00000002.seg")
    log.filesystem.damage(f"{LOG}/00000002.seg", bytes(data).index(b"1/20:"))

    merge = begin(log, 1, 2)
    run(merge)

    assert merge.phase is MergePhase.ENDED
    assert merge.damaged_number == 2


def test_an_index_that_leads_to_messages_of_others_ends_the_merge() -> None:
    log = two_segments()
    index = SegmentIndex(2, 2)
    # What the file says of queue 1, said of queue 2, and the other way round.
    data = bytes(log.filesystem.content(f"{LOG}/00000002.idx"))
    first, second = 64 + 2 * 48, 64 + 2 * 48 + 10 * 12
    puts = zip(
        (1, 2),
        (11, 6),
        (data[second : second + 60] + data[first : first + 60], data[first:][:60]),
        (10, 5),
        strict=True,
    )
    for queue_id, seq, entries, count in puts:
        renamed = b"".join(
            struct.pack(">I", seq + i) + entries[12 * i + 4 : 12 * i + 12]
            for i in range(count)
        )
        index.share(queue_id).add(seq, seq + count - 1, count, 9, renamed)
    content = log.filesystem.content(f"{LOG}/00000002.idx")
    content[:] = b"".join(index.chunks(UUID))

    merge = begin(log, 1, 2)
    run(merge)

    assert merge.phase is MergePhase.ENDED
    assert merge.damaged_number == 2
    assert "wrong queues" in merge.problem


def test_a_segment_whose_index_cannot_be_made_ends_the_merge() -> None:
    log = two_segments()
    missing(log)
    log.filesystem.remove(f"{LOG}/00000002.seg")

    merge = begin(log, 1, 2)
    run(merge)

    assert merge.phase is MergePhase.ENDED
    assert "No such file" in merge.problem
    assert merge.damaged_number == 0


def test_a_merge_that_is_abandoned_leaves_nothing() -> None:
    steps = run(begin(two_segments(), 1, 2))
    for count in range(steps):
        log = two_segments()
        merge = begin(log, 1, 2)
        for _ in range(count):
            step = next_step(merge, 2000)
            step.run()
            merge.complete(step)

        step = merge.abandon()
        step.run()
        merge.complete(step)

        assert merge.phase is MergePhase.ENDED
        assert merge.problem == ""
        assert originals(log)
        assert log.filesystem.open_count == 0
