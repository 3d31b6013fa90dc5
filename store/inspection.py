"""What a log holds: segments, and what of them each queue still needs.

Counts are exact and come from the newest checkpoint, the index files since and, where
there is none, from the segments: what a start reads. Nothing is touched.
"""

from typing import final

from mypy_extensions import i64

from store.log_files import SegmentFile
from store.log_replay import LogReplay
from store.log_survey import LogSurvey


@final
class SegmentSummary:
    """One segment file."""

    __slots__ = ("file_size", "live_size", "name", "references")

    def __init__(self, name: str, file_size: i64) -> None:
        self.name = name
        self.file_size = file_size
        # Messages that queues need, and about how many bytes they take.
        self.references: i64 = 0
        self.live_size: i64 = 0


@final
class QueueSummary:
    """One queue."""

    __slots__ = ("count", "first_seq", "queue_id", "run_count", "size", "upper_seq")

    def __init__(self, queue_id: i64) -> None:
        self.queue_id = queue_id
        self.count: i64 = 0
        self.size: i64 = 0
        self.run_count: i64 = 0
        self.first_seq: i64 = 1
        self.upper_seq: i64 = 0


@final
class Inspection:
    """One look at a log; call `advance` until it says that this was all."""

    __slots__ = ("_log_replay", "_pending", "file_count", "files_done", "survey")

    def __init__(self, survey: LogSurvey) -> None:
        """Look at the log; raises VersionUnknown or OSError."""
        self.survey = survey
        survey.look()
        if survey.end is not None:
            # Nothing is copied: it is read where it is.
            survey.end.copy = None
        self._log_replay = LogReplay(
            survey.filesystem,
            survey.store_uuid,
            survey.reader,
            survey.index,
            survey.replay,
        )
        first = survey.first_needed
        self._pending: list[SegmentFile] = []
        if not survey.is_clean:
            self._pending = [file for file in survey.files if file.number >= first]
        # The next one is the last.
        self._pending.reverse()
        self.file_count: i64 = len(self._pending)
        self.files_done: i64 = 0

    def advance(self) -> bool:
        """Apply one more segment; return whether all are applied.

        Raises:
            StoreError: it must not be used.
            OSError: the disk refuses.
        """
        if self._pending:
            self._log_replay.run([self._pending.pop()], self.survey.end)
            self.files_done += 1
        if self._pending:
            return False
        self.survey.look_back()
        for damage in self.survey.reader.damages:
            self.survey.damaged(damage.what)
        self.survey.reader.damages.clear()
        return True

    def segments(self) -> list[SegmentSummary]:
        """Return the segments, oldest first."""
        summaries: list[SegmentSummary] = []
        for file in self.survey.files:
            state = self.survey.index.segment(file.number)
            name = file.path[file.path.rindex("/") + 1 :]
            summary = SegmentSummary(name, state.file_size)
            summary.references = state.references
            summary.live_size = state.live_size
            summaries.append(summary)
        return summaries

    def queues(self) -> list[QueueSummary]:
        """Return the queues that have ever held a durable message, by id."""
        summaries: list[QueueSummary] = []
        for queue_id in sorted(self.survey.index.queues):
            queue = self.survey.index.queues[queue_id]
            summary = QueueSummary(queue_id)
            summary.count = queue.live_count
            summary.size = queue.live_size
            summary.run_count = queue.run_count
            summary.first_seq = queue.first_seq
            summary.upper_seq = queue.upper_seq
            summaries.append(summary)
        return summaries
