"""From a directory to queues: what is found, what refuses a start, what is removed."""

import errno
import random

import pytest

from store import batch
from store.checksum import crc32
from store.errors import (
    QueueIdUnknown,
    RecordUnknown,
    StoreDamaged,
    StoreError,
    StoreForeign,
    SyncFailed,
    VersionUnknown,
)
from store.recovery import Recovery
from store.segment import HEADER_SIZE, header_of
from store.segment_index import index_path
from store.segment_set import Reserve
from tests.support.memory_filesystem import Fault, MemoryFileSystem, PowerCut
from tests.support.written_log import DIRECTORY, LOG, UUID, WrittenLog, live_seqs

FIRST = f"{LOG}/00000001.seg"
FIRST_RECORD = HEADER_SIZE + batch.HEADER_SIZE


def crashed(count: int = 3) -> WrittenLog:
    """A log that stopped with `count` messages in queue 1, a batch each."""
    log = WrittenLog()
    for seq in range(1, count + 1):
        log.messages(1, seq)
    return log


def long_log() -> WrittenLog:
    """Segments 1 to 4 with two checkpoints, at the beginning of 3 and of 4."""
    log = WrittenLog()
    for number in range(1, 5):
        log.messages(1, number * 10, number * 10 + 1)
        log.messages(2, number)
        if number > 2:
            log.checkpoint()
        if number < 4:
            log.seal()
    return log


def recovered_live(log: WrittenLog) -> list[int]:
    return live_seqs(log.recover(), 1)


def snapshot(filesystem: MemoryFileSystem) -> dict[str, bytes]:
    return {
        f"{LOG}/{name}": bytes(filesystem.content(f"{LOG}/{name}"))
        for name in filesystem.list_directory(LOG)
    }


def refused(log: WrittenLog, error: type[StoreError], text: str) -> str:
    """The start is refused and touches nothing."""
    log.filesystem.restart()
    before = snapshot(log.filesystem)
    with pytest.raises(error, match=text) as caught:
        log.recover()
    assert snapshot(log.filesystem) == before
    return str(caught.value)


def change_first_record(log: WrittenLog, at: int, value: int) -> None:
    """Change a byte of the first record and make its checksum right again."""
    data = log.filesystem.content(FIRST)
    size = int.from_bytes(data[FIRST_RECORD : FIRST_RECORD + 4])
    data[FIRST_RECORD + at] = value
    end = FIRST_RECORD + size - 4
    checksum = crc32(bytes(data[FIRST_RECORD:end]), batch.seed_of(1, 1))
    data[end : end + 4] = checksum.to_bytes(4)


# -- the end of the log


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


# -- checkpoints


def test_a_start_reads_the_checkpoint_and_what_came_after() -> None:
    log = long_log()
    log.settle(1, 10, 30)
    log.filesystem.power_cut(False)
    # Nobody looks at what is before it.
    for number in (1, 2, 3):
        log.filesystem.content(log.path_of(number))[:] = b"?"
        log.filesystem.content(index_path(log.path_of(number)))[:] = b"?"
    recovered = log.recover()
    assert recovered.report.scanned_segments == 1
    assert live_seqs(recovered, 1) == [11, 20, 21, 31, 40, 41]
    assert recovered.queues[1].count == 6
    assert recovered.queues[1].next_seq == 42


def test_after_a_clean_stop_the_checkpoint_and_the_end_marker_tell_everything() -> None:
    log = long_log()
    path = log.stop()
    log.filesystem.power_cut(False)
    recovered = log.recover()
    log.check(recovered)
    assert recovered.report.is_clean
    assert recovered.report.scanned_segments == 0
    # The checkpoint, the header of the older one.
    assert recovered.report.bytes_read == log.filesystem.size(path) + 128
    assert log.filesystem.calls.count("read") == 2


def test_a_clean_stop_is_none_any_more_once_something_was_written() -> None:
    log = long_log()
    log.stop()
    log.filesystem.power_cut(False)
    log.go_on(log.recover())
    log.messages(1, 50)
    log.settle(1, 10)
    log.filesystem.power_cut(False)
    recovered = log.recover()
    log.check(recovered)
    assert not recovered.report.is_clean


