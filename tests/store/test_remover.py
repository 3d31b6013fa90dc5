"""Files go when nobody can be reading them any more."""

import errno

from store.remover import ReadEpochs, RemovalStep, Remover
from tests.support.memory_filesystem import Fault, MemoryFileSystem

LOG = "/data/log"


def files(*names: str) -> MemoryFileSystem:
    filesystem = MemoryFileSystem()
    for name in names:
        filesystem.close(filesystem.create(f"{LOG}/{name}"))
    filesystem.sync_directory(LOG)
    return filesystem


def begin(remover: Remover) -> RemovalStep:
    step = remover.begin()
    assert step is not None
    return step


def test_an_epoch_is_over_when_its_reads_and_those_before_are_complete() -> None:
    reads = ReadEpochs()
    first = reads.begin()
    ended = reads.turn()
    second = reads.begin()
    assert first == ended
    assert not reads.is_over(ended)

    reads.end(second)
    assert not reads.is_over(ended)
    reads.end(first)
    assert reads.is_over(ended)


def test_reads_that_begin_later_do_not_keep_an_epoch_open() -> None:
    reads = ReadEpochs()
    ended = reads.turn()

    reads.begin()

    assert reads.is_over(ended)


def test_several_reads_of_one_epoch_are_counted() -> None:
    reads = ReadEpochs()
    begun = [reads.begin(), reads.begin()]
    ended = reads.turn()

    reads.end(begun[0])

    assert not reads.is_over(ended)


def test_a_file_and_its_index_go_and_the_directory_is_synced() -> None:
    filesystem = files("00000001.seg", "00000001.idx", "00000002.seg")
    remover = Remover(filesystem, LOG)
    remover.add(1, [f"{LOG}/00000001.seg", f"{LOG}/00000001.idx"])

    step = begin(remover)
    step.run()
    remover.complete(step)
    filesystem.power_cut(False)

    assert filesystem.list_directory(LOG) == ["00000002.seg"]
    assert remover.removed_numbers == [1]
    assert remover.is_empty


def test_a_file_stays_while_somebody_may_read_it() -> None:
    filesystem = files("00000001.seg")
    remover = Remover(filesystem, LOG)
    read = remover.reads.begin()
    remover.add(1, [f"{LOG}/00000001.seg"])
    assert remover.begin() is None
    assert not remover.is_empty

    remover.reads.end(read)

    assert begin(remover).files[0].number == 1


def test_what_cannot_be_removed_is_handed_out_again() -> None:
    filesystem = files("a", "b", "c")
    remover = Remover(filesystem, LOG)
    for number, name in enumerate("abc"):
        remover.add(number, [f"{LOG}/{name}"])
    filesystem.fault = Fault(2, errno.EIO, "remove")

    step = begin(remover)
    step.run()
    remover.complete(step)

    assert isinstance(step.error, OSError)
    assert [file.paths for file in begin(remover).files] == [[f"{LOG}/b"], [f"{LOG}/c"]]
    # The first was no segment.
    assert remover.removed_numbers == []


def test_a_directory_that_cannot_be_synced_is_an_error() -> None:
    filesystem = files("a")
    remover = Remover(filesystem, LOG)
    remover.add(1, [f"{LOG}/a"])
    filesystem.fault = Fault(1, errno.EIO, "sync_directory")

    step = begin(remover)
    step.run()

    assert isinstance(step.error, OSError)


def test_no_more_than_sixteen_files_go_in_one_step() -> None:
    remover = Remover(files(), LOG)
    for number in range(20):
        remover.add(number, [f"{LOG}/{number}"])

    step = begin(remover)
    step.run()
    remover.complete(step)

    assert len(step.files) == 16
    assert len(begin(remover).files) == 4
