"""Making a log usable again, without destroying anything.

What cannot be used is moved to quarantine/, or its bytes are saved there; the rest is
brought into a state from which a broker starts as after a clean stop:

    foreign files          moved aside, before anything is read
    damaged segments       written anew with the records that are sound; so is the end
                           of the log, if nobody knows that it is durable
    wrong index files      moved aside and made again
    the index              told all that can be read; what it needs and is not there
                           is settled
    behind the log's end   segments that were prepared, or are torn: moved aside
    a new last segment     with nothing but the mark of a clean stop in it
    a new checkpoint       of that index, which begins there; the others are moved aside

The new checkpoint comes last and makes it all count: until it is there, repairing can
be begun again from the start.
"""

from typing import Final, final

from mypy_extensions import i64

from store.batch import BatchWriter
from store.checkpoint import CheckpointBuilder, CheckpointHeader
from store.checkpoint_files import checkpoint_name, write_checkpoint
from store.filesystem import FileSystem
from store.indexing import Indexer
from store.log_files import SegmentFile
from store.log_survey import LogSurvey
from store.quarantine import save
from store.record import CHECKSUM_SIZE, read_u32
from store.segment import HEADER_SIZE, Segment
from store.segment_check import CheckedSegment, SegmentCheck, live_in
from store.segment_index import SegmentIndex
from store.seq_ranges import Ranges

QUARANTINE_NAME: Final = "quarantine"
_SEQ_MAX: Final = (1 << 62) - 1
_ALL_QUEUES: Final = 1 << 62


def move_aside(filesystem: FileSystem, directory: str, paths: list[str]) -> list[str]:
    """Move files to quarantine/, durably; return a line for each; raises OSError."""
    lines: list[str] = []
    if not paths:
        return lines
    quarantine = f"{directory}/{QUARANTINE_NAME}"
    filesystem.make_directory(quarantine)
    sources: set[str] = set()
    for path in paths:
        name = path[path.rindex("/") + 1 :]
        target = f"{quarantine}/{name}"
        copies = 0
        while filesystem.exists(target):
            copies += 1
            target = f"{quarantine}/{name}.{copies}"
        filesystem.rename(path, target)
        sources.add(path[: path.rindex("/")])
        lines.append(f"{path} is moved to {target}")
    filesystem.sync_directory(quarantine)
    for source in sorted(sources):
        filesystem.sync_directory(source)
    filesystem.sync_directory(directory)
    return lines


