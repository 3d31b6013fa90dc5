"""Windows of many queues that are read in the order in which they lie."""

import random
import sys
from collections.abc import Sequence

import pytest

from store.cold_cache import BLOCK_SIZE
from store.cold_read import ColdRead
from store.cold_store import ReadResult
from store.seq_ranges import ranges_of
from store.shared_read import SharedRead
from store.stored_message import StoredMessage
from tests.support.cold_log import QUARANTINE, ColdLog, seqs_of

CREDIT = 64 * 1024 * 1024


@pytest.fixture
def log() -> ColdLog:
    return ColdLog()


def fill(log: ColdLog, queues: Sequence[int], count: int, size: int = 100) -> None:
    """Write so many messages of each queue, in turn."""
    for at in range(count):
        for queue_id in queues:
            content = f"{queue_id} {at}".encode()
            log.append(queue_id, content=content + bytes(size - len(content)))
    log.write()


def run(log: ColdLog, reads: list[ColdRead]) -> list[ReadResult]:
    shared = SharedRead(reads)
    while shared.advance():
        pass
    return [log.cold.complete(read) for read in reads]


def read(log: ColdLog, queues: Sequence[int], count: int = 1 << 20) -> list[ReadResult]:
    return run(log, [log.begin(queue_id, count=count) for queue_id in queues])


def read_all(
    log: ColdLog, queues: Sequence[int], windows: random.Random
) -> dict[int, list[StoredMessage]]:
    """Read queues to their ends, windows of some of them at a time."""
    found: dict[int, list[StoredMessage]] = {queue_id: [] for queue_id in queues}
    due = dict.fromkeys(queues, 1)
    while due:
        chosen = [queue for queue in due if windows.random() < 0.7]
        if not chosen:
            continue
        reads = [
            log.begin(queue, due[queue], count=windows.randrange(1, 9))
            for queue in chosen
        ]
        for queue, result in zip(chosen, run(log, reads), strict=True):
            assert result.error is None
            assert result.damaged == []
            assert result.next_seq > due[queue]
            assert all(due[queue] <= m.seq < result.next_seq for m in result.messages)
            found[queue] += result.messages
            due[queue] = int(result.next_seq)
            if result.is_end:
                del due[queue]
    return found


def damage(log: ColdLog, queue_id: int, seq: int) -> None:
    number, offset, size = log.places[queue_id, seq]
    log.filesystem.damage(log.path(number), offset + size - 5)


