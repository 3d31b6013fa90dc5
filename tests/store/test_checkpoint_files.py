"""The checkpoints in the directory: the newest good one counts, two are kept."""

import errno

import pytest

from store.checkpoint import CheckpointBuilder, CheckpointHeader
from store.checkpoint_files import (
    CheckpointSearch,
    FoundCheckpoints,
    KeptCheckpoints,
    checkpoint_name,
    checkpoint_number,
    write_checkpoint,
)
from store.checksum import crc32
from store.errors import StoreDamaged, StoreForeign, VersionUnknown
from store.index import Index
from tests.support.memory_filesystem import Fault, MemoryFileSystem, PowerCut

UUID = b"0123456789abcdef"
LOG = "/data/log"


def path_of(number: int) -> str:
    return f"{LOG}/{checkpoint_name(number)}"


def chunks(number: int, is_clean: bool = False, uuid: bytes = UUID) -> list[bytes]:
    """A checkpoint that begins at the segment ten times its number."""
    index = Index()
    index.queue(1).add(index.segment(1), 1, 5, 5, 50, None)
    header = CheckpointHeader(number, number * 10, 64, 7, is_clean)
    builder = CheckpointBuilder(index, uuid, header)
    builder.advance(10)
    return builder.chunks()


def written(*numbers: int, is_clean: bool = False) -> MemoryFileSystem:
    filesystem = MemoryFileSystem()
    for number in numbers:
        write_checkpoint(filesystem, LOG, number, chunks(number, is_clean))
    filesystem.calls = []
    return filesystem


def search(filesystem: MemoryFileSystem) -> FoundCheckpoints:
    names = filesystem.list_directory(LOG)
    return CheckpointSearch(filesystem, LOG, UUID).run(names, "/data")


def newest(found: FoundCheckpoints) -> int:
    assert found.newest is not None
    return int(found.newest.header.number)


def test_names_and_numbers() -> None:
    assert checkpoint_name(12) == "checkpoint.00000012"
    assert checkpoint_number("checkpoint.00000012") == 12
    assert checkpoint_number("checkpoint.00000012.tmp") is None
    assert checkpoint_number("00000012.seg") is None


def test_no_checkpoint_is_a_young_store() -> None:
    found = search(MemoryFileSystem())
    assert found.newest is None
    assert found.kept.next_number == 1
    assert found.kept.needed_segment == 0


def test_the_newest_is_used_and_the_older_one_says_what_may_go() -> None:
    found = search(written(4, 5))
    assert newest(found) == 5
    assert found.kept.needed_segment == 40
    assert found.kept.next_number == 6
    assert (found.damaged, found.spare) == ([], [])


def test_with_one_checkpoint_nothing_may_go() -> None:
    assert search(written(4)).kept.needed_segment == 0


def test_what_is_older_than_the_two_kept_is_spare() -> None:
    found = search(written(3, 4, 5))
    assert found.spare == [path_of(3)]
    assert found.kept.needed_segment == 40


@pytest.mark.parametrize("at", [0, 50, 130, 200])
def test_the_older_one_is_used_when_the_newest_is_damaged(at: int) -> None:
    filesystem = written(3, 4, 5)
    filesystem.damage(path_of(5), at)
    found = search(filesystem)
    assert newest(found) == 4
    assert found.damaged == [path_of(5)]
    assert found.kept.needed_segment == 30
    assert found.kept.next_number == 6


@pytest.mark.parametrize("at", [0, 50, 130, 200])
def test_damage_to_the_older_one_is_found(at: int) -> None:
    filesystem = written(4, 5)
    filesystem.damage(path_of(4), at)
    found = search(filesystem)
    assert newest(found) == 5
    assert found.damaged == [path_of(4)]
    assert found.kept.needed_segment == 0


def test_after_a_clean_stop_only_the_header_of_the_older_one_is_read() -> None:
    filesystem = written(4, 5, is_clean=True)
    filesystem.damage(path_of(4), 200)
    found = search(filesystem)
    assert found.damaged == []
    assert found.kept.needed_segment == 40
    assert found.bytes_read == filesystem.size(path_of(5)) + 128
    assert filesystem.calls.count("read_file") == 1
    filesystem.damage(path_of(4), 20)
    assert search(filesystem).damaged == [path_of(4)]


def test_none_that_is_good_is_refused() -> None:
    filesystem = written(4, 5)
    filesystem.damage(path_of(4), 200)
    filesystem.damage(path_of(5), 200)
    with pytest.raises(StoreDamaged, match="amqpd store repair /data"):
        search(filesystem)


def test_a_checkpoint_under_another_number_is_damaged() -> None:
    filesystem = written(4, 5)
    filesystem.rename(path_of(4), path_of(6))
    found = search(filesystem)
    assert newest(found) == 5
    assert found.damaged == [path_of(6)]


def test_a_checkpoint_of_another_store_is_refused() -> None:
    filesystem = written(4)
    write_checkpoint(filesystem, LOG, 5, chunks(5, uuid=b"x" * 16))
    with pytest.raises(StoreForeign, match="amqpd store repair /data"):
        search(filesystem)


def test_a_checkpoint_of_another_version_is_refused() -> None:
    filesystem = written(4, 5)
    data = bytearray(filesystem.content(path_of(5)))
    data[9] = 9
    data[124:128] = crc32(bytes(data[:124])).to_bytes(4)
    filesystem.content(path_of(5))[:] = data
    with pytest.raises(VersionUnknown, match="has format version 9") as caught:
        search(filesystem)
    # It is not damaged: the version that wrote it reads it.
    assert "repair" not in str(caught.value)


def test_a_checkpoint_is_durable_with_its_name_when_it_is_written() -> None:
    filesystem = MemoryFileSystem()
    write_checkpoint(filesystem, LOG, 3, chunks(3))
    filesystem.power_cut(False)
    assert newest(search(filesystem)) == 3
    assert filesystem.list_directory(LOG) == ["checkpoint.00000003"]


@pytest.mark.parametrize("call", ["write", "sync"])
def test_a_checkpoint_that_cannot_be_written_leaves_nothing(call: str) -> None:
    filesystem = written(4, 5)
    filesystem.fault = Fault(1, errno.ENOSPC, call, 30)
    with pytest.raises(OSError, match="No space"):
        write_checkpoint(filesystem, LOG, 6, chunks(6))
    assert sorted(filesystem.list_directory(LOG)) == [
        "checkpoint.00000004",
        "checkpoint.00000005",
    ]
    assert newest(search(filesystem)) == 5


@pytest.mark.parametrize("n", range(1, 6))
def test_a_power_cut_while_a_checkpoint_is_written_leaves_the_old_ones(n: int) -> None:
    for keeps in (True, False):
        filesystem = written(4, 5)
        filesystem.fault = Fault(n, None)
        with pytest.raises(PowerCut):
            write_checkpoint(filesystem, LOG, 6, chunks(6))
        filesystem.power_cut(keeps)
        assert newest(search(filesystem)) in (5, 6)


def test_the_third_checkpoint_makes_the_first_one_spare() -> None:
    kept = KeptCheckpoints()
    assert kept.add(1, 10) == []
    assert kept.needed_segment == 0
    assert kept.add(2, 20) == []
    assert kept.needed_segment == 10
    assert kept.add(3, 30) == [1]
    assert kept.needed_segment == 20
    assert kept.next_number == 4
