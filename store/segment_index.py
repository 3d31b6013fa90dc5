"""The index of one segment: where each queue's messages lie, and its facts.

It grows in memory while the segment is written and becomes the file beside it when
the segment is sealed: `00000003.seg`, `00000003.idx`.

    0   magic "amqpdidx", version u16, 0 u16, runs u32, first number u64, number u64,
        store uuid 16 bytes, facts size u64, checksum of directory and facts u32,
        checksum of the 60 bytes before u32
    64  directory   48 bytes a run, by queue:
                    queue u32, lane u16, 0 u16, first seq u64, last seq u64, count u32,
                    entries' offset in the file u32, bytes u64, entries' checksum u32,
                    count of deadlines u32
    ..  facts       records: what the segment says about each queue, joined
    ..  entries     12 bytes a message, by run, in seq order:
                    low half of the seq u32, offset in the segment u32, size u32;
                    behind a run's entries its deadlines, 8 bytes a message that has
                    one: the second that is over when its time is u32, low half of the
                    seq u32; and behind these their checksum u32

The file can be made again from the segment, so nobody syncs it: one that is missing or
damaged is made again. It says what was written, not what is still live.
"""

import struct
from typing import Final, final

from librt.strings import BytesWriter, read_i64_be, write_i32_be
from mypy_extensions import i64

from store import record
from store.checksum import crc32
from store.record import Record, Returned, read_record, read_u32, signed32
from store.seq_ranges import Ranges, SeqRanges

MAGIC: Final = b"amqpdidx"
VERSION: Final = 2
HEADER_SIZE: Final = 64
ROW_SIZE: Final = 48
ENTRY_SIZE: Final = 12
DEADLINE_SIZE: Final = 8
SUFFIX: Final = ".idx"

_HEADER: Final = struct.Struct(">8sHHIQQ16sQI")
_CHECKSUM: Final = struct.Struct(">I")
_ROW: Final = struct.Struct(">IHHQQIIQII")
_U32: Final = 0xFFFFFFFF
_NO_CHECKSUM: Final = bytes(record.CHECKSUM_SIZE)
_SEGMENT_SUFFIX: Final = ".seg"


def index_path(segment_path: str) -> str:
    """Return the name of the index of a segment file."""
    assert segment_path.endswith(_SEGMENT_SUFFIX), "indexes are of segments"
    return segment_path[: -len(_SEGMENT_SUFFIX)] + SUFFIX


def write_entry(out: BytesWriter, seq: i64, offset: i64, size: i64) -> None:
    """Write where one message lies."""
    write_i32_be(out, signed32(seq & 0xFFFFFFFF))
    write_i32_be(out, signed32(offset))
    write_i32_be(out, signed32(size))


def second_of(deadline_ms: i64) -> i64:
    """Return the second that begins when a deadline is over."""
    return deadline_ms // 1000 + 1


def write_deadline(out: BytesWriter, seq: i64, deadline_ms: i64) -> None:
    """Write when a message's time is over, if that is in this century or the next."""
    second = second_of(deadline_ms)
    if second <= _U32:
        write_i32_be(out, signed32(second))
        write_i32_be(out, signed32(seq & _U32))


@final
class IndexedRun:
    """One queue's messages in a segment, as the directory has them."""

    __slots__ = (
        "count",
        "deadline_count",
        "entries_at",
        "entries_checksum",
        "first",
        "lane",
        "last",
        "queue_id",
        "size",
    )

    def __init__(
        self,
        queue_id: i64,
        lane: i64,
        first: i64,
        last: i64,
        count: i64,
        size: i64,
        entries_at: i64,
        entries_checksum: i64,
        deadline_count: i64 = 0,
    ) -> None:
        self.queue_id = queue_id
        self.lane = lane
        self.first = first
        self.last = last
        self.count = count
        # Bytes of the records, each counted whole for every queue it goes to.
        self.size = size
        self.entries_at = entries_at
        self.entries_checksum = entries_checksum
        # How many of them have a deadline.
        self.deadline_count = deadline_count

    @property
    def deadlines_at(self) -> i64:
        """Return the offset of the deadlines in the file."""
        return self.entries_at + self.count * ENTRY_SIZE

    @property
    def deadlines_size(self) -> i64:
        """Return how many bytes the deadlines and their checksum take."""
        if self.deadline_count == 0:
            return 0
        return self.deadline_count * DEADLINE_SIZE + record.CHECKSUM_SIZE

    def deadlines_in(self, data: bytes) -> bytes | None:
        """Return the deadlines that were read with their checksum; None if damaged."""
        if self.deadline_count == 0:
            return b""
        end = self.deadline_count * DEADLINE_SIZE
        if len(data) != self.deadlines_size or crc32(data[:end]) != read_u32(data, end):
            return None
        return data[:end]

    @property
    def has_gaps(self) -> bool:
        """Say whether a seq between the first and the last was not written."""
        return self.count != self.last - self.first + 1

    def are_entries(self, data: bytes) -> bool:
        """Say whether these bytes are the run's entries."""
        if len(data) != self.count * ENTRY_SIZE:
            return False
        return crc32(data) == self.entries_checksum


