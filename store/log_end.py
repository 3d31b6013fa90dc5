"""The end of the log: where a process stopped writing, and making that safe.

    ended cleanly      a marker stands last: everything is durable as it is
    a copy             it was synced before it got its name
    anything else      may be in the page cache only: it is copied to a new segment,
                       which is synced, before anything acts on what was read from it

The copy of segment K is named by the range K to K + 1. No recovered file is ever
appended to.
"""

import errno
from typing import Final, final

from mypy_extensions import i64

from store.batch import OVERHEAD, BatchWriter, read_header, trailer_of
from store.checkpoint import CheckpointHeader
from store.filesystem import FileSystem
from store.indexing import Indexer
from store.log_files import LogFiles, SegmentFile
from store.record import CHECKSUM_SIZE, read_u32
from store.scan import SegmentScan, durable_claim
from store.segment import HEADER_SIZE, Segment
from store.segment_index import SegmentIndex
from store.segment_reader import SegmentReader
from store.segment_set import Reserve
from store.seq_ranges import Ranges

_TRAILER_AT: Final = OVERHEAD - 16


def clean_batch(
    filesystem: FileSystem, files: LogFiles, header: CheckpointHeader
) -> i64:
    """Return the number of the end marker's batch if a checkpoint tells all; else 0.

    That is so if it says that the log was ended, and nothing came after: every start
    that writes anything begins a new segment.
    """
    if not header.is_clean or not files.files:
        return 0
    last = files.files[-1]
    if last.number != header.segment:
        return 0
    if filesystem.size(last.path) != header.offset + OVERHEAD:
        return 0
    descriptor = filesystem.open_for_reading(last.path)
    try:
        marker = filesystem.read(descriptor, OVERHEAD, header.offset)
    finally:
        filesystem.close(descriptor)
    found = read_header(marker, 0, last.number)
    is_marker = (
        found is not None
        and found.record_count == 0
        and found.durable_segment == last.number
        and found.durable_offset == header.offset
        and marker[_TRAILER_AT:] == trailer_of(found.batch, found.seed)
    )
    return found.batch if found is not None and is_marker else 0


@final
class LogEnd:
    """The last segment that anything was written to."""

    __slots__ = ("copy", "file", "is_needed", "next_batch", "scan")

    def __init__(self, file: SegmentFile, is_needed: bool) -> None:
        self.file = file
        # Whether the next start will ask for it even if nothing is in it.
        self.is_needed = is_needed
        self.next_batch: i64 = 1
        # None if the file is a copy: it is like any sealed segment.
        self.scan: SegmentScan | None = None
        self.copy: TailCopy | None = None


def find_log_end(
    files: LogFiles, reader: SegmentReader, position: CheckpointHeader | None
) -> LogEnd | None:
    """Find the end of the log; empty files behind it are not needed.

    `position` is up to where a checkpoint says that the log was durable.
    """
    while files.files:
        end = _read_end(files.files[-1], reader, position)
        if end is not None:
            return end
        files.drop_last()
    return None


def _read_end(
    file: SegmentFile, reader: SegmentReader, position: CheckpointHeader | None
) -> LogEnd | None:
    if file.is_copy:
        return _copied_end(file, reader)
    durable_end: i64 = HEADER_SIZE
    is_needed = position is not None and position.segment == file.number
    if position is not None and is_needed:
        durable_end = max(durable_end, position.offset)
    elif not reader.is_written(file):
        return None
    data = reader.read(file)
    claim = durable_claim(data, file.number)
    if claim is not None and claim.segment == file.number:
        durable_end = max(durable_end, claim.offset)
    elif claim is None and not is_needed:
        reader.torn_size += len(data[HEADER_SIZE:].rstrip(b"\0"))
        return None
    end = LogEnd(file, is_needed)
    end.scan = reader.scan(file, data, durable_end)
    end.next_batch = end.scan.batch_upper + 1
    if not end.scan.is_ended:
        end.copy = TailCopy(file)
    return end


def _copied_end(file: SegmentFile, reader: SegmentReader) -> LogEnd:
    end = LogEnd(file, True)
    header = read_header(reader.read_head(file), HEADER_SIZE, file.number)
    if header is None:
        # Damaged: its records are found by a scan, as far as they are there.
        data = reader.read(file)
        end.scan = reader.scan(file, data, len(data))
        end.next_batch = end.scan.batch_upper + 1
    else:
        # A copy is one batch.
        end.next_batch = header.batch + 1
    return end


@final
class TailCopy:
    """A segment that takes the place of one which may not be durable."""

    __slots__ = (
        "_chunks",
        "_writer",
        "file_size",
        "first_number",
        "index",
        "is_damaged",
        "number",
        "record_count",
    )

    def __init__(self, file: SegmentFile) -> None:
        self.first_number = file.first_number
        self.number = file.number + 1
        self.index = SegmentIndex(self.first_number, self.number)
        self.record_count: i64 = 0
        self.file_size: i64 = 0
        # Whether something of what it replaces was lost.
        self.is_damaged = False
        self._writer: BatchWriter | None = None
        self._chunks: list[bytes] = []

    def fill(self, scan: SegmentScan, reader: SegmentReader, batch: i64) -> None:
        """Take over every good record, as one batch; in memory.

        Raises:
            RecordUnknown: a record must not be skipped.
        """
        writer = BatchWriter(self.number, batch, self.number, HEADER_SIZE)
        indexer = Indexer(self.index)
        self.is_damaged = len(scan.damages) > 0
        for start in scan.records:
            offset = HEADER_SIZE + writer.position
            if reader.add_record(indexer, scan, start, offset):
                end = start + read_u32(scan.data, start) - CHECKSUM_SIZE
                writer.copy(scan.data[start:end])
            else:
                self.is_damaged = True
        indexer.finish()
        self.record_count = writer.record_count
        self._writer = writer

    def settle(self, queue_id: i64, lost: Ranges) -> None:
        """Add that messages were lost: the next start will not see the damage."""
        assert self._writer is not None, "filled before"
        self._writer.settle(queue_id, lost)

    def write(
        self,
        filesystem: FileSystem,
        directory: str,
        store_uuid: bytes,
        reserve: Reserve,
    ) -> SegmentFile:
        """Write the copy durably; return its file.

        Raises:
            OSError: there is no room even in the reserve, or the disk refuses.
            SyncFailed: the disk refused a sync.
        """
        assert self._writer is not None, "filled before"
        segment = Segment(
            filesystem, directory, store_uuid, self.first_number, self.number
        )
        self._chunks = self._writer.finish()
        self.file_size = HEADER_SIZE + self._writer.size
        self._writer = None
        try:
            self._write(segment)
        except OSError as exc:
            if exc.errno != errno.ENOSPC:
                raise
            # What the reserve is for.
            reserve.release()
            self._write(segment)
        self._chunks = []
        return SegmentFile(self.first_number, self.number, segment.path)

    def _write(self, segment: Segment) -> None:
        segment.create_hidden()
        try:
            segment.write(self._chunks, HEADER_SIZE)
            segment.publish()
        finally:
            segment.close()
