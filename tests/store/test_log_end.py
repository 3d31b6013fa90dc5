"""The end of the log is safe before anything acts on it."""

import errno
import random

import pytest

from store import batch
from store.checkpoint_files import CheckpointSearch
from store.errors import (
    StoreError,
    SyncFailed,
)
from store.log_end import clean_batch
from store.log_files import LogFiles
from store.segment import HEADER_SIZE
from store.segment_set import Reserve
from tests.support.memory_filesystem import Fault, PowerCut
from tests.support.written_log import (
    DIRECTORY,
    FIRST,
    FIRST_RECORD,
    LOG,
    UUID,
    WrittenLog,
    crashed,
    long_log,
)


def test_the_tail_is_copied_to_a_new_segment_before_anything_is_served() -> None:
    log = crashed()
    recovered = log.recover()
    assert recovered.report.copied_records == 3
    # The range says that the copy stands for segment 1, which is gone.
    assert log.names() == ["00000001-00000002.idx", "00000001-00000002.seg"]
    log.filesystem.power_cut(False)
    log.check(log.recover())


def test_a_copied_tail_is_not_copied_or_scanned_again() -> None:
    log = crashed()
    log.recover()
    log.filesystem.restart()
    recovered = log.recover()
    log.check(recovered)
    assert recovered.report.copied_records == 0
    assert recovered.report.scanned_segments == 0
    assert recovered.next_batch == 5


def test_a_tail_of_which_nothing_is_whole_is_removed() -> None:
    log = WrittenLog()
    log.write(log.begin().message((1, 1)), sync=False)
    log.filesystem.damage(FIRST, FIRST_RECORD + 9)
    recovered = log.recover()
    log.check(recovered)
    assert recovered.report.torn_size > 0
    assert recovered.report.copied_records == 0
    assert log.names() == []


def test_a_segment_that_nothing_was_written_to_is_used_again() -> None:
    log = crashed(0)
    recovered = log.recover()
    assert recovered.report.segment_count == 0
    assert recovered.next_number == 1
    assert log.names() == []


def test_a_segment_whose_first_header_is_torn_is_a_torn_tail() -> None:
    log = WrittenLog()
    log.write(log.begin().message((1, 1)), sync=False)
    log.filesystem.damage(FIRST, HEADER_SIZE + 3)
    recovered = log.recover()
    log.check(recovered)
    assert recovered.report.torn_size > 0


@pytest.mark.parametrize("kept", range(0, 260, 3))
def test_a_tail_torn_at_any_byte_loses_only_what_was_not_durable(kept: int) -> None:
    log = WrittenLog()
    log.messages(1, 1, 2)
    end = log.end
    log.write(log.begin().message((1, 3)).message((1, 4)).settle(1, 1), sync=False)
    data = log.filesystem.content(FIRST)
    assert log.end - end > kept
    data[end + kept : log.end] = bytes(log.end - end - kept)
    recovered = log.recover()
    log.check(recovered)
    assert recovered.report.quarantined == []
    assert recovered.report.torn_size <= kept


def test_a_tail_is_copied_into_the_reserve_when_the_disk_is_full() -> None:
    log = crashed()
    assert Reserve(log.filesystem, LOG, 4096).allocate()
    log.filesystem.capacity = log.filesystem.used() + 100
    log.check(log.recover())
    assert log.filesystem.size(f"{LOG}/reserve") == 0


def test_a_tail_that_finds_no_room_is_a_start_that_fails() -> None:
    log = crashed()
    log.filesystem.capacity = log.filesystem.used() + 100
    with pytest.raises(StoreError, match="cannot recover"):
        log.recover()


def test_a_tail_that_cannot_be_copied_is_a_start_that_fails() -> None:
    log = crashed()
    log.filesystem.fault = Fault(1, errno.EIO, "write")
    with pytest.raises(StoreError, match="cannot recover"):
        log.recover()
    log.filesystem.restart()
    log.check(log.recover())


def test_a_tail_whose_copy_is_not_synced_is_a_start_that_fails() -> None:
    log = crashed()
    log.filesystem.fault = Fault(1, errno.EIO, "sync")
    with pytest.raises(SyncFailed):
        log.recover()


def test_an_unfinished_copy_is_removed() -> None:
    log = crashed()
    log.put(f"{LOG}/00000001-00000002.seg.tmp", b"half a copy")
    log.check(log.recover())
    assert not any(name.endswith(".tmp") for name in log.names())


def test_a_file_that_a_copy_stands_for_is_hidden_and_removed() -> None:
    log = crashed()
    old = bytes(log.filesystem.content(FIRST))
    log.go_on(log.recover())
    log.settle(1, 1)
    # The removal of the old file was lost.
    log.put(FIRST, old)
    log.filesystem.restart()
    log.check(log.recover())
    assert "00000001.seg" not in log.names()


