"""Finding the batches in a segment's bytes, whole or not.

A batch is *whole* when its header, every record and its trailer are. One that is
not is a torn tail, unless it begins before `durable_end`, up to which a later
batch said that the log was durable: then it was whole once and is *damaged*. A
torn tail ends the scan. Of a damaged batch the good records are used and the bad
ones reported; scanning goes on at the next record if the bad one's length can be
trusted, at the next batch magic if not.

Pure: bytes in, offsets out. It does not know what the records mean.
"""

import struct
from typing import Final, final

from mypy_extensions import i64

from store import batch, record
from store.batch import BatchHeader, read_header, seed_of, trailer_of
from store.checksum import crc32
from store.segment import HEADER_SIZE

_TRAILER_SIZE: Final = batch.TRAILER_SIZE
# Read twice for every record of a segment: uncompiled, eight times as fast as librt.
_U32: Final = struct.Struct(">I")


@final
class Damage:
    """Bytes that were durable once and are not what was written."""

    __slots__ = ("end", "reason", "start")

    def __init__(self, start: i64, end: i64, reason: str) -> None:
        self.start = start
        self.end = end
        self.reason = reason


@final
class SegmentScan:
    """What a segment holds."""

    __slots__ = (
        "_view",
        "batch_upper",
        "damages",
        "data",
        "durable_end",
        "is_ended",
        "records",
        "segment",
        "torn_size",
    )

    def __init__(self, data: bytes, segment: i64, durable_end: i64) -> None:
        self.data = data
        self._view = memoryview(data)
        self.segment = segment
        self.durable_end = durable_end
        # Offsets of the good records, in order.
        self.records: list[int] = []
        self.damages: list[Damage] = []
        self.torn_size: i64 = 0
        self.batch_upper: i64 = 0
        # Whether the last thing in it says that all before it is durable.
        self.is_ended = False

    def run(self) -> None:
        """Scan the whole segment."""
        offset: i64 = HEADER_SIZE
        while offset < len(self.data):
            header = self._header(offset)
            if header is not None and self._take_whole(header):
                self.batch_upper = header.batch
                self.is_ended = is_end_marker(header)
                offset = header.end
            elif offset < self.durable_end:
                self.is_ended = False
                offset = self._take_damaged(offset, header)
            else:
                self.torn_size = len(self.data[offset:].rstrip(b"\0"))
                self.is_ended = self.is_ended and self.torn_size == 0
                return

    def _header(self, offset: i64) -> BatchHeader | None:
        header = read_header(self.data, offset, self.segment)
        if header is None or header.batch <= self.batch_upper:
            return None
        return header

    def _take_whole(self, header: BatchHeader) -> bool:
        """Add the records of a batch if it is whole."""
        end = header.end - _TRAILER_SIZE
        if header.end > len(self.data) or not self._is_trailer(end, header):
            return False
        found: list[int] = []
        offset = header.offset + batch.HEADER_SIZE
        while offset < end:
            size = self._sound_size(offset, end, header.seed)
            if size == 0:
                return False
            found.append(offset)
            offset += size
        if len(found) != header.record_count:
            return False
        self.records.extend(found)
        return True

    def _is_trailer(self, offset: i64, header: BatchHeader) -> bool:
        trailer = self.data[offset : offset + _TRAILER_SIZE]
        return trailer == trailer_of(header.batch, header.seed)

    def _size(self, offset: i64, end: i64) -> i64:
        """Return the length a record says it has, 0 if it cannot be."""
        if offset + record.SIZE_MIN > end:
            return 0
        size: i64 = _U32.unpack_from(self.data, offset)[0]
        return size if record.SIZE_MIN <= size <= end - offset else 0

    def _sound_size(self, offset: i64, end: i64, seed: int) -> i64:
        """Return the length of the record if its checksum is right, else 0."""
        size = self._size(offset, end)
        if size == 0:
            return 0
        at = offset + size - record.CHECKSUM_SIZE
        # A view: a copy of every record would double the time of a start.
        found = crc32(self._view[offset:at], seed)
        return size if found == _U32.unpack_from(self.data, at)[0] else 0

    def _take_damaged(self, offset: i64, header: BatchHeader | None) -> i64:
        """Use what is good in a damaged batch; return where scanning goes on."""
        start = offset + batch.HEADER_SIZE
        if header is not None:
            self.batch_upper = header.batch
            resume = min(header.end, len(self.data))
            end = header.end - _TRAILER_SIZE
            self._salvage(start, min(end, len(self.data)), header.seed)
            if not self._is_trailer(end, header):
                self._damage(min(end, resume), resume, "a batch's trailer is damaged")
            return resume
        resume = self._next_header(offset + 1)
        end = resume - _TRAILER_SIZE
        number = self._guess_batch(offset, end)
        if number == 0:
            self._damage(offset, resume, "a batch's header is damaged")
        else:
            self.batch_upper = number
            self._damage(offset, start, "a batch's header is damaged")
            self._salvage(start, end, seed_of(self.segment, number))
        return resume

    def _next_header(self, offset: i64) -> i64:
        """Return where the next batch begins, or where the durable part ends."""
        durable_end: i64 = min(self.durable_end, len(self.data))
        while True:
            found: i64 = self.data.find(batch.MAGIC, offset)
            if found < 0 or found >= durable_end:
                # A batch begins there, or would: the claim is about whole batches.
                return durable_end
            if self._header(found) is not None:
                return found
            offset = found + 1

    def _guess_batch(self, offset: i64, end: i64) -> i64:
        """Return the number of a batch whose header is damaged, 0 if unknown.

        Batches are numbered one after the other; and the damage may lie elsewhere
        in the header than in its number. The first record tells which is right.
        """
        start = offset + batch.HEADER_SIZE
        if start >= end:
            return 0
        for number in (self.batch_upper + 1, batch.number_in(self.data, offset)):
            if number <= self.batch_upper:
                continue
            if self._sound_size(start, end, seed_of(self.segment, number)) > 0:
                return number
        return 0

    def _salvage(self, start: i64, end: i64, seed: int) -> None:
        """Add the good records between two offsets and report the others."""
        offset = start
        while offset < end:
            size = self._sound_size(offset, end, seed)
            if size > 0:
                self.records.append(offset)
            else:
                size = self._trusted_size(offset, end, seed)
                if size == 0:
                    self._damage(offset, end, "records are damaged")
                    return
                self._damage(offset, offset + size, "a record is damaged")
            offset += size

    def _trusted_size(self, offset: i64, end: i64, seed: int) -> i64:
        """Return a bad record's length if following it leads to something sound."""
        at = offset
        while at < end:
            size = self._size(at, end)
            if size == 0:
                return 0
            at += size
            if self._sound_size(at, end, seed) > 0:
                break
        return self._size(offset, end)

    def _damage(self, start: i64, end: i64, reason: str) -> None:
        self.damages.append(Damage(start, end, reason))


def is_end_marker(header: BatchHeader) -> bool:
    """Say whether a batch is what a clean stop writes last: empty, all durable."""
    return (
        header.record_count == 0
        and header.durable_segment == header.segment
        and header.durable_offset == header.offset
    )


@final
class DurableClaim:
    """How far the log was durable, says the log."""

    __slots__ = ("offset", "segment")

    def __init__(self, segment: i64, offset: i64) -> None:
        self.segment = segment
        self.offset = offset


def durable_claim(data: bytes, segment: i64) -> DurableClaim | None:
    """Return the highest durable offset that a valid batch header names.

    None if there is no valid header: then nothing was ever written to the segment,
    or nothing that can be told from it.
    """
    claim: DurableClaim | None = None
    batch_upper: i64 = 0
    offset: i64 = HEADER_SIZE
    while True:
        header = read_header(data, offset, segment)
        if header is not None and header.batch > batch_upper:
            batch_upper = header.batch
            claim = DurableClaim(header.durable_segment, header.durable_offset)
            offset = header.end
            if read_header(data, offset, segment) is not None:
                continue
            # The last one, or one whose successor is not there: look behind it.
            offset = header.offset
        offset = data.find(batch.MAGIC, offset + 1)
        if offset < 0:
            return claim