@pytest.mark.parametrize("seed", range(8))
def test_each_queue_gets_all_that_is_live_in_order(log: ColdLog, seed: int) -> None:
    rng = random.Random(seed)
    queues = range(1, 8)
    for _ in range(6):
        for _ in range(rng.randrange(40)):
            chosen = rng.sample(queues, rng.choice((1, 1, 1, 2, 3)))
            size = rng.choice((10, 1_000, 40_000, BLOCK_SIZE + 1))
            log.append(*chosen, content=rng.randbytes(size))
            if rng.random() < 0.2:
                log.skip(chosen[0], rng.randrange(1, 4))
        if log._waiting:
            log.write()
        if rng.random() < 0.5:
            log.seal()
        elif rng.random() < 0.5:
            log.roll()
    for queue_id in queues:
        live = log.live(queue_id)
        log.settle(queue_id, *rng.sample(live, len(live) // 3))
    found = read_all(log, queues, rng)
    for queue_id in queues:
        assert seqs_of(found[queue_id]) == log.live(queue_id)
        log.check(queue_id, found[queue_id])


def test_interleaved_queues_cost_one_reading_of_the_log(log: ColdLog) -> None:
    queues = range(1, 51)
    fill(log, queues, 60, 1_000)
    log.seal()
    size = sum(place[2] for place in log.places.values())
    assert size > 10 * BLOCK_SIZE
    due = 1
    while due <= 60:
        reads = [log.begin(queue, due, count=7) for queue in queues]
        results = run(log, reads)
        assert [len(result.messages) for result in results] == [min(7, 61 - due)] * 50
        due += 7
    assert int(log.statistics.cold_bytes) <= size * 1.01


def test_where_little_is_wanted_no_more_than_that_is_read(log: ColdLog) -> None:
    fill(log, range(1, 101), 30, 1_000)
    log.seal()
    # What a block ahead may cost was used up.
    reads = [log.begin(queue) for queue in (7, 9)]
    reads[0].reader._credit = 0
    results = run(log, reads)
    assert [len(result.messages) for result in results] == [30, 30]
    assert log.statistics.cold_bytes < 70 * 1_100


def test_what_is_read_for_a_few_messages_does_not_stay_in_memory(log: ColdLog) -> None:
    fill(log, range(1, 11), 200, 1_000)
    log.seal()
    reads = [log.begin(queue) for queue in (7, 9)]
    results = run(log, reads)
    assert log.statistics.cold_bytes > 3 * BLOCK_SIZE
    for step, result in zip(reads, results, strict=True):
        assert len(result.messages) == 200
        assert sum(len(message.content) for message in step.messages) < 200 * 1_200


def test_a_stretch_is_let_go_when_its_messages_were_taken(
    log: ColdLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(log, range(1, 11), 200, 1_000)
    log.seal()
    stretches: list[bytes] = []
    read_file = log.filesystem.read

    def note(descriptor: int, size: int, offset: int) -> bytes:
        data = read_file(descriptor, size, offset)
        if len(data) > BLOCK_SIZE // 2:
            stretches.append(data)
        return data

    monkeypatch.setattr(log.filesystem, "read", note)
    shared = SharedRead([log.begin(queue) for queue in (7, 9)])
    while shared.advance():
        # Here, in the argument, and in the one that may be out.
        assert sum(sys.getrefcount(stretches[i]) > 2 for i in range(len(stretches))) < 2
    assert len(stretches) > 3


def test_whatever_a_stretch_fails_with_is_the_error_of_each(
    log: ColdLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(log, [1, 2], 5)
    log.seal()
    reads = [log.begin(queue) for queue in (1, 2)]
    shared = SharedRead(reads)
    # All is selected.
    assert shared.advance()

    def fail(descriptor: int, size: int, offset: int) -> bytes:
        raise MemoryError

    monkeypatch.setattr(log.filesystem, "read", fail)
    while shared.advance():
        pass
    for read in reads:
        assert isinstance(log.cold.complete(read).error, MemoryError)


def test_a_window_goes_on_in_the_next_segment(log: ColdLog) -> None:
    fill(log, [1, 2], 5)
    log.seal()
    fill(log, [2, 1], 5)
    one, two = read(log, [1, 2], 8)
    assert seqs_of(one.messages) == seqs_of(two.messages) == list(range(1, 9))
    assert (one.next_seq, one.is_end) == (9, False)


def test_a_window_may_end_where_a_segment_does(log: ColdLog) -> None:
    fill(log, [1, 2], 5)
    log.seal()
    fill(log, [1, 2], 5)
    for result in read(log, [1, 2], 5):
        assert seqs_of(result.messages) == [1, 2, 3, 4, 5]
        assert (result.next_seq, result.is_end) == (6, False)


def test_of_ranges_nothing_else_is_read_and_the_index_is_kept(log: ColdLog) -> None:
    fill(log, [1, 2], 9)
    log.seal()
    reads = [log.begin(1, 1, 9, ranges=ranges_of([2, 3, 9])), log.begin(2)]
    one, two = run(log, reads)
    assert (seqs_of(one.messages), one.is_end) == ([2, 3, 9], True)
    assert seqs_of(two.messages) == list(range(1, 10))
    before = reads[0].reader.index_bytes_read
    run(log, [log.begin(1, 1, 9, ranges=ranges_of([4, 6])), log.begin(5)])
    assert reads[0].reader.index_bytes_read == before


def test_a_queue_that_has_nothing_is_at_its_end(log: ColdLog) -> None:
    fill(log, [1], 2)
    nothing, one = read(log, [5, 1])
    assert (nothing.messages, nothing.is_end, nothing.error) == ([], True, None)
    assert one.is_end
    (alone,) = read(log, [5])
    assert (alone.messages, alone.is_end, alone.error) == ([], True, None)


def test_a_damaged_record_ends_its_window_and_is_told_of_by_the_next(
    log: ColdLog,
) -> None:
    fill(log, [1, 2], 9)
    log.seal()
    damage(log, 2, 4)
    one, two = read(log, [1, 2])
    assert seqs_of(one.messages) == list(range(1, 10))
    assert (seqs_of(two.messages), two.next_seq, two.damaged) == ([1, 2, 3], 4, [])
    one, two = run(log, [log.begin(1, 8), log.begin(2, 4)])
    assert seqs_of(one.messages) == [8, 9]
    assert (two.damaged_seqs, seqs_of(two.messages)) == ([4], [5, 6, 7, 8, 9])
    assert len(log.filesystem.list_directory(QUARANTINE)) == 1


def test_a_segment_without_its_index_gets_another(log: ColdLog) -> None:
    fill(log, [1, 2], 5)
    number = log.number
    log.seal()
    log.put_index(number, b"nothing")
    for result in read(log, [1, 2]):
        assert seqs_of(result.messages) == [1, 2, 3, 4, 5]


def test_an_index_that_lacks_a_message_is_made_again(log: ColdLog) -> None:
    fill(log, [1, 2], 5)
    number = log.number
    whole = log.unwritten[0]
    share = whole.find(2)
    assert share is not None
    del share.entries[24:36]
    share.count -= 1
    log.seal()
    log.forget_caches()
    one, two = read(log, [1, 2])
    assert seqs_of(one.messages) == seqs_of(two.messages) == [1, 2, 3, 4, 5]
    assert log.number > number


def test_what_cannot_be_read_ends_windows_or_is_their_error(log: ColdLog) -> None:
    fill(log, [1, 2], 5, 100_000)
    fill(log, [3], 5, 100_000)
    log.seal()
    number, offset, _ = log.places[1, 3]
    log.filesystem.bad_path = log.path(number)
    log.filesystem.bad_offsets = range(offset, 1 << 40)
    one, three = read(log, [1, 3])
    assert one.error is None
    assert seqs_of(one.messages) == [1, 2][: len(one.messages)]
    assert 1 <= len(one.messages) == one.next_seq - 1
    assert isinstance(three.error, OSError)
    log.filesystem.bad_path = ""
    (again,) = read(log, [3])
    assert seqs_of(again.messages) == [1, 2, 3, 4, 5]


def test_a_record_of_its_own_that_cannot_be_read_ends_its_window(log: ColdLog) -> None:
    fill(log, range(1, 101), 9, 1_000)
    log.seal()
    number, offset, _ = log.places[7, 4]
    log.filesystem.bad_path = log.path(number)
    log.filesystem.bad_offsets = range(offset, offset + 1)
    reads = [log.begin(queue) for queue in (7, 9)]
    reads[0].reader._credit = 0
    seven, nine = run(log, reads)
    assert (seqs_of(seven.messages), seven.error) == ([1, 2, 3], None)
    assert len(nine.messages) == 9


def test_an_index_that_cannot_be_read_is_the_error_of_each(log: ColdLog) -> None:
    fill(log, [1, 2], 5)
    path = log.path(log.number)
    log.seal()
    log.filesystem.bad_path = path.replace(".seg", ".idx")
    log.filesystem.bad_offsets = range(1 << 40)
    for result in read(log, [1, 2]):
        assert isinstance(result.error, OSError)
        assert result.messages == []


def test_files_that_went_are_closed_first(log: ColdLog) -> None:
    fill(log, [1, 2], 5)
    path = log.path(log.number)
    log.seal()
    read(log, [1, 2])
    assert log.filesystem.is_open(path)
    log.cold.forget(log.number - 1)
    fill(log, [1, 2], 5)
    read(log, [3, 4])
    assert not log.filesystem.is_open(path)
