"""Messages that left memory: planned on the loop, read, taken apart."""

import errno

import pytest

from store.cold_store import BLOCKS_MAX, COUNT_MAX, SPANS_MAX
from store.segment_index import SegmentIndex, index_path
from store.seq_ranges import ranges_of
from tests.support.cold_log import QUARANTINE, ColdLog, seqs_of
from tests.support.memory_filesystem import Fault


@pytest.fixture
def log() -> ColdLog:
    return ColdLog()


def fill(log: ColdLog, *queues: int, count: int = 5) -> None:
    for queue_id in queues:
        for _ in range(count):
            log.append(queue_id, content=f"{queue_id} {len(log.written)}".encode())
    log.write()


# -- what is found


def test_messages_of_a_sealed_segment_come_back_as_they_were(log: ColdLog) -> None:
    log.append(1, content=b"one")
    log.append(1, content=b"two", body=b"a body")
    log.append(1, content=b"", body=b"", envelope=b"another")
    log.write()
    log.seal()
    result = log.read(1)
    assert seqs_of(result.messages) == [1, 2, 3]
    log.check(1, result.messages)
    assert result.is_end
    assert result.error is None
    assert result.damaged == []


def test_messages_of_the_segment_being_written_come_back(log: ColdLog) -> None:
    fill(log, 1, 2)
    fill(log, 1)
    result = log.read(1)
    assert seqs_of(result.messages) == list(range(1, 11))
    log.check(1, result.messages)


def test_what_is_written_later_to_the_same_block_is_found(log: ColdLog) -> None:
    fill(log, 1)
    log.read(1)
    fill(log, 1)
    result = log.read(1, first=4)
    assert seqs_of(result.messages) == [4, 5, 6, 7, 8, 9, 10]
    log.check(1, result.messages)


def test_a_sealed_segment_whose_index_is_not_written_yet_is_read(log: ColdLog) -> None:
    fill(log, 1)
    log.roll()
    fill(log, 1)
    assert seqs_of(log.read_all(1)) == list(range(1, 11))


def test_a_merged_segment_is_read_by_its_range(log: ColdLog) -> None:
    log.roll(first_number=2, number=5)
    fill(log, 1)
    log.seal()
    assert log.path(5).endswith("00000002-00000005.seg")
    assert seqs_of(log.read_all(1)) == [1, 2, 3, 4, 5]


def test_settled_messages_and_gaps_are_not_read(log: ColdLog) -> None:
    for _ in range(40):
        log.append(1)
        log.skip(1, 2)
    log.write()
    log.seal()
    log.settle(1, *range(1, 30), 34, 61)
    found = log.read_all(1)
    assert seqs_of(found) == log.live(1)
    assert len(found) == 28
    log.check(1, found)


def test_gaps_and_settled_messages_of_the_segment_being_written_are_not_read(
    log: ColdLog,
) -> None:
    for _ in range(40):
        log.append(1)
        log.skip(1, 2)
    log.write()
    log.settle(1, *range(1, 30), 34, 61)
    found = log.read_all(1, count=3)
    assert seqs_of(found) == log.live(1)
    log.check(1, found)


def test_of_a_range_only_what_is_asked_for_is_read(log: ColdLog) -> None:
    fill(log, 1, count=20)
    log.seal()
    fill(log, 1, count=20)
    log.settle(1, 4, 31)
    asked = [2, 4, 5, 6, 18, 19, 20, 21, 22, 31, 40]
    result = log.read(1, 2, 40, ranges=ranges_of(asked))
    assert seqs_of(result.messages) == [2, 5, 6, 18, 19, 20, 21, 22, 40]
    log.check(1, result.messages)
    assert result.is_end


def test_of_many_ranges_some_are_read_and_said_how_far(log: ColdLog) -> None:
    fill(log, 1, count=400)
    log.seal()
    asked = list(range(1, 400, 2))
    result = log.read(1, 1, 399, ranges=ranges_of(asked))
    assert seqs_of(result.messages) == asked[:SPANS_MAX]
    assert not result.is_end
    assert asked[SPANS_MAX - 1] < result.next_seq <= asked[SPANS_MAX]
    # More of the same segment will be asked for: its index is not read again.
    before = log.cold._reader.index_bytes_read
    log.read(1, int(result.next_seq), 399, ranges=ranges_of(asked[SPANS_MAX:]))
    assert log.cold._reader.index_bytes_read == before


