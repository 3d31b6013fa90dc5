"""Layout of a batch, the atom of the log, and the writer that fills one.

    header                                       records ...        trailer
    0  magic           8 bytes, the last is the version             magic    4
    8  segment         u64                                          checksum u32
    16 batch           u64   rising by one in the whole log         batch    u64
    24 length          u64   header, records and trailer
    32 durable segment u64   how far the log was known to be
    40 durable offset  u64   durable when the batch began
    48 records         u32   how many
    52 checksum        u32

Every checksum of a batch is seeded with its segment and batch number, so what
stays of an older batch in a reused block never passes for a part of this one. The
durable offset is what tells a torn tail from corruption: a batch that a later one
calls durable was whole.

The writer collects the pieces of records, copies them together once, and hands out
chunks: contents of 16 KiB and more are chunks of their own and never copied. It does
not know files.
"""

import struct
from collections.abc import Callable
from typing import Final, final

from librt.strings import BytesWriter, read_i64_be
from mypy_extensions import i64

from store import record
from store.checksum import crc32
from store.record import read_u32
from store.seq_ranges import Ranges

MAGIC: Final = b"\xa6amqpdB\x01"
TRAILER_MAGIC: Final = b"\xa6End"
HEADER: Final = struct.Struct(">8sQQQQQI")
HEADER_SIZE: Final = HEADER.size + 4
TRAILER_SIZE: Final = 16
OVERHEAD: Final = HEADER_SIZE + TRAILER_SIZE

_SEED: Final = struct.Struct(">QQ")
_U32: Final = 0xFFFFFFFF
_TRAILER: Final = struct.Struct(">4sIQ")
_CHECKSUM: Final = struct.Struct(">I")

# Where a record carries its batch number.
_BATCH_AT: Final = record.HEADER_SIZE - 4

# From this size on a content is a buffer of its own; below, one copy is cheaper
# than another entry of pwritev.
_CHUNK_ALONE: Final = 16 * 1024
_CHUNK_SIZE: Final = 64 * 1024
# Up to this size copying a content once more costs less than one more checksum.
_COPIED_MAX: Final = 256


def seed_of(segment: int, batch: int) -> int:
    """Return what every checksum of a batch starts with.

    Of the batch number the low half counts, which a record carries.
    """
    return crc32(_SEED.pack(segment, batch & _U32))


@final
class BatchHeader:
    """What a batch says about itself."""

    __slots__ = (
        "batch",
        "durable_offset",
        "durable_segment",
        "length",
        "offset",
        "record_count",
        "seed",
        "segment",
    )

    def __init__(
        self,
        segment: i64,
        batch: i64,
        offset: i64,
        length: i64,
        durable_segment: i64,
        durable_offset: i64,
        record_count: i64,
    ) -> None:
        self.segment = segment
        self.batch = batch
        self.offset = offset
        self.length = length
        self.durable_segment = durable_segment
        self.durable_offset = durable_offset
        self.record_count = record_count
        self.seed: int = seed_of(segment, batch)

    @property
    def end(self) -> i64:
        """Return the offset behind the trailer."""
        return self.offset + self.length


def read_header(data: bytes, offset: i64, segment: i64) -> BatchHeader | None:
    """Return the batch header at an offset, or None if there is no valid one."""
    if offset + HEADER_SIZE > len(data) or data[offset : offset + 8] != MAGIC:
        return None
    number = number_in(data, offset)
    if read_i64_be(data, offset + 8) != segment or number <= 0:
        return None
    found = crc32(data[offset : offset + HEADER.size], seed_of(segment, number))
    length = read_i64_be(data, offset + 24)
    if found != read_u32(data, offset + HEADER.size) or length < OVERHEAD:
        return None
    return BatchHeader(
        segment,
        number,
        offset,
        length,
        read_i64_be(data, offset + 32),
        read_i64_be(data, offset + 40),
        read_u32(data, offset + 48),
    )


def is_sound(data: bytes, offset: i64, size: i64, segment: i64) -> bool:
    """Say whether a record found by its offset alone is what was written there.

    `offset` is a place in `data`, `segment` the segment the bytes come from.
    """
    if size < record.SIZE_MIN or offset + size > len(data):
        return False
    if read_u32(data, offset) != size:
        return False
    seed = seed_of(segment, read_u32(data, offset + _BATCH_AT))
    end = offset + size - record.CHECKSUM_SIZE
    return crc32(memoryview(data)[offset:end], seed) == read_u32(data, end)


def number_in(data: bytes, offset: i64) -> i64:
    """Return what a header, which may be damaged, says is the batch number."""
    return read_i64_be(data, offset + 16)


def trailer_of(batch: int, seed: int) -> bytes:
    """Return the trailer of a batch."""
    number = _SEED.pack(0, batch)[8:]
    return _TRAILER.pack(TRAILER_MAGIC, crc32(TRAILER_MAGIC + number, seed), batch)


