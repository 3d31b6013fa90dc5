"""From a directory to what the queues hold, after a clean or a dirty stop.

    look     list the files, find the newest good checkpoint and the end of the log
    replay   the checkpoint, and what the segments since say: index files, and a scan
             of those that have none and of the one that was not ended; nothing is
             touched yet, and whatever forbids a start is raised here
    save     what is damaged is copied to quarantine/
    secure   the end of the log is copied, synced, if it may be in the page cache only
    tidy     hidden, copied and unused files go

After a clean stop the checkpoint and the marker at the end of the log tell everything.
Messages themselves are not read: the index says how many there are, and where.
"""

from typing import Final, final

from mypy_extensions import i64

from store.checkpoint import CheckpointHeader
from store.checkpoint_files import CheckpointSearch, FoundCheckpoints, KeptCheckpoints
from store.errors import (
    QueueIdUnknown,
    RecordUnknown,
    StoreDamaged,
    StoreError,
    repair_hint,
)
from store.filesystem import FileSystem
from store.index import Index
from store.log_end import LogEnd, TailCopy, clean_batch, find_log_end
from store.log_files import LogFiles, SegmentFile
from store.log_replay import LogReplay
from store.quarantine import damaged_file, save
from store.replay import RecoveredQueue, Replay
from store.segment import name_of
from store.segment_index import SegmentIndex, index_path
from store.segment_reader import SegmentReader
from store.segment_set import Reserve

LOG_NAME: Final = "log"
QUARANTINE_NAME: Final = "quarantine"


@final
class RecoveryReport:
    """What a start found, for the log and for the tests."""

    __slots__ = (
        "bytes_read",
        "copied_records",
        "garbage_count",
        "is_clean",
        "quarantined",
        "reference_count",
        "scanned_segments",
        "segment_count",
        "torn_size",
    )

    def __init__(self) -> None:
        # Whether the checkpoint of a clean stop told everything.
        self.is_clean = False
        self.segment_count: i64 = 0
        self.scanned_segments: i64 = 0
        self.reference_count: i64 = 0
        # Facts and references of queues that are gone.
        self.garbage_count: i64 = 0
        # Bytes of batches that were begun and never known to be durable.
        self.torn_size: i64 = 0
        self.copied_records: i64 = 0
        self.bytes_read: i64 = 0
        # One line for each damaged stretch, naming where its bytes were saved.
        self.quarantined: list[str] = []


@final
class Recovered:
    """Everything the store needs to go on."""

    __slots__ = (
        "checkpoints",
        "index",
        "next_batch",
        "next_number",
        "queues",
        "report",
    )

    def __init__(self) -> None:
        self.queues: dict[int, RecoveredQueue] = {}
        self.index = Index()
        self.checkpoints = KeptCheckpoints()
        self.next_number: i64 = 1
        self.next_batch: i64 = 1
        self.report = RecoveryReport()


