"""What a step of a merge leaves behind when its calls fail."""

import errno

import pytest

from store.merge_step import Extent, MergeFiles, MergeSource, MergeStep
from store.segment import HEADER_SIZE, Segment
from tests.support.log_builder import LOG, UUID, LogBuilder, Put
from tests.support.memory_filesystem import Fault

NEW = "00000001-00000002.seg"


class Files:
    """Two segments and the files of their merge."""

    def __init__(self) -> None:
        self.log = LogBuilder()
        for seq in (1, 2):
            self.log.segment([Put([(1, seq)], b"content")])
        self.filesystem = self.log.filesystem
        self.target = Segment(self.filesystem, LOG, UUID, 1, 2)
        self.files = MergeFiles(self.filesystem, UUID, self.target)

    def step(self, number: int = 1) -> MergeStep:
        return MergeStep(self.files, MergeSource(LOG, number, number))

    def write(self) -> MergeStep:
        step = self.step()
        step.chunks = [b"some", b"thing"]
        step.offset = HEADER_SIZE
        step.run()
        return step

    def new_names(self) -> list[str]:
        return [name for name in self.log.names() if "-" in name]


def test_a_batch_is_written_under_a_hidden_name_and_synced() -> None:
    files = Files()

    step = files.write()

    assert step.error is None
    assert step.chunks == []
    assert files.new_names() == [f"{NEW}.tmp"]
    file = files.filesystem.content(f"{LOG}/{NEW}.tmp")
    assert file[HEADER_SIZE:] == b"something"
    assert not files.filesystem.is_dirty(f"{LOG}/{NEW}.tmp")


def test_extents_are_read_and_the_file_before_is_closed() -> None:
    files = Files()
    for number in (1, 2, 2):
        step = files.step(number)
        extent = Extent(8)
        extent.add(8, 4)
        extent.add(20, 4)
        step.extents = [extent]
        step.run()

        path = f"{LOG}/{number:08d}.seg"
        assert extent.data == files.filesystem.content(path)[8:24]
        assert files.filesystem.open_count == 1


def test_publishing_names_the_file_durably_and_leaves_an_index() -> None:
    files = Files()
    files.write()
    step = files.step()
    step.is_last = True
    step.index_chunks = [b"in", b"dex"]

    step.run()

    assert step.error is None
    assert files.filesystem.open_count == 0
    assert not files.files.is_name_uncertain
    assert files.filesystem.content(f"{LOG}/00000001-00000002.idx") == b"index"
    files.filesystem.power_cut(False)
    assert files.new_names() == [NEW]


@pytest.mark.parametrize("call", ["create", "write"])
def test_an_index_that_cannot_be_written_is_left_out(call: str) -> None:
    files = Files()
    files.write()
    step = files.step()
    step.is_last = True
    step.index_chunks = [b"index"]
    files.filesystem.fault = Fault(1, errno.ENOSPC, call, 2)

    step.run()

    assert step.error is None
    assert files.new_names() == [NEW]


@pytest.mark.parametrize("call", ["sync", "rename", "sync_directory"])
def test_a_file_that_cannot_be_published_is_taken_back(call: str) -> None:
    files = Files()
    files.write()
    step = files.step()
    step.is_last = True
    files.filesystem.fault = Fault(1, errno.EIO, call)

    step.run()

    assert step.error is not None
    assert files.new_names() == []
    assert files.files.is_name_uncertain
    assert files.filesystem.open_count == 0


def test_what_cannot_be_removed_stays_for_the_next_start() -> None:
    files = Files()
    files.write()
    files.filesystem.fault = Fault(1, errno.EIO, "remove")
    step = files.step()
    step.is_abandoned = True

    step.run()

    assert step.error is None
    assert files.new_names() == [f"{NEW}.tmp"]


def test_a_file_that_cannot_be_closed_is_given_up_all_the_same() -> None:
    files = Files()
    step = files.step()
    extent = Extent(8)
    extent.add(8, 4)
    step.extents = [extent]
    step.chunks = [b"x"]
    step.run()
    files.filesystem.fault = Fault(1, errno.EIO, "close")
    step = files.step()
    step.is_abandoned = True

    step.run()

    assert step.error is None
    assert files.new_names() == []
