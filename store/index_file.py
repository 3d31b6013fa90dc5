"""Reading a segment's index file at a start: directory and facts, entries if need be.

A file that is missing, or is not what was written for that segment, is as good as
none: the segment tells the same. It does not know what the runs are for.
"""

from typing import Final, final

from mypy_extensions import i64

from store.filesystem import FileSystem
from store.record import Record
from store.segment_index import (
    ENTRY_SIZE,
    HEADER_SIZE,
    ROW_SIZE,
    IndexedRun,
    IndexHeader,
    read_facts,
    read_header,
    read_run,
)

# Directory and facts of a segment of few queues come with the header.
_FIRST_READ: Final = 4096


@final
class IndexFile:
    """An open index file; close it."""

    __slots__ = ("_descriptor", "_filesystem", "_head", "_header", "bytes_read")

    def __init__(self, filesystem: FileSystem, path: str) -> None:
        """Open the file; raises OSError."""
        self._filesystem = filesystem
        self._descriptor: int = filesystem.open_for_reading(path)
        self._header: IndexHeader | None = None
        self._head = b""
        self.bytes_read: i64 = 0

    def read(self, first_number: i64, number: i64, store_uuid: bytes) -> bool:
        """Read directory and facts; return whether they are those of a segment."""
        data = self._read(_FIRST_READ, 0)
        header = read_header(data, first_number, number, store_uuid)
        if header is None:
            return False
        end = HEADER_SIZE + header.head_size
        if end > len(data):
            data += self._read(end - len(data), len(data))
        self._head = data[HEADER_SIZE:end]
        self._header = header
        return header.is_head(self._head)

    def _read(self, size: i64, offset: i64) -> bytes:
        data = self._filesystem.read(self._descriptor, size, offset)
        self.bytes_read += len(data)
        return data

    def runs(self) -> list[IndexedRun]:
        """Return the directory."""
        assert self._header is not None, "only what was read has runs"
        size = self._header.directory_size
        return [read_run(self._head, at) for at in range(0, size, ROW_SIZE)]

    def facts(self) -> list[Record]:
        """Return the facts; raises RecordUnknown."""
        assert self._header is not None, "only what was read has facts"
        return read_facts(self._head, self._header.directory_size)

    def entries(self, run: IndexedRun) -> bytes | None:
        """Return the entries of a run, None if they are damaged."""
        data = self._read(run.count * ENTRY_SIZE, run.entries_at)
        return data if run.are_entries(data) else None

    def deadlines(self, run: IndexedRun) -> bytes | None:
        """Return the deadlines of a run, None if they are damaged."""
        return run.deadlines_in(self._read(run.deadlines_size, run.deadlines_at))

    def close(self) -> None:
        """Close the file."""
        self._filesystem.close(self._descriptor)
