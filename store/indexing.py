"""From the records of a segment to its index, when the index file is missing.

A segment that was scanned, or copied record by record, is indexed as if it were just
written. It does not know files.
"""

import struct
from typing import Final, final

from librt.strings import BytesWriter, read_i64_be
from mypy_extensions import i64

from store import record
from store.record import (
    Delivered,
    Destination,
    Returned,
    Settle,
    read_destinations,
    read_record,
    read_u32,
)
from store.segment_index import SegmentIndex, write_deadline

# As `segment_index.write_entry` writes it; uncompiled, one call instead of nine.
_ENTRY: Final = struct.Struct(">III")
_U32: Final = 0xFFFFFFFF
_EXPIRES_AT: Final = record.HEADER_SIZE + 8


@final
class Indexer:
    """Fills the index of one segment, in log order; `finish` ends it."""

    __slots__ = ("_count", "_entries", "_first", "_last", "_queue_id", "_size", "index")

    def __init__(self, index: SegmentIndex) -> None:
        self.index = index
        # Messages of one queue that follow each other are added together.
        self._queue_id: i64 = -1
        self._first: i64 = 0
        self._last: i64 = 0
        self._count: i64 = 0
        self._size: i64 = 0
        self._entries = bytearray()

    def add(self, data: bytes, start: i64, offset: i64) -> None:
        """Add the record at `start`, which lies at `offset` in the segment.

        Raises:
            ValueError: its parts do not fit its length; nothing is added.
            RecordUnknown: it is of a type that must not be skipped.
        """
        if data[start + 4] == record.MESSAGE and data[start + 5] == record.VERSION:
            size = read_u32(data, start)
            destinations = read_destinations(data, start)
            for destination in destinations:
                self._add_message(destination, offset, size)
            expires_ms = read_i64_be(data, start + _EXPIRES_AT)
            if expires_ms:
                self._add_deadline(destinations, expires_ms)
        else:
            self._add_fact(data, start)

    def _add_message(self, destination: Destination, offset: i64, size: i64) -> None:
        if destination.queue_id != self._queue_id:
            self.finish()
            self._queue_id = destination.queue_id
        if self._count == 0:
            self._first = destination.seq
        self._last = destination.seq
        self._count += 1
        self._size += size
        self._entries += _ENTRY.pack(destination.seq & _U32, offset, size)

    def _add_deadline(self, destinations: list[Destination], expires_ms: i64) -> None:
        for destination in destinations:
            out = BytesWriter()
            write_deadline(out, destination.seq, expires_ms)
            self.index.share(destination.queue_id).deadlines += out.getvalue()

    def _add_fact(self, data: bytes, start: i64) -> None:
        fact = read_record(data, start)
        if isinstance(fact, Settle):
            self.index.share(fact.queue_id).settle(fact.settled)
        elif isinstance(fact, Delivered):
            delivered = self.index.share(fact.queue_id).delivered
            known = delivered.get(fact.lane, 0)
            delivered[fact.lane] = max(known, fact.upper_seq)
        elif isinstance(fact, Returned):
            self.index.share(fact.queue_id).returned[fact.seq] = fact

    def finish(self) -> None:
        """Add what is still held back."""
        if self._count > 0:
            self.index.share(self._queue_id).add(
                self._first,
                self._last,
                self._count,
                self._size,
                bytes(self._entries),
            )
            self._entries.clear()
            self._count = 0
            self._size = 0