def test_a_segment_begun_in_vain_after_a_clean_stop_copies_nothing() -> None:
    log = long_log()
    log.stop()
    log.filesystem.power_cut(False)
    log.go_on(log.recover())
    log.filesystem.power_cut(False)
    recovered = log.recover()
    log.check(recovered)
    assert recovered.report.copied_records == 0


@pytest.mark.parametrize("at", [0, 20, 60, 70])
def test_a_damaged_end_marker_is_no_clean_stop(at: int) -> None:
    log = long_log()
    log.stop()
    log.filesystem.restart()
    log.filesystem.damage(log.path, log.end - batch.OVERHEAD + at)
    recovered = log.recover()
    log.check(recovered)
    assert not recovered.report.is_clean


def test_the_newest_checkpoint_damaged_is_replaced_by_the_older_one() -> None:
    log = long_log()
    log.settle(1, 10)
    path = log.checkpoint()
    log.filesystem.sync_directory(LOG)
    size = log.filesystem.size(path)
    log.filesystem.power_cut(False)
    files = snapshot(log.filesystem)
    for at in range(size):
        log = WrittenLog()
        for name, data in files.items():
            log.put(name, data)
        log.filesystem.damage(path, at)
        recovered = log.recover()
        assert live_seqs(recovered, 1) == [11, 20, 21, 30, 31, 40, 41]
        assert recovered.checkpoints.needed_segment == 0
        assert recovered.checkpoints.next_number == 4
        assert "checkpoint.00000003" not in log.names()
        (line,) = recovered.report.quarantined
        assert f"{DIRECTORY}/quarantine/checkpoint.00000003.bin" in line


def test_the_older_checkpoint_damaged_is_noticed() -> None:
    log = long_log()
    log.filesystem.damage(f"{LOG}/checkpoint.00000001", 300)
    recovered = log.recover()
    log.check(recovered)
    assert recovered.checkpoints.needed_segment == 0
    assert len(recovered.report.quarantined) == 1


def test_both_checkpoints_damaged_refuse_the_start() -> None:
    log = long_log()
    for number in (1, 2):
        log.filesystem.damage(f"{LOG}/checkpoint.{number:08d}", 200)
    text = refused(log, StoreDamaged, "none of the checkpoints")
    assert "amqpd store repair /data" in text


def test_without_any_checkpoint_everything_is_replayed() -> None:
    log = long_log()
    for number in (1, 2):
        log.filesystem.remove(f"{LOG}/checkpoint.{number:08d}")
    recovered = log.recover()
    log.check(recovered)
    assert recovered.checkpoints.next_number == 1


def test_a_third_checkpoint_is_removed() -> None:
    log = long_log()
    old = bytes(log.filesystem.content(f"{LOG}/checkpoint.00000001"))
    log.checkpoint()
    log.put(f"{LOG}/checkpoint.00000001", old)
    log.check(log.recover())
    assert [name for name in log.names() if name.startswith("checkpoint")] == [
        "checkpoint.00000002",
        "checkpoint.00000003",
    ]


def test_a_checkpoint_written_in_part_is_removed() -> None:
    log = long_log()
    log.put(f"{LOG}/checkpoint.00000003.tmp", b"half")
    log.check(log.recover())
    assert "checkpoint.00000003.tmp" not in log.names()


def test_a_checkpoint_taken_while_the_log_goes_on_is_as_good() -> None:
    log = WrittenLog()
    log.messages(1, 1, 2)
    log.messages(2, 1, 2)
    log.messages(3, 1, 2)
    work = log.begin_checkpoint()
    for seq in range(3, 9):
        log.messages(1, seq)
        log.messages(2, seq)
        log.settle(1, seq - 1)
        log.settle(3, 1)
        log.seal()
        work.advance()
    work.finish()
    log.settle(2, 1)
    log.filesystem.power_cut(False)
    log.check(log.recover())


