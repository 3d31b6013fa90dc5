"""Blocks of segments, and entries of their indexes."""

import errno

import pytest

from store.cold_cache import BLOCK_SIZE, WantedBlock
from store.cold_reader import ColdFile, ColdReader
from store.filesystem import OsFileSystem
from store.segment_index import SegmentIndex, index_path
from tests.support.cold_log import LOG, QUARANTINE, UUID, ColdFileSystem
from tests.support.memory_filesystem import Fault

PATH = f"{LOG}/00000001.seg"


def write(filesystem: ColdFileSystem, path: str, data: bytes) -> None:
    descriptor = filesystem.create(path)
    filesystem.write(descriptor, [data], 0)
    filesystem.close(descriptor)


def pattern(size: int) -> bytes:
    return bytes(range(251)) * (size // 251 + 1)


@pytest.fixture
def filesystem() -> ColdFileSystem:
    filesystem = ColdFileSystem()
    write(filesystem, PATH, pattern(10 * BLOCK_SIZE)[: 10 * BLOCK_SIZE])
    return filesystem


@pytest.fixture
def reader(filesystem: ColdFileSystem) -> ColdReader:
    return ColdReader(filesystem, UUID, QUARANTINE)


def whole(*numbers: int) -> list[WantedBlock]:
    return [WantedBlock(number, 0, BLOCK_SIZE, 100) for number in numbers]


def read(
    reader: ColdReader, file: ColdFile, *numbers: int, limit: int = 1 << 40
) -> list[bytes]:
    wanted = whole(*numbers)
    reader.read_blocks(file, wanted, limit)
    assert all(block.is_read for block in wanted)
    return [block.data for block in wanted]


def reads(filesystem: ColdFileSystem) -> int:
    count = filesystem.calls.count("read")
    filesystem.calls.clear()
    return count


# -- blocks


def test_a_block_is_read_once(filesystem: ColdFileSystem, reader: ColdReader) -> None:
    file = reader.file(PATH, 1, 1)
    content = bytes(filesystem.content(PATH))
    for _ in range(2):
        (block,) = read(reader, file, 3)
        assert block == content[3 * BLOCK_SIZE : 4 * BLOCK_SIZE]
    assert reads(filesystem) == 1
    assert reader.bytes_read == BLOCK_SIZE
    assert reader.cached_size >= BLOCK_SIZE


def test_of_neighbours_each_is_read_once(
    filesystem: ColdFileSystem, reader: ColdReader
) -> None:
    file = reader.file(PATH, 1, 1)
    content = bytes(filesystem.content(PATH))
    blocks = read(reader, file, 0, 1, 2, 3, 4, 6)
    assert reads(filesystem) == 6
    assert b"".join(blocks[:5]) == content[: 5 * BLOCK_SIZE]
    assert blocks[5] == content[6 * BLOCK_SIZE : 7 * BLOCK_SIZE]


def test_a_block_that_is_there_is_not_read_with_its_neighbours(
    filesystem: ColdFileSystem, reader: ColdReader
) -> None:
    file = reader.file(PATH, 1, 1)
    read(reader, file, 2)
    filesystem.calls.clear()
    blocks = read(reader, file, 0, 1, 2, 3)
    assert reads(filesystem) == 3
    assert b"".join(blocks) == bytes(filesystem.content(PATH)[: 4 * BLOCK_SIZE])


def test_nothing_behind_the_known_end_is_kept(
    filesystem: ColdFileSystem, reader: ColdReader
) -> None:
    file = reader.file(PATH, 1, 1)
    wanted = [WantedBlock(0, 0, 100, 100)]
    reader.read_blocks(file, wanted, 1000)
    assert len(wanted[0].data) == 1000
    wanted = [WantedBlock(0, 500, 1000, 100)]
    reader.read_blocks(file, wanted, 1000)
    assert reads(filesystem) == 1
    # Now more is known to be written.
    wanted = [WantedBlock(0, 500, 1001, 100)]
    reader.read_blocks(file, wanted, 2000)
    assert len(wanted[0].data) == 2000
    assert reads(filesystem) == 1


def test_what_lies_before_a_block_that_cannot_be_read_is_there(
    filesystem: ColdFileSystem, reader: ColdReader
) -> None:
    file = reader.file(PATH, 1, 1)
    filesystem.bad_path = PATH
    filesystem.bad_offsets = range(2 * BLOCK_SIZE, 2 * BLOCK_SIZE + 1)
    wanted = whole(0, 1, 2, 3)
    with pytest.raises(OSError, match="Input/output"):
        reader.read_blocks(file, wanted, 1 << 40)
    assert [block.is_read for block in wanted] == [True, True, False, False]


def test_two_files_of_one_number_share_nothing(
    filesystem: ColdFileSystem, reader: ColdReader
) -> None:
    """A merged file has the number of the last of those it stands for."""
    merged = f"{LOG}/00000000-00000001.seg"
    write(filesystem, merged, b"merged")
    read(reader, reader.file(PATH, 1, 1), 0)
    assert read(reader, reader.file(merged, 0, 1), 0) == [b"merged"]
    reader.forget(1)
    assert not filesystem.is_open(merged)
    assert not filesystem.is_open(PATH)


def test_a_forgotten_file_is_read_anew(
    filesystem: ColdFileSystem, reader: ColdReader
) -> None:
    read(reader, reader.file(PATH, 1, 1), 0)
    reader.forget(2)
    reader.forget(1)
    filesystem.remove(PATH)
    write(filesystem, PATH, b"another")
    assert read(reader, reader.file(PATH, 1, 1), 0) == [b"another"]


def test_nothing_is_kept_of_a_forgotten_file(
    filesystem: ColdFileSystem, reader: ColdReader
) -> None:
    put_index(filesystem, index_of(3))
    reader.entries(reader.file(PATH, 1, 1), 3)
    read(reader, reader.file(PATH, 1, 1), 0, 2)
    other = reader.file("/log/00000002.seg", 2, 2)
    write(filesystem, other.path, b"another")
    read(reader, other, 0)
    kept = reader.cached_size
    reader.forget(1)
    assert 0 < reader.cached_size < kept - 2 * BLOCK_SIZE
    reader.forget(2)
    assert reader.cached_size == 0


def test_an_emptied_reader_reads_anew(
    filesystem: ColdFileSystem, reader: ColdReader
) -> None:
    put_index(filesystem, index_of(3))
    file = reader.file(PATH, 1, 1)
    for _ in range(2):
        filesystem.calls.clear()
        assert reader.entries(file, 3)
        read(reader, file, 0)
        assert reads(filesystem) >= 3
        assert reader.cached_size > 0
        reader.empty()
        assert reader.cached_size == 0
    assert filesystem.is_open(PATH)


def test_dropped_blocks_are_read_anew(
    filesystem: ColdFileSystem, reader: ColdReader
) -> None:
    file = reader.file(PATH, 1, 1)
    read(reader, file, 0, 1, 2)
    filesystem.calls.clear()
    reader.drop_blocks(file, BLOCK_SIZE - 1, 2)
    read(reader, file, 0, 1, 2)
    assert reads(filesystem) == 2


def spend_credit(reader: ColdReader, file: ColdFile) -> None:
    """Read and hand out nothing, until no whole blocks are read any more."""
    for _ in range(100):
        reader.read(file, 4 * BLOCK_SIZE, 0)


def test_far_from_each_other_only_what_is_wanted_is_read(
    filesystem: ColdFileSystem, reader: ColdReader
) -> None:
    file = reader.file(PATH, 1, 1)
    content = bytes(filesystem.content(PATH))
    spend_credit(reader, file)
    before = reader.bytes_read
    block = WantedBlock(4, 1000, 1300, 100)
    block.extend(5000, 5200, 100)
    reader.read_blocks(file, [block], 1 << 40)
    assert reader.bytes_read - before == 4200
    at = 4 * BLOCK_SIZE + block.base
    assert block.data == content[at : at + 4200]
    assert block.base == 1000


def test_of_a_sparse_block_nothing_is_read_at_once(
    filesystem: ColdFileSystem, reader: ColdReader
) -> None:
    file = reader.file(PATH, 1, 1)
    spend_credit(reader, file)
    before = reader.bytes_read
    block = WantedBlock(4, 0, 100, 100)
    block.extend(200_000, 200_100, 100)
    reader.read_blocks(file, [block], 1 << 40)
    assert reader.bytes_read == before
    assert block.is_read
    assert block.data == b""


def test_a_block_that_is_wanted_whole_is_read_whole(
    filesystem: ColdFileSystem, reader: ColdReader
) -> None:
    file = reader.file(PATH, 1, 1)
    spend_credit(reader, file)
    assert len(read(reader, file, 5)[0]) == BLOCK_SIZE


def test_who_hands_out_what_it_reads_may_read_ahead_again(
    filesystem: ColdFileSystem, reader: ColdReader
) -> None:
    file = reader.file(PATH, 1, 1)
    spend_credit(reader, file)
    reader.release([], 1, 100 * 4 * BLOCK_SIZE)
    block = WantedBlock(4, 0, 100, 100)
    reader.read_blocks(file, [block], 1 << 40)
    assert len(block.data) == BLOCK_SIZE


def serve(reader: ColdReader, file: ColdFile, queue_id: int, *stretch: int) -> None:
    """Read a stretch of block 1 and hand it out to a queue."""
    block = WantedBlock(1, stretch[0], stretch[1], 100)
    reader.read_blocks(file, [block], 1 << 40)
    reader.release([block], queue_id, block.size)


@pytest.mark.parametrize(
    ("queues", "left", "is_kept"),
    [
        # A block ends with what is no message: nobody asks for that.
        ((1, 2), 99, False),
        ((1, 2), 100, True),
        # One queue alone that is at the end of a block does not come back.
        ((1, 1), 4000, False),
        ((1, 1), 5000, True),
    ],
)
def test_a_block_that_was_handed_out_whole_is_not_kept(
    reader: ColdReader, queues: tuple[int, int], left: int, is_kept: bool
) -> None:
    file = reader.file(PATH, 1, 1)
    serve(reader, file, queues[0], 0, BLOCK_SIZE // 2)
    assert reader.cached_size > BLOCK_SIZE
    serve(reader, file, queues[1], BLOCK_SIZE // 2, BLOCK_SIZE - left)
    assert (reader.cached_size > 0) is is_kept


def test_a_block_is_kept_for_a_message_that_reaches_into_it(
    reader: ColdReader,
) -> None:
    file = reader.file(PATH, 1, 1)
    serve(reader, file, 1, 0, BLOCK_SIZE // 2)
    serve(reader, file, 2, BLOCK_SIZE // 2, BLOCK_SIZE - 129)
    serve(reader, file, 2, 0, 100)
    assert reader.cached_size > 0


def test_a_block_with_much_left_is_kept_for_others(reader: ColdReader) -> None:
    serve(reader, reader.file(PATH, 1, 1), 1, BLOCK_SIZE // 4, BLOCK_SIZE)
    assert reader.cached_size > 0


def test_a_block_is_kept_until_it_was_handed_out_to_each_queue(
    filesystem: ColdFileSystem, reader: ColdReader
) -> None:
    file = reader.file(PATH, 1, 1)
    for queue_id in (1, 2, 3):
        block = WantedBlock(1, 0, BLOCK_SIZE, 100)
        block.sharers = 3
        reader.read_blocks(file, [block], 1 << 40)
        reader.release([block], queue_id, block.size)
    assert reads(filesystem) == 1
    assert reader.cached_size < BLOCK_SIZE


# -- indexes


def index_of(*queues: int, rows: int = 1) -> SegmentIndex:
    index = SegmentIndex(1, 1)
    for queue_id in queues:
        index.share(queue_id).add(
            1, rows, rows, 10, bytes([queue_id % 250]) * 12 * rows
        )
    return index


def put_index(filesystem: ColdFileSystem, index: SegmentIndex) -> None:
    write(filesystem, index_path(PATH), b"".join(index.chunks(UUID)))


def test_of_an_index_a_directory_is_read_and_little_more(
    filesystem: ColdFileSystem, reader: ColdReader
) -> None:
    """A start asks every segment of the log for its directory."""
    put_index(filesystem, index_of(*range(1, 21), rows=1000))
    file = reader.file(PATH, 1, 1)
    assert reader.runs_with_deadlines(file) == []
    assert reader.index_bytes_read <= 4096
    assert reader.entries(file, 20) == bytes([20]) * 12 * 1000


def test_entries_are_read_once(filesystem: ColdFileSystem, reader: ColdReader) -> None:
    put_index(filesystem, index_of(3, 7, rows=2))
    file = reader.file(PATH, 1, 1)
    assert reader.entries(file, 7) == bytes([7]) * 24
    assert reads(filesystem) == 2
    assert reader.entries(file, 7) == bytes([7]) * 24
    assert reads(filesystem) == 0
    assert reader.entries(file, 3) == bytes([3]) * 24
    assert reads(filesystem) == 1
    assert reader.bytes_read == 0
    assert reader.index_bytes_read > 0


def test_dropped_entries_are_read_again(
    filesystem: ColdFileSystem, reader: ColdReader
) -> None:
    put_index(filesystem, index_of(3))
    file = reader.file(PATH, 1, 1)
    reader.entries(file, 3)
    reader.drop_entries(file, 3)
    filesystem.calls.clear()
    assert reader.entries(file, 3) == bytes([3]) * 12
    assert reads(filesystem) == 1


def test_a_queue_without_messages_in_a_segment_has_no_entries(
    filesystem: ColdFileSystem, reader: ColdReader
) -> None:
    put_index(filesystem, index_of(3))
    assert reader.entries(reader.file(PATH, 1, 1), 4) == b""


def test_a_directory_larger_than_the_first_read_is_read_whole(
    filesystem: ColdFileSystem, reader: ColdReader
) -> None:
    put_index(filesystem, index_of(*range(1, 3000)))
    assert reader.entries(reader.file(PATH, 1, 1), 2999) == bytes([2999 % 250]) * 12


def test_a_missing_index_is_no_index(reader: ColdReader) -> None:
    assert reader.entries(reader.file(PATH, 1, 1), 1) is None


@pytest.mark.parametrize("where", [0, 20, 70, -1])
def test_a_damaged_index_is_no_index(
    filesystem: ColdFileSystem, reader: ColdReader, where: int
) -> None:
    put_index(filesystem, index_of(1))
    filesystem.damage(index_path(PATH), where)
    assert reader.entries(reader.file(PATH, 1, 1), 1) is None


def test_the_index_of_another_store_is_no_index(
    filesystem: ColdFileSystem, reader: ColdReader
) -> None:
    write(filesystem, index_path(PATH), b"".join(index_of(1).chunks(bytes(16))))
    assert reader.entries(reader.file(PATH, 1, 1), 1) is None


def test_an_index_that_cannot_be_read_is_an_error(
    filesystem: ColdFileSystem, reader: ColdReader
) -> None:
    put_index(filesystem, index_of(1))
    filesystem.fault = Fault(1, errno.EIO, "read")
    with pytest.raises(OSError, match="Input/output"):
        reader.entries(reader.file(PATH, 1, 1), 1)


def test_an_adopted_index_replaces_the_one_before(
    filesystem: ColdFileSystem, reader: ColdReader
) -> None:
    put_index(filesystem, index_of(1))
    file = reader.file(PATH, 1, 1)
    reader.entries(file, 1)
    reader.adopt_index(file, index_of(1, 2, rows=3))
    assert len(reader.entries(file, 1) or b"") == 36
    assert len(reader.entries(file, 2) or b"") == 36
    assert file.is_sure(1)


@pytest.mark.parametrize("operation", ["create", "write", "rename"])
def test_an_index_that_was_wrong_is_not_used_again_if_its_better_cannot_be_written(
    filesystem: ColdFileSystem, reader: ColdReader, operation: str
) -> None:
    """Of the one made again, entries may go from the cache at any time."""
    put_index(filesystem, index_of(1))
    file = reader.file(PATH, 1, 1)
    assert reader.entries(file, 1)
    filesystem.fault = Fault(1, errno.ENOSPC, operation)
    reader.adopt_index(file, index_of(1, rows=3))
    reader.empty()
    assert reader.entries(file, 1) is None


def test_an_index_that_can_neither_be_renamed_nor_removed_is_left(
    filesystem: ColdFileSystem, reader: ColdReader
) -> None:
    filesystem.fault = Fault(1, errno.EIO, "rename")
    filesystem.second_fault = Fault(1, errno.EIO, "remove")
    reader.adopt_index(reader.file(PATH, 1, 1), index_of(1))
    assert not filesystem.exists(index_path(PATH))


def test_the_operating_systems_files_are_read(tmp_path: object) -> None:
    path = f"{tmp_path}/00000001.seg"
    with open(path, "wb") as out:
        out.write(pattern(3 * BLOCK_SIZE))
    reader = ColdReader(OsFileSystem(), UUID, f"{tmp_path}/quarantine")
    (data,) = read(reader, reader.file(path, 1, 1), 1)
    assert data == pattern(3 * BLOCK_SIZE)[BLOCK_SIZE : 2 * BLOCK_SIZE]
    reader.close()
