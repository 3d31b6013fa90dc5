"""The index of a segment, made again from the segment."""

import pytest
from librt.strings import BytesWriter

from store.batch import BatchWriter
from store.cold_reader import ColdFile, ColdReader
from store.index_rebuild import IndexRebuild
from store.record import HEADER_SIZE as HEADER_SIZE_OF_RECORD
from store.record import Returned, write_settle
from store.segment import HEADER_SIZE
from store.segment_index import SegmentIndex, index_path
from store.seq_ranges import Ranges
from tests.support.cold_log import QUARANTINE, UUID, ColdLog
from tests.support.memory_filesystem import MemoryFileSystem


def rebuild(log: ColdLog, number: int = 1) -> SegmentIndex:
    reader = ColdReader(log.filesystem, UUID, QUARANTINE)
    return IndexRebuild(reader, reader.file(log.path(number), number, number)).run()


def file_of(index: SegmentIndex) -> bytes:
    return b"".join(index.chunks(UUID))


@pytest.fixture
def log() -> ColdLog:
    log = ColdLog()
    for batch in range(8):
        for i in range(6):
            log.append(1 + i % 3, content=bytes(batch * 10))
            log.append(2, 4, content=b"several", body=b"body")
        log.skip(2, 5)
        log.write()
    return log


def test_an_index_made_again_is_the_one_before(log: ColdLog) -> None:
    log.seal()
    before = bytes(log.filesystem.content(index_path(log.path(1))))
    assert file_of(rebuild(log)) == before


def test_large_messages_are_walked_over(log: ColdLog) -> None:
    log.append(1, body=bytes(1_000_000))
    log.append(*range(1, 3000))
    log.append(1)
    log.write()
    log.seal()
    before = bytes(log.filesystem.content(index_path(log.path(1))))
    assert file_of(rebuild(log)) == before


def test_what_is_read_at_once_is_no_more_than_some_hundred_records(
    log: ColdLog,
) -> None:
    for _ in range(20_000):
        log.append(1)
    log.write()
    log.filesystem.calls.clear()
    rebuild(log)
    size = len(log.filesystem.content(log.path(1)))
    assert log.filesystem.calls.count("read") >= size // (128 * 1024)
    assert "read_file" not in log.filesystem.calls


def test_facts_are_in_the_index() -> None:
    filesystem = MemoryFileSystem()
    chunks = segment_with_facts()
    write(filesystem, b"".join(chunks))
    reader = ColdReader(filesystem, UUID, QUARANTINE)
    index = IndexRebuild(reader, ColdFile("/log/00000001.seg", 1, 1, 1)).run()
    share = index.find(7)
    assert share is not None
    assert share.count == 0
    assert list(share.settled.take().firsts) == [3]
    assert share.delivered == {0: 9}
    returned = share.returned[4]
    assert isinstance(returned, Returned)
    assert returned.delivery_count == 2


def segment_with_facts() -> list[bytes]:
    writer = BatchWriter(1, 1, 1, HEADER_SIZE)
    writer.settle(7, Ranges([3], [5]))
    writer.delivered(7, 0, 9)
    writer.returned(7, 4, 2, 0)
    return [bytes(HEADER_SIZE), *writer.finish()]


def write(filesystem: MemoryFileSystem, data: bytes) -> None:
    descriptor = filesystem.create("/log/00000001.seg")
    filesystem.write(descriptor, [data], 0)
    filesystem.close(descriptor)


def test_a_segment_without_batches_has_an_empty_index() -> None:
    log = ColdLog()
    assert rebuild(log).shares() == []


def test_wherever_a_segment_is_damaged_the_rest_is_found(log: ColdLog) -> None:
    log.seal()
    content = log.filesystem.content(log.path(1))
    whole = {share.queue_id: entries(share.entries) for share in rebuild(log).shares()}
    total = sum(len(found) for found in whole.values())
    for at in range(HEADER_SIZE, len(content), 37):
        content[at] ^= 0x55
        found = {
            share.queue_id: entries(share.entries) for share in rebuild(log).shares()
        }
        content[at] ^= 0x55
        assert all(found[queue_id] <= whole[queue_id] for queue_id in found)
        # A batch has 18 references; no other one suffers.
        assert total - sum(len(some) for some in found.values()) <= 18


def entries(data: bytearray) -> set[bytes]:
    return {bytes(data[at : at + 12]) for at in range(0, len(data), 12)}


@pytest.mark.parametrize("size", [30, 100, 1000])
def test_a_segment_that_ends_early_has_what_is_before(log: ColdLog, size: int) -> None:
    log.seal()
    content = log.filesystem.content(log.path(1))
    total = sum(share.count for share in rebuild(log).shares())
    del content[-size:]
    found = sum(share.count for share in rebuild(log).shares())
    assert 0 < found < total


def test_a_segment_that_ends_in_a_trailer_has_all_messages(log: ColdLog) -> None:
    before = file_of(rebuild(log))
    del log.filesystem.content(log.path(1))[-3:]
    assert file_of(rebuild(log)) == before


def test_a_sound_record_that_contradicts_itself_is_left_out() -> None:
    out = BytesWriter()
    write_settle(out, 1, 7, Ranges([3], [5]))
    settle = bytearray(out.getvalue())
    # The number of ranges, which the length does not fit.
    settle[HEADER_SIZE_OF_RECORD + 7] = 9
    writer = BatchWriter(1, 1, 1, HEADER_SIZE)
    writer.delivered(7, 0, 9)
    writer.copy(bytes(settle))
    writer.delivered(8, 0, 4)
    filesystem = MemoryFileSystem()
    write(filesystem, b"".join([bytes(HEADER_SIZE), *writer.finish()]))
    reader = ColdReader(filesystem, UUID, QUARANTINE)
    index = IndexRebuild(reader, ColdFile("/log/00000001.seg", 1, 1, 1)).run()
    assert [share.delivered for share in index.shares()] == [{0: 9}, {0: 4}]
    assert all(share.settled.is_empty for share in index.shares())