def test_what_the_checkpoint_knew_of_a_copied_tail_lies_in_the_copy() -> None:
    """Its runs name segment 1, the file is 00000001-00000002.seg."""
    log = crashed()
    log.settle(1, 2)
    log.checkpoint()
    log.messages(1, 4)
    log.filesystem.power_cut(False)
    recovered = log.recover()
    log.check(recovered)
    assert [int(one.number) for one in recovered.index.segments.values()] == [2]
    # The same checkpoint, the next time.
    log.filesystem.power_cut(False)
    log.check(log.recover())


def test_what_a_checkpoint_knew_of_merged_segments_lies_in_the_merged_file() -> None:
    log = long_log()
    log.settle(1, 11)
    log.settle(2, 1)
    log.checkpoint()
    log.checkpoint()
    merge_first_segments(log)
    log.filesystem.power_cut(False)
    recovered = log.recover()
    log.check(recovered)
    runs = recovered.index.queues[1].run_count
    assert runs == 3


def merge_first_segments(log: WrittenLog) -> None:
    """Replace segments 1 and 2 by one file of the same messages."""
    writer = batch.BatchWriter(2, 1, 2, HEADER_SIZE)
    for number in (1, 2):
        data = log.filesystem.read_file(log.path_of(number))
        offset = HEADER_SIZE
        while (header := batch.read_header(data, offset, number)) is not None:
            at = offset + batch.HEADER_SIZE
            for _ in range(header.record_count):
                size = int.from_bytes(data[at : at + 4])
                writer.copy(data[at : at + size - 4])
                at += size
            offset = int(header.end)
    merged = header_of(1, 2, UUID) + b"".join(writer.finish())
    log.put(f"{LOG}/00000001-00000002.seg", merged)
    log.filesystem.sync_directory(LOG)


def test_messages_of_removed_segments_do_not_come_back() -> None:
    log = long_log()
    log.settle(1, 10, 11)
    log.settle(2, 1)
    log.checkpoint()
    assert log.remove_dead() == 1
    log.filesystem.power_cut(False)
    log.check(log.recover())
    assert "00000001.seg" not in log.names()


def test_a_queue_that_is_empty_keeps_its_next_seq() -> None:
    log = long_log()
    log.settle(2, 1, 2, 3, 4)
    log.checkpoint()
    log.checkpoint()
    log.filesystem.power_cut(False)
    recovered = log.recover()
    assert recovered.queues[2].next_seq == 5
    assert recovered.queues[2].count == 0
    assert recovered.queues[3].next_seq == 1


# -- index files


@pytest.mark.parametrize("size", [0, 10, 100, 5000])
def test_an_index_file_cut_anywhere_is_made_again(size: int) -> None:
    log = crashed()
    log.seal()
    log.messages(2, 1)
    path = index_path(FIRST)
    whole = bytes(log.filesystem.content(path))
    log.put(path, (whole + b"more" * 2000)[:size] if size < 5000 else whole[:-1])
    log.filesystem.power_cut(True)
    log.check(log.recover())
    if size < 5000:
        assert bytes(log.filesystem.content(path)) == whole


def test_any_byte_of_an_index_file_damaged_changes_nothing() -> None:
    good = WrittenLog()
    # With gaps: the entries are needed too.
    good.messages(1, 1, 2, 4)
    good.write(good.begin().settle(1, 2).deliver(1, 2).give_back(1, 1, 3))
    good.seal()
    good.messages(2, 1)
    files = snapshot(good.filesystem)
    path = index_path(FIRST)
    for at in range(len(files[path])):
        log = WrittenLog()
        for name, data in files.items():
            log.put(name, data)
        log.filesystem.damage(path, at)
        recovered = log.recover()
        assert live_seqs(recovered, 1) == [1, 4]
        assert recovered.queues[1].delivered_upper == 2
        assert recovered.queues[1].returned[1].delivery_count == 3
        assert log.filesystem.read_file(path) == files[path]


def test_a_missing_index_file_is_made_again() -> None:
    log = crashed()
    log.seal(has_index=False)
    log.messages(2, 1)
    log.filesystem.power_cut(False)
    recovered = log.recover()
    log.check(recovered)
    assert recovered.report.scanned_segments == 2
    assert "00000001.idx" in log.names()


