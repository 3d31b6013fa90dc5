"""Which files of a log are merged when, and what becomes of the index.

    begin(needed)    is there a run of files worth merging?
    advance(units)   the merge: slices and steps (see merge.py)
                     then, once the new file is there, the runs of all queues are
                     re-pointed to it, some queues at a time
    take_spare()     files that the new one stands for

From the moment the new file has its name it is read in place of the last of the old
ones, whose number it carries. The others are read until all runs are re-pointed; what
is settled meanwhile is counted where its run is. It does not remove files, and it
does not know who may still be reading them.
"""

from typing import Final, final

from mypy_extensions import i64

from store.filesystem import FileSystem
from store.index import Index
from store.merge import Merge, MergePhase
from store.merge_plan import MergePlan, SegmentUse, is_due, plan_join, plan_merge
from store.merge_step import MergeSource, MergeStep
from store.options import StoreOptions
from store.segment_index import QueueShare
from store.statistics import StoreStatistics

# What re-pointing a queue costs, besides its runs and the bits of its dead seqs.
_QUEUE_UNITS: Final = 20
_RUNS_A_UNIT: Final = 16
_SEQS_A_UNIT: Final = 2_000


@final
class Merger:
    """The merges of one log, one after the other."""

    __slots__ = (
        "_blocked",
        "_directory",
        "_filesystem",
        "_index",
        "_merge",
        "_options",
        "_shares",
        "_spare",
        "_statistics",
        "_store_uuid",
        "_syncs",
        "problem",
    )

    def __init__(
        self,
        filesystem: FileSystem,
        directory: str,
        store_uuid: bytes,
        options: StoreOptions,
        index: Index,
        statistics: StoreStatistics,
        syncs: bool,
    ) -> None:
        self._filesystem = filesystem
        self._directory = directory
        self._store_uuid = store_uuid
        self._options = options
        self._index = index
        self._statistics = statistics
        self._syncs = syncs
        self._merge: Merge | None = None
        # What the merged file holds of queues that are not re-pointed yet.
        self._shares: list[QueueShare] = []
        self._spare: list[MergeSource] = []
        # Segments that are not merged any more in this process.
        self._blocked: set[int] = set()
        # Why the last merge came to nothing.
        self.problem = ""

    @property
    def is_busy(self) -> bool:
        """Say whether a merge goes on."""
        return self._merge is not None

    @property
    def is_repointing(self) -> bool:
        """Say whether the new file is there."""
        merge = self._merge
        return merge is not None and merge.phase is MergePhase.PUBLISHED

    def take_spare(self) -> list[MergeSource]:
        """Return the files that nobody who begins to read from now on will know."""
        spare = self._spare
        self._spare = []
        return spare

    # -- planning

    def begin(self, needed_segment: i64) -> bool:
        """Begin a merge of files below a segment; return whether there is one."""
        uses = self._uses(needed_segment)
        plan = self._plan(uses)
        if plan is None:
            return False
        sources: list[MergeSource] = []
        for use in uses[plan.first : plan.last + 1]:
            sources.append(MergeSource(self._directory, use.first_number, use.number))
        self.problem = ""
        self._merge = Merge(
            self._filesystem,
            self._directory,
            self._store_uuid,
            self._index,
            sources,
            self._syncs,
        )
        return True

    def _uses(self, needed_segment: i64) -> list[SegmentUse]:
        """Return all files, oldest first, as the plan wants them."""
        uses: list[SegmentUse] = []
        for number in sorted(self._index.segments):
            state = self._index.segments[number]
            if state.has_file:
                uses.append(
                    SegmentUse(
                        state.first_number,
                        state.number,
                        state.file_size,
                        state.live_size,
                        state.references,
                        number < needed_segment and number not in self._blocked,
                    )
                )
        return uses

    def _plan(self, uses: list[SegmentUse]) -> MergePlan | None:
        options = self._options
        percent = int(options.garbage_ratio * 100)
        plan: MergePlan | None = None
        if is_due(uses, percent, options.garbage_segments):
            plan = plan_merge(uses, options.segment_size)
        if plan is None:
            plan = plan_join(uses, options.segment_size)
        return plan

    # -- carrying out

    def advance(self, units: i64) -> MergeStep | None:
        """Do a slice; return a step if one is to be run."""
        merge = self._merge
        assert merge is not None, "begun before it goes on"
        if merge.phase is MergePhase.PUBLISHED:
            self._repoint(merge, units)
            return None
        return merge.advance(units)

    def abandon(self) -> MergeStep:
        """Return the step that leaves nothing of the new file."""
        merge = self._merge
        assert merge is not None, "begun before it is given up"
        return merge.abandon()

    def complete(self, step: MergeStep) -> None:
        """Take a step back that has run."""
        merge = self._merge
        assert merge is not None, "steps are of the merge that goes on"
        merge.complete(step)
        if merge.phase is MergePhase.PUBLISHED:
            self._on_published(merge)
        elif merge.phase is MergePhase.ENDED:
            self._on_ended(merge)

    def _on_published(self, merge: Merge) -> None:
        self._index.adopt_segment(
            int(merge.first_number), int(merge.number), int(merge.file_size)
        )
        self._statistics.merges += 1
        self._statistics.merged_bytes += merge.copied_size
        self._shares = merge.index_of_new.shares()

    def _on_ended(self, merge: Merge) -> None:
        self._merge = None
        if merge.damaged_number > 0:
            self._blocked.add(int(merge.damaged_number))
        if merge.is_name_uncertain:
            for source in merge.sources:
                self._blocked.add(int(source.number))
        if merge.problem:
            self.problem = (
                f"segments {merge.first_number} to {merge.number} stay as they are: "
                f"{merge.problem}"
            )

    def _repoint(self, merge: Merge, units: i64) -> None:
        """Make one run of those in the merged segments, queue by queue."""
        state = self._index.segment(int(merge.number))
        while len(self._shares) > 0:
            if units <= 0:
                return
            share = self._shares.pop()
            queue = self._index.queues.get(int(share.queue_id))
            if queue is not None:
                units -= _QUEUE_UNITS + queue.run_count // _RUNS_A_UNIT
                units -= (share.last - share.first) // _SEQS_A_UNIT
                queue.merge_runs(state, share.count, share.size)
        for source in merge.sources:
            if source.number != merge.number:
                left = self._index.segment(int(source.number)).references
                assert left == 0, "all that is live was copied"
                self._index.drop_segment(int(source.number))
        self._spare = merge.sources
        self._merge = None
