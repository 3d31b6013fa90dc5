"""Rolling, refusals, indexes and the reserve, seen from the calls that are made."""

import errno

import pytest

from store.errors import StoreError, SyncFailed
from store.segment import HEADER_SIZE
from store.segment_set import LogWrite, Reserve, SegmentSet
from tests.support.memory_filesystem import Fault, MemoryFileSystem

UUID = b"0123456789abcdef"
SIZE = 4096


def opened(filesystem: MemoryFileSystem, is_reserved: bool = True) -> SegmentSet:
    reserve = Reserve(filesystem, "/log", 2 * SIZE)
    segments = SegmentSet(filesystem, "/log", UUID, SIZE, reserve, 1, 1, True)
    assert segments.open()
    if is_reserved:
        assert reserve.allocate()
    return segments


def a_batch(segments: SegmentSet, size: int = 300, sync: bool = True) -> LogWrite:
    writer = segments.begin_batch(size, True)
    writer.begin_message(1, 2, b"", bytes(size), None, 1)
    writer.destination(1, 1, 0)
    writer.end_message(b"", bytes(size), None)
    return segments.plan(writer, sync)


def written(segments: SegmentSet, write: LogWrite) -> LogWrite:
    write.run()
    assert (write.error, write.fatal) == (None, None)
    segments.on_done(write)
    if write.sync:
        segments.on_durable(write)
    return write


def names(filesystem: MemoryFileSystem) -> list[str]:
    return sorted(filesystem.list_directory("/log"))


def test_batches_follow_one_another_in_a_segment() -> None:
    segments = opened(MemoryFileSystem())
    first = written(segments, a_batch(segments))
    second = written(segments, a_batch(segments))
    assert (first.offset, second.offset) == (HEADER_SIZE, first.end)
    assert (segments.durable_segment, segments.durable_offset) == (1, second.end)


def test_an_unsynced_batch_is_not_durable() -> None:
    segments = opened(MemoryFileSystem())
    written(segments, a_batch(segments, sync=False))
    assert segments.durable_offset == HEADER_SIZE


def test_a_batch_that_does_not_fit_goes_to_the_next_segment() -> None:
    filesystem = MemoryFileSystem()
    segments = opened(filesystem)
    first = written(segments, a_batch(segments, 1000))
    written(segments, a_batch(segments, 3500))
    assert "00000002.seg" in names(filesystem)
    # The first is sealed: cut to its end.
    assert filesystem.size("/log/00000001.seg") == first.end
    assert segments.durable_segment == 2


def test_the_old_segment_is_synced_before_the_next_is_written() -> None:
    filesystem = MemoryFileSystem()
    segments = opened(filesystem)
    written(segments, a_batch(segments, 1000, sync=False))
    filesystem.calls.clear()
    written(segments, a_batch(segments, 3500, sync=False))
    calls = [call for call in filesystem.calls if call in ("truncate", "sync", "write")]
    # Header of the new one, its sync; cut and sync of the old one; the batch.
    assert calls[:5] == ["write", "sync", "truncate", "sync", "write"]


def test_a_batch_larger_than_a_segment_has_one_to_itself() -> None:
    filesystem = MemoryFileSystem()
    segments = opened(filesystem)
    written(segments, a_batch(segments, 100))
    large = written(segments, a_batch(segments, 3 * SIZE))
    after = written(segments, a_batch(segments, 100))
    assert (large.segment.number, large.offset) == (2, HEADER_SIZE)
    assert (after.segment.number, after.offset) == (3, HEADER_SIZE)
    assert filesystem.size("/log/00000002.seg") == large.end


def test_a_large_first_batch_does_not_roll_an_empty_segment() -> None:
    segments = opened(MemoryFileSystem())
    assert written(segments, a_batch(segments, 3 * SIZE)).segment.number == 1


def test_the_next_segment_is_prepared_ahead_and_once() -> None:
    filesystem = MemoryFileSystem()
    segments = opened(filesystem)
    written(segments, a_batch(segments, 2500))
    assert "00000002.seg" in names(filesystem)
    assert written(segments, a_batch(segments, 100)).prepares is None
    filesystem.calls.clear()
    assert written(segments, a_batch(segments, 1600)).segment.number == 2
    assert "create" not in filesystem.calls


