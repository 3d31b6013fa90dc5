"""A checkpoint: an index, taken in slices, comes back as it was."""

import sys
from array import array

import pytest

from store import checkpoint
from store.checkpoint import (
    Checkpoint,
    CheckpointBuilder,
    CheckpointHeader,
    SavedQueue,
    parse_checkpoint,
    read_header,
)
from store.checksum import crc32
from store.errors import StoreForeign, VersionUnknown
from store.index import Index, QueueIndex
from store.record import Returned
from store.seq_ranges import ranges_of

UUID = b"0123456789abcdef"


def header(is_clean: bool = False) -> CheckpointHeader:
    return CheckpointHeader(12, 3, 4711, 99, is_clean)


def an_index() -> Index:
    """Queue 7 with two runs and dead seqs, queue 8 with a run, queue 9 with none."""
    index = Index()
    queue = index.queue(7)
    queue.add(index.segment(1), 1, 10, 10, 1000, None)
    queue.add(index.segment(2), 11, 20, 7, 700, ranges_of([12, 13, 14]))
    queue.settle(ranges_of([1, 5, 7, 20]))
    queue.note_delivered(0, 4)
    queue.note_delivered(3, 6)
    queue.note_returned(Returned(7, 4, 2, 70))
    queue.note_returned(Returned(7, 5, 1, 0))
    index.queue(8).add(index.segment(2), 1, 3, 3, 300, None)
    gone = index.queue(9)
    gone.add(index.segment(1), 1, 4, 4, 40, None)
    gone.settle(ranges_of([1, 2, 3, 4]))
    return index


def built(index: Index, units: int = 1, is_clean: bool = False) -> bytes:
    builder = CheckpointBuilder(index, UUID, header(is_clean))
    while not builder.advance(units):
        pass
    return b"".join(builder.chunks())


def parsed(data: bytes) -> Checkpoint | None:
    found = read_header(data, "path", UUID)
    return None if found is None else parse_checkpoint(data, found)


def saved(data: bytes) -> dict[int, SavedQueue]:
    found = parsed(data)
    assert found is not None
    queues = {}
    while (queue := found.next_queue()) is not None:
        queues[int(queue.queue_id)] = queue
    return queues


def restored(data: bytes) -> Index:
    index = Index()
    for queue_id, queue in saved(data).items():
        index.queue(queue_id).restore(queue.runs, queue.dead, queue.upper_seq)
    return index


def live(queue: QueueIndex) -> list[int]:
    return [seq for seq in range(1, int(queue.upper_seq) + 1) if queue.is_live(seq)]


@pytest.mark.parametrize("units", [1, 2, 1000])
def test_an_index_comes_back_as_it_was(units: int) -> None:
    index = an_index()
    data = built(index, units)
    again = restored(data)
    assert sorted(again.queues) == [7, 8, 9]
    for queue_id, queue in index.queues.items():
        other = again.queues[queue_id]
        assert live(other) == live(queue)
        assert other.upper_seq == queue.upper_seq
        assert other.live_count == queue.live_count
        assert other.live_size == queue.live_size
    for number in (1, 2):
        assert again.segment(number).references == index.segment(number).references
        assert again.segment(number).live_size == index.segment(number).live_size


def test_what_was_delivered_and_came_back_is_in_it() -> None:
    queue = saved(built(an_index()))[7]
    assert queue.delivered == {0: 4, 3: 6}
    # The other one is settled.
    assert sorted(queue.returned) == [4]
    one = queue.returned[4]
    assert (one.queue_id, one.seq) == (7, 4)
    assert (one.delivery_count, one.not_before_ms) == (2, 70)


def test_the_header_says_how_far_the_log_was_durable() -> None:
    found = read_header(built(an_index()), "path", UUID)
    assert found is not None
    assert (found.number, found.segment, found.offset) == (12, 3, 4711)
    assert found.next_batch == 99
    assert not found.is_clean
    clean = read_header(built(an_index(), is_clean=True), "path", UUID)
    assert clean is not None
    assert clean.is_clean


def test_a_checkpoint_of_nothing_is_one_too() -> None:
    data = built(Index())
    assert len(data) == checkpoint.HEADER_SIZE
    assert saved(data) == {}


