"""Which entries of a queue a window takes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from librt.strings import BytesWriter

from store.cold_cache import BLOCK_SIZE
from store.cold_entries import OFFSET_AT, Room, Selection, are_within
from store.dead_seqs import DeadSeqs
from store.record import read_u32
from store.segment_index import ENTRY_SIZE, read_seq, write_entry
from tests.support.cold_log import dead_of

PLENTY = 1 << 40


def entries_of(*seqs: int, size: int = 100) -> bytes:
    out = BytesWriter()
    for at, seq in enumerate(seqs):
        write_entry(out, seq, 64 + at * size, size)
    return out.getvalue()


def select(
    entries: bytes,
    first: int,
    last: int,
    dead: DeadSeqs | None = None,
    count: int = PLENTY,
    size: int = PLENTY,
    blocks: int = PLENTY,
) -> Selection:
    selection = Selection(entries, Room(count, size, blocks))
    selection.run(first, last, dead)
    return selection


def taken(selection: Selection, first: int) -> list[int]:
    entries = selection.taken
    return [
        int(read_seq(entries, at, first)) for at in range(0, len(entries), ENTRY_SIZE)
    ]


def test_every_seq_of_a_range_is_taken() -> None:
    selection = select(entries_of(*range(10, 30)), 12, 20)
    assert taken(selection, 12) == list(range(12, 21))
    assert selection.next_seq == 21
    assert selection.missing == []


def test_dead_seqs_are_not_taken() -> None:
    dead = dead_of(10, 12, 14, 15, 19)
    selection = select(entries_of(*range(10, 20)), 11, 19, dead)
    assert taken(selection, 11) == [11, 13, 16, 17, 18]
    assert selection.next_seq == 20


def test_entries_keep_their_places() -> None:
    selection = select(entries_of(10, 11, 12), 11, 12)
    assert read_u32(selection.taken, OFFSET_AT) == 164


@pytest.mark.parametrize("base", [5, (1 << 32) - 3, (1 << 40) - 3])
def test_only_the_low_half_of_a_seq_is_compared(base: int) -> None:
    selection = select(entries_of(*range(base, base + 8)), base + 1, base + 6)
    assert taken(selection, base + 1) == list(range(base + 1, base + 7))


def test_no_more_than_the_room_is_taken() -> None:
    entries = entries_of(*range(1, 20))
    assert taken(select(entries, 1, 19, count=3), 1) == [1, 2, 3]
    assert taken(select(entries, 1, 19, size=250), 1) == [1, 2, 3]
    assert select(entries, 1, 19, count=3).next_seq == 4
    assert select(entries, 1, 19, count=3).room.count == 0


def test_no_more_blocks_than_the_room_are_touched() -> None:
    entries = entries_of(*range(1, 20), size=BLOCK_SIZE // 2)
    selection = select(entries, 1, 19, blocks=3)
    # The last one that began in the third block reaches into the fourth.
    assert [block.number for block in selection.wanted] == [0, 1, 2]
    assert taken(selection, 1) == [1, 2, 3, 4]


def test_what_is_wanted_of_each_block_is_noted() -> None:
    size = BLOCK_SIZE // 2
    selection = select(entries_of(1, 2, 3, size=size), 1, 3)
    wanted = [
        (block.number, block.start, block.end, block.size) for block in selection.wanted
    ]
    assert wanted == [
        (0, 64, BLOCK_SIZE, BLOCK_SIZE - 64),
        (1, 0, 64 + size, 64 + size),
    ]


def test_of_a_large_message_no_block_is_wanted() -> None:
    selection = select(entries_of(1, size=BLOCK_SIZE + 1), 1, 1)
    assert taken(selection, 1) == [1]
    assert selection.wanted == []


def test_live_seqs_without_an_entry_are_missing() -> None:
    selection = select(entries_of(1, 2, 5), 1, 7)
    assert taken(selection, 1) == [1, 2, 5]
    assert selection.missing == [3, 4, 6, 7]
    assert selection.next_seq == 8


def test_without_entries_all_are_missing() -> None:
    assert select(b"", 1, 3).missing == [1, 2, 3]


def test_entries_that_overlap_are_not_believed() -> None:
    entries = entries_of(1, 2) + entries_of(3)
    assert select(entries, 1, 3).missing == [3]


def test_missing_ones_count() -> None:
    assert select(b"", 1, 1000, count=10).missing == list(range(1, 11))


@given(
    base=st.sampled_from([1, 1000, (1 << 32) - 20]),
    steps=st.lists(st.integers(1, 40), min_size=1, max_size=60),
    alive=st.data(),
    count=st.integers(1, 50),
)
def test_what_is_taken_is_what_a_list_says(
    base: int, steps: list[int], alive: st.DataObject, count: int
) -> None:
    seqs = [base]
    for step in steps:
        seqs.append(seqs[-1] + step)
    live = alive.draw(st.sets(st.sampled_from(seqs)))
    dead = DeadSeqs(base, bytearray())
    for seq in range(base, seqs[-1] + 1):
        if seq not in live:
            dead.add(seq, seq)
    first = alive.draw(st.integers(base, seqs[-1]))
    last = alive.draw(st.integers(first, seqs[-1]))
    selection = select(entries_of(*seqs), first, last, dead, count=count)
    expected = [seq for seq in sorted(live) if first <= seq <= last]
    assert taken(selection, first) == expected[:count]
    assert selection.missing == []


def test_entries_are_within_others() -> None:
    many = entries_of(1, 2, 3, 4)
    assert are_within(many, many)
    assert are_within(b"", many)
    assert are_within(many[:12] + many[24:36], many)
    assert not are_within(many, many[12:])
    assert not are_within(entries_of(2), many)


def test_a_range_may_begin_before_the_first_entry() -> None:
    selection = select(entries_of(10, 11), 5, 11, dead_of(5, 5, 6, 7, 8, 9))
    assert taken(selection, 5) == [10, 11]
