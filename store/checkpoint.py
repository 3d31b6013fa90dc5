"""What the index says, in one file, so that a start need not read the log.

Numbers are in big-endian order but for those of the sections, which are arrays as
they lay in memory (the order mark tells how that was):

    0   magic "amqpdckp", version u16, 0 u16, flags u32 (1: the log was ended cleanly),
        store uuid 16 bytes, number u64, segment u64, offset u64, next batch u64,
        size of each section u64 (6 times), order mark u32, checksum of all sections
        u32, 0 u32, checksum of the 124 bytes before u32
    128 queues      queue id, upper seq, and how many rows of the sections below
        runs        first, last, segment, counts, size (see index.py)
        dead        segment, base seq, bytes of bits
        delivered   lane, upper seq
        returned    seq, delivery count, not before
        bits        of the dead seqs

Segment and offset are where the log was durable, and known to the index, when the
checkpoint was *begun*. It is built in slices while the index goes on changing: each
queue is taken at once, queues one after the other. A start replays that segment and
what follows, and applying a fact twice changes nothing; so it does not matter what a
queue knew already. In a clean stop's checkpoint the end marker stands at the offset.

It does not know files (see checkpoint_files.py).
"""

import struct
import sys
from array import array
from typing import Final, final

from mypy_extensions import i64

from store.checksum import crc32
from store.dead_seqs import DeadSeqs
from store.errors import StoreForeign, VersionUnknown
from store.index import COLUMNS, Index, QueueIndex
from store.record import Returned

MAGIC: Final = b"amqpdckp"
VERSION: Final = 1
HEADER_SIZE: Final = 128

_HEADER: Final = struct.Struct(">8sHHI16s4Q6QIII")
_CHECKSUM: Final = struct.Struct(">I")
_IS_CLEAN: Final = 1
_ORDER_MARKS: Final = {"big": 0x01020304, "little": 0x04030201}
_NUMBER_SIZE: Final = 8

# Columns of each section.
_QUEUE_COLUMNS: Final = 6
_DEAD_COLUMNS: Final = 3
_DELIVERED_COLUMNS: Final = 2
_RETURNED_COLUMNS: Final = 3

# What a slice can do in the time of looking at one queue.
_NUMBERS_PER_UNIT: Final = 256

# So many numbers of runs are one piece of the file; its checksum is still made without
# the interpreter.
_PIECE_NUMBERS: Final = 8192


@final
class CheckpointHeader:
    """What a checkpoint says about itself and about the log."""

    __slots__ = (
        "checksum",
        "is_clean",
        "is_foreign_order",
        "next_batch",
        "number",
        "offset",
        "section_sizes",
        "segment",
    )

    def __init__(
        self, number: i64, segment: i64, offset: i64, next_batch: i64, is_clean: bool
    ) -> None:
        self.number = number
        # Up to here the log was durable and known to the index.
        self.segment = segment
        self.offset = offset
        self.next_batch = next_batch
        self.is_clean = is_clean
        self.section_sizes: list[int] = []
        self.is_foreign_order = False
        self.checksum: i64 = 0

    @property
    def file_size(self) -> int:
        """Return the size of the whole file."""
        return HEADER_SIZE + sum(self.section_sizes)


