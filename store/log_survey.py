"""A log as a start finds it, but nothing is refused and nothing is touched.

    look       names, checkpoints, headers of segments, the end of the log
    apply      what a segment holds, told to the index
    look_back  segments that are needed and not there

What is wrong becomes a finding, and what must not be used is left out: so the rest can
be looked at all the same. Only what another version wrote ends it.

It does not know what is to be done about a finding.
"""

from typing import Final, final

from mypy_extensions import i64

from store import checkpoint as checkpoint_file
from store import segment as segment_file
from store.checkpoint import Checkpoint, CheckpointHeader
from store.checkpoint_files import checkpoint_name, checkpoint_number
from store.errors import StoreForeign, VersionUnknown
from store.filesystem import FileSystem
from store.index import Index
from store.log_end import LogEnd, clean_batch, find_log_end
from store.log_files import LogFiles, SegmentFile
from store.quarantine import DamagedBytes
from store.replay import Replay
from store.scan import SegmentScan
from store.segment import name_of, numbers_in
from store.segment_index import SUFFIX, SegmentIndex
from store.segment_reader import SegmentReader
from store.segment_set import RESERVE_NAME

LOG_NAME: Final = "log"
# No queue id is above it: unknown ones are a finding here.
_ANY_QUEUE_ID: Final = (1 << 62) - 1


@final
class Finding:
    """Something about a store that is worth a line."""

    __slots__ = ("is_damage", "text")

    def __init__(self, text: str, is_damage: bool) -> None:
        self.text = text
        # Else it is only to be known.
        self.is_damage = is_damage