def test_a_segment_that_cannot_be_prepared_is_created_when_it_is_needed() -> None:
    filesystem = MemoryFileSystem()
    segments = opened(filesystem)
    filesystem.fault = Fault(1, errno.ENOSPC, "allocate")
    written(segments, a_batch(segments, 2500))
    assert "00000002.seg" not in names(filesystem)
    written(segments, a_batch(segments, 2500))
    assert "00000002.seg" in names(filesystem)


def test_a_segment_that_was_prepared_meanwhile_is_not_prepared_again() -> None:
    filesystem = MemoryFileSystem()
    segments = opened(filesystem)
    prepares = a_batch(segments, 2500)
    rolls = a_batch(segments, 2500)
    assert prepares.prepares is rolls.segment
    rolls.segment.create(SIZE)
    filesystem.calls.clear()
    written(segments, prepares)
    assert "create" not in filesystem.calls
    written(segments, rolls)


def test_a_refused_write_is_cut_off_and_the_reserve_released() -> None:
    filesystem = MemoryFileSystem()
    segments = opened(filesystem)
    good = written(segments, a_batch(segments, sync=False))
    filesystem.fault = Fault(1, errno.ENOSPC, "write", 100)
    bad = a_batch(segments)
    later = a_batch(segments)
    bad.run()
    later.run()
    assert bad.error is not None
    assert bad.error.errno == errno.ENOSPC
    assert later.error is bad.error
    assert filesystem.size("/log/00000001.seg") == good.end
    assert filesystem.size("/log/reserve") == 0
    segments.on_done(bad)
    segments.on_done(later)
    segments.on_refused()
    assert (segments.durable_offset, segments.end) == (good.end, good.end)
    assert written(segments, a_batch(segments)).offset == good.end


def test_a_roll_that_is_refused_goes_back_to_the_old_segment() -> None:
    filesystem = MemoryFileSystem()
    segments = opened(filesystem)
    good = written(segments, a_batch(segments, 1000))
    filesystem.fault = Fault(1, errno.ENOSPC, "create")
    bad = a_batch(segments, 3500)
    later = a_batch(segments, 3500)
    bad.run()
    later.run()
    assert later.error is not None
    segments.on_done(bad)
    segments.on_done(later)
    segments.on_refused()
    assert (segments.current.number, segments.end) == (1, good.end)
    again = written(segments, a_batch(segments, 3500))
    assert (again.segment.number, again.offset) == (2, HEADER_SIZE)


def test_a_cut_that_fails_is_fatal_to_all_that_follows() -> None:
    filesystem = MemoryFileSystem()
    segments = opened(filesystem)
    filesystem.fault = Fault(1, errno.EIO, "write")
    bad, later = a_batch(segments), a_batch(segments)
    filesystem.second_fault = Fault(1, errno.EIO, "truncate")
    bad.run()
    later.run()
    assert bad.fatal is not None
    assert later.fatal is bad.fatal


def test_a_failed_sync_is_fatal_and_not_retried() -> None:
    filesystem = MemoryFileSystem()
    segments = opened(filesystem)
    filesystem.fault = Fault(1, errno.EIO, "sync")
    bad, later = a_batch(segments), a_batch(segments)
    bad.run()
    filesystem.calls.clear()
    later.run()
    assert isinstance(bad.fatal, SyncFailed)
    assert later.fatal is bad.fatal
    assert filesystem.calls == []


def test_the_index_of_a_sealed_segment_is_written_beside_it() -> None:
    filesystem = MemoryFileSystem()
    segments = opened(filesystem)
    write = segments.plan(None, False)
    write.index_path = "/log/00000001.idx"
    write.index_chunks = [b"head", b"entries"]
    written(segments, write)
    assert write.is_index_written
    assert filesystem.read_file("/log/00000001.idx") == b"headentries"


@pytest.mark.parametrize("call", ["create", "write"])
def test_an_index_that_cannot_be_written_harms_nothing(call: str) -> None:
    filesystem = MemoryFileSystem()
    segments = opened(filesystem)
    write = segments.plan(None, False)
    write.index_path = "/log/00000001.idx"
    filesystem.fault = Fault(1, errno.EIO, call)
    written(segments, write)
    assert not write.is_index_written


def test_a_log_that_is_not_synced_makes_no_sync() -> None:
    filesystem = MemoryFileSystem()
    reserve = Reserve(filesystem, "/log", 0)
    segments = SegmentSet(filesystem, "/log", UUID, SIZE, reserve, 1, 1, False)
    assert segments.open()
    for _ in range(3):
        written(segments, a_batch(segments, 3000))
    assert "sync" not in filesystem.calls


