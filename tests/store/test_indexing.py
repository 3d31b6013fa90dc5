"""The index of a segment, from its records, is what was written into it."""

import pytest

from store.batch import BatchWriter
from store.errors import RecordUnknown
from store.indexing import Indexer
from store.segment_index import ENTRY_SIZE, SegmentIndex, read_seq
from store.seq_ranges import ranges_of
from tests.support.written_log import LogBatch

BATCH = 56


def batch() -> LogBatch:
    return LogBatch(BatchWriter(3, 1, 3, 64))


def starts(data: bytes) -> list[int]:
    """Where the records of a batch begin."""
    found = []
    at = BATCH
    while at < len(data) - 16:
        found.append(at)
        at += int.from_bytes(data[at : at + 4])
    return found


def indexed(written: LogBatch) -> SegmentIndex:
    data = b"".join(written.writer.finish())
    indexer = Indexer(SegmentIndex(3, 3))
    for start in starts(data):
        indexer.add(data, start, 1000 + start)
    indexer.finish()
    return indexer.index


def seqs(index: SegmentIndex, queue_id: int) -> list[int]:
    share = index.find(queue_id)
    assert share is not None
    data = bytes(share.entries)
    found = [read_seq(data, at, share.first) for at in range(0, len(data), ENTRY_SIZE)]
    assert share.count == len(found)
    assert (share.first, share.last) == (found[0], found[-1])
    return [int(seq) for seq in found]


def test_every_queue_has_an_entry_for_each_of_its_messages() -> None:
    written = batch()
    written.message((1, 1)).message((1, 2), (2, 7)).message((2, 9)).message((1, 5))
    index = indexed(written)
    assert seqs(index, 1) == [1, 2, 5]
    assert seqs(index, 2) == [7, 9]


def test_entries_say_where_the_record_lies_and_how_long_it_is() -> None:
    index = indexed(batch().message((1, 1), size=1).message((1, 2), size=500))
    share = index.find(1)
    assert share is not None
    data = bytes(share.entries)
    offsets = [int.from_bytes(data[at + 4 : at + 8]) for at in (0, 12)]
    sizes = [int.from_bytes(data[at + 8 : at + 12]) for at in (0, 12)]
    assert offsets[0] == 1000 + BATCH
    assert offsets[1] == offsets[0] + sizes[0]
    assert sizes[1] == sizes[0] + 499
    assert share.size == sum(sizes)


def test_facts_are_joined_for_each_queue() -> None:
    written = batch().message((1, 1))
    written.settle(1, 4, 5).settle(1, 1).deliver(1, 9).deliver(1, 7)
    written.give_back(1, 3, 1).give_back(1, 3, 2).settle(2, 8)
    index = indexed(written)
    share = index.find(1)
    assert share is not None
    ranges = share.settled.take()
    assert (ranges.firsts, ranges.lasts) == ([1, 4], [1, 5])
    assert share.delivered == {0: 9}
    assert share.returned[3].delivery_count == 2
    other = index.find(2)
    assert other is not None
    assert other.count == 0


def test_seqs_of_more_than_32_bits_keep_their_low_half() -> None:
    index = indexed(batch().message((1, (1 << 32) - 1)).message((1, 1 << 32)))
    assert seqs(index, 1) == [(1 << 32) - 1, 1 << 32]


def one_record(written: LogBatch) -> bytearray:
    return bytearray(b"".join(written.writer.finish()))


def test_a_message_that_contradicts_itself_adds_nothing() -> None:
    data = one_record(batch().message((1, 1)))
    data[BATCH + 12 + 24] = 0x7F
    indexer = Indexer(SegmentIndex(3, 3))
    with pytest.raises(ValueError, match="do not fit"):
        indexer.add(bytes(data), BATCH, 64)
    indexer.finish()
    assert indexer.index.shares() == []


def test_a_record_that_must_not_be_skipped_is_refused() -> None:
    data = one_record(batch().message((1, 1)))
    indexer = Indexer(SegmentIndex(3, 3))
    data[BATCH + 5] = 9
    with pytest.raises(RecordUnknown, match="version 9"):
        indexer.add(bytes(data), BATCH, 64)


def test_a_record_that_may_be_skipped_is_skipped() -> None:
    written = batch()
    written.writer.settle(1, ranges_of([1]))
    data = one_record(written)
    data[BATCH + 4] = 99
    data[BATCH + 6] = 1
    indexer = Indexer(SegmentIndex(3, 3))
    indexer.add(bytes(data), BATCH, 64)
    indexer.finish()
    assert indexer.index.shares() == []