@final
class CheckpointBuilder:
    """Takes a picture of the index, a slice at a time."""

    __slots__ = (
        "_bits",
        "_dead",
        "_delivered",
        "_header",
        "_index",
        "_queue_ids",
        "_queues",
        "_returned",
        "_run_pieces",
        "_runs",
        "_store_uuid",
    )

    def __init__(
        self, index: Index, store_uuid: bytes, header: CheckpointHeader
    ) -> None:
        """Begin: everything up to the header's position has been told to the index."""
        self._index = index
        self._store_uuid = store_uuid
        self._header = header
        # Queues that come later are in the log from the position on.
        self._queue_ids: list[int] = list(index.queues)
        self._queues: array[int] = array("q")
        # Those of all queues are the bulk of it. In one array they would be copied when
        # it grows and once more when it is written.
        self._run_pieces: list[bytes] = []
        self._runs: array[int] = array("q")
        self._dead: array[int] = array("q")
        self._delivered: array[int] = array("q")
        self._returned: array[int] = array("q")
        self._bits: list[bytes] = []

    def advance(self, units: int) -> bool:
        """Take some more queues, one or more; return whether all are taken."""
        while self._queue_ids and units > 0:
            queue = self._index.queues.get(self._queue_ids.pop())
            if queue is not None:
                units -= self._take(queue)
        return not self._queue_ids

    def _take(self, queue: QueueIndex) -> int:
        """Take one queue as it is now; return the units that took."""
        dead = queue.dead_seqs()
        returned = queue.live_returned()
        self._queues.extend(
            (
                queue.queue_id,
                queue.upper_seq,
                queue.run_count,
                len(dead),
                len(queue.delivered),
                len(returned),
            )
        )
        self._runs.extend(queue.runs)
        if len(self._runs) >= _PIECE_NUMBERS:
            self._end_piece()
        bit_size = 0
        for segment, seqs in dead:
            self._dead.extend((segment, seqs.base, len(seqs.bits)))
            self._bits.append(bytes(seqs.bits))
            bit_size += len(seqs.bits)
        for lane, upper_seq in queue.delivered.items():
            self._delivered.extend((lane, upper_seq))
        for one in returned:
            self._returned.extend((one.seq, one.delivery_count, one.not_before_ms))
        numbers = len(queue.runs) + bit_size // _NUMBER_SIZE
        # Whoever came back is looked at one by one.
        return 1 + numbers // _NUMBERS_PER_UNIT + len(returned)

    def _end_piece(self) -> None:
        self._run_pieces.append(self._runs.tobytes())
        self._runs = array("q")

    def chunks(self) -> list[bytes]:
        """Return the file, once all queues are taken."""
        assert not self._queue_ids, "a checkpoint is of all queues"
        self._end_piece()
        sections = [
            [self._queues.tobytes()],
            self._run_pieces,
            [self._dead.tobytes()],
            [self._delivered.tobytes()],
            [self._returned.tobytes()],
            [b"".join(self._bits)],
        ]
        pieces: list[bytes] = []
        for section in sections:
            pieces += section
        checksum = 0
        for piece in pieces:
            checksum = crc32(piece, checksum)
        header = self._header
        packed = _HEADER.pack(
            MAGIC,
            VERSION,
            0,
            _IS_CLEAN if header.is_clean else 0,
            self._store_uuid,
            header.number,
            header.segment,
            header.offset,
            header.next_batch,
            *[sum(map(len, section)) for section in sections],
            _ORDER_MARKS[sys.byteorder],
            checksum,
            0,
        )
        return [packed + _CHECKSUM.pack(crc32(packed)), *pieces]


def read_header(data: bytes, path: str, store_uuid: bytes) -> CheckpointHeader | None:
    """Return what a checkpoint's first bytes say; None if they are damaged.

    Raises:
        VersionUnknown: another version wrote it.
        StoreForeign: it is of another store.
    """
    if len(data) < HEADER_SIZE or not data.startswith(MAGIC):
        return None
    fields = _HEADER.unpack_from(data)
    (checksum,) = _CHECKSUM.unpack_from(data, _HEADER.size)
    if checksum != crc32(data[: _HEADER.size]):
        return None
    if fields[1] != VERSION:
        raise VersionUnknown(
            f"{path} has format version {fields[1]}, this program reads {VERSION}"
        )
    if fields[4] != store_uuid:
        raise StoreForeign(
            f"{path} belongs to another store than meta.db (their UUIDs differ)"
        )
    header = CheckpointHeader(
        fields[5], fields[6], fields[7], fields[8], fields[3] & _IS_CLEAN != 0
    )
    header.section_sizes = list(fields[9:15])
    header.is_foreign_order = fields[15] != _ORDER_MARKS[sys.byteorder]
    header.checksum = fields[16]
    return header


