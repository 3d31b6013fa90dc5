"""Which of a queue's entries in a segment a cold read takes.

A read wants what is live from one seq on, so much of it as fits. Of each span of
seqs in one segment the live ones are looked up among the queue's entries there,
which stand in the order of seqs and of offsets alike:

    seqs      40   41   42   43   44        entries   40 @ 64   41 @ 301   44 @ 998
    dead       .    x    .    .    .        taken     40, 44; 42 and 43 are missing

`missing` are seqs that are live and have no entry: then the entries are not what was
written. It does not know files; blocks are numbers here.
"""

from typing import Final, final

from librt.strings import BytesWriter
from mypy_extensions import i64, mypyc_attr

from store.cold_cache import BLOCK_BITS, BLOCK_SIZE, WantedBlock
from store.dead_seqs import DeadSeqs
from store.record import read_u32
from store.segment_index import ENTRY_SIZE, read_seq, write_entry

OFFSET_AT: Final = 4
SIZE_AT: Final = 8


@final
@mypyc_attr(acyclic=True)
class Room:
    """How much a read may still take."""

    __slots__ = ("blocks", "count", "size")

    def __init__(self, count: i64, size: i64, blocks: i64) -> None:
        self.count = count
        # The message that passes the size is the last one.
        self.size = size
        self.blocks = blocks

    def copy(self) -> "Room":
        """Return as much room."""
        return Room(self.count, self.size, self.blocks)

    @property
    def is_empty(self) -> bool:
        """Say whether nothing more fits."""
        return self.count <= 0 or self.size <= 0 or self.blocks <= 0


@final
@mypyc_attr(acyclic=True)
class Selection:
    """The entries taken of one span, and the blocks their records lie in."""

    __slots__ = (
        "_entries",
        "_out",
        "_upper",
        "_wants_blocks",
        "missing",
        "next_seq",
        "room",
        "wanted",
    )

    def __init__(self, entries: bytes, room: Room, wants_blocks: bool = True) -> None:
        self._entries = entries
        self.room = room
        # Who reads with others has no blocks of its own.
        self._wants_blocks = wants_blocks
        self._out = BytesWriter()
        # Where the last record that was taken ends.
        self._upper: i64 = 0
        # Blocks in rising order.
        self.wanted: list[WantedBlock] = []
        self.missing: list[int] = []
        # All that is live below it was taken, or is missing.
        self.next_seq: i64 = 0

    @property
    def taken(self) -> bytes:
        """Return the entries that were taken."""
        return self._out.getvalue()

    def run(self, first: i64, last: i64, dead: DeadSeqs | None) -> None:
        """Take what is live between two seqs, until there is no room."""
        entries = self._entries
        size: i64 = len(entries)
        room = self.room
        self.next_seq = first
        # From there on no entry's seq is below `first`.
        at = _find(entries, first)
        seq = first
        while not room.is_empty:
            if dead is not None:
                seq = dead.next_alive(seq)
            if seq > last:
                self.next_seq = last + 1
                return
            is_next = at < size and read_seq(entries, at, first) == seq
            if not is_next:
                at = self._seek(at, seq, first)
                is_next = at < size and read_seq(entries, at, first) == seq
            if is_next:
                self._take(seq, at)
                at += ENTRY_SIZE
            else:
                self.missing.append(seq)
                room.count -= 1
            seq += 1
            self.next_seq = seq

    def _seek(self, at: i64, seq: i64, first: i64) -> i64:
        """Return where the first entry of `seq` or a later one stands, from `at` on."""
        entries = self._entries
        if at >= len(entries):
            return at
        ahead = seq - read_seq(entries, at, first)
        if ahead <= 0:
            return at
        # Seqs rise by one or more from entry to entry; mostly by one.
        low = at // ENTRY_SIZE + 1
        high: i64 = min(at // ENTRY_SIZE + ahead, len(entries) // ENTRY_SIZE)
        guess = high * ENTRY_SIZE
        if guess < len(entries) and read_seq(entries, guess, first) == seq:
            return guess
        while low < high:
            middle = (low + high) // 2
            if read_seq(entries, middle * ENTRY_SIZE, first) < seq:
                low = middle + 1
            else:
                high = middle
        return low * ENTRY_SIZE

    def _take(self, seq: i64, at: i64) -> None:
        offset = read_u32(self._entries, at + OFFSET_AT)
        size = read_u32(self._entries, at + SIZE_AT)
        if offset < self._upper:
            # Records do not overlap: these entries are of something else.
            self.missing.append(seq)
            return
        self._upper = offset + size
        room = self.room
        room.count -= 1
        room.size -= size
        write_entry(self._out, seq, offset, size)
        if size > BLOCK_SIZE or not self._wants_blocks:
            # What is larger is read by a call of its own.
            return
        number = offset >> BLOCK_BITS
        start = offset & (BLOCK_SIZE - 1)
        end = start + size
        if end > BLOCK_SIZE:
            self._want(number, start, BLOCK_SIZE, size)
            number += 1
            start = 0
            end -= BLOCK_SIZE
        self._want(number, start, end, size)

    def _want(self, number: i64, start: i64, end: i64, size: i64) -> None:
        wanted = self.wanted
        if wanted and wanted[-1].number == number:
            wanted[-1].extend(start, end, size)
        else:
            wanted.append(WantedBlock(number, start, end, size))
            self.room.blocks -= 1


def _find(entries: bytes, seq: i64) -> i64:
    """Return where the first entry of `seq` or a later one stands."""
    low: i64 = 0
    high: i64 = len(entries) // ENTRY_SIZE
    if high == 0:
        return 0
    # Seqs relative to the first entry's: only low halves are there.
    start = read_u32(entries, 0)
    wanted = (seq - start) & 0xFFFFFFFF
    if wanted >> 31:
        # Before the first entry.
        return 0
    while low < high:
        middle = (low + high) // 2
        if (read_u32(entries, middle * ENTRY_SIZE) - start) & 0xFFFFFFFF < wanted:
            low = middle + 1
        else:
            high = middle
    return low * ENTRY_SIZE


def are_within(few: bytes, many: bytes) -> bool:
    """Say whether all of the first entries are among the others."""
    if few == many:
        return True
    at: i64 = 0
    for start in range(0, len(few), ENTRY_SIZE):
        entry = few[start : start + ENTRY_SIZE]
        while at < len(many) and many[at : at + ENTRY_SIZE] != entry:
            at += ENTRY_SIZE
        if at >= len(many):
            return False
        at += ENTRY_SIZE
    return True
