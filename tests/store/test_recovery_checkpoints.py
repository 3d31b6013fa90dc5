"""A start from a checkpoint: after any stop, with any of the two damaged."""

import pytest

from store import batch
from store.segment import HEADER_SIZE, header_of
from store.segment_index import index_path
from tests.support.written_log import (
    DIRECTORY,
    LOG,
    UUID,
    WrittenLog,
    crashed,
    live_seqs,
    long_log,
    snapshot,
)


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


def test_a_thousand_interleaved_queues_are_counted_exactly() -> None:
    known = set(range(1, 1001))
    log = WrittenLog(known=known, highest=1000, allocation=1 << 18)
    for seq in range(1, 7):
        batch = log.begin()
        for queue_id in sorted(known):
            batch.message((queue_id, seq), size=1)
        if seq > 1:
            for queue_id in range(seq, 1001, 3):
                batch.settle(queue_id, seq - 1)
        log.write(batch)
        if seq == 3:
            log.checkpoint()
        if seq % 2 == 0:
            log.seal(has_index=seq != 4)
    log.filesystem.power_cut(False)
    log.check(log.recover())
