"""Which files are merged, and what becomes of the index and of files that failed."""

import errno

from store.merge_step import MergeStep
from store.merger import Merger
from store.options import StoreOptions
from store.statistics import StoreStatistics
from tests.support.log_builder import LOG, UUID, LogBuilder, Put
from tests.support.memory_filesystem import Fault

ALL = 1_000_000


class Log:
    """Segments of which one message of ten stays, and their merger."""

    def __init__(self, segments: int = 4, queues: int = 1) -> None:
        self.log = LogBuilder()
        self.statistics = StoreStatistics()
        self.merger = Merger(
            self.log.filesystem,
            LOG,
            UUID,
            StoreOptions(segment_size=1 << 16),
            self.log.index,
            self.statistics,
            True,
        )
        for number in range(segments):
            self.segment(number, queues)

    def segment(self, number: int, queues: int = 1, live: int = 1) -> None:
        seqs = range(10 * number + 1, 10 * number + 11)
        self.log.segment(
            [
                Put([(queue, seq)], b"%d" % seq * 20)
                for seq in seqs
                for queue in range(1, queues + 1)
            ]
        )
        for queue in range(1, queues + 1):
            self.log.settle(queue, *seqs[live:])

    def step(self) -> MergeStep:
        while True:
            step = self.merger.advance(ALL)
            if step is not None:
                return step

    def copy(self) -> None:
        """Go on until the new file is there, or the merge is over."""
        while self.merger.is_busy and not self.merger.is_repointing:
            step = self.step()
            step.run()
            self.merger.complete(step)

    def numbers(self) -> list[int]:
        return sorted(self.log.index.segments)


def test_nothing_is_merged_that_must_stay_as_it_is() -> None:
    log = Log()

    assert not log.merger.begin(needed_segment=3)
    assert not log.merger.is_busy


def test_a_log_that_is_needed_is_not_merged() -> None:
    log = Log(segments=0)
    for number in range(5):
        log.segment(number, live=10)

    assert not log.merger.begin(ALL)


def test_the_new_file_stands_for_the_others_once_all_runs_are_repointed() -> None:
    log = Log()
    assert log.merger.begin(ALL)
    log.copy()
    assert log.merger.is_repointing
    assert log.merger.take_spare() == []

    assert log.merger.advance(ALL) is None

    assert not log.merger.is_busy
    assert log.numbers() == [4]
    assert [source.number for source in log.merger.take_spare()] == [1, 2, 3, 4]
    assert log.merger.take_spare() == []
    assert log.log.read() == log.log.model
    assert log.statistics.merges == 1
    assert log.merger.problem == ""


def test_queues_are_repointed_a_few_at_a_time_and_read_all_the_while() -> None:
    log = Log(queues=20)
    assert log.merger.begin(ALL)
    log.copy()
    log.log.forget(7)
    slices = 0

    while log.merger.is_busy:
        log.merger.advance(60)
        slices += 1
        assert log.log.read() == log.log.model

    assert slices >= 20 * 20 // 60


def test_many_small_files_are_joined_without_garbage() -> None:
    log = Log(segments=0)
    for number in range(32):
        log.segment(number, live=10)

    assert log.merger.begin(ALL)

    log.copy()
    log.merger.advance(ALL)
    assert log.numbers() == [32]
    assert log.log.read() == log.log.model


def test_a_merge_that_is_abandoned_may_begin_again() -> None:
    log = Log()
    assert log.merger.begin(ALL)

    step = log.merger.abandon()
    step.run()
    log.merger.complete(step)

    assert not log.merger.is_busy
    assert log.merger.problem == ""
    assert log.merger.begin(ALL)


def test_a_merge_that_fails_says_why_and_may_begin_again() -> None:
    log = Log()
    assert log.merger.begin(ALL)
    log.log.filesystem.fault = Fault(1, errno.ENOSPC, "write")

    log.copy()

    assert not log.merger.is_busy
    assert "segments 1 to 4 stay as they are: " in log.merger.problem
    assert log.merger.begin(ALL)
    assert log.merger.problem == ""


def test_a_damaged_segment_is_left_out_from_then_on() -> None:
    log = Log(segments=6)
    data = log.log.filesystem.content(f"{LOG}/00000002.seg")
    place = bytes(data).index(b"11" * 20)
    log.log.filesystem.damage(f"{LOG}/00000002.seg", place)
    assert log.merger.begin(ALL)
    log.copy()
    assert "segment 2 is damaged" in log.merger.problem

    assert log.merger.begin(ALL)
    log.copy()
    log.merger.advance(ALL)

    assert log.numbers() == [1, 2, 6]


def test_files_whose_new_name_is_uncertain_are_left_out_from_then_on() -> None:
    log = Log()
    assert log.merger.begin(ALL)
    log.log.filesystem.fault = Fault(1, errno.EIO, "sync_directory")
    log.copy()

    assert not log.merger.begin(ALL)


def test_a_segment_that_has_no_file_is_no_neighbour() -> None:
    log = Log()
    log.log.index.segment(9)

    assert log.merger.begin(ALL)
    log.copy()
    log.merger.advance(ALL)

    assert log.numbers() == [4, 9]