def test_an_index_file_without_a_segment_is_removed() -> None:
    log = crashed()
    log.put(f"{LOG}/00000007.idx", b"of a segment that is gone")
    log.check(log.recover())
    assert "00000007.idx" not in log.names()


def test_the_index_file_of_another_store_is_made_again() -> None:
    log = crashed()
    log.seal()
    path = index_path(FIRST)
    data = bytearray(log.filesystem.content(path))
    data[32:48] = b"x" * 16
    data[60:64] = crc32(bytes(data[:60])).to_bytes(4)
    log.put(path, bytes(data))
    log.check(log.recover())


def test_a_run_with_gaps_that_the_checkpoint_knew_in_part() -> None:
    log = WrittenLog()
    log.messages(1, 1, 3, 4)
    log.checkpoint()
    log.messages(1, 6, 7, 9)
    log.seal()
    log.messages(2, 1)
    log.filesystem.power_cut(False)
    log.check(log.recover())


# -- what refuses a start


def test_a_record_that_must_not_be_skipped_refuses_the_start() -> None:
    log = crashed()
    change_first_record(log, 4, 99)
    text = refused(log, RecordUnknown, "type 99")
    assert "amqpd store repair /data" in text


def test_a_record_that_may_be_skipped_is_skipped() -> None:
    log = crashed()
    data = log.filesystem.content(FIRST)
    data[FIRST_RECORD + 6] |= 1
    change_first_record(log, 4, 99)
    assert recovered_live(log) == [2, 3]


def test_an_unknown_format_version_refuses_the_start() -> None:
    log = crashed()
    header = bytearray(header_of(1, 1, UUID))
    header[9] = 99
    header[60:] = crc32(bytes(header[:60])).to_bytes(4)
    log.filesystem.content(FIRST)[:HEADER_SIZE] = header
    refused(log, VersionUnknown, "format version 99")


@pytest.mark.parametrize("count", [0, 3])
def test_another_stores_segment_refuses_the_start(count: int) -> None:
    log = crashed(count)
    log.filesystem.content(FIRST)[:HEADER_SIZE] = header_of(1, 1, b"x" * 16)
    text = refused(log, StoreForeign, "another store")
    assert "amqpd store repair /data" in text


def test_a_segment_under_a_wrong_name_refuses_the_start() -> None:
    log = crashed()
    log.seal()
    log.filesystem.rename(f"{LOG}/00000002.seg", f"{LOG}/00000009.seg")
    log.filesystem.rename(FIRST, f"{LOG}/00000002.seg")
    log.filesystem.rename(f"{LOG}/00000009.seg", FIRST)
    refused(log, StoreDamaged, "says that it is segment")


@pytest.mark.parametrize("number", [1, 2])
def test_a_segment_missing_of_a_log_without_checkpoints_refuses_the_start(
    number: int,
) -> None:
    log = crashed()
    log.seal()
    log.messages(2, 1)
    log.seal()
    log.messages(3, 1)
    log.filesystem.remove(log.path_of(number))
    text = refused(log, StoreDamaged, f"0000000{number}.seg is missing")
    assert "amqpd store repair /data" in text


@pytest.mark.parametrize("number", [1, 2])
def test_a_segment_missing_that_a_queue_needs_refuses_the_start(number: int) -> None:
    log = long_log()
    log.filesystem.remove(log.path_of(number))
    text = refused(log, StoreDamaged, f"0000000{number}.seg is missing")
    assert "queues need 3 messages" in text
    assert "amqpd store repair /data" in text


def test_a_segment_missing_after_a_clean_stop_refuses_the_start() -> None:
    log = long_log()
    log.stop()
    log.filesystem.remove(log.path_of(2))
    refused(log, StoreDamaged, "00000002.seg is missing")


@pytest.mark.parametrize("number", [4, 5])
def test_a_segment_missing_since_the_checkpoint_refuses_the_start(number: int) -> None:
    log = long_log()
    log.seal()
    log.settle(1, 10)
    log.seal()
    log.messages(1, 60)
    log.filesystem.remove(log.path_of(number))
    refused(log, StoreDamaged, f"0000000{number}.seg is missing")


