"""What is damaged in a segment is saved and stepped over."""

import pytest

from store.log_files import SegmentFile
from store.segment import HEADER_SIZE
from store.segment_index import index_path
from store.segment_reader import SegmentReader
from tests.support.written_log import (
    DIRECTORY,
    FIRST,
    FIRST_RECORD,
    LOG,
    UUID,
    WrittenLog,
    change_first_record,
    crashed,
    live_seqs,
)


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


# -- was anything written?


def reader_of(log: WrittenLog) -> tuple[SegmentReader, SegmentFile]:
    reader = SegmentReader(log.filesystem, DIRECTORY, UUID)
    return reader, SegmentFile(1, 1, FIRST)


def test_of_a_segment_that_is_only_allocated_little_is_read() -> None:
    reader, file = reader_of(WrittenLog(allocation=4 << 20))
    assert not reader.is_written(file)
    assert reader.bytes_read < 128 * 1024


@pytest.mark.parametrize("at", [HEADER_SIZE, 65_535, 1 << 20, (3 << 20) + 9])
def test_a_segment_is_written_wherever_its_blocks_are_not_zero(at: int) -> None:
    log = WrittenLog(allocation=4 << 20)
    log.filesystem.damage(FIRST, at)
    reader, file = reader_of(log)
    assert reader.is_written(file)


def test_a_segment_that_is_shorter_than_a_probe_is_read_whole() -> None:
    log = WrittenLog(allocation=1 << 16)
    reader, file = reader_of(log)
    assert not reader.is_written(file)
    log.filesystem.damage(FIRST, (1 << 16) - 1)
    assert reader.is_written(file)
