"""Applying the segments since a checkpoint, each from the cheapest source.

    its index file             a few KiB, read in part
    a scan of its records      where there is no index file, or a damaged one, and at
                               the end of the log

What a scan found becomes an index file again, later: nothing is touched here.
"""

from typing import final

from mypy_extensions import i64

from store.filesystem import FileSystem
from store.index import Index
from store.index_file import IndexFile
from store.log_end import LogEnd
from store.log_files import SegmentFile
from store.replay import Replay
from store.scan import SegmentScan
from store.segment_index import SegmentIndex
from store.segment_reader import SegmentReader
from store.seq_ranges import Ranges


@final
class LogReplay:
    """Applies files to an index that knows they are there."""

    __slots__ = (
        "_filesystem",
        "_index",
        "_reader",
        "_replay",
        "_store_uuid",
        "bytes_read",
        "found",
        "scanned_count",
    )

    def __init__(
        self,
        filesystem: FileSystem,
        store_uuid: bytes,
        reader: SegmentReader,
        index: Index,
        replay: Replay,
    ) -> None:
        self._filesystem = filesystem
        self._store_uuid = store_uuid
        self._reader = reader
        self._index = index
        self._replay = replay
        # Indexes that have no good file.
        self.found: list[SegmentIndex] = []
        self.scanned_count: i64 = 0
        self.bytes_read: i64 = 0

    def run(self, files: list[SegmentFile], end: LogEnd | None) -> None:
        """Apply these files, the last of which may be the end of the log.

        Raises:
            StoreError: they must not be used.
            OSError: the disk refuses.
        """
        for file in files:
            if end is not None and file is end.file:
                self._apply_end(end)
            elif not self._apply_index_file(file):
                self._apply_scan(file, self._scan(file))

    def _apply_end(self, end: LogEnd) -> None:
        scan = end.scan
        if end.copy is not None:
            self.scanned_count += 1
            for queue_id, lost in self._apply_found(
                end.copy.index, end.copy.is_damaged
            ):
                end.copy.settle(queue_id, lost)
        elif scan is not None and scan.damages:
            # An index file may name what is not there any more.
            self._apply_scan(end.file, scan)
        elif not self._apply_index_file(end.file):
            self._apply_scan(end.file, self._scan(end.file) if scan is None else scan)

    def _apply_index_file(self, file: SegmentFile) -> bool:
        """Apply a segment from its index file; return whether that could be done."""
        try:
            index = IndexFile(self._filesystem, file.index_path)
        except FileNotFoundError:
            return False
        try:
            if not index.read(file.first_number, file.number, self._store_uuid):
                return False
            return self._apply_index(file, index)
        finally:
            index.close()
            self.bytes_read += index.bytes_read

    def _apply_index(self, file: SegmentFile, index: IndexFile) -> bool:
        segment = self._index.segment(file.number)
        for run in index.runs():
            entries: bytes | None = None
            if self._replay.needs_entries(run):
                entries = index.entries(run)
                if entries is None:
                    # A scan will meet again what was applied: that is no news.
                    return False
            self._replay.apply_run(segment, run, entries)
        for fact in index.facts():
            self._replay.apply_fact(fact)
        return True

    def _scan(self, file: SegmentFile) -> SegmentScan:
        data = self._reader.read(file)
        # The next was begun after this one was cut to its end and synced.
        return self._reader.scan(file, data, len(data))

    def _apply_scan(self, file: SegmentFile, scan: SegmentScan) -> None:
        self.scanned_count += 1
        before = len(self._reader.damages)
        index = self._reader.index(file, scan)
        is_damaged = len(scan.damages) > 0 or len(self._reader.damages) > before
        self._apply_found(index, is_damaged)

    def _apply_found(
        self, index: SegmentIndex, is_damaged: bool
    ) -> list[tuple[int, Ranges]]:
        """Apply a segment that was scanned; return what is lost of it, by queue."""
        segment = self._index.segment(index.number)
        self._replay.apply_segment(segment, index)
        self.found.append(index)
        if not is_damaged:
            return []
        # The checkpoint may know messages that are lost with what is damaged.
        return self._replay.drop_damaged(segment, index)