def test_without_room_for_a_segment_an_empty_one_is_opened() -> None:
    filesystem = MemoryFileSystem(capacity=1000)
    reserve = Reserve(filesystem, "/log", SIZE)
    segments = SegmentSet(filesystem, "/log", UUID, SIZE, reserve, 1, 1, True)
    assert not segments.open()
    assert filesystem.size("/log/00000001.seg") == HEADER_SIZE


def test_without_room_for_anything_opening_fails() -> None:
    filesystem = MemoryFileSystem(capacity=10)
    reserve = Reserve(filesystem, "/log", SIZE)
    segments = SegmentSet(filesystem, "/log", UUID, SIZE, reserve, 1, 1, True)
    with pytest.raises(StoreError, match="cannot create"):
        segments.open()


def test_a_clean_end_is_marked_and_cut() -> None:
    filesystem = MemoryFileSystem()
    segments = opened(filesystem)
    write = a_batch(segments)
    segments.plan_end(write)
    write.run()
    assert (write.error, write.fatal) == (None, None)
    assert filesystem.size("/log/00000001.seg") == write.end + 72
    segments.close()


def test_a_marker_that_cannot_be_written_ends_the_log_without_one() -> None:
    filesystem = MemoryFileSystem()
    segments = opened(filesystem)
    write = a_batch(segments)
    segments.plan_end(write)
    filesystem.fault = Fault(2, errno.EIO, "write")
    write.run()
    assert (write.error, write.fatal) == (None, None)
    assert filesystem.size("/log/00000001.seg") == SIZE


def test_closing_removes_the_segment_that_was_prepared_in_vain() -> None:
    filesystem = MemoryFileSystem()
    segments = opened(filesystem)
    written(segments, a_batch(segments, 2500))
    segments.close()
    assert names(filesystem) == ["00000001.seg", "reserve"]


def test_closing_with_a_next_segment_that_was_never_made_removes_nothing() -> None:
    filesystem = MemoryFileSystem()
    segments = opened(filesystem)
    a_batch(segments, 2500)
    filesystem.calls.clear()
    segments.close()
    assert "remove" not in filesystem.calls


# -- the reserve


def test_a_reserve_that_is_there_is_not_allocated_again() -> None:
    filesystem = MemoryFileSystem()
    reserve = Reserve(filesystem, "/log", SIZE)
    assert reserve.allocate()
    filesystem.calls.clear()
    assert reserve.allocate()
    assert filesystem.calls == []


def test_a_released_reserve_takes_no_room_and_can_be_had_again() -> None:
    filesystem = MemoryFileSystem()
    reserve = Reserve(filesystem, "/log", SIZE)
    reserve.allocate()
    reserve.release()
    assert filesystem.used() == 0
    assert reserve.allocate()
    assert filesystem.used() == SIZE


@pytest.mark.parametrize("call", ["create", "allocate", "sync"])
def test_a_reserve_that_cannot_be_had_takes_no_room(call: str) -> None:
    filesystem = MemoryFileSystem()
    filesystem.fault = Fault(1, errno.ENOSPC, call)
    assert not Reserve(filesystem, "/log", SIZE).allocate()
    assert filesystem.used() == 0


def test_a_reserve_had_in_part_that_cannot_be_given_back_is_not_whole() -> None:
    filesystem = MemoryFileSystem(capacity=SIZE // 2)
    reserve = Reserve(filesystem, "/log", SIZE)
    filesystem.fault = Fault(1, errno.EIO, "truncate")
    assert not reserve.allocate()
    filesystem.capacity = 2 * SIZE
    assert reserve.allocate()


def test_a_reserve_that_cannot_be_released_stays() -> None:
    filesystem = MemoryFileSystem()
    reserve = Reserve(filesystem, "/log", SIZE)
    reserve.allocate()
    filesystem.fault = Fault(1, errno.EIO, "create")
    reserve.release()
    assert filesystem.used() == SIZE


def test_a_write_that_must_allocate_the_reserve_says_whether_it_did() -> None:
    filesystem = MemoryFileSystem()
    segments = opened(filesystem, is_reserved=False)
    write = segments.plan(None, False)
    write.allocates_reserve = True
    written(segments, write)
    assert write.is_reserve_back