@final
class SavedQueue:
    """One queue as a checkpoint has it."""

    __slots__ = ("dead", "delivered", "queue_id", "returned", "runs", "upper_seq")

    def __init__(self, queue_id: i64, upper_seq: i64, runs: "array[int]") -> None:
        self.queue_id = queue_id
        self.upper_seq = upper_seq
        self.runs = runs
        self.dead: list[tuple[int, DeadSeqs]] = []
        self.delivered: dict[int, int] = {}
        self.returned: dict[int, Returned] = {}


@final
class Checkpoint:
    """A checkpoint that was read; `next_queue` hands out its queues once."""

    __slots__ = (
        "_at",
        "_bits",
        "_bits_at",
        "_dead",
        "_dead_at",
        "_delivered",
        "_delivered_at",
        "_queues",
        "_returned",
        "_returned_at",
        "_runs_at",
        "header",
        "runs",
    )

    def __init__(self, header: CheckpointHeader, sections: list[bytes]) -> None:
        """Take the sections of a file whose checksums were found right."""
        self.header = header
        columns = [_column(section, header) for section in sections[:-1]]
        self._queues, self.runs, self._dead = columns[:3]
        self._delivered, self._returned = columns[3:]
        self._bits: bytes = sections[-1]
        self._at: int = 0
        self._runs_at: int = 0
        self._dead_at: int = 0
        self._delivered_at: int = 0
        self._returned_at: int = 0
        self._bits_at: int = 0

    def next_queue(self) -> SavedQueue | None:
        """Return the next queue; None behind the last."""
        if self._at >= len(self._queues):
            return None
        row = self._queues[self._at : self._at + _QUEUE_COLUMNS]
        self._at += _QUEUE_COLUMNS
        end = self._runs_at + row[2] * COLUMNS
        queue = SavedQueue(row[0], row[1], self.runs[self._runs_at : end])
        self._runs_at = end
        self._take_dead(queue, row[3])
        for _ in range(row[4]):
            at = self._delivered_at
            queue.delivered[self._delivered[at]] = self._delivered[at + 1]
            self._delivered_at += _DELIVERED_COLUMNS
        for _ in range(row[5]):
            at = self._returned_at
            returned = Returned(
                row[0],
                self._returned[at],
                self._returned[at + 1],
                self._returned[at + 2],
            )
            queue.returned[returned.seq] = returned
            self._returned_at += _RETURNED_COLUMNS
        return queue

    def _take_dead(self, queue: SavedQueue, count: int) -> None:
        for _ in range(count):
            segment, base, size = self._dead[
                self._dead_at : self._dead_at + _DEAD_COLUMNS
            ]
            bits = bytearray(self._bits[self._bits_at : self._bits_at + size])
            queue.dead.append((segment, DeadSeqs(base, bits)))
            self._dead_at += _DEAD_COLUMNS
            self._bits_at += size


def _column(section: bytes, header: CheckpointHeader) -> "array[int]":
    column: array[int] = array("q")
    column.frombytes(section)
    if header.is_foreign_order:
        column.byteswap()
    return column


def is_whole(data: bytes, header: CheckpointHeader) -> bool:
    """Say whether the sections in a file's bytes are what was written."""
    if len(data) != header.file_size:
        return False
    return crc32(memoryview(data)[HEADER_SIZE:]) == header.checksum


def parse_checkpoint(data: bytes, header: CheckpointHeader) -> Checkpoint | None:
    """Return the checkpoint in a file's bytes; None if they are damaged."""
    if not is_whole(data, header):
        return None
    sections: list[bytes] = []
    at = HEADER_SIZE
    for size in header.section_sizes:
        sections.append(data[at : at + size])
        at += size
    return Checkpoint(header, sections)
