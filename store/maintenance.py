"""Looking after the log: checkpoints, removals, merges; one thing at a time.

    IDLE         loop: what is due?          a removal, a checkpoint, a merge, nothing
    REMOVING     step: files that nobody needs and nobody reads
    BUILDING     loop: the next slice of a checkpoint
    WRITING      step: its file
    MERGING      loop and steps in turn (see merge.py)
    REPOINTING   loop: runs of the merged segments, some queues at a time (merger.py)

`advance` does a slice of work on the loop and returns a step when one is to be run;
until `complete` has it back nothing else happens here. A slice is about two thousand
messages looked at, or as many numbers copied.

A segment file may go, or be merged, only when its number is below the segment that
the *older* of the two checkpoints begins with. Then every fact in it is known to
both; and the index, which says that nothing in it is needed, is told of durable facts
only. The files of a log without checkpoints (it does not outlive the process) may go
once they are not written any more.

Nothing here is needed for the log to be right: whatever fails is reported in
`problems`, left as it was, and not tried again for a minute. It does not know threads
or clocks.
"""

from enum import Enum
from typing import Final, final

from mypy_extensions import i64

from store.checkpoint_files import KeptCheckpoints
from store.checkpointer import Checkpointer, CheckpointStep
from store.filesystem import FileSystem
from store.index import Index, SegmentState
from store.merge_plan import COUNT_MAX
from store.merge_step import MergeStep
from store.merger import Merger
from store.options import StoreOptions
from store.remover import RemovalStep, Remover
from store.segment import name_of
from store.segment_index import index_path
from store.statistics import StoreStatistics

# What a slice does: messages looked at, or numbers copied.
_UNITS: Final = 2_000
_ALL_UNITS: Final = 1 << 40
# How often all segments are looked at while nothing happens.
_LOOK_PAUSE_MS: Final = 250
_RETRY_PAUSE_MS: Final = 60_000


class Phase(Enum):
    """What is being done."""

    IDLE = "idle"
    REMOVING = "removing"
    BUILDING = "building"
    WRITING = "writing"
    MERGING = "merging"
    REPOINTING = "repointing"


MaintenanceStep = CheckpointStep | RemovalStep | MergeStep


@final
class Survey:
    """What a look at all segments finds."""

    __slots__ = ("dead", "mostly_garbage", "small", "uncovered_size")

    def __init__(self) -> None:
        # Nothing in them is needed, and both checkpoints know.
        self.dead: list[SegmentState] = []
        # How many files a merge would free something of, or join.
        self.mostly_garbage: i64 = 0
        self.small: i64 = 0
        # Garbage that waits for checkpoints, in files that are mostly that.
        self.uncovered_size: i64 = 0