def test_the_old_tail_goes_only_when_the_name_of_its_copy_is_durable() -> None:
    """Killed between rename and directory sync, then the power goes."""
    for seed in range(40):
        for call in (1, 2):
            log = crashed()
            log.filesystem.fault = Fault(1, None, "sync_directory")
            with pytest.raises(PowerCut):
                log.recover()
            log.filesystem.restart()
            assert "00000001-00000002.seg" in log.names()
            log.filesystem.fault = Fault(call, None, "sync_directory")
            with pytest.raises(PowerCut):
                log.recover()
            log.filesystem.power_cut(random.Random(seed))
            log.check(log.recover())


def test_batch_and_segment_numbers_go_on_after_a_restart() -> None:
    log = crashed()
    recovered = log.recover()
    # The copy is segment 2 and batch 4.
    assert (recovered.next_number, recovered.next_batch) == (3, 5)
    assert recovered.index.applied_segment == 2
    assert recovered.index.applied_batch == 4
    size = log.filesystem.size(f"{LOG}/00000001-00000002.seg")
    assert recovered.index.applied_offset == size


def test_an_empty_tail_that_a_checkpoint_names_stays() -> None:
    log = WrittenLog()
    log.end_log()
    log.index.applied_segment, log.index.applied_offset = 1, log.end
    log.checkpoint()
    log.filesystem.content(FIRST).extend(b"torn")
    log.recover()
    assert "00000001-00000002.seg" in log.names()
    log.filesystem.restart()
    log.check(log.recover())


def test_a_disk_without_room_for_an_index_file_is_no_reason_not_to_start() -> None:
    log = crashed()
    log.seal(has_index=False)
    log.messages(1, 4)
    log.filesystem.restart()
    # The copy of the tail is the first.
    log.filesystem.fault = Fault(3, errno.ENOSPC, "create")
    log.check(log.recover())


def clean(log: WrittenLog) -> int:
    """Ask whether the newest checkpoint tells everything."""
    files = LogFiles(log.filesystem, LOG)
    search = CheckpointSearch(log.filesystem, LOG, UUID)
    newest = search.run(files.names, DIRECTORY).newest
    assert newest is not None
    return int(clean_batch(log.filesystem, files, newest.header))


def test_a_log_that_was_ended_at_its_checkpoint_is_clean() -> None:
    log = long_log()
    log.stop()
    assert clean(log) == log.next_batch - 1


def test_a_log_whose_checkpoint_was_not_the_last_thing_is_not_clean() -> None:
    log = long_log()
    log.end_log()
    assert clean(log) == 0


def test_a_log_with_a_segment_after_its_end_is_not_clean() -> None:
    log = long_log()
    log.stop()
    log.seal()
    assert clean(log) == 0


def test_a_log_that_is_longer_than_its_end_is_not_clean() -> None:
    log = long_log()
    log.stop()
    log.filesystem.content(log.path).append(0)
    assert clean(log) == 0


@pytest.mark.parametrize("at", range(batch.OVERHEAD))
def test_any_byte_of_the_end_marker_damaged_is_no_clean_end(at: int) -> None:
    log = long_log()
    log.stop()
    log.filesystem.damage(log.path, log.end - batch.OVERHEAD + at)
    assert clean(log) == 0


def test_a_batch_of_records_is_no_end_marker() -> None:
    log = long_log()
    log.index.applied_offset = log.end
    log.messages(1, 50)
    log.cut()
    size = log.end - int(log.index.applied_offset)
    log.index.applied_offset = log.end - batch.OVERHEAD
    log.begin_checkpoint(is_clean=True).finish()
    assert size != batch.OVERHEAD
    assert clean(log) == 0


def test_an_empty_batch_that_does_not_end_the_log_is_no_end_marker() -> None:
    log = long_log()
    offset = log.end
    log.durable_offset = HEADER_SIZE
    log.write(log.begin())
    log.cut()
    log.index.applied_offset = offset
    log.begin_checkpoint(is_clean=True).finish()
    assert log.end - offset == batch.OVERHEAD
    assert clean(log) == 0


def test_a_tail_without_a_valid_header_is_damaged_if_a_checkpoint_knew_it() -> None:
    log = WrittenLog()
    log.messages(1, 1, 2)
    log.checkpoint()
    log.filesystem.damage(FIRST, HEADER_SIZE + 3)
    recovered = log.recover()
    log.check(recovered)
    assert recovered.report.torn_size == 0
    assert len(recovered.report.quarantined) == 1