def read_seq(entries: bytes, at: i64, first: i64) -> i64:
    """Return the seq of the entry at an offset; none is below `first`."""
    return first + ((read_u32(entries, at) - first) & 0xFFFFFFFF)


def gaps_in(entries: bytes, first: i64) -> Ranges:
    """Return the seqs between a run's first and last that have no entry."""
    firsts: list[int] = []
    lasts: list[int] = []
    due = first
    for at in range(0, len(entries), ENTRY_SIZE):
        seq = read_seq(entries, at, first)
        if seq > due:
            firsts.append(due)
            lasts.append(seq - 1)
        due = seq + 1
    return Ranges(firsts, lasts)


@final
class QueueShare:
    """What a segment that is being written holds of one queue."""

    __slots__ = (
        "count",
        "deadlines",
        "delivered",
        "entries",
        "first",
        "last",
        "queue_id",
        "returned",
        "settled",
        "size",
    )

    def __init__(self, queue_id: i64) -> None:
        self.queue_id = queue_id
        self.deadlines = bytearray()
        self.first: i64 = 0
        self.last: i64 = 0
        self.count: i64 = 0
        self.size: i64 = 0
        self.entries = bytearray()
        self.settled = SeqRanges()
        self.delivered: dict[int, int] = {}
        self.returned: dict[int, Returned] = {}

    def add(self, first: i64, last: i64, count: i64, size: i64, entries: bytes) -> None:
        """Add messages that were written; their seqs follow those before."""
        if self.count == 0:
            self.first = first
        self.last = last
        self.count += count
        self.size += size
        self.entries += entries

    def settle(self, ranges: Ranges) -> None:
        """Add what a settle record of the segment says."""
        for i in range(len(ranges.firsts)):
            self.settled.add_range(ranges.firsts[i], ranges.lasts[i])

    def write_facts(self, out: BytesWriter) -> None:
        """Write the queue's facts as records without checksums."""
        if not self.settled.is_empty:
            ranges = self.settled.take()
            record.write_settle(out, 0, self.queue_id, ranges)
            out.write(_NO_CHECKSUM)
            self.settle(ranges)
        for lane, upper_seq in self.delivered.items():
            record.write_delivered(out, 0, self.queue_id, lane, upper_seq)
            out.write(_NO_CHECKSUM)
        for returned in self.returned.values():
            record.write_returned(
                out,
                0,
                self.queue_id,
                returned.seq,
                returned.delivery_count,
                returned.not_before_ms,
            )
            out.write(_NO_CHECKSUM)