@final
class Maintenance:
    """Everything that is done to a log besides writing and reading it."""

    __slots__ = (
        "_checkpoint_retry_ms",
        "_checkpointer",
        "_directory",
        "_index",
        "_is_in_flight",
        "_look_ms",
        "_merge_retry_ms",
        "_merger",
        "_now_ms",
        "_options",
        "_removal_retry_ms",
        "_remover",
        "_statistics",
        "phase",
        "problems",
    )

    def __init__(
        self,
        filesystem: FileSystem,
        directory: str,
        store_uuid: bytes,
        options: StoreOptions,
        index: Index,
        kept: KeptCheckpoints | None,
        statistics: StoreStatistics,
        now_ms: i64,
    ) -> None:
        """Look after the log in a directory, without checkpoints if none are kept."""
        self._directory = directory
        self._options = options
        self._index = index
        self._statistics = statistics
        self._checkpointer: Checkpointer | None = None
        if kept is not None:
            self._checkpointer = Checkpointer(
                filesystem, directory, store_uuid, options, index, kept, now_ms
            )
        self._remover = Remover(filesystem, directory)
        self._merger = Merger(
            filesystem,
            directory,
            store_uuid,
            options,
            index,
            statistics,
            kept is not None,
        )
        self._is_in_flight = False
        self._now_ms = now_ms
        self._look_ms = now_ms
        self._checkpoint_retry_ms = now_ms
        self._removal_retry_ms = now_ms
        self._merge_retry_ms = now_ms
        self.phase = Phase.IDLE
        # What went wrong, for the log; whoever reads it empties it.
        self.problems: list[str] = []

    # -- what the owner tells and asks

    @property
    def has_work(self) -> bool:
        """Say whether `advance` goes on with something right away.

        Else it is enough to call it a few times a second.
        """
        return self.phase is not Phase.IDLE and not self._is_in_flight

    @property
    def is_in_flight(self) -> bool:
        """Say whether a step is out: `advance` must wait for it."""
        return self._is_in_flight

    def read_begun(self) -> i64:
        """A read was planned, it knows files; return what `read_ended` wants."""
        return self._remover.reads.begin()

    def read_ended(self, epoch: i64) -> None:
        """A read is complete."""
        self._remover.reads.end(epoch)

    def take_problems(self) -> list[str]:
        """Return what went wrong since the last call."""
        problems = self.problems
        self.problems = []
        return problems

    def take_removed(self) -> list[int]:
        """Return the numbers of segments whose files went: close what is open."""
        numbers = self._remover.removed_numbers
        self._remover.removed_numbers = []
        return numbers

    @property
    def log_size(self) -> i64:
        """Return how many bytes all segment files take."""
        size: i64 = 0
        for state in self._index.segments.values():
            size += state.file_size
        return size

    @property
    def garbage_size(self) -> i64:
        """Return about how many of them nobody needs."""
        size: i64 = 0
        for state in self._index.segments.values():
            size += max(0, state.file_size - state.live_size)
        return size

    # -- what is done next

    def advance(self, now_ms: i64) -> MaintenanceStep | None:
        """Do a slice of work; return a step if one is to be run."""
        assert not self._is_in_flight, "one thing at a time"
        self._now_ms = now_ms
        step: MaintenanceStep | None = None
        if self.phase is Phase.IDLE:
            step = self._choose()
        elif self.phase is Phase.BUILDING:
            step = self._build()
        elif self.phase is Phase.MERGING:
            step = self._merger.advance(_UNITS)
        else:
            assert self.phase is Phase.REPOINTING, "else a step is out"
            self._repoint(_UNITS)
        self._is_in_flight = step is not None
        return step

    def complete(self, step: MaintenanceStep) -> None:
        """Take a step back that has run."""
        self._is_in_flight = False
        # Something has changed: look at once.
        self._look_ms = self._now_ms
        if isinstance(step, CheckpointStep):
            self._on_checkpoint(step)
        elif isinstance(step, RemovalStep):
            self._on_removal(step)
        else:
            self._on_merge_step(step)

    def _choose(self) -> MaintenanceStep | None:
        now_ms = self._now_ms
        step = self._remove()
        if step is not None or now_ms < self._look_ms:
            return step
        self._look_ms = now_ms + _LOOK_PAUSE_MS
        survey = self._survey()
        for state in survey.dead:
            self._index.drop_segment(int(state.number))
            self._spare(state.first_number, state.number)
        step = self._remove()
        if step is not None:
            return step
        if self._is_checkpoint_due(survey.uncovered_size):
            return self._build()
        if self._begin_merge(survey):
            return self._merger.advance(_UNITS)
        return None

    # -- looking

    @property
    def _needed_segment(self) -> i64:
        """Return the segment from which on every file stays as it is."""
        if self._checkpointer is None:
            return self._index.applied_segment
        return self._checkpointer.needed_segment

    def _survey(self) -> Survey:
        survey = Survey()
        needed = self._needed_segment
        applied = self._index.applied_segment
        size_max: i64 = self._options.segment_size
        for state in self._index.segments.values():
            if not state.has_file or state.number >= applied:
                continue
            garbage = state.file_size - state.live_size
            is_mostly_garbage = 2 * garbage >= state.file_size
            if state.number >= needed:
                if is_mostly_garbage:
                    survey.uncovered_size += garbage
            elif state.references == 0:
                survey.dead.append(state)
            else:
                if is_mostly_garbage:
                    survey.mostly_garbage += 1
                if state.live_size * COUNT_MAX <= size_max:
                    survey.small += 1
        return survey

    # -- removing

    def _spare(self, first_number: i64, number: i64) -> None:
        path = f"{self._directory}/{name_of(int(first_number), int(number))}"
        self._remover.add(number, [path, index_path(path)])

    def _remove(self) -> RemovalStep | None:
        if self._remover.is_empty or self._now_ms < self._removal_retry_ms:
            return None
        step = self._remover.begin()
        if step is not None:
            self.phase = Phase.REMOVING
        return step

    def _on_removal(self, step: RemovalStep) -> None:
        self.phase = Phase.IDLE
        self._remover.complete(step)
        for file in step.files[: step.removed_count]:
            if file.number > 0:
                self._statistics.removed_segments += 1
        if step.error is not None:
            self._removal_retry_ms = self._now_ms + _RETRY_PAUSE_MS
            self._report(f"cannot remove what is not needed: {step.error}")

    def _report(self, problem: str) -> None:
        self.problems.append(f"{problem}; it is tried again in a minute")

    # -- checkpoints

    def _is_checkpoint_due(self, uncovered_size: i64) -> bool:
        checkpointer = self._checkpointer
        if checkpointer is None or self._now_ms < self._checkpoint_retry_ms:
            return False
        if not checkpointer.is_due(self._now_ms, uncovered_size):
            return False
        checkpointer.begin(self._now_ms)
        self.phase = Phase.BUILDING
        return True

    def _build(self) -> CheckpointStep | None:
        checkpointer = self._checkpointer
        assert checkpointer is not None, "only a log with checkpoints builds one"
        step = checkpointer.advance(_UNITS)
        if step is not None:
            self.phase = Phase.WRITING
        return step

    def _on_checkpoint(self, step: CheckpointStep) -> None:
        self.phase = Phase.IDLE
        assert self._checkpointer is not None, "only a log with checkpoints writes one"
        for path in self._checkpointer.complete(step):
            self._remover.add(0, [path])
        if step.error is None:
            self._statistics.checkpoints += 1
        else:
            self._checkpoint_retry_ms = self._now_ms + _RETRY_PAUSE_MS
            self._report(f"cannot write a checkpoint: {step.error}")

    # -- merges

    def _begin_merge(self, survey: Survey) -> bool:
        """Begin a merge if one is due; a look at the counts tells most often."""
        has_garbage = survey.mostly_garbage >= self._options.garbage_segments
        is_paused = self._now_ms < self._merge_retry_ms
        if is_paused or not (has_garbage or survey.small >= COUNT_MAX):
            return False
        if not self._merger.begin(self._needed_segment):
            return False
        self.phase = Phase.MERGING
        return True

    def _on_merge_step(self, step: MergeStep) -> None:
        merger = self._merger
        merger.complete(step)
        if merger.is_repointing:
            self.phase = Phase.REPOINTING
        elif not merger.is_busy:
            self.phase = Phase.IDLE
            if merger.problem:
                self._merge_retry_ms = self._now_ms + _RETRY_PAUSE_MS
                self.problems.append(merger.problem)

    def _repoint(self, units: i64) -> None:
        self._merger.advance(units)
        if not self._merger.is_busy:
            for source in self._merger.take_spare():
                self._spare(source.first_number, source.number)
            self.phase = Phase.IDLE

    # -- a clean stop

    def stop(self) -> MaintenanceStep | None:
        """Give up what goes on; a step that is returned leaves nothing of it behind.

        No step may be out. Nothing but `complete` and `final_checkpoint_step` is to
        be called afterwards.
        """
        assert not self._is_in_flight, "one thing at a time"
        if self.phase is Phase.REPOINTING:
            self._repoint(_ALL_UNITS)
        elif self.phase is Phase.BUILDING:
            self.phase = Phase.IDLE
        elif self.phase is Phase.MERGING:
            self._is_in_flight = True
            return self._merger.abandon()
        return None

    def final_checkpoint_step(
        self, segment: i64, offset: i64, next_batch: i64
    ) -> MaintenanceStep:
        """Return the step that lets the next start read no segment.

        The log must have been ended, with its end marker at this offset, and the
        index told of all of it.
        """
        checkpointer = self._checkpointer
        assert checkpointer is not None, "only a log with checkpoints has a last one"
        assert not self._is_in_flight, "one thing at a time"
        self._is_in_flight = True
        self.phase = Phase.WRITING
        return checkpointer.final_step(segment, offset, next_batch)
