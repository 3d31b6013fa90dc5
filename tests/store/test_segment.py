"""Segment files: names, headers, creation, sealing."""

import errno

import pytest

from store import segment
from store.errors import SyncFailed
from store.segment import HEADER_SIZE, Segment, name_of, numbers_in, read_header
from tests.support.memory_filesystem import Fault, MemoryFileSystem

UUID = b"0123456789abcdef"


def made(filesystem: MemoryFileSystem, first: int = 3, number: int = 3) -> Segment:
    return Segment(filesystem, "/log", UUID, first, number)


@pytest.mark.parametrize(
    ("first", "number", "name"),
    [
        (1, 1, "00000001.seg"),
        (1, 7, "00000001-00000007.seg"),
        (10**9,) * 2 + ("1000000000.seg",),
    ],
)
def test_a_name_tells_the_numbers(first: int, number: int, name: str) -> None:
    assert name_of(first, number) == name
    assert numbers_in(name) == (first, number)


@pytest.mark.parametrize(
    "name", ["reserve", "1.seg", "00000001.seg.tmp", "00000001.idx", "a00000001.seg"]
)
def test_another_name_is_no_segment(name: str) -> None:
    assert numbers_in(name) is None
    assert not segment.is_any_segment([name])


def test_a_directory_with_a_segment_holds_a_log() -> None:
    assert segment.is_any_segment(["reserve", "00000001.seg"])


def test_a_header_is_read_as_written() -> None:
    header = read_header(segment.header_of(1, 7, UUID))
    assert header is not None
    assert (header.first_number, header.number) == (1, 7)
    assert (header.store_uuid, header.version) == (UUID, segment.VERSION)


def test_a_damaged_header_is_none() -> None:
    good = segment.header_of(1, 7, UUID)
    for at in range(len(good)):
        data = bytearray(good)
        data[at] ^= 1
        assert read_header(bytes(data)) is None
    assert read_header(good[:-1]) is None


def test_a_created_segment_is_allocated_and_durable() -> None:
    filesystem = MemoryFileSystem()
    one = made(filesystem)
    one.create(4096)
    filesystem.power_cut(False)
    assert one.is_ready
    assert filesystem.size("/log/00000003.seg") == 4096
    assert read_header(filesystem.read_file(one.path)) is not None


def test_what_is_written_and_synced_is_durable() -> None:
    filesystem = MemoryFileSystem()
    one = made(filesystem)
    one.create(4096)
    one.write([b"ab", b"cd"], HEADER_SIZE)
    one.sync()
    filesystem.power_cut(False)
    assert filesystem.read_file(one.path)[HEADER_SIZE:].startswith(b"abcd\0")


def test_a_cut_is_durable() -> None:
    filesystem = MemoryFileSystem()
    one = made(filesystem)
    one.create(4096)
    one.write([b"abcd"], HEADER_SIZE)
    one.cut(HEADER_SIZE + 2)
    filesystem.power_cut(False)
    assert filesystem.read_file(one.path)[HEADER_SIZE:] == b"ab"


def test_a_hidden_segment_has_its_name_only_when_it_is_durable() -> None:
    filesystem = MemoryFileSystem()
    one = made(filesystem, 1, 3)
    one.create_hidden()
    one.write([b"abcd"], HEADER_SIZE)
    assert filesystem.list_directory("/log") == ["00000001-00000003.seg.tmp"]
    one.publish()
    filesystem.power_cut(False)
    assert filesystem.list_directory("/log") == ["00000001-00000003.seg"]
    assert filesystem.read_file(one.path).endswith(b"abcd")


def test_a_segment_that_cannot_be_allocated_leaves_nothing_behind() -> None:
    filesystem = MemoryFileSystem(capacity=4000)
    one = made(filesystem)
    with pytest.raises(OSError, match="No space"):
        one.create(4096)
    assert filesystem.list_directory("/log") == []
    assert not one.is_ready
    one.close()


@pytest.mark.parametrize("call", ["sync", "sync_directory"])
def test_a_segment_whose_creation_is_not_synced_is_a_failed_sync(call: str) -> None:
    filesystem = MemoryFileSystem()
    filesystem.fault = Fault(1, errno.EIO, call)
    with pytest.raises(SyncFailed) as caught:
        made(filesystem).create(4096)
    assert caught.value.error.errno == errno.EIO


def test_a_cut_that_fails_is_a_failed_sync() -> None:
    filesystem = MemoryFileSystem()
    one = made(filesystem)
    one.create(4096)
    filesystem.fault = Fault(1, errno.EIO, "truncate")
    with pytest.raises(SyncFailed):
        one.cut(HEADER_SIZE)


def test_closing_twice_closes_once() -> None:
    one = made(MemoryFileSystem())
    one.create(0)
    one.close()
    one.close()
