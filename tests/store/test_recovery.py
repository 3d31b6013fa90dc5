"""From a directory to queues: what a start does, and what refuses it."""

import errno
import tracemalloc
from pathlib import Path

import pytest

from store import batch
from store.checkpoint import CheckpointBuilder, CheckpointHeader
from store.checkpoint_files import write_checkpoint
from store.checksum import crc32
from store.errors import (
    QueueIdUnknown,
    RecordUnknown,
    StoreDamaged,
    StoreError,
    StoreForeign,
    VersionUnknown,
)
from store.filesystem import OsFileSystem
from store.index import Index
from store.recovery import Recovery
from store.segment import HEADER_SIZE, header_of, name_of
from store.segment_index import SegmentIndex, index_path
from store.segment_set import Reserve
from tests.support.memory_filesystem import Fault, MemoryFileSystem
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
    long_log,
    snapshot,
)


def recovered_live(log: WrittenLog) -> list[int]:
    return live_seqs(log.recover(), 1)


def refused(log: WrittenLog, error: type[StoreError], text: str) -> str:
    """The start is refused and touches nothing."""
    log.filesystem.restart()
    before = snapshot(log.filesystem)
    with pytest.raises(error, match=text) as caught:
        log.recover()
    assert snapshot(log.filesystem) == before
    return str(caught.value)


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


def test_both_checkpoints_damaged_refuse_the_start() -> None:
    log = long_log()
    for number in (1, 2):
        log.filesystem.damage(f"{LOG}/checkpoint.{number:08d}", 200)
    text = refused(log, StoreDamaged, "none of the checkpoints")
    assert "amqpd store repair /data" in text


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


# -- a large one

MESSAGES = 10_000_000
SEGMENTS = 100


def large_log(log: str) -> Index:
    """Ten million messages in one queue, as sparse segments; the index that knows."""
    filesystem = OsFileSystem()
    filesystem.make_directory(log)
    index = Index()
    share = MESSAGES // SEGMENTS
    for number in range(1, SEGMENTS + 1):
        descriptor = filesystem.create(f"{log}/{name_of(number, number)}")
        filesystem.write(descriptor, [header_of(number, number, UUID)], 0)
        filesystem.truncate(descriptor, 16 << 20)
        filesystem.close(descriptor)
        first = (number - 1) * share + 1
        segment = index.segment(number)
        last = first + share - 1
        index.queue(1).add(segment, first, last, share, 15 << 20, None)
    return index


def write_large_checkpoint(log: str, index: Index, segment: int, offset: int) -> None:
    header = CheckpointHeader(1, segment, offset, 9, True)
    builder = CheckpointBuilder(index, UUID, header)
    assert builder.advance(1000)
    write_checkpoint(OsFileSystem(), log, 1, builder.chunks())


def test_ten_million_messages_cost_a_clean_start_no_memory_and_no_reading(
    tmp_path: Path,
) -> None:
    log = f"{tmp_path}/log"
    index = large_log(log)
    # The last segment holds nothing but the end marker.
    marker = batch.BatchWriter(SEGMENTS + 1, 9, SEGMENTS + 1, HEADER_SIZE).finish()
    path = f"{log}/{name_of(SEGMENTS + 1, SEGMENTS + 1)}"
    head = header_of(SEGMENTS + 1, SEGMENTS + 1, UUID)
    (tmp_path / "log" / path.rsplit("/", 1)[1]).write_bytes(head + b"".join(marker))
    write_large_checkpoint(log, index, SEGMENTS + 1, HEADER_SIZE)
    reserve = Reserve(OsFileSystem(), log, 0)
    tracemalloc.start()
    recovered = Recovery(OsFileSystem(), f"{tmp_path}", UUID, {1}, 1, reserve).run()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert recovered.report.is_clean
    assert recovered.queues[1].count == MESSAGES
    assert recovered.queues[1].next_seq == MESSAGES + 1
    assert recovered.report.bytes_read < 16 * 1024
    assert peak < 1 << 20


def write_large_indexes(log: str, first_number: int) -> None:
    share = MESSAGES // SEGMENTS
    for number in range(first_number, SEGMENTS + 1):
        found = SegmentIndex(number, number)
        first = (number - 1) * share + 1
        entries = bytes(12 * share)
        found.share(1).add(first, first + share - 1, share, 15 << 20, entries)
        path = index_path(f"{log}/{name_of(number, number)}")
        Path(path).write_bytes(b"".join(found.chunks(UUID)))


def write_tail(log: str, number: int, count: int) -> None:
    """One batch of messages behind the ten million, and the segment prepared next."""
    writer = batch.BatchWriter(number, 9, number - 1, HEADER_SIZE)
    for seq in range(MESSAGES + 1, MESSAGES + count + 1):
        writer.begin_message(5, 7, b"", b"x" * 1000, None, 1)
        writer.destination(1, seq, 0)
        writer.end_message(b"", b"x" * 1000, None)
    data = header_of(number, number, UUID) + b"".join(writer.finish())
    tail = Path(f"{log}/{name_of(number, number)}")
    tail.write_bytes(data + bytes((16 << 20) - len(data)))
    ahead = Path(f"{log}/{name_of(number + 1, number + 1)}")
    ahead.write_bytes(header_of(number + 1, number + 1, UUID) + bytes(16 << 20))


def test_ten_million_messages_cost_a_start_after_a_crash_one_segment_of_reading(
    tmp_path: Path,
) -> None:
    log = f"{tmp_path}/log"
    index = large_log(log)
    write_large_checkpoint(log, index, 40, HEADER_SIZE)
    write_large_indexes(log, 40)
    write_tail(log, SEGMENTS + 1, 1000)
    reserve = Reserve(OsFileSystem(), log, 0)
    recovered = Recovery(OsFileSystem(), f"{tmp_path}", UUID, {1}, 1, reserve).run()
    assert recovered.queues[1].count == MESSAGES + 1000
    assert recovered.queues[1].next_seq == MESSAGES + 1001
    assert recovered.report.scanned_segments == 1
    assert recovered.report.bytes_read < 18 << 20
