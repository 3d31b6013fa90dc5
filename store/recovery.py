"""From a directory to what the queues hold, after a clean or a dirty stop.

    look     list the segments; those that a range file stands for are hidden
    read     find how far the log was durable, scan, replay; nothing is touched yet,
             and whatever forbids a start is raised here
    save     bad records are copied to quarantine/
    secure   the tail (the segment that was being written) is copied to a new file
             and synced: what was read may have been in the page cache only
    tidy     hidden, copied and unused files go

A tail is safe as it is when it ends with the marker of a clean stop, or is such a
copy itself. No recovered file is ever appended to.
"""

import errno
from typing import Final, final

from mypy_extensions import i64

from store import segment as segment_file
from store.batch import BatchWriter
from store.errors import (
    StoreDamaged,
    StoreError,
    StoreForeign,
    VersionUnknown,
    repair_hint,
)
from store.filesystem import FileSystem
from store.index import Index
from store.record import CHECKSUM_SIZE, read_record, read_u32
from store.replay import RecoveredQueue, Replay
from store.scan import Damage, SegmentScan, durable_claim
from store.segment import HEADER_SIZE, Segment, numbers_in
from store.segment_set import Reserve

LOG_NAME: Final = "log"
QUARANTINE_NAME: Final = "quarantine"


@final
class SegmentFile:
    """A segment found in the directory."""

    __slots__ = ("first_number", "number", "path")

    def __init__(self, first_number: i64, number: i64, path: str) -> None:
        self.first_number = first_number
        self.number = number
        self.path = path

    @property
    def is_copy(self) -> bool:
        """Say whether it stands for others: then it was synced before it was named."""
        return self.first_number < self.number


@final
class SavedDamage:
    """Damaged bytes on their way to quarantine."""

    __slots__ = ("data", "reason", "segment", "start")

    def __init__(self, segment: i64, start: i64, data: bytes, reason: str) -> None:
        self.segment = segment
        self.start = start
        self.data = data
        self.reason = reason


@final
class RecoveryReport:
    """What a start found, for the log and for the tests."""

    __slots__ = (
        "copied_records",
        "garbage_count",
        "quarantined",
        "record_count",
        "segment_count",
        "torn_size",
    )

    def __init__(self) -> None:
        self.segment_count: i64 = 0
        self.record_count: i64 = 0
        # Facts and references of queues that are gone.
        self.garbage_count: i64 = 0
        # Bytes of batches that were begun and never known to be durable.
        self.torn_size: i64 = 0
        self.copied_records: i64 = 0
        # One line for each damaged stretch, naming where its bytes were saved.
        self.quarantined: list[str] = []


@final
class Recovered:
    """Everything the store needs to go on."""

    __slots__ = ("files", "index", "next_batch", "next_number", "queues", "report")

    def __init__(self) -> None:
        self.queues: dict[int, RecoveredQueue] = {}
        self.index = Index()
        self.files: list[SegmentFile] = []
        self.next_number: i64 = 1
        self.next_batch: i64 = 1
        self.report = RecoveryReport()