def test_a_message_of_several_queues_is_found_by_each(log: ColdLog) -> None:
    for _ in range(3):
        log.append(2)
        log.append(1, 2, 4)
    log.write()
    log.seal()
    assert seqs_of(log.read_all(1)) == [1, 2, 3]
    assert seqs_of(log.read_all(2)) == [1, 2, 3, 4, 5, 6]
    log.check(4, log.read_all(4))


def test_a_queue_that_nobody_knows_has_nothing(log: ColdLog) -> None:
    result = log.read(77)
    assert result.messages == []
    assert result.is_end
    assert 77 not in log.index.queues


def test_equal_envelopes_that_follow_each_other_are_one_object(log: ColdLog) -> None:
    log.append(1, envelope=b"a key of some length")
    log.append(1, envelope=b"a key of some length")
    log.append(1, envelope=b"another")
    log.write()
    log.seal()
    one, two, three = log.read(1).messages
    assert one.envelope is two.envelope
    assert three.envelope == b"another"


def test_a_message_read_in_place_leaves_the_reader_of_the_thread_alone(
    log: ColdLog,
) -> None:
    fill(log, 1)
    log.seal()
    step = log.begin(1)
    result = log.read(1, count=1, is_in_place=True)
    assert seqs_of(result.messages) == [1]
    step.run()
    assert seqs_of(log.cold.complete(step).messages) == [1, 2, 3, 4, 5]


# -- how much is read


def test_a_window_ends_with_its_count(log: ColdLog) -> None:
    fill(log, 1)
    log.seal()
    fill(log, 1)
    result = log.read(1, count=7)
    assert seqs_of(result.messages) == [1, 2, 3, 4, 5, 6, 7]
    assert result.next_seq == 8
    assert not result.is_end


def test_a_window_ends_with_the_message_that_passes_its_size(log: ColdLog) -> None:
    fill(log, 1)
    log.seal()
    _, _, size = log.places[1, 1]
    assert len(log.read(1, size=2 * size).messages) == 2
    assert len(log.read(1, size=2 * size + 1).messages) == 3
    assert len(log.read(1, size=0).messages) == 1


def test_a_window_ends_with_the_last_seq_asked_for(log: ColdLog) -> None:
    fill(log, 1)
    log.seal()
    result = log.read(1, first=2, last=3)
    assert seqs_of(result.messages) == [2, 3]
    assert result.next_seq == 4
    assert result.is_end


def test_a_window_with_as_many_messages_as_there_are_is_the_end(log: ColdLog) -> None:
    fill(log, 1)
    log.seal()
    result = log.read(1, count=5)
    assert result.is_end


def test_a_window_takes_no_more_than_can_be_done_at_once(log: ColdLog) -> None:
    for _ in range(COUNT_MAX + 10):
        log.append(1)
    log.write()
    log.seal()
    assert len(log.read(1).messages) == COUNT_MAX
    assert len(log.read_all(1)) == COUNT_MAX + 10


def test_a_window_touches_half_of_the_blocks_of_the_cache_at_most(log: ColdLog) -> None:
    for _ in range(BLOCKS_MAX + 8):
        log.append(1)
        log.append(2, content=bytes(256 * 1024))
    log.write()
    log.seal()
    assert BLOCKS_MAX - 2 <= len(log.read(1).messages) <= BLOCKS_MAX
    assert len(log.read_all(1)) == BLOCKS_MAX + 8


def test_a_window_reads_of_many_segments_only_some(log: ColdLog) -> None:
    for _ in range(70):
        fill(log, 1, count=1)
        log.seal()
    result = log.read(1)
    assert result.next_seq == 65
    assert not result.is_end
    assert len(log.read_all(1)) == 70


def test_a_log_that_is_read_to_its_end_leaves_little_in_memory(log: ColdLog) -> None:
    for _ in range(3):
        for _ in range(40):
            log.append(1, content=bytes(30_000))
        log.write()
        log.seal()
    log.read_all(1, count=7)
    assert log.cold.cached_size < 600_000
    size = sum(len(log.filesystem.content(log.path(n))) for n in (1, 2, 3))
    assert log.statistics.cold_bytes <= size


# -- large messages