@final
class SegmentIndex:
    """The index of a segment that is being written, scanned or merged."""

    __slots__ = ("_shares", "first_number", "number")

    def __init__(self, first_number: i64, number: i64) -> None:
        self.first_number = first_number
        self.number = number
        self._shares: dict[int, QueueShare] = {}

    def share(self, queue_id: i64) -> QueueShare:
        """Return what the segment holds of a queue, to be added to."""
        found = self._shares.get(queue_id)
        if found is None:
            found = QueueShare(queue_id)
            self._shares[queue_id] = found
        return found

    def find(self, queue_id: i64) -> QueueShare | None:
        """Return what the segment holds of a queue, if anything."""
        return self._shares.get(queue_id)

    def shares(self) -> list[QueueShare]:
        """Return what it holds of every queue, by queue id."""
        return [self._shares[queue_id] for queue_id in sorted(self._shares)]

    def chunks(self, store_uuid: bytes) -> list[bytes]:
        """Return the file."""
        facts_out = BytesWriter()
        written: list[QueueShare] = []
        for share in self.shares():
            share.write_facts(facts_out)
            if share.count > 0:
                written.append(share)
        facts = facts_out.getvalue()
        at = HEADER_SIZE + ROW_SIZE * len(written) + len(facts)
        rows: list[bytes] = []
        entries: list[bytes] = []
        for share in written:
            data = bytes(share.entries)
            rows.append(_row(share, at, data))
            entries.append(data)
            at += len(data)
            if share.deadlines:
                deadlines = bytes(share.deadlines)
                deadlines += _CHECKSUM.pack(crc32(deadlines))
                entries.append(deadlines)
                at += len(deadlines)
        head = b"".join(rows) + facts
        header = _HEADER.pack(
            MAGIC,
            VERSION,
            0,
            len(written),
            self.first_number,
            self.number,
            store_uuid,
            len(facts),
            crc32(head),
        )
        return [header + _CHECKSUM.pack(crc32(header)), head, *entries]


def _row(share: QueueShare, at: int, entries: bytes) -> bytes:
    return _ROW.pack(
        share.queue_id,
        0,
        0,
        share.first,
        share.last,
        share.count,
        at,
        share.size,
        crc32(entries),
        len(share.deadlines) // DEADLINE_SIZE,
    )


@final
class IndexHeader:
    """The first bytes of an index file."""

    __slots__ = ("checksum", "facts_size", "run_count")

    def __init__(self, run_count: i64, facts_size: i64, checksum: i64) -> None:
        self.run_count = run_count
        self.facts_size = facts_size
        self.checksum = checksum

    @property
    def directory_size(self) -> i64:
        """Return how many bytes of directory follow the header."""
        return self.run_count * ROW_SIZE

    @property
    def head_size(self) -> i64:
        """Return how many bytes of directory and facts follow the header."""
        return self.directory_size + self.facts_size

    def is_head(self, data: bytes) -> bool:
        """Say whether these bytes are the directory and the facts."""
        return len(data) == self.head_size and crc32(data) == self.checksum


def read_header(
    data: bytes, first_number: i64, number: i64, store_uuid: bytes
) -> IndexHeader | None:
    """Return what an index's first bytes say; None if they are not this segment's."""
    if len(data) < HEADER_SIZE or not data.startswith(MAGIC):
        return None
    fields = _HEADER.unpack_from(data)
    (checksum,) = _CHECKSUM.unpack_from(data, _HEADER.size)
    if checksum != crc32(data[: _HEADER.size]) or fields[1] != VERSION:
        return None
    if (fields[4], fields[5], fields[6]) != (first_number, number, store_uuid):
        return None
    return IndexHeader(fields[3], fields[7], fields[8])


def read_run(directory: bytes, at: i64) -> IndexedRun:
    """Return the run whose row begins at an offset of the directory."""
    return IndexedRun(
        read_u32(directory, at),
        read_u32(directory, at + 4) >> 16,
        read_i64_be(directory, at + 8),
        read_i64_be(directory, at + 16),
        read_u32(directory, at + 24),
        read_i64_be(directory, at + 32),
        read_u32(directory, at + 28),
        read_u32(directory, at + 40),
        read_u32(directory, at + 44),
    )


def find_run(directory: bytes, run_count: i64, queue_id: i64) -> IndexedRun | None:
    """Return the run of a queue, if there is one."""
    low: i64 = 0
    high: i64 = run_count
    while low < high:
        middle = (low + high) // 2
        if read_u32(directory, middle * ROW_SIZE) < queue_id:
            low = middle + 1
        else:
            high = middle
    at = low * ROW_SIZE
    if low >= run_count or read_u32(directory, at) != queue_id:
        return None
    return read_run(directory, at)


def read_facts(head: bytes, start: i64) -> list[Record]:
    """Return the facts, which begin at an offset of directory and facts."""
    facts: list[Record] = []
    at = start
    while at < len(head):
        found = read_record(head, at)
        if found is not None:
            facts.append(found)
        at += read_u32(head, at)
    return facts