def test_checkpoints_without_any_segment_refuse_the_start() -> None:
    log = long_log()
    for number in range(1, 5):
        log.filesystem.remove(log.path_of(number))
    refused(log, StoreDamaged, r"00000004\.seg is missing")


def test_a_checkpoint_of_another_store_refuses_the_start() -> None:
    log = long_log()
    path = f"{LOG}/checkpoint.00000002"
    data = bytearray(log.filesystem.content(path))
    data[16:32] = b"x" * 16
    data[124:128] = crc32(bytes(data[:124])).to_bytes(4)
    log.put(path, bytes(data))
    text = refused(log, StoreForeign, "another store")
    assert "amqpd store repair /data" in text


def test_a_checkpoint_of_an_unknown_version_refuses_the_start() -> None:
    log = long_log()
    path = f"{LOG}/checkpoint.00000001"
    data = bytearray(log.filesystem.content(path))
    data[9] = 77
    data[124:128] = crc32(bytes(data[:124])).to_bytes(4)
    log.put(path, bytes(data))
    refused(log, VersionUnknown, "format version 77")


def never_known(log: WrittenLog) -> None:
    log.known, log.highest = set(), 0
    text = refused(log, QueueIdUnknown, "queue id [12]")
    assert "amqpd store repair /data" in text


def test_a_meta_db_older_than_the_end_of_the_log_refuses_the_start() -> None:
    never_known(crashed())


def test_a_meta_db_older_than_an_index_file_refuses_the_start() -> None:
    log = crashed()
    log.seal()
    log.filesystem.restart()
    never_known(log)


def test_a_meta_db_older_than_the_checkpoint_refuses_the_start() -> None:
    log = long_log()
    log.stop()
    never_known(log)


def test_everything_of_a_deleted_queue_is_garbage() -> None:
    log = long_log()
    log.settle(1, 10)
    log.filesystem.power_cut(False)
    log.known = {2, 3}
    recovered = log.recover()
    assert sorted(recovered.queues) == [2, 3]
    assert 1 not in recovered.index.queues
    assert recovered.report.garbage_count > 0
    counts = [int(one.references) for one in recovered.index.segments.values()]
    assert counts == [1, 1, 1, 1]


def test_a_disk_that_cannot_be_read_refuses_the_start() -> None:
    log = crashed()
    log.filesystem.fault = Fault(1, errno.EIO, "read_file")
    with pytest.raises(StoreError, match="cannot recover"):
        log.recover()


# -- damage


def test_a_bad_record_is_saved_and_reported_and_the_rest_is_used() -> None:
    log = crashed()
    log.filesystem.damage(FIRST, FIRST_RECORD + 50)
    recovered = log.recover()
    assert live_seqs(recovered, 1) == [2, 3]
    (line,) = recovered.report.quarantined
    path = f"{DIRECTORY}/quarantine/00000001-{FIRST_RECORD:010d}.bin"
    assert path in line
    log.filesystem.power_cut(False)
    assert log.filesystem.size(path) > 50


def test_a_damaged_message_that_the_checkpoint_knew_is_dropped() -> None:
    """The last batch of the log is durable: the checkpoint says so."""
    log = WrittenLog()
    log.messages(1, 1, 2, 3)
    log.messages(2, 1)
    log.checkpoint()
    log.filesystem.power_cut(False)
    log.filesystem.damage(FIRST, FIRST_RECORD + 50)
    log.filesystem.damage(FIRST, log.end - 40)
    log.live = {1: {2, 3}}
    recovered = log.recover()
    log.check(recovered)
    assert len(recovered.report.quarantined) == 2
    log.filesystem.power_cut(False)
    log.check(log.recover())


