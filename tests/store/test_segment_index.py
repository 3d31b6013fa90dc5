"""The index of a segment: what is written is found again, what is damaged is not."""

import pytest
from librt.strings import BytesWriter

from store.record import MAY_BE_SKIPPED, Delivered, Returned, Settle
from store.segment_index import (
    ENTRY_SIZE,
    HEADER_SIZE,
    SegmentIndex,
    find_run,
    gaps_in,
    index_path,
    read_facts,
    read_header,
    read_run,
    read_seq,
    write_entry,
)
from store.seq_ranges import ranges_of

UUID = b"0123456789abcdef"
FAR = (5 << 32) + 7


def entries(*messages: tuple[int, int, int]) -> bytes:
    out = BytesWriter()
    for seq, offset, size in messages:
        write_entry(out, seq, offset, size)
    return out.getvalue()


def filled() -> SegmentIndex:
    index = SegmentIndex(2, 4)
    index.share(9).add(1, 1, 1, 50, entries((1, 64, 50)))
    index.share(7).add(FAR, FAR + 1, 2, 30, entries((FAR, 4, 10), (FAR + 1, 5, 20)))
    index.share(7).add(FAR + 4, FAR + 4, 1, 30, entries((FAR + 4, 6, 30)))
    index.share(7).settle(ranges_of([1, 2]))
    index.share(7).settle(ranges_of([3]))
    index.share(8).delivered[3] = 12
    index.share(8).returned[5] = Returned(8, 5, 2, 77)
    return index


def file_of(index: SegmentIndex) -> bytes:
    return b"".join(index.chunks(UUID))


def test_the_directory_finds_each_queue_and_nobody_else() -> None:
    data = file_of(filled())
    header = read_header(data, 2, 4, UUID)
    assert header is not None
    assert header.run_count == 2
    directory = data[HEADER_SIZE : HEADER_SIZE + header.directory_size]
    run = find_run(directory, header.run_count, 7)
    assert run is not None
    assert (run.first, run.last, run.count, run.size) == (FAR, FAR + 4, 3, 60)
    assert (run.lane, run.has_gaps) == (0, True)
    found = data[run.entries_at : run.entries_at + run.count * ENTRY_SIZE]
    assert run.are_entries(found)
    assert not run.are_entries(found[:-1])
    assert not run.are_entries(found[:-1] + b"\xff")
    assert [read_seq(found, at, run.first) for at in (0, 12, 24)] == [
        FAR,
        FAR + 1,
        FAR + 4,
    ]
    gaps = gaps_in(found, run.first)
    assert (gaps.firsts, gaps.lasts) == ([FAR + 2], [FAR + 3])
    assert [find_run(directory, 2, other) for other in (6, 8, 10)] == [None] * 3
    assert read_run(directory, 48).queue_id == 9
    assert not read_run(directory, 48).has_gaps


def test_the_facts_of_a_queue_are_joined() -> None:
    data = file_of(filled())
    header = read_header(data, 2, 4, UUID)
    assert header is not None
    head = data[HEADER_SIZE : HEADER_SIZE + header.head_size]
    assert header.is_head(head)
    settle, delivered, returned = read_facts(head, header.directory_size)
    assert isinstance(settle, Settle)
    assert (settle.queue_id, settle.settled.firsts, settle.settled.lasts) == (
        7,
        [1],
        [3],
    )
    assert isinstance(delivered, Delivered)
    assert (delivered.queue_id, delivered.lane, delivered.upper_seq) == (8, 3, 12)
    assert isinstance(returned, Returned)
    assert (returned.seq, returned.delivery_count, returned.not_before_ms) == (5, 2, 77)


def test_facts_that_may_be_skipped_are_skipped() -> None:
    facts = b"".join(list(filled().chunks(UUID))[1:2])
    header = read_header(file_of(filled()), 2, 4, UUID)
    assert header is not None
    start = int(header.directory_size)
    unknown = bytearray(facts)
    unknown[start + 4] = 99
    unknown[start + 6] |= MAY_BE_SKIPPED
    kinds = [type(fact) for fact in read_facts(bytes(unknown), start)]
    assert kinds == [type(fact) for fact in read_facts(facts, start)][1:]
    assert kinds == [Delivered, Returned]


def test_writing_an_index_leaves_it_as_it_was() -> None:
    index = filled()
    assert file_of(index) == file_of(index)


@pytest.mark.parametrize("offset", [0, 8, 12, 16, 24, 32, 48, 56, 60])
def test_a_damaged_header_is_none(offset: int) -> None:
    data = bytearray(file_of(filled()))
    data[offset] ^= 1
    assert read_header(bytes(data), 2, 4, UUID) is None


def test_an_index_of_another_segment_or_store_is_none() -> None:
    data = file_of(filled())
    assert read_header(data, 1, 4, UUID) is None
    assert read_header(data, 2, 3, UUID) is None
    assert read_header(data, 2, 4, bytes(16)) is None
    assert read_header(data[:63], 2, 4, UUID) is None


def test_damaged_facts_are_not_the_head() -> None:
    data = file_of(filled())
    header = read_header(data, 2, 4, UUID)
    assert header is not None
    head = bytearray(data[HEADER_SIZE : HEADER_SIZE + header.head_size])
    head[-1] ^= 1
    assert not header.is_head(bytes(head))
    assert not header.is_head(bytes(head[:-1]))


def test_a_queue_that_a_segment_has_nothing_of_is_not_found() -> None:
    index = filled()
    assert index.find(1) is None
    assert index.find(7) is index.share(7)


def test_an_index_lies_beside_its_segment() -> None:
    assert index_path("/log/00000001-00000003.seg") == "/log/00000001-00000003.idx"