def test_each_queue_is_taken_at_once_while_the_others_go_on() -> None:
    index = Index()
    for queue_id in (1, 2, 3):
        index.queue(queue_id).add(index.segment(1), 1, 3, 3, 30, None)
    builder = CheckpointBuilder(index, UUID, header())
    assert not builder.advance(1)
    for queue_id in (1, 2, 3):
        index.queue(queue_id).settle(ranges_of([1]))
    index.queue(4).add(index.segment(2), 1, 3, 3, 30, None)
    while not builder.advance(1):
        pass
    again = restored(b"".join(builder.chunks()))
    # One was taken before, two after; what comes later is in the log.
    counts = sorted(int(queue.live_count) for queue in again.queues.values())
    assert counts == [2, 2, 3]


def test_a_queue_that_goes_meanwhile_is_not_in_it() -> None:
    index = an_index()
    builder = CheckpointBuilder(index, UUID, header())
    index.forget_queue(7)
    builder.advance(1000)
    assert sorted(restored(b"".join(builder.chunks())).queues) == [8, 9]


def test_what_changes_later_is_not_in_it() -> None:
    index = an_index()
    builder = CheckpointBuilder(index, UUID, header())
    builder.advance(1000)
    index.queue(7).settle(ranges_of([2, 3, 4, 6, 8]))
    again = restored(b"".join(builder.chunks()))
    assert live(again.queues[7])[:3] == [2, 3, 4]


def test_a_slice_is_bounded_by_what_it_takes() -> None:
    index = Index()
    for queue_id in range(1, 101):
        for number in range(1, 200):
            segment = index.segment(number)
            index.queue(queue_id).add(segment, number, number, 1, 10, None)
    builder = CheckpointBuilder(index, UUID, header())
    slices = 1
    while not builder.advance(10):
        slices += 1
    assert slices > 20


@pytest.mark.parametrize("at", range(checkpoint.HEADER_SIZE))
def test_any_byte_of_the_header_damaged_is_noticed(at: int) -> None:
    data = bytearray(built(an_index()))
    data[at] ^= 0x10
    assert parsed(bytes(data)) is None


def test_any_byte_of_the_sections_damaged_is_noticed() -> None:
    good = built(an_index())
    for at in range(checkpoint.HEADER_SIZE, len(good)):
        data = bytearray(good)
        data[at] ^= 0x10
        assert parsed(bytes(data)) is None


def test_a_checkpoint_that_is_cut_or_too_long_is_damaged() -> None:
    good = built(an_index())
    assert parsed(good[:-1]) is None
    assert parsed(good + b"x") is None
    assert parsed(good[: checkpoint.HEADER_SIZE - 1]) is None


def changed(data: bytes, at: int, value: bytes) -> bytes:
    """Change bytes of the header and make its checksum right again."""
    head = bytearray(data[: checkpoint.HEADER_SIZE])
    head[at : at + len(value)] = value
    head[-4:] = crc32(bytes(head[:-4])).to_bytes(4)
    return bytes(head) + data[checkpoint.HEADER_SIZE :]


def test_another_version_is_refused() -> None:
    with pytest.raises(VersionUnknown, match="some/path has format version 2"):
        read_header(changed(built(Index()), 8, b"\0\2"), "some/path", UUID)


def test_another_store_is_refused() -> None:
    with pytest.raises(StoreForeign, match="some/path belongs to another store"):
        read_header(built(Index()), "some/path", b"x" * 16)


def test_a_checkpoint_of_a_machine_of_the_other_byte_order_is_read() -> None:
    data = built(an_index())
    found = read_header(data, "path", UUID)
    assert found is not None
    bits = found.section_sizes[5]
    numbers = array("q")
    numbers.frombytes(data[checkpoint.HEADER_SIZE : len(data) - bits])
    numbers.byteswap()
    body = numbers.tobytes() + data[len(data) - bits :]
    mark = (0x01020304 if sys.byteorder == "little" else 0x04030201).to_bytes(4)
    other = changed(changed(data, 112, mark), 116, crc32(body).to_bytes(4))
    other = other[: checkpoint.HEADER_SIZE] + body
    assert live(restored(other).queues[7]) == live(an_index().queues[7])


def test_it_is_written_only_when_all_queues_are_taken() -> None:
    builder = CheckpointBuilder(an_index(), UUID, header())
    with pytest.raises(AssertionError):
        builder.chunks()
