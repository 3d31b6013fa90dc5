"""When the time is over of messages that a start has found: read from index files.

    plan     on the loop: the next segment that holds something live
    run      on the reader thread: its directory, and the deadlines of each run
    result   on the loop: by queue, seconds and seqs

A message that leaves memory while the broker runs leaves its deadline with its queue.
After a restart the queues know counts only, so the deadlines are read once, segment by
segment, eight bytes each; no message is. They are what was written, live or not.
An index file that is missing or damaged is made again.
"""

from typing import final

from mypy_extensions import i64

from store.cold_reader import ColdFile, ColdReader
from store.index_rebuild import IndexRebuild
from store.record import read_u32
from store.segment_index import DEADLINE_SIZE, read_seq


@final
class RunDeadlines:
    """The deadlines of one queue's messages in one segment."""

    __slots__ = ("_data", "_first", "queue_id")

    def __init__(self, queue_id: i64, first: i64, data: bytes) -> None:
        self.queue_id = queue_id
        # The lowest seq there.
        self._first = first
        self._data = data

    @property
    def count(self) -> i64:
        """Return how many there are."""
        return len(self._data) // DEADLINE_SIZE

    def second(self, at: i64) -> i64:
        """Return the second that begins when the time of the one at `at` is over."""
        return read_u32(self._data, at * DEADLINE_SIZE)

    def seq(self, at: i64) -> i64:
        """Return which message that is."""
        return read_seq(self._data, at * DEADLINE_SIZE + 4, self._first)


@final
class DeadlineRead:
    """The deadlines of one segment; call `run` once."""

    __slots__ = (
        "_first_number",
        "_number",
        "_path",
        "_reader",
        "epoch",
        "error",
        "runs",
    )

    def __init__(
        self, reader: ColdReader, path: str, first_number: i64, number: i64
    ) -> None:
        self._reader = reader
        self._path = path
        self._first_number = first_number
        self._number = number
        self.runs: list[RunDeadlines] = []
        self.error: Exception | None = None
        # For whoever must know which reads are in flight.
        self.epoch: i64 = 0

    def run(self) -> None:
        """Read; blocks, raises nothing."""
        reader = self._reader
        try:
            file = reader.file(self._path, self._first_number, self._number)
            runs = self._read(file)
            if runs is None:
                index = IndexRebuild(reader, file).run()
                reader.adopt_index(file, index)
                runs = [
                    RunDeadlines(share.queue_id, share.first, bytes(share.deadlines))
                    for share in index.shares()
                    if share.deadlines
                ]
            self.runs = runs
        except Exception as exc:  # noqa: BLE001 - whoever completes it, tells
            self.error = exc

    def _read(self, file: ColdFile) -> list[RunDeadlines] | None:
        """Return what the index file says; None if it is missing or damaged."""
        found: list[RunDeadlines] = []
        try:
            runs = self._reader.runs_with_deadlines(file)
            if runs is None:
                return None
            for run in runs:
                data = self._reader.deadlines(file, run)
                if data is None:
                    return None
                found.append(RunDeadlines(run.queue_id, run.first, data))
        except FileNotFoundError:
            return None
        return found