@final
class Recovery:
    """One start."""

    __slots__ = (
        "_damages",
        "_directory",
        "_files",
        "_filesystem",
        "_log",
        "_recovered",
        "_replay",
        "_reserve",
        "_store_uuid",
        "_tail",
        "_tail_data",
        "_tail_scan",
        "_unneeded",
    )

    def __init__(
        self,
        filesystem: FileSystem,
        directory: str,
        store_uuid: bytes,
        known_queues: set[int],
        highest_queue_id: i64,
        reserve: Reserve,
    ) -> None:
        self._filesystem = filesystem
        self._directory = directory
        self._log: str = f"{directory}/{LOG_NAME}"
        self._store_uuid = store_uuid
        self._reserve = reserve
        self._replay = Replay(known_queues, highest_queue_id)
        self._recovered = Recovered()
        self._files: list[SegmentFile] = []
        self._unneeded: list[str] = []
        self._damages: list[SavedDamage] = []
        # The segment that was being written, if anything ever was.
        self._tail: SegmentFile | None = None
        self._tail_data = b""
        self._tail_scan: SegmentScan | None = None

    def run(self) -> Recovered:
        """Recover; raises StoreError before anything is touched, or on a bad disk."""
        recovered = self._recovered
        try:
            self._look()
            self._find_tail()
            self._read()
            self._save()
            self._secure()
            self._tidy()
        except OSError as exc:
            raise StoreError(f"cannot recover {self._log}: {exc}") from exc
        recovered.queues = self._replay.finish(recovered.index)
        recovered.files = self._files
        recovered.report.segment_count = len(self._files)
        recovered.report.record_count = self._replay.record_count
        recovered.report.garbage_count = self._replay.garbage_count
        return recovered

    def _look(self) -> None:
        """List the segments, oldest first, and what need not be read."""
        found: list[SegmentFile] = []
        for name in self._filesystem.list_directory(self._log):
            numbers = numbers_in(name)
            path = f"{self._log}/{name}"
            if numbers is not None:
                found.append(SegmentFile(numbers[0], numbers[1], path))
            elif name.endswith(segment_file.TEMPORARY_SUFFIX):
                self._unneeded.append(path)
        # The widest of those that begin together comes first and hides the others.
        found.sort(key=_position)
        upper: i64 = 0
        for file in found:
            if file.number <= upper:
                self._unneeded.append(file.path)
                continue
            if upper > 0 and file.first_number != upper + 1:
                raise self._damaged(
                    f"{file.path} does not follow segment {upper}: a file is missing"
                )
            upper = file.number
            self._files.append(file)

    def _damaged(self, what: str) -> StoreDamaged:
        return StoreDamaged(f"{what}; {repair_hint(self._directory)}")

    def _find_tail(self) -> None:
        """Find the last segment that anything was written to; younger ones go."""
        while self._files:
            file = self._files[-1]
            data = self._filesystem.read_file(file.path)
            self._check_header(file, data, False)
            claim = durable_claim(data, file.number)
            if claim is None:
                self._recovered.report.torn_size += len(
                    data[HEADER_SIZE:].rstrip(b"\0")
                )
                self._unneeded.append(file.path)
                self._files.pop()
                continue
            durable_end: i64 = HEADER_SIZE
            if file.is_copy:
                durable_end = len(data)
            elif claim.segment == file.number:
                durable_end = claim.offset
            self._tail = file
            self._tail_data = data
            self._tail_scan = SegmentScan(data, file.number, durable_end)
            self._tail_scan.run()
            return

    def _check_header(self, file: SegmentFile, data: bytes, is_written: bool) -> None:
        header = segment_file.read_header(data)
        if header is None:
            if is_written:
                # The batches say by their checksums whose they are.
                self._damages.append(
                    SavedDamage(
                        file.number, 0, data[:HEADER_SIZE], "a segment's header"
                    )
                )
            return
        if header.version != segment_file.VERSION:
            raise VersionUnknown(
                f"{file.path} has format version {header.version}, this program reads "
                f"{segment_file.VERSION}"
            )
        if header.store_uuid != self._store_uuid:
            raise StoreForeign(
                f"{file.path} belongs to another store than meta.db (their UUIDs "
                f"differ); {repair_hint(self._directory)}"
            )
        if header.number != file.number or header.first_number != file.first_number:
            raise self._damaged(f"{file.path} says that it is segment {header.number}")

    def _read(self) -> None:
        """Replay all segments; nothing on the disk has changed when this raises."""
        report = self._recovered.report
        tail_scan = self._tail_scan
        for file in self._files:
            if tail_scan is not None and file is self._tail:
                scan = tail_scan
            else:
                data = self._filesystem.read_file(file.path)
                # The next was begun after this one was cut to its end and synced.
                scan = SegmentScan(data, file.number, len(data))
                scan.run()
            self._check_header(file, scan.data, True)
            self._apply(scan, self._home(file))
            report.torn_size += scan.torn_size
            for damage in scan.damages:
                self._note_damage(scan, damage)
            if scan.batch_upper >= self._recovered.next_batch:
                self._recovered.next_batch = scan.batch_upper + 1

    def _home(self, file: SegmentFile) -> i64:
        """Return the number of the segment that a file's records will lie in."""
        return file.number + 1 if self._is_to_be_copied(file) else file.number

    def _is_to_be_copied(self, file: SegmentFile) -> bool:
        scan = self._tail_scan
        return (
            scan is not None
            and file is self._tail
            and not file.is_copy
            and not scan.is_ended
        )

    def _apply(self, scan: SegmentScan, home: i64) -> None:
        for offset in scan.records:
            try:
                found = read_record(scan.data, offset)
                if found is not None:
                    self._replay.apply(found, home)
            except ValueError:
                size = read_u32(scan.data, offset)
                reason = "a record contradicts itself"
                self._note_damage(scan, Damage(offset, offset + size, reason))
            except StoreError as exc:
                raise type(exc)(f"{exc}; {repair_hint(self._directory)}") from exc

    def _note_damage(self, scan: SegmentScan, damage: Damage) -> None:
        self._damages.append(
            SavedDamage(
                scan.segment,
                damage.start,
                scan.data[damage.start : damage.end],
                damage.reason,
            )
        )

    def _save(self) -> None:
        """Copy what is damaged aside and report it."""
        if not self._damages:
            return
        directory = f"{self._directory}/{QUARANTINE_NAME}"
        self._filesystem.make_directory(directory)
        for damage in self._damages:
            path = f"{directory}/{damage.segment:08d}-{damage.start:010d}.bin"
            # Met at every start until its segment is gone; one copy is enough.
            if self._filesystem.size(path) != len(damage.data):
                self._write_file(path, damage.data)
            self._recovered.report.quarantined.append(
                f"{damage.reason}: {len(damage.data)} bytes of segment "
                f"{damage.segment} from offset {damage.start}, saved as {path}"
            )
        self._filesystem.sync_directory(directory)
        self._filesystem.sync_directory(self._directory)

    def _write_file(self, path: str, data: bytes) -> None:
        descriptor = self._filesystem.create(path)
        try:
            self._filesystem.write(descriptor, [data], 0)
            self._filesystem.sync(descriptor)
        finally:
            self._filesystem.close(descriptor)

    def _secure(self) -> None:
        """Make the tail durable under a new name, if it may not be."""
        tail = self._tail
        scan = self._tail_scan
        if tail is None or scan is None or not self._is_to_be_copied(tail):
            return
        self._files.pop()
        self._unneeded.append(tail.path)
        if not scan.records:
            return
        copy = Segment(
            self._filesystem,
            self._log,
            self._store_uuid,
            tail.first_number,
            tail.number + 1,
        )
        try:
            self._copy(scan, copy)
        except OSError as exc:
            if exc.errno != errno.ENOSPC:
                raise
            # What the reserve is for.
            self._reserve.release()
            self._copy(scan, copy)
        self._files.append(SegmentFile(tail.first_number, copy.number, copy.path))

    def _copy(self, scan: SegmentScan, copy: Segment) -> None:
        writer = BatchWriter(
            copy.number, self._recovered.next_batch, copy.number, HEADER_SIZE
        )
        for offset in scan.records:
            end = offset + read_u32(scan.data, offset) - CHECKSUM_SIZE
            writer.copy(scan.data[offset:end])
        copy.create_hidden()
        try:
            copy.write(writer.finish(), HEADER_SIZE)
            copy.publish()
        finally:
            copy.close()
        self._recovered.next_batch += 1
        self._recovered.report.copied_records = writer.record_count

    def _tidy(self) -> None:
        """Remove what is not needed; make the names that stay durable."""
        if self._unneeded:
            # The name of a copy may be in the cache only: it must not be lost after
            # what it stands for is gone.
            self._filesystem.sync_directory(self._log)
        for path in self._unneeded:
            self._filesystem.remove(path)
        self._filesystem.make_directory(self._log)
        self._filesystem.sync_directory(self._log)
        self._filesystem.sync_directory(self._directory)
        if self._files:
            self._recovered.next_number = self._files[-1].number + 1


def _position(file: SegmentFile) -> tuple[int, int]:
    return file.first_number, -file.number