def test_messages_that_span_blocks_come_back(log: ColdLog) -> None:
    for i in range(12):
        log.append(1, content=bytes([i]) * 100_000)
    log.write()
    log.seal()
    found = log.read_all(1)
    assert len(found) == 12
    log.check(1, found)


@pytest.mark.parametrize("queues", [(1,), tuple(range(1, 400))])
@pytest.mark.parametrize("body", [None, b"", b"b" * 700_000])
def test_a_message_larger_than_a_block_is_read_by_itself(
    log: ColdLog, body: bytes | None, queues: tuple[int, ...]
) -> None:
    log.append(1, content=b"small before")
    log.append(*queues, content=b"c" * 300_000, body=body)
    log.append(1, content=b"small behind")
    log.write()
    log.seal()
    found = log.read_all(1)
    assert len(found) == 3
    log.check(1, found)


def test_a_large_message_is_read_once(log: ColdLog) -> None:
    log.append(1, content=b"head", body=b"b" * 3_000_000)
    log.write()
    log.seal()
    log.read(1)
    assert log.statistics.cold_bytes < 3_010_000
    assert log.statistics.cold_loads == 1


# -- what goes wrong


def test_a_read_that_fails_is_an_error_and_may_be_tried_again(log: ColdLog) -> None:
    fill(log, 1)
    log.seal()
    log.filesystem.fault = Fault(1, errno.EIO, "read")
    failed = log.read(1)
    assert isinstance(failed.error, OSError)
    assert failed.messages == []
    assert failed.next_seq == 1
    assert seqs_of(log.read(1).messages) == [1, 2, 3, 4, 5]


def test_what_was_read_before_a_failure_is_handed_over(log: ColdLog) -> None:
    fill(log, 1)
    log.seal()
    fill(log, 1)
    log.seal()
    # Of each segment: the head of the index, entries, a block.
    log.filesystem.fault = Fault(6, errno.EIO, "read")
    result = log.read(1)
    assert result.error is None
    assert seqs_of(result.messages) == [1, 2, 3, 4, 5]
    assert result.next_seq == 6
    assert not result.is_end


def test_blocks_before_one_that_cannot_be_read_are_used(log: ColdLog) -> None:
    for i in range(12):
        log.append(1, content=bytes([i]) * 100_000)
    log.write()
    log.seal()
    log.filesystem.bad_path = log.path(1)
    log.filesystem.bad_offsets = range(600_000, 600_001)
    result = log.read(1)
    assert seqs_of(result.messages) == [1, 2, 3, 4, 5]
    assert result.error is None
    assert isinstance(log.read(1, first=6).error, OSError)
    log.filesystem.bad_path = ""
    assert seqs_of(log.read(1, first=6).messages) == list(range(6, 13))


def test_a_large_message_that_cannot_be_read_holds_up_what_is_behind(
    log: ColdLog,
) -> None:
    log.append(1)
    log.append(1, body=bytes(1_000_000))
    log.append(1)
    log.write()
    log.seal()
    _, offset, _ = log.places[1, 2]
    log.filesystem.bad_path = log.path(1)
    log.filesystem.bad_offsets = range(offset + 500_000, offset + 500_001)
    assert seqs_of(log.read(1).messages) == [1]
    assert isinstance(log.read(1, first=2).error, OSError)
    log.filesystem.bad_path = ""
    assert seqs_of(log.read(1, first=2).messages) == [2, 3]


def test_a_segment_that_is_gone_is_an_error(log: ColdLog) -> None:
    fill(log, 1)
    log.seal()
    log.filesystem.remove(log.path(1))
    assert isinstance(log.read(1).error, FileNotFoundError)


@pytest.mark.parametrize("where", [0, 4, 5, 9, 20, 45, -2])
def test_a_damaged_record_is_put_aside_and_the_others_are_read(
    log: ColdLog, where: int
) -> None:
    fill(log, 1)
    log.seal()
    _, offset, size = log.places[1, 3]
    log.filesystem.damage(log.path(1), offset + where % size)
    damaged = bytes(log.filesystem.content(log.path(1))[offset : offset + size])
    result = log.read(1)
    assert seqs_of(result.messages) == [1, 2, 4, 5]
    assert result.is_end
    (damage,) = result.damaged
    assert damage.seq == 3
    assert "a record is damaged" in damage.report
    path = f"{QUARANTINE}/00000001-{offset:010d}.bin"
    assert path in damage.report
    assert bytes(log.filesystem.content(path)) == damaged


