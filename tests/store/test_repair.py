"""What a repair makes of a damaged log: only what is damaged is lost."""

import random

import pytest

from store import batch
from store.checksum import crc32
from store.errors import QueueIdUnknown, StoreDamaged, StoreError, StoreForeign
from store.repair import Repair, move_aside
from store.segment import HEADER_SIZE, header_of
from store.segment_index import index_path
from tests.support.log_tools import damages, repair, survey_of, verified
from tests.support.memory_filesystem import MemoryFileSystem
from tests.support.written_log import DIRECTORY, LOG, UUID, WrittenLog, live_seqs

FIRST = f"{LOG}/00000001.seg"
FIRST_RECORD = HEADER_SIZE + batch.HEADER_SIZE
QUARANTINE = f"{DIRECTORY}/quarantine"


def long_log() -> WrittenLog:
    """Segments 1 to 4 with two checkpoints, at the beginning of 3 and of 4."""
    log = WrittenLog()
    for number in range(1, 5):
        log.messages(1, number * 10, number * 10 + 1)
        log.messages(2, number)
        log.write(log.begin().settle(1, number * 10).deliver(1, number * 10 + 1))
        if number > 2:
            log.checkpoint()
        if number < 4:
            log.seal()
    return log


def lose(log: WrittenLog, queue_id: int, *seqs: int) -> None:
    """The model: these were damaged."""
    log.live[queue_id] -= set(seqs)


def start(log: WrittenLog, error: type[StoreError] | None = None) -> None:
    """A start is refused, or finds what the model has."""
    log.filesystem.restart()
    if error is not None:
        with pytest.raises(error, match="amqpd store repair"):
            log.recover()
        return
    recovered = log.recover()
    assert recovered.report.is_clean
    log.check(recovered)


def repaired(log: WrittenLog) -> list[str]:
    lines = repair(log)
    verification = verified(log)
    assert [one.text for one in verification.survey.findings if one.is_damage] == []
    assert verification.torn_index_count == 0
    return lines


def quarantine(log: WrittenLog) -> list[str]:
    return sorted(log.filesystem.list_directory(QUARANTINE))


# -- checkpoints


def test_a_log_whose_checkpoints_are_all_damaged_is_replayed() -> None:
    log = long_log()
    for number in (1, 2):
        log.filesystem.damage(f"{LOG}/checkpoint.{number:08d}", 150)
    start(log, StoreDamaged)
    repaired(log)
    assert quarantine(log) == ["checkpoint.00000001", "checkpoint.00000002"]
    start(log)


def test_a_damaged_checkpoint_beside_a_good_one_is_moved_aside() -> None:
    log = long_log()
    log.filesystem.damage(f"{LOG}/checkpoint.00000002", 150)
    lines = repaired(log)
    assert f"{LOG}/checkpoint.00000003 is written" in lines
    start(log)


def test_a_repaired_log_can_be_written_on() -> None:
    log = long_log()
    log.filesystem.damage(f"{LOG}/checkpoint.00000002", 150)
    repaired(log)
    log.go_on(log.recover())
    log.messages(1, 100)
    assert damages(log) == []
    log.filesystem.restart()
    log.check(log.recover())


# -- segments


def test_only_the_record_that_is_damaged_is_lost() -> None:
    log = long_log()
    log.filesystem.damage(FIRST, FIRST_RECORD + 60)
    lines = repaired(log)
    # Settled long ago.
    lose(log, 1, 10)
    assert quarantine(log)[0].startswith("00000001-")
    assert any("is written anew" in line for line in lines)
    start(log)


def test_a_lost_message_that_a_queue_needs_is_counted() -> None:
    log = long_log()
    path = log.path_of(2)
    # The second message of the first batch of segment 2 is seq 21 of queue 1.
    data = bytes(log.filesystem.content(path))
    size = int.from_bytes(data[FIRST_RECORD : FIRST_RECORD + 4])
    log.filesystem.damage(path, FIRST_RECORD + size + 60)
    lines = repaired(log)
    assert f"1 messages of {path} are lost" in lines
    lose(log, 1, 21)
    start(log)


