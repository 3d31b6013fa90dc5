"""Reading whole segments at a start: those without an index file, and the last one.

What is damaged is noted and stepped over; what belongs to another store or another
version forbids the start. Nothing is touched.
"""

from typing import Final, final

from mypy_extensions import i64

from store import segment as segment_file
from store.errors import (
    StoreDamaged,
    StoreForeign,
    VersionUnknown,
    repair_hint,
)
from store.filesystem import FileSystem
from store.indexing import Indexer
from store.log_files import SegmentFile
from store.quarantine import DamagedBytes, damaged_part
from store.record import read_u32
from store.scan import Damage, SegmentScan
from store.segment import HEADER_SIZE
from store.segment_index import SegmentIndex

# A segment is allocated ahead of need and reads as zeros; where it was written to,
# that begins at its start. Blocks further on are looked at in case that is damaged.
_PROBE_SIZE: Final = 64 * 1024
_PROBE_STEP: Final = 1024 * 1024


@final
class SegmentReader:
    """Reads segments and keeps what is damaged in them."""

    __slots__ = (
        "_data_directory",
        "_filesystem",
        "_store_uuid",
        "bytes_read",
        "damages",
        "torn_size",
    )

    def __init__(
        self, filesystem: FileSystem, data_directory: str, store_uuid: bytes
    ) -> None:
        self._filesystem = filesystem
        self._data_directory = data_directory
        self._store_uuid = store_uuid
        self.damages: list[DamagedBytes] = []
        self.torn_size: i64 = 0
        self.bytes_read: i64 = 0

    def read(self, file: SegmentFile) -> bytes:
        """Return the whole file; raises StoreError if it must not be used."""
        data = self._filesystem.read_file(file.path)
        self.bytes_read += len(data)
        self._check_header(file, data)
        return data

    def read_head(self, file: SegmentFile) -> bytes:
        """Return the first bytes; raises StoreError if it must not be used."""
        data = self._read_part(file, _PROBE_SIZE, 0)
        self._check_header(file, data)
        return data

    def is_written(self, file: SegmentFile) -> bool:
        """Say whether there is anything but zeros behind the header."""
        end: i64 = self._filesystem.size(file.path)
        if any(self.read_head(file)[HEADER_SIZE:]):
            return True
        offset: i64 = _PROBE_STEP
        while offset < end:
            if any(self._read_part(file, segment_file.HEADER_SIZE, offset)):
                return True
            offset += _PROBE_STEP
        return False

    def _read_part(self, file: SegmentFile, size: i64, offset: i64) -> bytes:
        descriptor = self._filesystem.open_for_reading(file.path)
        try:
            data = self._filesystem.read(descriptor, size, offset)
        finally:
            self._filesystem.close(descriptor)
        self.bytes_read += len(data)
        return data

    def _check_header(self, file: SegmentFile, data: bytes) -> None:
        header = segment_file.read_header(data)
        if header is None:
            # The batches say by their checksums whose they are.
            return
        if header.version != segment_file.VERSION:
            raise VersionUnknown(
                f"{file.path} has format version {header.version}, this program reads "
                f"{segment_file.VERSION}"
            )
        hint = repair_hint(self._data_directory)
        if header.store_uuid != self._store_uuid:
            raise StoreForeign(
                f"{file.path} belongs to another store than meta.db (their UUIDs "
                f"differ); {hint}"
            )
        if header.number != file.number or header.first_number != file.first_number:
            raise StoreDamaged(
                f"{file.path} says that it is segment {header.number}; {hint}"
            )

    def scan(self, file: SegmentFile, data: bytes, durable_end: i64) -> SegmentScan:
        """Scan a segment's bytes and note what is damaged."""
        if segment_file.read_header(data) is None:
            header = Damage(0, HEADER_SIZE, "a segment's header")
            self._note_damage(file.number, data, header)
        scan = SegmentScan(data, file.number, durable_end)
        scan.run()
        for damage in scan.damages:
            self._note_damage(file.number, data, damage)
        self.torn_size += scan.torn_size
        return scan

    def index(self, file: SegmentFile, scan: SegmentScan) -> SegmentIndex:
        """Return the index of a segment that was scanned.

        Raises:
            RecordUnknown: a record must not be skipped.
        """
        indexer = Indexer(SegmentIndex(file.first_number, file.number))
        for offset in scan.records:
            self.add_record(indexer, scan, offset, offset)
        indexer.finish()
        return indexer.index

    def add_record(
        self, indexer: Indexer, scan: SegmentScan, start: i64, offset: i64
    ) -> bool:
        """Index a record that will lie at an offset; return whether it can be used.

        Raises:
            RecordUnknown: it must not be skipped.
        """
        try:
            indexer.add(scan.data, start, offset)
        except ValueError:
            size = read_u32(scan.data, start)
            reason = "a record contradicts itself"
            damage = Damage(start, start + size, reason)
            self._note_damage(scan.segment, scan.data, damage)
            return False
        return True

    def _note_damage(self, segment: i64, data: bytes, damage: Damage) -> None:
        self.damages.append(
            damaged_part(
                segment, damage.start, data[damage.start : damage.end], damage.reason
            )
        )
