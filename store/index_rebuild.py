"""Making a segment's index again, from the segment, while the broker goes on.

The segment is walked batch by batch through reads of 128 KiB, so that no more than a
few hundred records come between two system calls: whoever waits for the interpreter
gets it there.

A batch that does not add up is a reason to scan the whole segment as a start does, at
once: what is good in a damaged batch is found only so. That takes long, and is rare.
"""

from typing import Final, final

from mypy_extensions import i64

from store import batch, record
from store.batch import BatchHeader, read_header, trailer_of
from store.checksum import crc32
from store.cold_reader import ColdFile, ColdReader
from store.indexing import Indexer
from store.record import read_u32
from store.scan import SegmentScan
from store.segment import HEADER_SIZE
from store.segment_index import SegmentIndex

_READ_SIZE: Final = 128 * 1024


@final
class IndexRebuild:
    """One walk through a segment."""

    __slots__ = ("_data", "_file", "_indexer", "_reader", "_start")

    def __init__(self, reader: ColdReader, file: ColdFile) -> None:
        self._reader = reader
        self._file = file
        # A part of the segment and where it begins.
        self._data = b""
        self._start: i64 = 0
        self._indexer = Indexer(SegmentIndex(file.first_number, file.number))

    def run(self) -> SegmentIndex:
        """Return the index; raises OSError."""
        offset: i64 = HEADER_SIZE
        while self._place(offset, batch.HEADER_SIZE) >= 0:
            end = self._walk(offset)
            if end < 0:
                self._scan()
                break
            offset = end
        self._indexer.finish()
        return self._indexer.index

    def _place(self, offset: i64, size: i64) -> i64:
        """Return where so many bytes from an offset stand in the data; -1 if none."""
        place = offset - self._start
        if place < 0 or place + size > len(self._data):
            self._data = self._reader.read(self._file, max(size, _READ_SIZE), offset)
            self._start = offset
            place = 0
        return place if place + size <= len(self._data) else -1

    def _walk(self, offset: i64) -> i64:
        """Add the batch at an offset; return where it ends, -1 if it is damaged."""
        place = self._place(offset, batch.HEADER_SIZE)
        header = read_header(self._data, place, self._file.number)
        if header is None:
            return -1
        at = offset + batch.HEADER_SIZE
        end = offset + header.length - batch.TRAILER_SIZE
        count: i64 = 0
        while at < end:
            size = self._add(at, end, header.seed)
            if size == 0:
                return -1
            at += size
            count += 1
        if count != header.record_count or not self._is_trailer(end, header):
            return -1
        return end + batch.TRAILER_SIZE

    def _is_trailer(self, offset: i64, header: BatchHeader) -> bool:
        place = self._place(offset, batch.TRAILER_SIZE)
        if place < 0:
            return False
        trailer = self._data[place : place + batch.TRAILER_SIZE]
        return trailer == trailer_of(header.batch, header.seed)

    def _add(self, offset: i64, end: i64, seed: int) -> i64:
        """Add the record at an offset; return its size, 0 if it is damaged."""
        place = self._place(offset, record.SIZE_MIN)
        if place < 0:
            return 0
        size = read_u32(self._data, place)
        if size < record.SIZE_MIN or offset + size > end:
            return 0
        place = self._place(offset, size)
        if place < 0:
            return 0
        data = self._data
        checksum_at = place + size - record.CHECKSUM_SIZE
        # A view: records may be large.
        if crc32(memoryview(data)[place:checksum_at], seed) != read_u32(
            data, checksum_at
        ):
            return 0
        try:
            self._indexer.add(data, place, offset)
        except ValueError:
            return 0
        return size

    def _scan(self) -> None:
        """Begin again with what a scan of the whole segment calls good."""
        file = self._file
        self._indexer = Indexer(SegmentIndex(file.first_number, file.number))
        data = self._reader.read_whole(file)
        scan = SegmentScan(data, file.number, len(data))
        scan.run()
        for offset in scan.records:
            try:
                self._indexer.add(data, offset, offset)
            except ValueError:
                # Its checksum is right and its parts are wrong: nobody can read it.
                continue
