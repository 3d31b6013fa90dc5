"""Segments since a checkpoint are applied from their index files, or scanned."""

import pytest

from store.checksum import crc32
from store.record import CHECKSUM_SIZE
from store.segment_index import DEADLINE_SIZE, index_path
from tests.support.written_log import (
    FIRST,
    LOG,
    WrittenLog,
    crashed,
    live_seqs,
    snapshot,
)


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
    # A start reads no deadlines, which stand at the end: three, and a checksum.
    for at in range(len(files[path]) - 3 * DEADLINE_SIZE - CHECKSUM_SIZE):
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
