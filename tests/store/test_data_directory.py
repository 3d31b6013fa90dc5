"""The data directory: one process, one format."""

import errno

import pytest

from store.data_directory import FORMAT, DataDirectory
from store.errors import AlreadyLocked, StoreDamaged, StoreError, VersionUnknown
from tests.support.memory_filesystem import Fault, MemoryFileSystem


def put(filesystem: MemoryFileSystem, path: str, data: bytes) -> None:
    descriptor = filesystem.create(path)
    filesystem.write(descriptor, [data], 0)
    filesystem.close(descriptor)


def test_a_new_directory_gets_a_durable_version() -> None:
    filesystem = MemoryFileSystem()
    directory = DataDirectory.open("/data", filesystem)
    assert directory.metadata_path == "/data/meta.db"
    filesystem.power_cut(False)
    assert filesystem.read_file("/data/VERSION") == f"{FORMAT}\n".encode()


def test_a_directory_that_another_process_has_open_is_refused() -> None:
    filesystem = MemoryFileSystem()
    directory = DataDirectory.open("/data", filesystem)
    with pytest.raises(AlreadyLocked, match="/data"):
        DataDirectory.open("/data", filesystem)
    directory.close()
    DataDirectory.open("/data", filesystem).close()


def test_an_unknown_version_is_refused_and_the_lock_let_go() -> None:
    filesystem = MemoryFileSystem()
    put(filesystem, "/data/VERSION", b"999\n")
    for _ in range(2):
        with pytest.raises(VersionUnknown, match="'999'"):
            DataDirectory.open("/data", filesystem)


@pytest.mark.parametrize("path", ["/data/meta.db", "/data/log/00000001.seg"])
def test_data_without_a_version_is_refused(path: str) -> None:
    filesystem = MemoryFileSystem()
    put(filesystem, path, b"data")
    with pytest.raises(StoreDamaged, match="amqpd store repair"):
        DataDirectory.open("/data", filesystem)


@pytest.mark.parametrize("call", ["make_directory", "lock", "write", "sync", "rename"])
def test_a_disk_that_refuses_is_a_store_error(call: str) -> None:
    filesystem = MemoryFileSystem()
    filesystem.fault = Fault(1, errno.EIO, call)
    with pytest.raises(StoreError, match="cannot open the data directory"):
        DataDirectory.open("/data", filesystem)
    DataDirectory.open("/data", filesystem).close()
