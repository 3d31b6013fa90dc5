"""Locking a data directory that no broker has open, without changing it."""

import errno

import pytest

from store.closed_directory import ClosedDirectory
from store.data_directory import FORMAT, DataDirectory
from store.errors import AlreadyLocked, StoreError, VersionUnknown
from tests.support.memory_filesystem import Fault, MemoryFileSystem

PATH = "/data"


def put(filesystem: MemoryFileSystem, path: str, data: bytes) -> None:
    descriptor = filesystem.create(path)
    filesystem.write(descriptor, [data], 0)
    filesystem.close(descriptor)


def used_directory() -> MemoryFileSystem:
    filesystem = MemoryFileSystem()
    DataDirectory.open(PATH, filesystem).close()
    return filesystem


def test_a_broker_cannot_open_it_meanwhile() -> None:
    filesystem = used_directory()
    directory = ClosedDirectory(PATH, filesystem)
    with pytest.raises(AlreadyLocked):
        DataDirectory.open(PATH, filesystem)
    directory.close()
    DataDirectory.open(PATH, filesystem)


def test_one_that_a_broker_has_open_is_refused() -> None:
    filesystem = used_directory()
    DataDirectory.open(PATH, filesystem)
    with pytest.raises(AlreadyLocked, match="another process has"):
        ClosedDirectory(PATH, filesystem)


@pytest.mark.parametrize("name", ["VERSION", "meta.db", "log/00000001.seg"])
def test_anything_of_a_broker_makes_it_a_data_directory(name: str) -> None:
    filesystem = MemoryFileSystem()
    put(filesystem, f"{PATH}/{name}", f"{FORMAT}\n".encode())
    directory = ClosedDirectory(PATH, filesystem)
    assert directory.has_version == (name == "VERSION")
    assert directory.has_metadata == (name == "meta.db")
    assert directory.has_log() == name.startswith("log/")
    assert directory.metadata_path == "/data/meta.db"


def test_another_directory_is_refused_and_not_touched() -> None:
    filesystem = MemoryFileSystem()
    put(filesystem, f"{PATH}/notes.txt", b"remember the milk")
    with pytest.raises(StoreError, match="/data holds no data of a broker"):
        ClosedDirectory(PATH, filesystem)
    assert filesystem.list_directory(PATH) == ["notes.txt"]


def test_a_format_that_is_not_known_is_refused_and_unlocked() -> None:
    filesystem = used_directory()
    put(filesystem, f"{PATH}/VERSION", b"99\n")
    for _ in range(2):
        with pytest.raises(VersionUnknown, match="says format '99'"):
            ClosedDirectory(PATH, filesystem)
    assert filesystem.open_count == 0


@pytest.mark.parametrize("call", ["list_directory", "lock", "read_file"])
def test_a_disk_that_refuses_is_reported_and_nothing_stays_open(call: str) -> None:
    filesystem = used_directory()
    filesystem.fault = Fault(1, errno.EIO, only=call)
    with pytest.raises(StoreError, match="cannot open the data directory /data"):
        ClosedDirectory(PATH, filesystem)
    assert filesystem.open_count == 0


def test_a_version_that_is_written_again_is_durable_and_found_by_a_broker() -> None:
    filesystem = used_directory()
    filesystem.remove(f"{PATH}/VERSION")
    put(filesystem, f"{PATH}/meta.db", b"")
    filesystem.sync_directory(PATH)
    directory = ClosedDirectory(PATH, filesystem)
    directory.write_version()
    assert directory.has_version
    filesystem.power_cut(False)
    DataDirectory.open(PATH, filesystem)
