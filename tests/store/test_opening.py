"""Opening the log that is emptied first."""

import errno

import pytest

from store.errors import StoreError
from store.message_store import MessageStore
from store.opening import open_paging
from store.options import StoreOptions
from tests.support.memory_filesystem import Fault, MemoryFileSystem
from tests.support.store_driver import DIRECTORY

PAGING = f"{DIRECTORY}/paging"


def paging(filesystem: MemoryFileSystem) -> MessageStore[str]:
    return open_paging(DIRECTORY, filesystem, StoreOptions(), 0)


def test_what_an_earlier_process_paged_out_is_gone() -> None:
    filesystem = MemoryFileSystem()
    filesystem.make_directory(PAGING)
    descriptor = filesystem.create(f"{PAGING}/00000007.seg")
    filesystem.write(descriptor, [b"old"], 0)
    paging(filesystem)
    for name in filesystem.list_directory(PAGING):
        assert b"old" not in filesystem.read_file(f"{PAGING}/{name}")


@pytest.mark.parametrize("call", ["make_directory", "remove"])
def test_a_paging_log_that_cannot_be_emptied_is_named(call: str) -> None:
    filesystem = MemoryFileSystem()
    filesystem.make_directory(PAGING)
    filesystem.close(filesystem.create(f"{PAGING}/00000001.seg"))
    filesystem.fault = Fault(1, errno.EIO, call)
    with pytest.raises(StoreError, match=f"cannot empty {PAGING}"):
        paging(filesystem)
