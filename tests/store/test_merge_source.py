"""The live records of a segment, found by its index file, against a dictionary."""

import re
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from store.merge_source import IndexDamaged, LiveRecords
from store.segment_index import SegmentIndex, index_path
from tests.support.log_builder import LOG, UUID, LogBuilder, Put

CONTENT = re.compile(rb"number<\d+>")
PATH = f"{LOG}/00000001.seg"


def data_of(log: LogBuilder) -> bytes:
    return bytes(log.filesystem.content(index_path(PATH)))


def find(log: LogBuilder, units: int) -> LiveRecords:
    live = LiveRecords(1, 1, UUID, data_of(log))
    for _ in range(1_000_000):
        if live.advance(log.index, units) > 0:
            return live
    raise AssertionError("the search does not end")


def contents(log: LogBuilder, live: LiveRecords) -> list[bytes]:
    """Return what the records at the places found say, in that order."""
    data = bytes(log.filesystem.content(PATH))
    found = []
    while live.next():
        match = CONTENT.search(data, live.offset, live.offset + live.size)
        assert match is not None
        found.append(match[0])
    return found


def put(number: int, *destinations: tuple[int, int], size: int = 0) -> Put:
    return Put(list(destinations), b"number<%d>" % number + b"x" * size)


@st.composite
def logs(draw: st.DrawFn) -> LogBuilder:
    """A segment of some queues with gaps, settled in part, some queues gone."""
    log = LogBuilder()
    seqs = {1: 0, 2: 1000, 3: 5}
    puts = []
    for number in range(draw(st.integers(1, 40))):
        queues = draw(st.lists(st.integers(1, 3), min_size=1, max_size=3, unique=True))
        for queue_id in queues:
            seqs[queue_id] += draw(st.sampled_from((1, 1, 1, 2, 9)))
        puts.append(put(number, *[(queue, seqs[queue]) for queue in sorted(queues)]))
    log.segment(puts)
    for queue_id, messages in list(log.model.items()):
        if draw(st.integers(0, 9)) == 0:
            log.forget(queue_id)
            continue
        settled = draw(st.lists(st.sampled_from(sorted(messages)), unique=True))
        log.settle(queue_id, *settled)
    return log


@given(logs(), st.sampled_from((1, 2, 7, 1000)))
def test_what_is_found_is_what_some_queue_needs(log: LogBuilder, units: int) -> None:
    live = find(log, units)

    needed = {content for queue in log.model.values() for content in queue.values()}
    found = contents(log, live)
    assert set(found) == needed
    assert len(found) == len(needed)
    assert found == sorted(found, key=lambda content: int(content[7:-1]))
    assert live.reference_count == sum(map(len, log.model.values()))


def test_records_come_by_offset_over_many_buckets() -> None:
    log = LogBuilder()
    log.segment(
        [put(seq, (seq % 5 + 1, seq), size=40_000 * (seq % 3)) for seq in range(1, 60)]
    )
    for queue_id in (1, 3):
        log.settle(queue_id, *list(log.model[queue_id])[::2])

    found = contents(log, find(log, 10))

    numbers = [int(content[7:-1]) for content in found]
    assert numbers == sorted(numbers)
    assert len(numbers) == sum(map(len, log.model.values()))


def test_runs_that_are_not_joined_yet_are_found_in_the_file_that_joined_them() -> None:
    """A start may know of a merged file and have the runs of its sources."""
    log = LogBuilder()
    log.segment([put(seq, (1, seq)) for seq in range(1, 9)])
    log.segment([put(seq, (1, seq)) for seq in range(9, 20)])
    log.settle(1, 2, 3, 11)
    index = SegmentIndex(1, 2)
    for seq in log.model[1]:
        entry = struct.pack(">III", seq, 64 + 10 * seq, 10)
        index.share(1).add(seq, seq, 1, 10, entry)
    live = LiveRecords(1, 2, UUID, b"".join(index.chunks(UUID)))

    assert live.advance(log.index, 1000) > 0

    found = []
    while live.next():
        found.append((live.offset - 64) // 10)
    assert found == sorted(log.model[1])


def test_nothing_is_found_in_a_segment_of_facts() -> None:
    live = LiveRecords(1, 1, UUID, b"".join(SegmentIndex(1, 1).chunks(UUID)))

    assert live.advance(LogBuilder().index, 1) == 1
    assert not live.next()


def test_a_long_dead_stretch_costs_units_too() -> None:
    log = LogBuilder()
    log.segment([put(seq, (1, seq)) for seq in range(1, 2000)])
    log.settle(1, *range(2, 1998))
    live = LiveRecords(1, 1, UUID, data_of(log))

    # One for the row, 7 for the checksum of its entries, 31 for the dead, 3 found.
    assert live.advance(log.index, 100) == 100 - 1 - 7 - 31 - 3


@pytest.mark.parametrize("at", [0, 9, 30, 61, 70, 111])
def test_a_file_whose_head_is_damaged_is_refused(at: int) -> None:
    log = LogBuilder()
    log.segment([put(1, (1, 1))])
    data = bytearray(data_of(log))
    data[at] ^= 1

    with pytest.raises(IndexDamaged):
        LiveRecords(1, 1, UUID, bytes(data))


def test_a_missing_file_is_refused() -> None:
    with pytest.raises(IndexDamaged):
        LiveRecords(1, 1, UUID, b"")


def test_entries_that_are_damaged_or_cut_off_are_refused() -> None:
    log = LogBuilder()
    log.segment([put(seq, (1, seq)) for seq in range(1, 9)])
    data = data_of(log)
    for damaged in (data[:-1], data[:-5] + b"\xff" + data[-4:]):
        live = LiveRecords(1, 1, UUID, damaged)

        with pytest.raises(IndexDamaged):
            live.advance(log.index, 100)


@pytest.mark.parametrize("seqs", [[1, 2], [1, 3, 4, 6], [4]])
def test_entries_that_lack_a_live_message_are_refused(seqs: list[int]) -> None:
    """They are what was written, and the index knows more."""
    log = LogBuilder()
    log.segment([put(seq, (1, seq)) for seq in range(1, 7)])
    index = SegmentIndex(1, 1)
    for seq in seqs:
        entry = seq.to_bytes(4, "big") + bytes(8)
        index.share(1).add(seq, seq, 1, 9, entry)
    index.share(1).last = 6
    index.share(1).first = 1
    live = LiveRecords(1, 1, UUID, b"".join(index.chunks(UUID)))

    with pytest.raises(IndexDamaged):
        live.advance(log.index, 100)