def test_a_damaged_record_of_the_segment_being_written_is_put_aside(
    log: ColdLog,
) -> None:
    fill(log, 1)
    _, offset, size = log.places[1, 3]
    log.filesystem.damage(log.path(1), offset + size - 1)
    result = log.read(1)
    assert seqs_of(result.messages) == [1, 2, 4, 5]
    assert [damage.seq for damage in result.damaged] == [3]


@pytest.mark.parametrize("where", [0, 50, 3000, 300_000, 900_000, -1])
def test_a_damaged_large_record_is_put_aside(log: ColdLog, where: int) -> None:
    log.append(1)
    log.append(1, content=b"c" * 500_000, body=b"b" * 500_000)
    log.append(1)
    log.write()
    log.seal()
    _, offset, size = log.places[1, 2]
    log.filesystem.damage(log.path(1), offset + where % size)
    result = log.read(1)
    assert seqs_of(result.messages) == [1, 3]
    assert [damage.seq for damage in result.damaged] == [2]


def test_a_disk_without_room_for_quarantine_keeps_nobody_from_reading(
    log: ColdLog,
) -> None:
    fill(log, 1)
    log.seal()
    _, offset, _ = log.places[1, 3]
    log.filesystem.damage(log.path(1), offset + 20)
    log.filesystem.capacity = 0
    result = log.read(1)
    assert seqs_of(result.messages) == [1, 2, 4, 5]
    (damage,) = result.damaged
    assert "left there, for it cannot be saved" in damage.report
    assert not damage.is_saved
    log.filesystem.capacity = 1 << 40
    (damage,) = log.read(1, first=3).damaged
    assert damage.is_saved


def test_bytes_that_were_wrong_in_the_cache_only_are_read_again(log: ColdLog) -> None:
    fill(log, 1)
    log.seal()
    _, offset, _ = log.places[1, 3]
    log.filesystem.damage(log.path(1), offset + 20)
    log.read(1, first=5)
    log.filesystem.damage(log.path(1), offset + 20)
    result = log.read(1)
    assert seqs_of(result.messages) == [1, 2, 3, 4, 5]
    assert result.damaged == []


def test_a_segment_that_ends_early_has_damaged_messages(log: ColdLog) -> None:
    fill(log, 1)
    log.seal()
    _, offset, _ = log.places[1, 4]
    del log.filesystem.content(log.path(1))[offset + 3 :]
    result = log.read(1)
    assert seqs_of(result.messages) == [1, 2, 3]
    assert [damage.seq for damage in result.damaged] == [4, 5]
    assert result.is_end


# -- indexes


# The last bytes are deadlines of five messages, which no read of messages reads.
@pytest.mark.parametrize("where", [0, 9, 30, 70, 80, 100, -45])
def test_a_damaged_index_is_made_again(log: ColdLog, where: int) -> None:
    fill(log, 1, 2)
    log.seal()
    path = index_path(log.path(1))
    before = bytes(log.filesystem.content(path))
    log.filesystem.damage(path, where % len(before))
    for queue_id in (1, 2):
        found = log.read_all(queue_id)
        assert seqs_of(found) == [1, 2, 3, 4, 5]
        log.check(queue_id, found)
    assert bytes(log.filesystem.content(path)) == before


def test_a_missing_index_is_made_again_and_used_by_others(log: ColdLog) -> None:
    fill(log, 1, 2)
    log.seal()
    path = index_path(log.path(1))
    log.filesystem.remove(path)
    assert seqs_of(log.read_all(1)) == [1, 2, 3, 4, 5]
    log.filesystem.calls.clear()
    assert seqs_of(log.read_all(2)) == [1, 2, 3, 4, 5]
    assert "create" not in log.filesystem.calls


@pytest.mark.parametrize("call", ["create", "write", "rename"])
def test_an_index_that_cannot_be_written_is_used_all_the_same(
    log: ColdLog, call: str
) -> None:
    fill(log, 1, 2)
    log.seal()
    log.filesystem.remove(index_path(log.path(1)))
    log.filesystem.fault = Fault(1, errno.ENOSPC, call)
    assert seqs_of(log.read_all(1)) == [1, 2, 3, 4, 5]
    assert seqs_of(log.read_all(2)) == [1, 2, 3, 4, 5]
    names = log.filesystem.list_directory("/data/log")
    assert not [name for name in names if name.endswith(".tmp")]