@final
class LogSurvey:
    """Everything there is to know of a log without reading its messages."""

    __slots__ = (
        "_end_damages",
        "_highest",
        "_known",
        "_unknown",
        "behind",
        "checkpoint_paths",
        "directory",
        "end",
        "files",
        "filesystem",
        "findings",
        "foreign",
        "index",
        "is_clean",
        "log",
        "next_batch",
        "next_checkpoint",
        "next_number",
        "position",
        "reader",
        "replay",
        "store_uuid",
    )

    def __init__(
        self,
        filesystem: FileSystem,
        directory: str,
        store_uuid: bytes,
        known_queues: set[int],
        highest_queue_id: i64,
    ) -> None:
        self.filesystem = filesystem
        self.directory = directory
        self.log: str = f"{directory}/{LOG_NAME}"
        self.store_uuid = store_uuid
        self._known = known_queues
        self._highest = highest_queue_id
        self._unknown: set[int] = set()
        self.findings: list[Finding] = []
        # Paths of what must not be used: another store's, or nobody's.
        self.foreign: list[str] = []
        # Of segments behind the end of the log: nothing was ever durable in them.
        self.behind: list[str] = []
        # Of all checkpoints that are this store's, good or not.
        self.checkpoint_paths: list[str] = []
        self.files: list[SegmentFile] = []
        self.index = Index()
        self.replay = Replay(self.index, known_queues, _ANY_QUEUE_ID)
        self.reader = SegmentReader(filesystem, directory, store_uuid)
        self.end: LogEnd | None = None
        # Found with the end; told when its segment is scanned.
        self._end_damages: list[DamagedBytes] = []
        # Where the newest good checkpoint begins.
        self.position: CheckpointHeader | None = None
        self.is_clean = False
        # Above anything that there is.
        self.next_number: i64 = 1
        self.next_checkpoint: i64 = 1
        self.next_batch: i64 = 1

    def damaged(self, text: str) -> None:
        """Something is not what was written, or contradicts something else."""
        self.findings.append(Finding(text, True))

    def note(self, text: str) -> None:
        """Something is as it may be."""
        self.findings.append(Finding(text, False))

    @property
    def is_damaged(self) -> bool:
        """Say whether anything is wrong so far."""
        return any(finding.is_damage for finding in self.findings)

    @property
    def unknown_queue_id(self) -> int:
        """Return the highest queue id that the metadata never gave out, 0 if none."""
        return max(self._unknown, default=0)

    # -- look

    def look(self) -> None:
        """Look at everything but the content of segments.

        Raises:
            VersionUnknown: another version wrote some of it.
            OSError: the disk refuses.
        """
        files = LogFiles(self.filesystem, self.log)
        self._look_at_names(files.names)
        newest = self._look_at_checkpoints(files.names)
        files.files = [file for file in files.files if self._is_ours(file)]
        if self.position is not None:
            self.is_clean = clean_batch(self.filesystem, files, self.position) > 0
        found = [file.path for file in files.files]
        self.end = find_log_end(files, self.reader, self.position)
        self.behind = found[len(files.files) :]
        self._end_damages = list(self.reader.damages)
        self.reader.damages.clear()
        if self.end is not None:
            self.next_batch = max(self.next_batch, self.end.next_batch)
            scan = self.end.scan
            if not self.is_clean and (scan is None or not scan.is_ended):
                self.note("the broker was not stopped cleanly: a start secures the end")
        self.files = files.files
        self._look_for_gaps()
        for file in self.files:
            size = self.filesystem.size(file.path)
            self.index.adopt_segment(file.first_number, file.number, size)
        if newest is not None:
            self.replay.restore(newest)

    def _look_at_names(self, names: list[str]) -> None:
        for name in sorted(names):
            # An index file may have outlived its segment.
            numbers = numbers_in(name.removesuffix(SUFFIX) + segment_file.SUFFIX)
            if numbers is None:
                numbers = numbers_in(name)
            if numbers is not None:
                self.next_number = max(self.next_number, numbers[1] + 1)
            elif (
                name != RESERVE_NAME
                and checkpoint_number(name) is None
                and not name.endswith((SUFFIX, segment_file.TEMPORARY_SUFFIX))
            ):
                self._leave_out(f"{self.log}/{name}", "is none of the store's files")

    def _leave_out(self, path: str, reason: str) -> None:
        self.foreign.append(path)
        self.damaged(f"{path} {reason}")

    def _look_at_checkpoints(self, names: list[str]) -> Checkpoint | None:
        """Return the newest good one."""
        newest: Checkpoint | None = None
        numbers = [checkpoint_number(name) for name in names]
        found = sorted((one for one in numbers if one is not None), reverse=True)
        for number in found:
            self.next_checkpoint = max(self.next_checkpoint, number + 1)
            path = f"{self.log}/{checkpoint_name(number)}"
            good = self._look_at_checkpoint(path, number, newest is None)
            newest = good if newest is None else newest
        if found and newest is None:
            self.damaged(f"none of the checkpoints in {self.log} can be used")
        return newest

    def _look_at_checkpoint(
        self, path: str, number: int, is_newest: bool
    ) -> Checkpoint | None:
        data = self.filesystem.read_file(path)
        try:
            header = checkpoint_file.read_header(data, path, self.store_uuid)
        except StoreForeign:
            self._leave_out(path, "belongs to another store than meta.db")
            return None
        self.checkpoint_paths.append(path)
        if header is None or header.number != number:
            self.damaged(f"{path} is not what was written")
            return None
        good = checkpoint_file.parse_checkpoint(data, header)
        if good is None:
            self.damaged(f"{path} is not what was written")
        elif is_newest:
            self.position = header
            self.next_batch = max(self.next_batch, header.next_batch)
            self._note_saved_queues(good)
            # Its queues are handed out once.
            good = checkpoint_file.parse_checkpoint(data, header)
        return good

    def _note_saved_queues(self, checkpoint: Checkpoint) -> None:
        saved = checkpoint.next_queue()
        while saved is not None:
            self._note_queue(saved.queue_id)
            saved = checkpoint.next_queue()

    def _note_queue(self, queue_id: int) -> None:
        if queue_id > self._highest and queue_id not in self._unknown:
            self._unknown.add(queue_id)
            self.damaged(
                f"the log names queue id {queue_id}, but the metadata gave out none "
                f"above {self._highest}: meta.db is older than the log"
            )

    def _is_ours(self, file: SegmentFile) -> bool:
        """Look at the header of a segment; say whether the file may be used."""
        descriptor = self.filesystem.open_for_reading(file.path)
        try:
            data = self.filesystem.read(descriptor, segment_file.HEADER_SIZE, 0)
        finally:
            self.filesystem.close(descriptor)
        header = segment_file.read_header(data)
        if header is None:
            # Its batches say by their checksums whose they are.
            return True
        if header.version != segment_file.VERSION:
            raise VersionUnknown(
                f"{file.path} has format version {header.version}, this program reads "
                f"{segment_file.VERSION}"
            )
        if header.store_uuid != self.store_uuid:
            self._leave_out(file.path, "belongs to another store than meta.db")
        elif header.number != file.number or header.first_number != file.first_number:
            self._leave_out(file.path, f"says that it is segment {header.number}")
        else:
            return True
        return False

    @property
    def first_needed(self) -> i64:
        """Return the first segment that the newest checkpoint does not cover."""
        return 0 if self.position is None else self.position.segment

    def pending(self) -> list[SegmentFile]:
        """Return all segments, to be taken from the end in the order of their checks.

        Those that the newest checkpoint does not cover come first, oldest first.
        """
        first = self.first_needed
        pending = [file for file in self.files if file.number < first]
        since = [file for file in self.files if file.number >= first]
        since.reverse()
        pending.extend(since)
        return pending

    @property
    def size(self) -> i64:
        """Return how many bytes the segments have."""
        size: i64 = 0
        for file in self.files:
            size += self.index.segment(file.number).file_size
        return size

    def _look_for_gaps(self) -> None:
        """Find segments that nobody may have removed yet, and that are not there."""
        due: i64 = max(self.first_needed, 1)
        for file in self.files:
            if file.number >= due:
                if not file.covers(due):
                    self._report_missing(due, file.first_number - 1)
                due = file.number + 1
        if self.position is not None and due == self.first_needed:
            self._report_missing(due, due)

    def _report_missing(self, first: i64, last: i64) -> None:
        names = f"{self.log}/{name_of(first, first)}"
        if last > first:
            names += f" to {name_of(last, last)}"
        self.damaged(f"{names}: missing, and with it what it says of other segments")

    # -- apply

    def scan(self, file: SegmentFile) -> SegmentScan:
        """Return the scan of a segment; what is damaged is noted by the reader."""
        end = self.end
        if end is not None and end.file is file and end.scan is not None:
            self.reader.damages.extend(self._end_damages)
            self._end_damages = []
            return end.scan
        data = self.reader.read(file)
        # The next was begun after this one was cut to its end and synced.
        return self.reader.scan(file, data, len(data))

    def is_end(self, file: SegmentFile) -> bool:
        """Say whether a segment is the last, and nobody knows that it is durable."""
        end = self.end
        if end is None or end.file is not file or end.scan is None:
            return False
        return not file.is_copy and not end.scan.is_ended

    def note_queues(self, found: SegmentIndex) -> None:
        """Look at the queue ids that a segment names."""
        for share in found.shares():
            self._note_queue(share.queue_id)

    def apply(self, file: SegmentFile, found: SegmentIndex, is_damaged: bool) -> i64:
        """Tell the index what a segment holds; return how many messages are lost."""
        segment = self.index.segment(file.number)
        self.replay.apply_segment(segment, found)
        if not is_damaged:
            return 0
        return self.drop_lost(file, found)

    def drop_lost(self, file: SegmentFile, found: SegmentIndex) -> i64:
        """Settle what the index has in a segment and is not there; return how much."""
        segment = self.index.segment(file.number)
        before = segment.references
        self.replay.drop_damaged(segment, found)
        return before - segment.references

    def is_known(self, queue_id: int) -> bool:
        """Say whether a queue is there: nobody needs what is of others."""
        return queue_id in self._known

    # -- look back

    def look_back(self) -> None:
        """Find segments that are needed and not there, once all are applied."""
        for state in self.index.segments.values():
            if not state.has_file and state.references > 0:
                name = name_of(state.number, state.number)
                self.damaged(
                    f"{self.log}/{name} is missing, and queues need "
                    f"{state.references} messages of it"
                )
        if self.reader.torn_size > 0:
            self.note(
                f"the log ends in {self.reader.torn_size} bytes that were never known "
                "to be durable: a start cuts them off"
            )
