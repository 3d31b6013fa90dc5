"""Which files of the directory count, by their names."""

import pytest

from store.log_files import LogFiles
from tests.support.memory_filesystem import MemoryFileSystem

LOG = "/data/log"


def looked(*names: str) -> LogFiles:
    filesystem = MemoryFileSystem()
    for name in names:
        filesystem.close(filesystem.create(f"{LOG}/{name}"))
    return LogFiles(filesystem, LOG)


def numbers(files: LogFiles) -> list[tuple[int, int]]:
    return [(int(file.first_number), int(file.number)) for file in files.files]


def unneeded(files: LogFiles) -> list[str]:
    return sorted(path.removeprefix(f"{LOG}/") for path in files.unneeded)


def test_segments_come_in_order() -> None:
    files = looked("00000010.seg", "00000002.seg", "00000003-00000005.seg")
    assert numbers(files) == [(2, 2), (3, 5), (10, 10)]
    assert unneeded(files) == []


def test_a_range_hides_every_file_within() -> None:
    files = looked(
        "00000001.seg",
        "00000001-00000003.seg",
        "00000002-00000003.seg",
        "00000003.seg",
        "00000004.seg",
        "00000001-00000004.seg",
    )
    assert numbers(files) == [(1, 4)]
    assert len(unneeded(files)) == 5


def test_what_was_not_finished_is_not_needed() -> None:
    files = looked("00000001-00000002.seg.tmp", "checkpoint.00000003.tmp", "reserve")
    assert numbers(files) == []
    assert unneeded(files) == ["00000001-00000002.seg.tmp", "checkpoint.00000003.tmp"]


def test_an_index_file_without_a_segment_is_not_needed() -> None:
    files = looked("00000001-00000002.seg", "00000001-00000002.idx", "00000002.idx")
    files.find_orphans()
    assert unneeded(files) == ["00000002.idx"]


def test_the_last_file_can_be_dropped() -> None:
    files = looked("00000001.seg", "00000002.seg", "00000002.idx")
    assert files.drop_last().number == 2
    files.find_orphans()
    assert numbers(files) == [(1, 1)]
    assert unneeded(files) == ["00000002.idx", "00000002.seg"]


@pytest.mark.parametrize(
    ("names", "number", "missing"),
    [
        ([], 1, 1),
        (["00000001.seg"], 1, 0),
        (["00000002.seg"], 1, 1),
        (["00000001.seg", "00000003.seg"], 1, 2),
        (["00000001.seg", "00000003.seg"], 2, 2),
        (["00000001.seg", "00000003.seg"], 3, 0),
        (["00000001.seg", "00000003.seg"], 4, 4),
        (["00000003-00000005.seg", "00000006.seg"], 4, 0),
        (["00000003-00000005.seg", "00000007.seg"], 4, 6),
    ],
)
def test_a_missing_file_is_noticed(names: list[str], number: int, missing: int) -> None:
    assert looked(*names).missing_from(number) == missing


def test_a_copy_stands_for_others() -> None:
    (one, two) = looked("00000001-00000002.seg", "00000003.seg").files
    assert (one.is_copy, two.is_copy) == (True, False)
    assert [one.covers(number) for number in (0, 1, 2, 3)] == [False, True, True, False]
    assert one.index_path == f"{LOG}/00000001-00000002.idx"
