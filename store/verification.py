"""Whether everything in a log is what was written, and goes together.

    each checkpoint   read whole
    each segment      every batch and record of it
    its index file    compared with the segment, unless it is missing or torn: nobody
                      syncs it, and a broker makes it again
    the index         every message that a queue needs must be in its segment
    queue ids         must have been given out

Segments that the newest checkpoint does not cover are read first, in order, since they
say what became of the messages in the others; then those. Nothing is touched.
"""

from typing import Final, final

from mypy_extensions import i64

from store.log_files import SegmentFile
from store.log_survey import LogSurvey
from store.segment_check import TORN, SegmentCheck, live_in

_QUARANTINE_NAME: Final = "quarantine"


@final
class Verification:
    """One reading of a log; call `advance` until it says that this was all."""

    __slots__ = (
        "_check",
        "_missing_indexes",
        "_pending",
        "bytes_done",
        "bytes_total",
        "segment_count",
        "survey",
        "torn_index_count",
    )

    def __init__(self, survey: LogSurvey) -> None:
        """Look at the log; raises VersionUnknown or OSError."""
        self.survey = survey
        survey.look()
        self._check = SegmentCheck(survey)
        # The next one is the last.
        self._pending = survey.pending()
        self._missing_indexes: i64 = 0
        # Index files that are no damage, and that a repair makes again.
        self.torn_index_count: i64 = 0
        self.segment_count: i64 = len(self._pending)
        self.bytes_done: i64 = 0
        self.bytes_total: i64 = survey.size

    def advance(self) -> bool:
        """Check one more segment; return whether all are checked; raises OSError."""
        if self._pending:
            self._check_next(self._pending.pop())
        if self._pending:
            return False
        self._end()
        return True

    def _check_next(self, file: SegmentFile) -> None:
        survey = self.survey
        checked = self._check.run(file)
        # Told once each.
        survey.reader.damages.clear()
        lost: i64 = 0
        if file.number >= survey.first_needed:
            lost = survey.apply(file, checked.index, checked.is_damaged)
        else:
            needed = survey.index.segment(file.number).references
            if live_in(survey, checked.index) != needed:
                lost = survey.drop_lost(file, checked.index)
        if lost > 0:
            survey.damaged(
                f"queues need {lost} messages of {file.path} that are not in it"
            )
        if checked.is_index_torn:
            self.torn_index_count += 1
            survey.note(f"{file.index_path} {TORN}: it is made again when it is wanted")
        elif checked.is_index_missing and not survey.is_end(file):
            self._missing_indexes += 1
        self.bytes_done += survey.index.segment(file.number).file_size

    def _end(self) -> None:
        survey = self.survey
        survey.look_back()
        if self._missing_indexes > 0:
            survey.note(
                f"{self._missing_indexes} segments have no index file: it is made "
                "again when it is wanted"
            )
        if survey.replay.garbage_count > 0:
            survey.note("there are messages and facts of queues that are gone")
        names = survey.filesystem.list_directory(
            f"{survey.directory}/{_QUARANTINE_NAME}"
        )
        if names:
            survey.note(
                f"{survey.directory}/{_QUARANTINE_NAME} holds {len(names)} files"
            )