def test_an_index_that_leads_elsewhere_is_made_again(log: ColdLog) -> None:
    """A merge that failed may leave the index of a file that never came to be."""
    fill(log, 1, count=3)
    fill(log, 2, count=3)
    log.seal()
    other = ColdLog()
    fill(other, 2, count=3)
    fill(other, 1, count=3)
    other.seal()
    path = index_path(log.path(1))
    stale = bytes(other.filesystem.content(path))
    log.filesystem.content(path)[:] = stale
    for queue_id in (1, 2):
        found = log.read_all(queue_id)
        assert seqs_of(found) == [1, 2, 3]
        log.check(queue_id, found)


def test_an_index_without_a_live_message_is_made_again(log: ColdLog) -> None:
    fill(log, 1, count=3)
    log.seal()
    other = ColdLog()
    fill(other, 1, count=2)
    other.seal()
    path = index_path(log.path(1))
    log.filesystem.content(path)[:] = bytes(other.filesystem.content(path))
    assert seqs_of(log.read_all(1)) == [1, 2, 3]


def test_a_message_that_is_nowhere_is_reported(log: ColdLog) -> None:
    fill(log, 1, count=3)
    log.seal()
    log.index.queue(1).add(log.index.segment(1), 4, 4, 1, 100, None)
    result = log.read(1)
    assert seqs_of(result.messages) == [1, 2, 3]
    (damage,) = result.damaged
    assert damage.seq == 4
    assert "does not have message 4" in damage.report


# -- files that go


def test_a_forgotten_segment_is_closed_by_the_next_read(log: ColdLog) -> None:
    fill(log, 1)
    log.seal()
    fill(log, 2)
    log.read(1)
    log.read(1, is_in_place=True)
    assert log.filesystem.is_open(log.path(1))
    log.cold.forget(1)
    assert not log.cold._paths
    log.read(2)
    assert not log.filesystem.is_open(log.path(1))
    assert not log.filesystem.is_open(index_path(log.path(1)))


def test_a_forgotten_segment_is_closed_by_a_step_of_its_own(log: ColdLog) -> None:
    assert log.cold.begin_forgetting() is None
    fill(log, 1)
    log.seal()
    log.read(1)
    log.cold.forget(1)
    step = log.cold.begin_forgetting()
    assert step is not None
    step.run()
    result = log.cold.complete(step)
    assert result.messages == []
    assert not log.filesystem.is_open(log.path(1))
    assert log.cold.begin_forgetting() is None


def test_emptied_caches_keep_nothing_and_are_filled_again(log: ColdLog) -> None:
    fill(log, 1, count=20)
    log.seal()
    for _ in range(2):
        for is_in_place in (False, True):
            found = log.read(1, count=3, is_in_place=is_in_place).messages
            assert seqs_of(found) == [1, 2, 3]
        in_place = log.cold._in_place.cached_size
        kept = log.cold.cached_size
        assert 0 < in_place < kept
        log.cold.empty_caches()
        # That of the reader thread is not touched here.
        assert log.cold.cached_size == kept - in_place
        step = log.cold.begin_forgetting()
        assert step is not None
        step.run()
        log.cold.complete(step)
        assert log.cold.cached_size == 0
        for seeds in (log.cold._seeds, log.cold._in_place_seeds):
            assert not seeds._known
        assert log.cold.begin_forgetting() is None


def test_closing_closes_every_file(log: ColdLog) -> None:
    fill(log, 1)
    log.seal()
    log.read(1)
    log.read(1, is_in_place=True)
    log.cold.close()
    assert not log.filesystem.is_open(log.path(1))


def test_a_segment_whose_index_in_memory_lacks_the_queue_is_indexed_again(
    log: ColdLog,
) -> None:
    fill(log, 1)
    log.unwritten = [SegmentIndex(1, 1)]
    assert seqs_of(log.read_all(1)) == [1, 2, 3, 4, 5]


def test_a_queue_in_very_many_segments_is_read_to_its_end(log: ColdLog) -> None:
    for _ in range(260):
        fill(log, 1, count=1)
        log.seal()
    assert seqs_of(log.read_all(1)) == list(range(1, 261))
