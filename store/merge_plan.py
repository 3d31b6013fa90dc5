"""Which segment files are worth merging: neighbours that hold little that is needed.

    files   1: 16 MiB   2: 16 MiB   4: 16 MiB   5: 16 MiB   6: 16 MiB
    live    ..... .2    ..... .1    .... 9.5    ..... .1    ..... .4
            +----------------+      left alone  +----------------+
            a run of neighbours                 another one

The plan is the run that frees most for each byte it copies, a fixed price for a
merge included: without it the best pair always beats the run it is a part of, and
merging in pairs copies the same bytes again and again. What remains of a merge is
needed almost whole, hence left alone until half of it is garbage: a byte that is
needed is copied again only when its file has shrunk by half.

Files that are nearly empty but needed whole add up to many files and never to
garbage. So a full-length run of them is joined too, and only that: a byte is
copied so a few times at most before its file has outgrown the rule.

Neighbours are positions in the list of files that exist, whose numbers may have
gaps. Pure: numbers in, positions out. It does not know what the files hold.
"""

from collections.abc import Sequence
from typing import Final, final

from mypy_extensions import i64

# A merge never takes more files than this, so that its list of what to copy, and
# the time until its first file goes, stay small.
COUNT_MAX: Final = 32
COUNT_MIN: Final = 2

# What a merge costs however little it copies: files made, synced, renamed, removed.
PRICE: Final = 1024 * 1024


@final
class SegmentUse:
    """What the plan needs to know of one segment file."""

    __slots__ = (
        "file_size",
        "first_number",
        "is_eligible",
        "live_size",
        "number",
        "references",
    )

    def __init__(
        self,
        first_number: i64,
        number: i64,
        file_size: i64,
        live_size: i64,
        references: i64,
        is_eligible: bool,
    ) -> None:
        self.first_number = first_number
        self.number = number
        self.file_size = file_size
        # An estimate: at most `file_size`.
        self.live_size = min(live_size, file_size)
        self.references = references
        # Sealed, older than the older checkpoint, and not given up before.
        self.is_eligible = is_eligible

    @property
    def garbage_size(self) -> i64:
        """Return how much of the file nobody needs."""
        return self.file_size - self.live_size

    @property
    def is_mostly_garbage(self) -> bool:
        """Say whether the file may be merged for what that frees."""
        return self.is_eligible and 2 * self.garbage_size >= self.file_size

    def is_small(self, size_max: i64) -> bool:
        """Say whether the file may be merged to have fewer files."""
        return self.is_eligible and self.live_size * COUNT_MAX <= size_max


@final
class MergePlan:
    """A run of neighbours: the files at `first` to `last` of the list, both in."""

    __slots__ = ("copied_size", "first", "freed_size", "last")

    def __init__(self, first: i64, last: i64, copied: i64, freed: i64) -> None:
        self.first = first
        self.last = last
        self.copied_size = copied
        self.freed_size = freed

    @property
    def count(self) -> i64:
        """Return how many files are merged."""
        return self.last - self.first + 1

    def is_better_than(self, other: "MergePlan") -> bool:
        """Say whether this one frees more for each byte copied."""
        mine: i64 = self.freed_size * (other.copied_size + PRICE)
        others: i64 = other.freed_size * (self.copied_size + PRICE)
        return mine > others


def is_due(files: Sequence[SegmentUse], garbage_percent: i64, count_min: i64) -> bool:
    """Say whether there is too much garbage, in files that could be merged.

    More than `garbage_percent` of all that can be merged, and at least `count_min`
    files that are mostly garbage: one or two are not worth the trouble.
    """
    size: i64 = 0
    garbage: i64 = 0
    count: i64 = 0
    for file in files:
        if not file.is_eligible:
            continue
        size += file.file_size
        garbage += file.garbage_size
        if file.is_mostly_garbage:
            count += 1
    return count >= count_min and garbage * 100 > size * garbage_percent


def plan_merge(files: Sequence[SegmentUse], size_max: i64) -> MergePlan | None:
    """Return the run of neighbours to merge, oldest first; None if there is none.

    What they hold that is needed fits into `size_max`, the size of one segment.
    """
    best: MergePlan | None = None
    for first in range(len(files) - COUNT_MIN + 1):
        copied: i64 = 0
        freed: i64 = 0
        for position in range(first, min(first + COUNT_MAX, len(files))):
            file = files[position]
            if not file.is_mostly_garbage or copied + file.live_size > size_max:
                break
            copied += file.live_size
            freed += file.garbage_size
            if position == first:
                continue
            plan = MergePlan(first, position, copied, freed)
            if best is None or plan.is_better_than(best):
                best = plan
    return best


def plan_join(files: Sequence[SegmentUse], size_max: i64) -> MergePlan | None:
    """Return the first full-length run of files that hold next to nothing."""
    first: i64 = 0
    copied: i64 = 0
    freed: i64 = 0
    for position in range(len(files)):
        file = files[position]
        if not file.is_small(size_max):
            first = position + 1
            copied = 0
            freed = 0
            continue
        copied += file.live_size
        freed += file.garbage_size
        if position - first + 1 == COUNT_MAX:
            return MergePlan(first, position, copied, freed)
    return None
