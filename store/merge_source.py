"""What a merge must copy of one segment: the records that somebody still needs.

The index knows which seqs are live, the segment's `.idx` where they lie. Both are
walked together in slices, one row of the directory after the other, and what is
found is sorted by offset, so that the segment is read from front to back:

    queue 3   live 7, 9        .idx  7 at 4120, 8 at 9800, 9 at 310400
    queue 5   live 2           .idx  2 at 9800
                               buckets  0: 4120 9800   1: 310400

A message of several queues is found once for each and copied once. Sorting is by
bucket, when it is that one's turn: a segment of small messages holds more than can
be sorted within a turn of the loop.

It does not read files, and it does not know records.
"""

from array import array
from typing import Final, final

from mypy_extensions import i64

from store import segment_index
from store.errors import StoreDamaged
from store.index import Index, LiveSpan
from store.record import read_u32
from store.segment_index import ENTRY_SIZE, IndexedRun, read_run, read_seq

_BUCKET_BITS: Final = 18
_BUCKET_MASK: Final = (1 << _BUCKET_BITS) - 1
_SIZE_BITS: Final = 32
_SIZE_MASK: Final = 0xFFFFFFFF

# What one slice may do besides looking messages up: dead seqs are skipped eight at
# a time, and checksums are made by the processor.
_DEAD_A_UNIT: Final = 64
_ENTRIES_A_UNIT: Final = 256


class IndexDamaged(StoreDamaged):
    """A segment's index file is missing or not what was written; it can be made."""


@final
class LiveRecords:
    """The live records of one segment, found in slices, taken in order of offset."""

    __slots__ = (
        "_bucket_count",
        "_buckets",
        "_data",
        "_directory",
        "_entries",
        "_number",
        "_position",
        "_row",
        "_row_at",
        "_seq",
        "_sorted",
        "_spans",
        "offset",
        "reference_count",
        "size",
    )

    def __init__(
        self, first_number: i64, number: i64, store_uuid: bytes, data: bytes
    ) -> None:
        """Begin with the content of the segment's index file.

        Raises:
            IndexDamaged: the file is not what was written.
        """
        self._number = number
        self._data = data
        header = segment_index.read_header(data, first_number, number, store_uuid)
        head = b""
        if header is not None:
            begin: i64 = segment_index.HEADER_SIZE
            head = data[begin : begin + header.head_size]
        if header is None or not header.is_head(head):
            raise self.damaged()
        self._directory: bytes = head[: header.directory_size]
        self._row_at: i64 = 0
        self._row = IndexedRun(0, 0, 0, 0, 0, 0, 0, 0)
        self._entries = b""
        self._position: i64 = 0
        self._spans: list[LiveSpan] = []
        self._seq: i64 = 0
        self._buckets: list[array[int]] = []
        self._sorted: list[int] = []
        # Buckets that were sorted and taken.
        self._bucket_count: i64 = 0
        # Where the record lies that `next` went on to.
        self.offset: i64 = 0
        self.size: i64 = 0
        # How many references were live when they were looked at.
        self.reference_count: i64 = 0

    def damaged(self) -> IndexDamaged:
        """Return what to raise if the file is not what was written."""
        return IndexDamaged(f"the index file of segment {self._number} is damaged")

    # -- finding

    def advance(self, index: Index, units: i64) -> i64:
        """Look up about so many messages; return what is left of the units.

        With none left there is more to do.

        Raises:
            IndexDamaged: the entries are not what was written.
        """
        while units > 0:
            if len(self._spans) > 0:
                units = self._walk(units)
            elif self._row_at < len(self._directory):
                units -= self._begin_row(index)
            else:
                return units
        return 0

    def _begin_row(self, index: Index) -> i64:
        row = read_run(self._directory, self._row_at)
        self._row_at += segment_index.ROW_SIZE
        queue = index.queues.get(int(row.queue_id))
        if queue is None:
            return 1
        spans = queue.spans(row.first, row.last, row.last - row.first + 1)
        if len(spans) == 0:
            return 1
        end = row.entries_at + row.count * ENTRY_SIZE
        self._entries = self._data[row.entries_at : end]
        if not row.are_entries(self._entries):
            raise self.damaged()
        spans.reverse()
        self._row = row
        self._position = 0
        self._spans = spans
        self._seq = spans[-1].first
        return 1 + row.count // _ENTRIES_A_UNIT

    def _walk(self, units: i64) -> i64:
        span = self._spans[-1]
        dead = span.dead
        seq = self._seq
        while units > 0:
            if dead is not None:
                alive = dead.next_alive(seq)
                units -= (alive - seq) // _DEAD_A_UNIT
                seq = alive
            if seq > span.last:
                self._spans.pop()
                if len(self._spans) > 0:
                    self._seq = self._spans[-1].first
                return units
            self._find(seq)
            seq += 1
            units -= 1
        self._seq = seq
        return 0

    def _find(self, seq: i64) -> None:
        """Note where a live message lies; its entry is behind the one before."""
        entries = self._entries
        first = self._row.first
        low = self._position
        # Where it is if no seq is missing, else further ahead.
        high: i64 = min(seq - first, self._row.count - 1)
        if high < low:
            raise self.damaged()
        if read_seq(entries, high * ENTRY_SIZE, first) == seq:
            low = high
        while low < high:
            middle = (low + high) // 2
            if read_seq(entries, middle * ENTRY_SIZE, first) < seq:
                low = middle + 1
            else:
                high = middle
        at = low * ENTRY_SIZE
        if read_seq(entries, at, first) != seq:
            raise self.damaged()
        self._position = low + 1
        self.reference_count += 1
        self._add(read_u32(entries, at + 4), read_u32(entries, at + 8))

    def _add(self, offset: i64, size: i64) -> None:
        bucket = offset >> _BUCKET_BITS
        while len(self._buckets) <= bucket:
            self._buckets.append(array("q"))
        key = (offset & _BUCKET_MASK) << _SIZE_BITS | size
        self._buckets[bucket].append(key)

    # -- taking

    def next(self) -> bool:
        """Go on to the next record by offset; say whether there is one."""
        while len(self._sorted) == 0:
            if self._bucket_count >= len(self._buckets):
                return False
            found = self._buckets[self._bucket_count]
            self._buckets[self._bucket_count] = array("q")
            self._sorted = sorted(set(found), reverse=True)
            self._bucket_count += 1
        key: i64 = self._sorted.pop()
        base = (self._bucket_count - 1) << _BUCKET_BITS
        self.offset = base + (key >> _SIZE_BITS)
        self.size = key & _SIZE_MASK
        return True