def test_a_lost_message_behind_the_checkpoint_is_simply_not_there() -> None:
    log = long_log()
    path = log.path_of(4)
    data = bytes(log.filesystem.content(path))
    size = int.from_bytes(data[FIRST_RECORD : FIRST_RECORD + 4])
    log.filesystem.damage(path, FIRST_RECORD + size + 60)
    repaired(log)
    lose(log, 1, 41)
    start(log)


@pytest.mark.parametrize("seed", range(12))
def test_any_damage_is_repaired_and_loses_no_more_than_it_hits(seed: int) -> None:
    chance = random.Random(seed)
    log = long_log()
    names = [name for name in log.names() if not name.endswith(".tmp")]
    hit = chance.sample(names, 3)
    for name in hit:
        path = f"{LOG}/{name}"
        size = len(log.filesystem.content(path))
        # Not a version: what another version wrote is not damaged.
        log.filesystem.damage(path, chance.randrange(12, size))
    if not damages(log):
        return
    repaired(log)
    log.filesystem.restart()
    recovered = log.recover()
    for queue_id in (1, 2):
        found = set(live_seqs(recovered, queue_id))
        if f"{LOG}/checkpoint.00000002" not in hit:
            assert len(log.live[queue_id] - found) <= 4
        assert recovered.queues[queue_id].next_seq >= max(found, default=0) + 1


def test_a_segment_whose_header_is_damaged_is_written_anew() -> None:
    log = long_log()
    log.filesystem.damage(FIRST, 3)
    repaired(log)
    start(log)


def test_a_segment_of_which_nothing_is_left_is_written_without_records() -> None:
    log = long_log()
    content = log.filesystem.content(FIRST)
    content[HEADER_SIZE:] = b"\x55" * (len(content) - HEADER_SIZE)
    repaired(log)
    lose(log, 1, 11)
    lose(log, 2, 1)
    start(log)


def test_what_is_needed_of_a_missing_segment_is_given_up() -> None:
    log = long_log()
    log.messages(3, 1)
    log.filesystem.remove(FIRST)
    start(log, StoreDamaged)
    lines = repaired(log)
    assert any("queue id 1 has lost 1 messages" in line for line in lines)
    assert not any("queue id 3" in line for line in lines)
    lose(log, 1, 11)
    lose(log, 2, 1)
    start(log)


def test_a_missing_segment_behind_the_checkpoint_takes_its_settles_along() -> None:
    log = long_log()
    log.seal()
    log.settle(1, 41)
    log.seal()
    log.messages(1, 60)
    log.filesystem.remove(log.path_of(5))
    start(log, StoreDamaged)
    repaired(log)
    log.live[1].add(41)
    start(log)


def test_the_end_of_the_log_is_made_durable() -> None:
    log = long_log()
    log.write(log.begin().message((1, 90)), sync=False)
    log.filesystem.damage(FIRST, FIRST_RECORD + 60)
    repaired(log)
    log.filesystem.power_cut(False)
    lose(log, 1, 10)
    log.live[1].add(90)
    log.upper[1] = 90
    start(log)


def test_a_record_that_nobody_knows_is_saved_and_left_out() -> None:
    log = long_log()
    data = log.filesystem.content(FIRST)
    size = int.from_bytes(data[FIRST_RECORD : FIRST_RECORD + 4])
    data[FIRST_RECORD + 4] = 99
    end = FIRST_RECORD + size - 4
    checksum = crc32(bytes(data[FIRST_RECORD:end]), batch.seed_of(1, 1))
    data[end : end + 4] = checksum.to_bytes(4)
    saved = bytes(data[FIRST_RECORD : FIRST_RECORD + size])
    repaired(log)
    (name,) = [name for name in quarantine(log) if name.endswith(".bin")]
    assert log.filesystem.read_file(f"{QUARANTINE}/{name}") == saved
    start(log)


def test_a_segment_that_was_only_prepared_does_not_pass_for_a_damaged_one() -> None:
    log = long_log()
    log.put(f"{LOG}/00000005.seg", header_of(5, 5, UUID) + bytes(4096))
    log.filesystem.damage(FIRST, FIRST_RECORD + 60)
    repaired(log)
    lose(log, 1, 10)
    start(log)


