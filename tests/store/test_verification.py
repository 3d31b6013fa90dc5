"""What a verification of a log finds, and what it lets pass."""

import random

import pytest

from store import batch, segment_index
from store.checksum import crc32
from store.errors import VersionUnknown
from store.segment import HEADER_SIZE, header_of
from store.segment_index import SegmentIndex, index_path
from store.verification import Verification
from tests.support.log_tools import damages, notes, survey_of, verified
from tests.support.memory_filesystem import MemoryFileSystem
from tests.support.written_log import LOG, UUID, WrittenLog

FIRST = f"{LOG}/00000001.seg"
FIRST_RECORD = HEADER_SIZE + batch.HEADER_SIZE


def long_log() -> WrittenLog:
    """Segments 1 to 4 with two checkpoints, settles, deliveries and returns."""
    log = WrittenLog()
    for number in range(1, 5):
        log.messages(1, number * 10, number * 10 + 1)
        log.messages(2, number)
        log.write(log.begin().settle(1, number * 10).deliver(1, number * 10 + 1))
        log.write(log.begin().give_back(1, number * 10 + 1, 1))
        if number > 2:
            log.checkpoint()
        if number < 4:
            log.seal()
    return log


def everything(filesystem: MemoryFileSystem) -> dict[str, bytes]:
    return {
        f"{LOG}/{name}": bytes(filesystem.content(f"{LOG}/{name}"))
        for name in filesystem.list_directory(LOG)
    }


# -- what is sound


def test_a_log_that_was_stopped_cleanly_is_sound_and_nothing_is_to_be_said() -> None:
    log = long_log()
    log.stop()
    assert damages(log) == []
    assert notes(log) == []


def test_a_log_whose_broker_was_killed_is_sound() -> None:
    log = long_log()
    log.write(log.begin().message((1, 90)), sync=False)
    log.filesystem.content(log.path)[log.end - 5] ^= 1
    assert damages(log) == []
    first, second = notes(log)
    assert "not stopped cleanly" in first
    assert "never known to be durable" in second


def test_a_recovered_log_is_sound() -> None:
    log = long_log()
    log.go_on(log.recover())
    log.messages(1, 70)
    assert damages(log) == []


def test_an_empty_log_is_sound() -> None:
    log = WrittenLog()
    assert damages(log) == []
    log.filesystem.remove(FIRST)
    assert damages(log) == []


def test_dead_segments_and_their_index_files_may_be_gone() -> None:
    log = long_log()
    log.settle(1, 11)
    log.settle(2, 1)
    log.checkpoint()
    log.checkpoint()
    assert log.remove_dead() == 1
    assert damages(log) == []


def test_a_missing_index_file_is_only_mentioned() -> None:
    log = long_log()
    log.filesystem.remove(index_path(FIRST))
    assert damages(log) == []
    assert any("1 segments have no index file" in line for line in notes(log))


def test_what_is_of_queues_that_are_gone_is_only_mentioned() -> None:
    log = long_log()
    log.known.discard(2)
    assert damages(log) == []
    assert any("queues that are gone" in line for line in notes(log))


def test_a_verification_touches_nothing() -> None:
    log = long_log()
    log.filesystem.damage(FIRST, FIRST_RECORD + 20)
    log.filesystem.damage(index_path(FIRST), 70)
    before = everything(log.filesystem)
    log.filesystem.calls.clear()
    verified(log)
    assert everything(log.filesystem) == before
    reading = {"list_directory", "open_for_reading", "read", "read_file", "size"}
    assert set(log.filesystem.calls) <= reading


def test_progress_ends_at_the_size_of_all_segments() -> None:
    log = long_log()
    verification = Verification(survey_of(log))
    done = [verification.bytes_done]
    while not verification.advance():
        done.append(verification.bytes_done)
    assert done == sorted(set(done))
    assert verification.bytes_done == verification.bytes_total
    assert verification.segment_count == 4


# -- what is damaged


@pytest.mark.parametrize("number", [1, 3])
def test_a_changed_byte_of_any_segment_is_found(number: int) -> None:
    """Of segments that the checkpoint covers, and of those that it does not."""
    path = long_log().path_of(number)
    size = len(long_log().filesystem.content(path))
    chosen = random.Random(number).sample(range(12, size), 30)
    for offset in chosen:
        log = long_log()
        log.filesystem.damage(path, offset)
        assert damages(log), offset