@final
class Repair:
    """One repair; call `advance` until it says that this was all."""

    __slots__ = (
        "_check",
        "_filesystem",
        "_pending",
        "bytes_done",
        "bytes_total",
        "lines",
        "survey",
    )

    def __init__(self, survey: LogSurvey) -> None:
        """Look at the log, from which what is foreign was moved away.

        Raises:
            VersionUnknown: another version wrote some of it.
            OSError: the disk refuses.
        """
        self.survey = survey
        self._filesystem = survey.filesystem
        survey.look()
        self._check = SegmentCheck(survey)
        # What was done, for whoever started it.
        self.lines: list[str] = []
        # The next one is the last.
        self._pending = survey.pending()
        self.bytes_done: i64 = 0
        self.bytes_total: i64 = survey.size

    def advance(self) -> bool:
        """Repair one more segment, or end the repair; return whether that was all.

        Raises:
            SyncFailed: the disk refused a sync.
            OSError: the disk refuses something else.
        """
        if self._pending:
            self._repair(self._pending.pop())
            return False
        self._drop_missing()
        self._end()
        return True

    # -- a segment

    def _repair(self, file: SegmentFile) -> None:
        survey = self.survey
        checked = self._check.run(file)
        size = survey.index.segment(file.number).file_size
        damages = list(survey.reader.damages)
        survey.reader.damages.clear()
        quarantine = f"{survey.directory}/{QUARANTINE_NAME}"
        self.lines.extend(save(self._filesystem, quarantine, damages))
        is_end = survey.is_end(file)
        survey.next_batch = max(survey.next_batch, checked.scan.batch_upper + 1)
        is_rewritten = checked.is_damaged or is_end
        if is_rewritten or checked.index_fault:
            if not checked.is_index_missing:
                self.lines.extend(
                    move_aside(self._filesystem, survey.directory, [file.index_path])
                )
            index = self._rewrite(checked) if is_rewritten else checked.index
            self._write_index(file, index)
        self._apply(file, checked)
        self.bytes_done += size

    def _apply(self, file: SegmentFile, checked: CheckedSegment) -> None:
        survey = self.survey
        lost: i64 = 0
        if file.number >= survey.first_needed:
            lost = survey.apply(file, checked.index, checked.is_damaged)
        else:
            needed = survey.index.segment(file.number).references
            if live_in(survey, checked.index) != needed:
                lost = survey.drop_lost(file, checked.index)
        if lost > 0:
            self.lines.append(f"{lost} messages of {file.path} are lost")

    def _rewrite(self, checked: CheckedSegment) -> SegmentIndex:
        """Write a segment anew with its sound records, as one batch, durably."""
        file = checked.file
        data = checked.scan.data
        number = max(checked.scan.batch_upper, 1)
        writer = BatchWriter(file.number, number, file.number, HEADER_SIZE)
        index = SegmentIndex(file.first_number, file.number)
        indexer = Indexer(index)
        for start in checked.records:
            indexer.add(data, start, HEADER_SIZE + writer.position)
            writer.copy(data[start : start + read_u32(data, start) - CHECKSUM_SIZE])
        indexer.finish()
        chunks = writer.finish() if checked.records else []
        self._write_segment(file.first_number, file.number, chunks)
        self.lines.append(
            f"{file.path} is written anew with {len(checked.records)} records"
        )
        return index

    def _write_segment(
        self, first_number: i64, number: i64, chunks: list[bytes]
    ) -> None:
        survey = self.survey
        segment = Segment(
            self._filesystem, survey.log, survey.store_uuid, first_number, number
        )
        segment.create_hidden()
        try:
            segment.write(chunks, HEADER_SIZE)
            segment.publish()
        finally:
            segment.close()

    def _write_index(self, file: SegmentFile, index: SegmentIndex) -> None:
        descriptor = self._filesystem.create(file.index_path)
        try:
            chunks = index.chunks(self.survey.store_uuid)
            self._filesystem.write(descriptor, chunks, 0)
        finally:
            self._filesystem.close(descriptor)
        self.lines.append(f"{file.index_path} is made again")

    # -- the rest

    def _drop_missing(self) -> None:
        """Settle what queues need of segments that are not there."""
        survey = self.survey
        missing = {
            int(state.number)
            for state in survey.index.segments.values()
            if not state.has_file and state.references > 0
        }
        if not missing:
            return
        for queue in survey.index.queues.values():
            lost: i64 = 0
            for span in queue.spans(0, _SEQ_MAX, _SEQ_MAX):
                if int(span.segment) in missing:
                    queue.settle(Ranges([span.first], [span.last]))
                    lost += span.live
            if lost > 0:
                self.lines.append(
                    f"queue id {queue.queue_id} has lost {lost} messages with segments "
                    "that are missing"
                )

    def _end(self) -> None:
        """End the log as a clean stop does, and let a checkpoint begin there."""
        survey = self.survey
        # Between others they would pass for damaged.
        self.lines.extend(move_aside(self._filesystem, survey.directory, survey.behind))
        number = survey.next_number
        marker = BatchWriter(number, survey.next_batch, number, HEADER_SIZE)
        self._write_segment(number, number, marker.finish())
        header = CheckpointHeader(
            survey.next_checkpoint, number, HEADER_SIZE, survey.next_batch + 1, True
        )
        builder = CheckpointBuilder(survey.index, survey.store_uuid, header)
        builder.advance(_ALL_QUEUES)
        write_checkpoint(
            self._filesystem, survey.log, survey.next_checkpoint, builder.chunks()
        )
        name = checkpoint_name(survey.next_checkpoint)
        self.lines.append(f"{survey.log}/{name} is written")
        self.lines.extend(
            move_aside(self._filesystem, survey.directory, survey.checkpoint_paths)
        )