def test_damage_that_was_saved_is_reported_and_not_saved_again() -> None:
    log = crashed()
    log.seal(has_index=False)
    log.messages(2, 1)
    log.filesystem.restart()
    log.filesystem.damage(FIRST, FIRST_RECORD + 50)
    first = log.recover()
    log.filesystem.remove(index_path(FIRST))
    log.filesystem.restart()
    second = log.recover()
    assert len(first.report.quarantined) == 1
    assert second.report.quarantined == first.report.quarantined


def test_damage_in_a_log_that_was_ended_is_dropped_from_its_index() -> None:
    log = crashed()
    log.end_log()
    log.write_index(1)
    log.filesystem.restart()
    log.filesystem.damage(FIRST, FIRST_RECORD + 50)
    log.live[1].discard(1)
    log.check(log.recover())
    log.filesystem.restart()
    log.check(log.recover())


def test_a_damaged_segment_header_costs_no_message() -> None:
    log = crashed()
    log.filesystem.damage(FIRST, 20)
    recovered = log.recover()
    assert live_seqs(recovered, 1) == [1, 2, 3]
    assert "a segment's header" in recovered.report.quarantined[0]


def test_a_record_that_contradicts_itself_is_saved_and_not_copied() -> None:
    log = crashed()
    # More destinations than there is room for.
    change_first_record(log, 12 + 24, 0xFF)
    recovered = log.recover()
    assert live_seqs(recovered, 1) == [2, 3]
    assert "contradicts itself" in recovered.report.quarantined[0]
    assert recovered.report.copied_records == 2


def test_a_copy_whose_batch_header_is_damaged_loses_nothing() -> None:
    log = crashed()
    log.go_on(log.recover())
    log.filesystem.restart()
    path = f"{LOG}/00000001-00000002.seg"
    log.filesystem.damage(path, HEADER_SIZE + 30)
    recovered = log.recover()
    log.check(recovered)
    assert recovered.next_batch == 5
    assert "header is damaged" in recovered.report.quarantined[0]


def test_any_byte_of_a_log_damaged_costs_at_most_what_it_is_in() -> None:
    """Every byte of three batches: no start fails, no other message is lost."""
    good = bytes(crashed().filesystem.content(FIRST))
    for at in range(HEADER_SIZE, len(good.rstrip(b"\0"))):
        log = WrittenLog()
        data = bytearray(good)
        data[at] ^= 0x24
        log.put(FIRST, bytes(data))
        recovered = log.recover()
        left = live_seqs(recovered, 1)
        assert len(left) >= 2
        if len(left) == 2:
            assert recovered.report.quarantined or recovered.report.torn_size


# -- a store that is not there yet, and a large one


def test_an_empty_directory_is_an_empty_store() -> None:
    filesystem = MemoryFileSystem()
    reserve = Reserve(filesystem, LOG, 4096)
    recovered = Recovery(filesystem, DIRECTORY, UUID, {1, 2}, 2, reserve).run()
    assert recovered.report.segment_count == 0
    assert [queue.next_seq for queue in recovered.queues.values()] == [1, 1]
    assert (recovered.next_number, recovered.next_batch) == (1, 1)
    assert recovered.index.applied_segment == 0


def test_a_file_of_another_kind_in_the_log_is_left_alone() -> None:
    log = crashed()
    log.put(f"{LOG}/README", b"hello")
    log.recover()
    assert "README" in log.names()


def test_the_reads_of_a_start_do_not_grow_with_what_is_before_the_checkpoint() -> None:
    counts = []
    for segments in (3, 30):
        log = WrittenLog()
        for number in range(1, segments):
            log.messages(1, number)
            log.seal()
        log.checkpoint()
        log.checkpoint()
        log.filesystem.power_cut(False)
        log.recover()
        counts.append(len([one for one in log.filesystem.calls if "read" in one]))
    assert counts[0] == counts[1]


def test_an_index_knows_nothing_of_segments_long_gone() -> None:
    log = long_log()
    log.settle(1, 10, 11)
    log.settle(2, 1)
    log.checkpoint()
    log.checkpoint()
    log.remove(1)
    log.filesystem.sync_directory(LOG)
    log.filesystem.power_cut(False)
    numbers = sorted(int(number) for number in log.recover().index.segments)
    assert numbers == [2, 3, 5]