def test_a_changed_byte_of_any_index_file_is_found_and_no_damage() -> None:
    """Nobody syncs it: after a power cut it may be anything, and it is made again."""
    path = index_path(FIRST)
    for offset in range(0, len(long_log().filesystem.content(path)), 3):
        log = long_log()
        log.filesystem.damage(path, offset)
        verification = verified(log)
        assert not verification.survey.is_damaged, offset
        assert verification.torn_index_count == 1, offset
        assert any(path in line for line in notes(log)), offset


def test_a_changed_byte_of_any_checkpoint_is_found() -> None:
    for name in ("checkpoint.00000001", "checkpoint.00000002"):
        path = f"{LOG}/{name}"
        for offset in range(0, len(long_log().filesystem.content(path)), 7):
            log = long_log()
            log.filesystem.damage(path, offset)
            # Byte 9 is a version's: that ends it.
            if 8 <= offset <= 9:
                continue
            assert damages(log), (name, offset)


def test_an_index_file_with_right_checksums_that_says_something_else_is_found() -> None:
    log = long_log()
    other = SegmentIndex(1, 1)
    other.share(1).add(10, 10, 1, 80, bytes(segment_index.ENTRY_SIZE))
    log.put(index_path(FIRST), b"".join(other.chunks(UUID)))
    (line,) = damages(log)
    assert line == (
        f"{index_path(FIRST)} does not say what its segment holds of queue 1"
    )


def test_an_index_file_that_lacks_a_queue_is_found() -> None:
    log = long_log()
    log.put(index_path(FIRST), b"".join(SegmentIndex(1, 1).chunks(UUID)))
    assert "does not say what its segment holds" in damages(log)[0]


def test_an_index_file_need_not_say_anything_of_queues_that_are_gone() -> None:
    log = long_log()
    right = SegmentIndex(1, 1)
    log.put(index_path(FIRST), b"".join(right.chunks(UUID)))
    log.known = {3}
    assert damages(log) == []


def test_an_index_file_that_lacks_a_fact_is_found() -> None:
    log = long_log()
    path = log.path_of(2)
    right = log.filesystem.content(index_path(path))
    # The same messages, and nothing of what was settled, delivered and returned.
    log.seal()
    bare = WrittenLog()
    bare.number, bare.next_batch = 2, 2
    bare._open()
    bare.messages(1, 20, 21)
    bare.messages(2, 2)
    bare.cut()
    bare.write_index(2)
    assert len(bare.filesystem.content(index_path(path))) < len(right)
    log.put(index_path(path), bytes(bare.filesystem.content(index_path(path))))
    assert "does not say what its segment holds of queue 1" in damages(log)[0]


def test_an_index_file_that_has_a_queue_too_many_is_found() -> None:
    log = long_log()
    index = SegmentIndex(1, 1)
    index.share(3).add(10, 10, 1, 80, bytes(segment_index.ENTRY_SIZE))
    log.put(index_path(FIRST), b"".join(index.chunks(UUID)))
    log.known = {3}
    assert "does not say what its segment holds of queue 3" in damages(log)[0]


def test_an_index_file_with_a_fact_that_this_version_does_not_know_is_found() -> None:
    log = long_log()
    data = bytearray(log.filesystem.content(index_path(FIRST)))
    facts_at = segment_index.HEADER_SIZE + 2 * segment_index.ROW_SIZE
    data[facts_at + 4] = 99
    facts_size = int.from_bytes(data[48:56])
    head = bytes(data[segment_index.HEADER_SIZE : facts_at + facts_size])
    data[56:60] = crc32(head).to_bytes(4)
    data[60:64] = crc32(bytes(data[:60])).to_bytes(4)
    log.put(index_path(FIRST), bytes(data))
    (line,) = damages(log)
    assert line.startswith(f"{index_path(FIRST)} cannot be used: ")


def test_entries_of_a_segment_with_gaps_are_counted_one_by_one() -> None:
    log = WrittenLog()
    log.messages(1, 1, 2, 4, 5, 6, 9)
    log.settle(1, 5)
    log.seal()
    log.messages(1, 10)
    log.seal()
    log.checkpoint()
    assert damages(log) == []


def test_messages_that_a_queue_needs_and_its_segment_has_not_are_counted() -> None:
    log = long_log()
    # A checkpoint that knows one message more than segment 1 ever had.
    log.index.queue(3).add(log.index.segment(1), 1, 1, 1, 80, None)
    log.checkpoint()
    assert damages(log) == [f"queues need 1 messages of {FIRST} that are not in it"]