def test_a_torn_segment_behind_one_that_is_missing_is_moved_aside() -> None:
    log = long_log()
    log.filesystem.remove(log.path_of(4))
    del log.filesystem.content(log.path_of(3))[89:]
    repaired(log)
    assert "00000003.seg" in quarantine(log)
    lose(log, 1, 31, 41)
    lose(log, 2, 3, 4)
    start(log)


# -- index files


def test_a_wrong_index_file_is_moved_aside_and_made_again() -> None:
    log = long_log()
    right = bytes(log.filesystem.content(index_path(FIRST)))
    log.filesystem.damage(index_path(FIRST), 70)
    repaired(log)
    assert quarantine(log)[0] == "00000001.idx"
    assert bytes(log.filesystem.content(index_path(FIRST))) == right
    start(log)


def test_a_missing_index_file_is_made_when_something_else_is_repaired() -> None:
    log = long_log()
    log.filesystem.remove(index_path(FIRST))
    log.filesystem.damage(index_path(log.path_of(2)), 70)
    assert f"{index_path(FIRST)} is made again" in repaired(log)
    start(log)


# -- what does not belong


def test_files_of_others_are_moved_aside() -> None:
    log = long_log()
    other = header_of(5, 5, b"another store...")
    log.put(f"{LOG}/00000005.seg", other)
    log.put(f"{LOG}/notes.txt", b"remember the milk")
    start(log, StoreForeign)
    repaired(log)
    assert log.filesystem.read_file(f"{QUARANTINE}/00000005.seg") == other
    assert log.filesystem.read_file(f"{QUARANTINE}/notes.txt") == b"remember the milk"
    start(log)


def test_a_log_that_is_another_store_s_altogether_is_moved_aside() -> None:
    log = long_log()
    before = {
        name: bytes(log.filesystem.content(f"{LOG}/{name}"))
        for name in log.names()
        if name.endswith(".seg")
    }
    for name in before:
        numbers = int(name[:8])
        content = log.filesystem.content(f"{LOG}/{name}")
        content[:HEADER_SIZE] = header_of(numbers, numbers, b"another store...")
    for number in (1, 2):
        log.filesystem.remove(f"{LOG}/checkpoint.{number:08d}")
    repaired(log)
    assert [name for name in quarantine(log) if name.endswith(".seg")] == sorted(before)
    log.live, log.upper, log.delivered = {}, {}, {}
    start(log)


def test_messages_of_queue_ids_that_nobody_knows_are_given_up() -> None:
    log = long_log()
    log.write(log.begin().message((77, 1)))
    start(log, QueueIdUnknown)
    repair(log)
    # Only the metadata can say that the id was given out.
    log.highest = 77
    assert damages(log) == []
    del log.live[77]
    start(log)


def test_a_file_that_is_moved_aside_never_takes_the_place_of_another() -> None:
    filesystem = MemoryFileSystem()
    for content in (b"first", b"second", b"third"):
        descriptor = filesystem.create(f"{LOG}/notes.txt")
        filesystem.write(descriptor, [content], 0)
        filesystem.sync(descriptor)
        filesystem.close(descriptor)
        move_aside(filesystem, DIRECTORY, [f"{LOG}/notes.txt"])
    filesystem.power_cut(False)
    names = sorted(filesystem.list_directory(QUARANTINE))
    assert names == ["notes.txt", "notes.txt.1", "notes.txt.2"]
    contents = [filesystem.read_file(f"{QUARANTINE}/{name}") for name in names]
    assert contents == [b"first", b"second", b"third"]


def test_moving_nothing_makes_no_quarantine() -> None:
    filesystem = MemoryFileSystem()
    assert move_aside(filesystem, DIRECTORY, []) == []
    assert filesystem.calls == []


# -- progress


def test_progress_ends_at_the_size_of_all_segments() -> None:
    work = Repair(survey_of(long_log()))
    assert work.bytes_done == 0
    while not work.advance():
        pass
    assert work.bytes_done == work.bytes_total
