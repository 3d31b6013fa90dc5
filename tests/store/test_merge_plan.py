"""The plan of a merge against a brute force, and what it costs over a long time."""

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from store.merge_plan import (
    COUNT_MAX,
    PRICE,
    MergePlan,
    SegmentUse,
    is_due,
    plan_join,
    plan_merge,
)

MIB = 1024 * 1024
SIZE = 16 * MIB


def use(number: int, live: int, size: int = SIZE, eligible: bool = True) -> SegmentUse:
    return SegmentUse(number, number, size, live, 1, eligible)


def uses(*lives: int) -> list[SegmentUse]:
    return [use(number, live) for number, live in enumerate(lives, 1)]


SEGMENT = st.builds(
    use,
    st.integers(1, 10**6),
    st.one_of(st.integers(0, SIZE), st.integers(0, SIZE // 100)),
    st.integers(SIZE // 4, SIZE),
    st.booleans() | st.just(True),
)
SEGMENTS = st.lists(SEGMENT, max_size=45)


def score(files: Sequence[SegmentUse]) -> float:
    freed = sum(int(file.file_size - file.live_size) for file in files)
    return freed / (sum(int(file.live_size) for file in files) + PRICE)


def allowed(files: Sequence[SegmentUse]) -> bool:
    return (
        2 <= len(files) <= 32
        and sum(file.live_size for file in files) <= SIZE
        and all(file.is_eligible for file in files)
        and all(2 * file.live_size <= file.file_size for file in files)
    )


@given(SEGMENTS)
def test_the_plan_is_the_best_of_all_runs_that_are_allowed(
    files: list[SegmentUse],
) -> None:
    runs = [
        files[first:end]
        for first in range(len(files))
        for end in range(first + 2, min(first + 32, len(files)) + 1)
        if allowed(files[first:end])
    ]

    plan = plan_merge(files, SIZE)

    if plan is None:
        assert runs == []
        return
    chosen = files[plan.first : plan.last + 1]
    assert allowed(chosen)
    assert score(chosen) >= max(score(run) for run in runs) * (1 - 1e-12)
    assert plan.copied_size == sum(file.live_size for file in chosen)
    assert plan.freed_size == sum(file.garbage_size for file in chosen)


@given(SEGMENTS)
def test_a_join_is_a_full_run_of_small_files(files: list[SegmentUse]) -> None:
    starts = [
        first
        for first in range(len(files) - COUNT_MAX + 1)
        if all(
            file.is_eligible and file.live_size <= SIZE // COUNT_MAX
            for file in files[first : first + COUNT_MAX]
        )
    ]

    plan = plan_join(files, SIZE)

    if plan is None:
        assert starts == []
    else:
        assert plan.first == starts[0]
        assert plan.count == COUNT_MAX
        chosen = files[plan.first : plan.last + 1]
        assert plan.copied_size == sum(file.live_size for file in chosen)
        assert plan.copied_size <= SIZE


def test_a_longer_run_wins_when_little_is_copied() -> None:
    plan = plan_merge(uses(*[20_000 + i for i in range(10)]), SIZE)

    assert plan is not None
    assert (plan.first, plan.last) == (0, 9)


def test_a_run_ends_at_a_file_that_may_not_be_merged() -> None:
    files = uses(10, 10, 10, 10, 10)
    files[1] = use(2, 10, eligible=False)

    plan = plan_merge(files, SIZE)

    assert plan is not None
    assert (plan.first, plan.last) == (2, 4)


def test_a_file_that_is_less_than_half_garbage_is_left_alone() -> None:
    assert plan_merge(uses(10, SIZE // 2 + 1, 10), SIZE) is None


def test_what_is_needed_of_all_files_fits_one_segment() -> None:
    plan = plan_merge(uses(7 * MIB, 7 * MIB, 7 * MIB), SIZE)

    assert plan is not None
    assert plan.count == 2


def test_no_more_than_32_files_are_merged() -> None:
    plan = plan_merge(uses(*[0] * 50), SIZE)

    assert plan is not None
    assert plan.count == 32


def test_an_estimate_above_the_size_of_the_file_is_no_negative_garbage() -> None:
    assert use(1, 2 * SIZE).garbage_size == 0


def test_two_files_of_garbage_are_not_worth_a_merge() -> None:
    assert not is_due(uses(0, 0), 50, 3)
    assert is_due(uses(0, 0, 0), 50, 3)


def test_files_that_may_not_be_merged_make_nothing_due() -> None:
    files = [use(number, 0, eligible=number > 2) for number in range(1, 5)]

    assert not is_due(files, 50, 3)


def test_garbage_beside_a_large_backlog_is_not_worth_a_merge() -> None:
    assert not is_due(uses(0, 0, 0, SIZE, SIZE, SIZE), 50, 3)
    assert is_due(uses(0, 0, 0, 0, SIZE, SIZE, SIZE), 50, 3)


class Log:
    """Segments of a broker at a steady rate that holds every n-th message back."""

    def __init__(self, held_per_segment: int) -> None:
        self.held = held_per_segment
        self.files: list[SegmentUse] = []
        self.published = 0
        self.copied = 0
        self.live = 0
        self.next_number = 1
        self.size_max = 0

    def fill_one(self, freed_of_oldest: int) -> None:
        """Publish a segment; acknowledge all of it but what is held back."""
        self.files.append(use(self.next_number, self.held))
        self.next_number += 1
        self.published += SIZE
        self.live += self.held
        while freed_of_oldest > 0 and self.files:
            file = self.files[0]
            freed = min(freed_of_oldest, file.live_size)
            file.live_size -= freed
            self.live -= freed
            freed_of_oldest -= freed
            if file.live_size > 0:
                break
            self.files.pop(0)

    def tidy(self) -> None:
        """Merge as long as it is due, like the store does."""
        while True:
            plan = None
            if is_due(self.files, 50, 3):
                plan = plan_merge(self.files, SIZE)
            plan = plan or plan_join(self.files, SIZE)
            if plan is None:
                break
            self._merge(plan)
        self.size_max = max(self.size_max, sum(f.file_size for f in self.files))

    def _merge(self, plan: MergePlan) -> None:
        merged = self.files[plan.first : plan.last + 1]
        live = sum(file.live_size for file in merged)
        self.copied += live
        self.files[plan.first : plan.last + 1] = [
            SegmentUse(merged[0].first_number, merged[-1].number, live, live, 1, True)
        ]


def test_holding_one_of_a_thousand_back_copies_next_to_nothing() -> None:
    log = Log(held_per_segment=SIZE // 1000)

    for _ in range(2_000):
        log.fill_one(0)
        log.tidy()

    assert log.copied <= 0.3 * log.published
    # Measured: each held byte is copied two or three times, ever.
    assert log.copied <= 4 * log.live
    assert log.size_max <= 2 * log.live + 4 * SIZE
    assert len(log.files) <= 2 * COUNT_MAX + log.live // (SIZE // COUNT_MAX)


def test_what_is_held_for_a_while_keeps_the_disk_bounded() -> None:
    log = Log(held_per_segment=SIZE // 1000)

    for turn in range(2_000):
        log.fill_one(log.held if turn > 500 else 0)
        log.tidy()

    assert log.copied <= 0.3 * log.published
    assert log.size_max <= 2 * 500 * log.held + 5 * SIZE
    assert len(log.files) <= 4 * COUNT_MAX


def test_holding_a_third_back_copies_each_byte_about_once() -> None:
    log = Log(held_per_segment=SIZE // 3)

    for _ in range(500):
        log.fill_one(0)
        log.tidy()

    assert log.copied <= log.live
    assert log.size_max <= 2 * log.live + 4 * SIZE