@final
class Recovery:
    """One start."""

    __slots__ = (
        "_checkpoints",
        "_directory",
        "_end",
        "_filesystem",
        "_log",
        "_log_replay",
        "_reader",
        "_recovered",
        "_replay",
        "_reserve",
        "_store_uuid",
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
        self._recovered = Recovered()
        self._replay = Replay(self._recovered.index, known_queues, highest_queue_id)
        self._reader = SegmentReader(filesystem, directory, store_uuid)
        self._checkpoints = FoundCheckpoints()
        self._end: LogEnd | None = None
        self._log_replay = LogReplay(
            filesystem, store_uuid, self._reader, self._recovered.index, self._replay
        )

    def run(self) -> Recovered:
        """Recover; raises StoreError before anything is touched, or on a bad disk."""
        recovered = self._recovered
        try:
            files = LogFiles(self._filesystem, self._log)
            self._look(files)
            self._check_files()
            self._save(files)
            self._secure(files)
            self._write_indexes()
            self._tidy(files)
        except OSError as exc:
            raise StoreError(f"cannot recover {self._log}: {exc}") from exc
        except (QueueIdUnknown, RecordUnknown) as unknown:
            hint = repair_hint(self._directory)
            raise type(unknown)(f"{unknown}; {hint}") from unknown
        recovered.queues = self._replay.queues()
        recovered.checkpoints = self._checkpoints.kept
        if files.files:
            self._go_on_from(files.files[-1])
        self._fill_report(files)
        return recovered

    def _go_on_from(self, last: SegmentFile) -> None:
        recovered = self._recovered
        index = recovered.index
        recovered.next_number = last.number + 1
        # Where the next checkpoint begins, if nothing is written before it.
        index.applied_segment = last.number
        index.applied_offset = index.segment(last.number).file_size
        index.applied_batch = recovered.next_batch - 1

    def _fill_report(self, files: LogFiles) -> None:
        report = self._recovered.report
        report.segment_count = len(files.files)
        report.reference_count = self._replay.reference_count
        report.garbage_count = self._replay.garbage_count
        report.torn_size = self._reader.torn_size
        report.scanned_segments = self._log_replay.scanned_count
        report.bytes_read = (
            self._checkpoints.bytes_read
            + self._reader.bytes_read
            + self._log_replay.bytes_read
        )

    def _damaged(self, what: str) -> StoreDamaged:
        return StoreDamaged(f"{what}; {repair_hint(self._directory)}")

    # -- look and replay

    def _look(self, files: LogFiles) -> None:
        search = CheckpointSearch(self._filesystem, self._log, self._store_uuid)
        self._checkpoints = search.run(files.names, self._directory)
        files.unneeded.extend(self._checkpoints.spare)
        checkpoint = self._checkpoints.newest
        position = None if checkpoint is None else checkpoint.header
        self._check_contiguous(files, position)
        last_batch: i64 = 0
        if position is not None:
            last_batch = clean_batch(self._filesystem, files, position)
            self._recovered.next_batch = max(last_batch + 1, position.next_batch)
        is_clean = last_batch > 0
        self._recovered.report.is_clean = is_clean
        if not is_clean:
            self._find_end(files, position)
        self._adopt(files)
        if checkpoint is not None:
            self._replay.restore(checkpoint)
        if not is_clean:
            first: i64 = 0 if position is None else position.segment
            since = [file for file in files.files if file.number >= first]
            self._log_replay.run(since, self._end)

    def _check_contiguous(
        self, files: LogFiles, position: CheckpointHeader | None
    ) -> None:
        """Refuse a log without a file that nobody may have removed yet."""
        first: i64 = 0 if position is None else position.segment
        if first == 0 and not files.files:
            return
        missing = files.missing_from(max(first, 1))
        if missing > 0:
            raise self._damaged(
                f"{self._log}/{name_of(missing, missing)} is missing, and so is any "
                "file that stands for it"
            )

    def _find_end(self, files: LogFiles, position: CheckpointHeader | None) -> None:
        end = find_log_end(files, self._reader, position)
        if end is None:
            return
        recovered = self._recovered
        recovered.next_batch = max(recovered.next_batch, end.next_batch)
        if end.copy is not None and end.scan is not None:
            if not end.scan.records and not end.is_needed:
                # Nothing but a header, or what is torn.
                files.drop_last()
                return
            end.copy.fill(end.scan, self._reader, recovered.next_batch)
            recovered.next_batch += 1
        self._end = end

    def _adopt(self, files: LogFiles) -> None:
        """Tell the index what files there will be."""
        index = self._recovered.index
        for file in files.files:
            copy = self._copy_of(file)
            if copy is not None:
                index.adopt_segment(copy.first_number, copy.number, 0)
            else:
                size = self._filesystem.size(file.path)
                index.adopt_segment(file.first_number, file.number, size)

    def _copy_of(self, file: SegmentFile) -> TailCopy | None:
        """Return the copy that takes a file's place, if one does."""
        end = self._end
        return end.copy if end is not None and end.file is file else None

    def _check_files(self) -> None:
        """Refuse a log without a file that somebody needs; forget what is long gone."""
        index = self._recovered.index
        for state in list(index.segments.values()):
            if state.has_file:
                continue
            if state.references > 0:
                raise self._damaged(
                    f"{self._log}/{name_of(state.number, state.number)} is missing, "
                    f"and queues need {state.references} messages of it"
                )
            index.drop_segment(state.number)

    # -- from here on files change

    def _save(self, files: LogFiles) -> None:
        damages = self._reader.damages
        for path in self._checkpoints.damaged:
            damages.append(damaged_file(path, self._filesystem.read_file(path)))
            files.unneeded.append(path)
        directory = f"{self._directory}/{QUARANTINE_NAME}"
        self._recovered.report.quarantined = save(self._filesystem, directory, damages)

    def _secure(self, files: LogFiles) -> None:
        """Make the end of the log durable under a new name, if it may not be."""
        end = self._end
        if end is None or end.copy is None:
            return
        files.drop_last()
        files.files.append(
            end.copy.write(self._filesystem, self._log, self._store_uuid, self._reserve)
        )
        segment = self._recovered.index.segment(end.copy.number)
        segment.file_size = end.copy.file_size
        self._recovered.report.copied_records = end.copy.record_count

    def _write_indexes(self) -> None:
        for index in self._log_replay.found:
            path = f"{self._log}/{name_of(index.first_number, index.number)}"
            try:
                self._write_index(index_path(path), index)
            except OSError:
                # It is made again when it is wanted.
                return

    def _write_index(self, path: str, index: SegmentIndex) -> None:
        descriptor = self._filesystem.create(path)
        try:
            self._filesystem.write(descriptor, index.chunks(self._store_uuid), 0)
        finally:
            self._filesystem.close(descriptor)

    def _tidy(self, files: LogFiles) -> None:
        """Remove what is not needed; make the names that stay durable."""
        files.find_orphans()
        if files.unneeded:
            # The name of a copy may be in the cache only: it must not be lost after
            # what it stands for is gone.
            self._filesystem.sync_directory(self._log)
        for path in files.unneeded:
            self._filesystem.remove(path)
        self._filesystem.make_directory(self._log)
        self._filesystem.sync_directory(self._log)
        self._filesystem.sync_directory(self._directory)
