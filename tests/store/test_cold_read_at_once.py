"""Cold messages read at once: only what is in memory, and `run` goes on from there."""

import pytest

from store.cold_cache import BLOCK_SIZE
from store.segment_index import ENTRY_SIZE, index_path
from tests.support.cold_log import ColdLog, seqs_of


@pytest.fixture
def log() -> ColdLog:
    return ColdLog()


def fill(log: ColdLog, count: int) -> None:
    """A segment of its own with so many messages of queue 1."""
    for at in range(count):
        log.append(1, content=f"message {at}".encode())
    log.write()
    log.seal()


def fill_blocks(log: ColdLog) -> None:
    """A segment of its own with 20 messages of queue 1 that take several blocks."""
    for _ in range(20):
        log.append(1, content=bytes(BLOCK_SIZE // 8))
    log.write()
    log.seal()


def test_what_is_in_memory_is_read_at_once(log: ColdLog) -> None:
    fill(log, 20)
    # Whoever comes first opens the files.
    log.read(1, count=3)
    log.filesystem.calls.clear()
    step = log.begin(1, 4)
    assert step.run_at_once()
    result = log.cold.complete(step)
    assert result.error is None
    assert seqs_of(result.messages) == list(range(4, 21))
    log.check(1, result.messages)
    assert log.filesystem.calls.count("open_for_reading") == 0


def test_a_file_that_is_not_open_is_not_read_at_once(log: ColdLog) -> None:
    fill(log, 5)
    step = log.begin(1)
    assert not step.run_at_once()
    assert "open_for_reading" not in log.filesystem.calls
    step.run()
    assert seqs_of(log.cold.complete(step).messages) == [1, 2, 3, 4, 5]


def test_what_is_not_in_memory_is_read_from_where_that_begins(log: ColdLog) -> None:
    fill_blocks(log)
    log.read(1, count=1)
    log.filesystem.far_offsets = range(BLOCK_SIZE, BLOCK_SIZE + 1)
    step = log.begin(1, 2)
    assert not step.run_at_once()
    found = seqs_of(step.messages)
    assert found == list(range(2, found[-1] + 1))
    assert found[-1] < 10
    step.run()
    result = log.cold.complete(step)
    assert seqs_of(result.messages) == list(range(2, 21))
    log.check(1, result.messages)


def test_files_that_are_to_be_closed_are_not_closed_at_once(log: ColdLog) -> None:
    fill(log, 5)
    log.read(1)
    fill(log, 5)
    path = log.path(1)
    log.cold.forget(1)
    step = log.begin(1, 6)
    assert not step.run_at_once()
    assert log.filesystem.is_open(path)
    step.run()
    assert not log.filesystem.is_open(path)


def test_a_message_larger_than_a_block_is_not_read_at_once(log: ColdLog) -> None:
    log.append(1)
    log.append(1, content=bytes(BLOCK_SIZE + 1))
    log.write()
    log.seal()
    log.read(1, count=1)
    step = log.begin(1, 2)
    assert not step.run_at_once()
    step.run()
    assert seqs_of(log.cold.complete(step).messages) == [2]


def test_what_was_read_at_once_counts_for_the_window(log: ColdLog) -> None:
    for size in (1, 1, BLOCK_SIZE + 1, 1, 1, 1):
        log.append(1, content=bytes(size))
    log.write()
    log.seal()
    log.read(1, count=1)
    step = log.begin(1, 2, count=3)
    assert not step.run_at_once()
    assert seqs_of(step.messages) == [2]
    step.run()
    result = log.cold.complete(step)
    assert seqs_of(result.messages) == [2, 3, 4]
    log.check(1, result.messages)


def test_a_damaged_record_is_not_put_aside_at_once(log: ColdLog) -> None:
    fill(log, 5)
    log.read(1, count=1)
    number, offset, size = log.places[(1, 3)]
    log.filesystem.damage(log.path(number), offset + size // 2)
    log.cold._reader.drop_blocks(log.cold._reader.file(log.path(1), 1, 1), 0, 1)
    step = log.begin(1, 2)
    assert not step.run_at_once()
    assert step.damaged == []
    step.run()
    result = log.cold.complete(step)
    assert seqs_of(result.messages) == [2, 4, 5]
    assert result.damaged_seqs == [3]


def test_an_index_is_not_made_again_at_once(log: ColdLog) -> None:
    fill(log, 5)
    log.read(1, count=1)
    reader = log.cold._reader
    reader.drop_entries(reader.file(log.path(1), 1, 1), 1)
    reader._directories.drop(reader.file(log.path(1), 1, 1).serial)
    log.filesystem.damage(index_path(log.path(1)), 40)
    log.filesystem.calls.clear()
    step = log.begin(1, 2)
    assert not step.run_at_once()
    assert "create" not in log.filesystem.calls
    step.run()
    assert seqs_of(log.cold.complete(step).messages) == [2, 3, 4, 5]


def test_what_is_missing_before_a_read_breaks_off_is_reported(log: ColdLog) -> None:
    fill_blocks(log)
    log.read(1, count=1)
    # The segment knows nothing of message 3, and that is sure.
    reader = log.cold._reader
    file = reader.file(log.path(1), 1, 1)
    entries = reader.entries(file, 1)
    assert entries is not None
    reader.keep_entries(file, 1, entries[: 2 * ENTRY_SIZE] + entries[3 * ENTRY_SIZE :])
    file.compared.add(1)
    log.filesystem.far_offsets = range(BLOCK_SIZE, BLOCK_SIZE + 1)
    step = log.begin(1, 2)
    assert not step.run_at_once()
    step.run()
    result = log.cold.complete(step)
    assert seqs_of(result.messages) == [2, *range(4, 21)]
    assert result.damaged_seqs == [3]