def test_a_missing_segment_that_queues_need_is_found() -> None:
    log = long_log()
    log.filesystem.remove(FIRST)
    assert damages(log) == [f"{FIRST} is missing, and queues need 2 messages of it"]


def test_a_missing_segment_that_the_checkpoint_does_not_cover_is_found() -> None:
    log = long_log()
    log.seal()
    log.messages(1, 50)
    log.seal()
    log.messages(1, 60)
    log.filesystem.remove(log.path_of(5))
    (line,) = damages(log)
    assert line.startswith(f"{LOG}/00000005.seg: missing")


def test_all_missing_segments_without_a_checkpoint_are_named() -> None:
    log = WrittenLog()
    for seq in range(1, 6):
        log.messages(1, seq)
        log.seal()
    log.messages(1, 9)
    for number in (2, 3):
        log.filesystem.remove(log.path_of(number))
    (line,) = damages(log)
    assert line.startswith(f"{LOG}/00000002.seg to 00000003.seg: missing")


def test_a_log_without_the_segment_that_its_checkpoint_begins_in_is_damaged() -> None:
    log = long_log()
    log.stop()
    log.filesystem.remove(log.path_of(4))
    assert any("00000004.seg: missing" in line for line in damages(log))


def test_a_queue_id_that_was_never_given_out_is_found_once() -> None:
    log = long_log()
    log.highest = 2
    log.known.discard(3)
    log.write(log.begin().message((77, 1)))
    log.write(log.begin().message((77, 2)).settle(78, 1))
    survey = verified(log).survey
    lines = [finding.text for finding in survey.findings if finding.is_damage]
    assert ["queue id 77" in lines[0], "queue id 78" in lines[1]] == [True, True]
    assert len(lines) == 2
    assert survey.unknown_queue_id == 78


def test_a_queue_id_that_only_the_checkpoint_names_is_found() -> None:
    log = long_log()
    log.highest = 1
    log.known = {1}
    log.seal()
    log.index.queue(55).note_delivered(0, 1)
    log.checkpoint()
    assert any("queue id 55" in line for line in damages(log))


def test_files_of_another_store_are_named_and_left_out() -> None:
    log = long_log()
    other = b"another store..."
    log.put(f"{LOG}/00000009.seg", header_of(9, 9, other))
    log.put(f"{LOG}/notes.txt", b"remember the milk")
    survey = verified(log).survey
    assert survey.foreign == [f"{LOG}/notes.txt", f"{LOG}/00000009.seg"]
    assert "none of the store's files" in survey.findings[0].text
    assert "belongs to another store" in survey.findings[1].text


def test_a_checkpoint_of_another_store_is_left_out() -> None:
    log = long_log()
    path = f"{LOG}/checkpoint.00000002"
    survey = survey_of(log)
    survey.store_uuid = b"another store..."
    survey.look()
    assert path in survey.foreign
    assert survey.position is None


def test_a_segment_under_a_wrong_name_is_left_out() -> None:
    log = long_log()
    data = bytes(log.filesystem.content(FIRST))
    log.put(f"{LOG}/00000009.seg", data)
    (line,) = [line for line in damages(log) if "9.seg" in line]
    assert line.endswith("says that it is segment 1")


def test_a_file_of_another_version_cannot_be_verified() -> None:
    log = long_log()
    header = bytearray(header_of(9, 9, UUID))
    header[9] = 99
    header[60:64] = crc32(bytes(header[:60])).to_bytes(4)
    log.put(f"{LOG}/00000009.seg", bytes(header))
    with pytest.raises(VersionUnknown, match="has format version 99"):
        verified(log)


def test_a_record_that_this_version_does_not_know_is_damage() -> None:
    log = long_log()
    data = log.filesystem.content(FIRST)
    size = int.from_bytes(data[FIRST_RECORD : FIRST_RECORD + 4])
    data[FIRST_RECORD + 4] = 99
    end = FIRST_RECORD + size - 4
    checksum = crc32(bytes(data[FIRST_RECORD:end]), batch.seed_of(1, 1))
    data[end : end + 4] = checksum.to_bytes(4)
    assert any("a record of type 99" in line for line in damages(log))


def test_what_is_in_quarantine_is_mentioned() -> None:
    log = long_log()
    log.put("/data/quarantine/00000001-0000000064.bin", b"x")
    assert "/data/quarantine holds 1 files" in notes(log)