@final
class BatchWriter:
    """Fills one batch; `finish` returns its bytes."""

    __slots__ = (
        "_checksum_of",
        "_chunks",
        "_durable_offset",
        "_durable_segment",
        "_pieces",
        "_pieces_size",
        "_record",
        "_seed",
        "_size",
        "number",
        "record_count",
        "segment",
    )

    def __init__(
        self, segment: i64, number: i64, durable_segment: i64, durable_offset: i64
    ) -> None:
        self.segment = segment
        self.number = number
        self.record_count: i64 = 0
        self._durable_segment = durable_segment
        self._durable_offset = durable_offset
        self._seed: int = seed_of(segment, number)
        # Found here faster than among the names of the module.
        self._checksum_of: Callable[[bytes, int], int] = crc32
        # What the next chunk is made of, and how large that will be.
        self._pieces: list[bytes] = []
        self._pieces_size: i64 = 0
        self._record = BytesWriter()
        self._chunks: list[bytes] = [b""]
        self._size: i64 = OVERHEAD

    def begin_message(
        self,
        enqueued_ms: i64,
        expires_ms: i64,
        envelope: bytes,
        content: bytes,
        body: bytes | None,
        destination_count: i64,
    ) -> None:
        """Start a message record; its destinations and `end_message` follow."""
        record.write_message_header(
            self._record,
            self.number,
            enqueued_ms,
            expires_ms,
            envelope,
            content,
            body,
            destination_count,
        )

    def destination(self, queue_id: i64, seq: i64, lane: i64) -> None:
        """Add one destination to the message record that was started."""
        record.write_destination(self._record, queue_id, seq, lane)

    def end_message(self, envelope: bytes, content: bytes, body: bytes | None) -> None:
        """End the message record with the same bytes that it was started with."""
        self._record.write(envelope)
        if body is None and len(content) <= _COPIED_MAX:
            self._record.write(content)
            self._end_record()
            return
        head = self._take_record()
        checksum = self._checksum_of(head, self._seed)
        checksum = self._checksum_of(content, checksum)
        self._write(head)
        self._write(content)
        if body is not None:
            checksum = self._checksum_of(body, checksum)
            self._write(body)
        self._write_checksum(checksum)

    def settle(self, queue_id: i64, settled: Ranges) -> None:
        """Add a settle record."""
        record.write_settle(self._record, self.number, queue_id, settled)
        self._end_record()

    def delivered(self, queue_id: i64, lane: i64, upper_seq: i64) -> None:
        """Add a delivered record."""
        record.write_delivered(self._record, self.number, queue_id, lane, upper_seq)
        self._end_record()

    def returned(
        self, queue_id: i64, seq: i64, delivery_count: i64, not_before_ms: i64
    ) -> None:
        """Add a returned record."""
        record.write_returned(
            self._record, self.number, queue_id, seq, delivery_count, not_before_ms
        )
        self._end_record()

    def copy(self, without_checksum: bytes) -> None:
        """Add a record of another batch, as one of this batch."""
        number = int(self.number & _U32).to_bytes(4, "big")
        data = (
            without_checksum[:_BATCH_AT]
            + number
            + without_checksum[record.HEADER_SIZE :]
        )
        self._write(data)
        self._write_checksum(crc32(data, self._seed))

    def _end_record(self) -> None:
        data = self._take_record()
        self._write(data)
        self._write_checksum(self._checksum_of(data, self._seed))

    def _take_record(self) -> bytes:
        data = self._record.getvalue()
        self._record.truncate(0)
        return data

    def _write(self, data: bytes) -> None:
        if len(data) < _CHUNK_ALONE:
            self._pieces.append(data)
            self._pieces_size += len(data)
        else:
            self._close_chunk()
            self._chunks.append(data)
            self._size += len(data)

    def _write_checksum(self, checksum: int) -> None:
        self._pieces.append(checksum.to_bytes(record.CHECKSUM_SIZE, "big"))
        self._pieces_size += record.CHECKSUM_SIZE
        self.record_count += 1
        if self._pieces_size >= _CHUNK_SIZE:
            self._close_chunk()

    def _close_chunk(self) -> None:
        self._chunks.append(b"".join(self._pieces))
        self._size += self._pieces_size
        self._pieces.clear()
        self._pieces_size = 0

    def finish(self) -> list[bytes]:
        """Return the whole batch as chunks; the writer is done with."""
        self._close_chunk()
        header = HEADER.pack(
            MAGIC,
            self.segment,
            self.number,
            self._size,
            self._durable_segment,
            self._durable_offset,
            self.record_count,
        )
        self._chunks[0] = header + _CHECKSUM.pack(crc32(header, self._seed))
        self._chunks.append(trailer_of(self.number, self._seed))
        return self._chunks

    @property
    def size(self) -> i64:
        """Return the size of the finished batch."""
        return self._size

    @property
    def position(self) -> i64:
        """Return where the next record begins, from the start of the batch."""
        return self._size - TRAILER_SIZE + self._pieces_size
