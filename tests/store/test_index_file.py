"""An index file is read in parts, and believed only if it is the segment's."""

import errno

import pytest

from store.index_file import IndexFile
from store.record import Settle
from store.segment_index import SegmentIndex
from store.seq_ranges import ranges_of
from tests.support.memory_filesystem import Fault, MemoryFileSystem

UUID = b"0123456789abcdef"
PATH = "/data/log/00000003.idx"


def an_index(queues: int = 2) -> SegmentIndex:
    index = SegmentIndex(3, 3)
    for queue_id in range(1, queues + 1):
        share = index.share(queue_id)
        share.add(5, 6, 2, 200, b"entries of 24 bytes " + queue_id.to_bytes(4))
    index.share(1).settle(ranges_of([4]))
    return index


def stored(index: SegmentIndex) -> MemoryFileSystem:
    filesystem = MemoryFileSystem()
    descriptor = filesystem.create(PATH)
    filesystem.write(descriptor, index.chunks(UUID), 0)
    filesystem.close(descriptor)
    return filesystem


def is_good(filesystem: MemoryFileSystem) -> bool:
    file = IndexFile(filesystem, PATH)
    try:
        return file.read(3, 3, UUID)
    finally:
        file.close()


def test_runs_facts_and_entries_are_what_was_written() -> None:
    file = IndexFile(stored(an_index()), PATH)
    assert file.read(3, 3, UUID)
    first, second = file.runs()
    assert (first.queue_id, first.first, first.last) == (1, 5, 6)
    assert (second.queue_id, second.count, second.size) == (2, 2, 200)
    assert file.entries(second) == b"entries of 24 bytes \0\0\0\2"
    (fact,) = file.facts()
    assert isinstance(fact, Settle)
    assert fact.settled.firsts == [4]
    file.close()


@pytest.mark.parametrize("queues", [0, 1, 80, 84, 85, 1000])
def test_a_directory_of_any_length_is_read(queues: int) -> None:
    file = IndexFile(stored(an_index(queues)), PATH)
    assert file.read(3, 3, UUID)
    assert [run.queue_id for run in file.runs()] == list(range(1, queues + 1))
    assert len(file.facts()) == 1


def test_entries_are_not_read_with_the_directory() -> None:
    index = SegmentIndex(3, 3)
    index.share(1).add(1, 9000, 9000, 1, bytes(12 * 9000))
    file = IndexFile(stored(index), PATH)
    assert file.read(3, 3, UUID)
    assert file.bytes_read == 4096


def test_damaged_entries_are_none() -> None:
    index = an_index()
    filesystem = stored(index)
    filesystem.damage(PATH, filesystem.size(PATH) - 1)
    file = IndexFile(filesystem, PATH)
    assert file.read(3, 3, UUID)
    first, second = file.runs()
    assert file.entries(first) is not None
    assert file.entries(second) is None


def test_damage_to_header_directory_or_facts_is_noticed() -> None:
    size = stored(an_index()).size(PATH)
    for at in range(size - 48):
        filesystem = stored(an_index())
        filesystem.damage(PATH, at)
        assert not is_good(filesystem)


def test_a_file_that_is_cut_is_not_believed() -> None:
    whole = stored(an_index(100))
    for size in (0, 10, 63, 64, 2000, 4500):
        filesystem = stored(an_index(100))
        del filesystem.content(PATH)[size:]
        assert not is_good(filesystem)
    assert is_good(whole)


@pytest.mark.parametrize(
    ("first", "number", "uuid"), [(2, 3, UUID), (3, 4, UUID), (3, 3, b"x" * 16)]
)
def test_the_index_of_another_segment_is_not_believed(
    first: int, number: int, uuid: bytes
) -> None:
    file = IndexFile(stored(an_index()), PATH)
    assert not file.read(first, number, uuid)


def test_a_missing_file_and_a_bad_disk_are_told_apart() -> None:
    with pytest.raises(FileNotFoundError):
        IndexFile(MemoryFileSystem(), PATH)
    filesystem = stored(an_index())
    file = IndexFile(filesystem, PATH)
    filesystem.fault = Fault(1, errno.EIO, "read")
    with pytest.raises(OSError, match="Input/output"):
        file.read(3, 3, UUID)
