"""What is done to a log besides writing and reading it, and in which order."""

import errno

import pytest

from store.checkpoint_files import KeptCheckpoints
from store.checkpointer import CheckpointStep
from store.maintenance import Maintenance, MaintenanceStep, Phase
from store.merge_step import MergeStep
from store.options import StoreOptions
from store.remover import RemovalStep
from store.statistics import StoreStatistics
from tests.support.log_builder import LOG, UUID, LogBuilder, Put
from tests.support.memory_filesystem import Fault

SIZE = 4096
MINUTE = 60_000


class Owner:
    """Whoever owns a log and has it looked after."""

    def __init__(
        self, has_checkpoints: bool = True, checkpoint_ms: int = 1_000_000
    ) -> None:
        self.log = LogBuilder()
        self.kept = KeptCheckpoints()
        self.statistics = StoreStatistics()
        self.options = StoreOptions(
            segment_size=SIZE, checkpoint_seals=1000, checkpoint_ms=checkpoint_ms
        )
        self.now_ms = 0
        self.has_checkpoints = has_checkpoints
        self.maintenance = self.begin()

    def begin(self) -> Maintenance:
        return Maintenance(
            self.log.filesystem,
            LOG,
            UUID,
            self.options,
            self.log.index,
            self.kept if self.has_checkpoints else None,
            self.statistics,
            self.now_ms,
        )

    def write(self, segments: int, live: int = 1, count: int = 10) -> None:
        """Write segments of queue 1 of which so many messages stay."""
        for _ in range(segments):
            first = self.log.index.queue(1).upper_seq + 1
            self.log.segment(
                [
                    Put([(1, seq)], b"%d:" % seq + b"x" * 300)
                    for seq in range(first, first + count)
                ]
            )
            if live < count:
                self.log.settle(1, *range(first + live, first + count))

    def cover(self) -> None:
        """Let two checkpoints know of all that was written."""
        for _ in range(2):
            self.kept.add(int(self.kept.next_number), self.log.next_number)
        # Not the one being written.
        self.log.index.applied_segment = self.log.next_number

    def next_step(self) -> MaintenanceStep | None:
        """Let time pass until there is a step, or nothing to do."""
        for _ in range(10_000):
            step = self.maintenance.advance(self.now_ms)
            if step is not None or not self.maintenance.has_work:
                return step
        raise AssertionError("the maintenance does not come to an end")

    def finish(self, step: MaintenanceStep) -> None:
        step.run()
        self.maintenance.complete(step)

    def settle_down(self) -> list[type]:
        """Do everything there is to do; return the kinds of steps, in order."""
        kinds: list[type] = []
        quiet = 0
        while quiet < 2:
            self.now_ms += 250
            step = self.next_step()
            if step is None:
                quiet += 1
                continue
            quiet = 0
            if not kinds or kinds[-1] is not type(step):
                kinds.append(type(step))
            self.finish(step)
        return kinds

    def segments(self) -> list[str]:
        return [name for name in self.log.names() if name.endswith(".seg")]


def test_a_log_that_needs_nothing_is_left_alone() -> None:
    owner = Owner()
    owner.write(5, live=10)
    owner.cover()

    assert owner.next_step() is None
    assert not owner.maintenance.has_work


def test_segments_that_nobody_needs_go() -> None:
    owner = Owner()
    owner.write(3, live=0)
    owner.write(2, live=10)
    owner.cover()

    assert owner.settle_down() == [RemovalStep]
    assert owner.segments() == ["00000004.seg", "00000005.seg"]
    assert owner.maintenance.take_removed() == [1, 2, 3]
    assert owner.maintenance.take_removed() == []
    assert owner.statistics.removed_segments == 3
    assert owner.log.read() == owner.log.model


def test_no_segment_goes_before_two_checkpoints_know() -> None:
    owner = Owner()
    owner.write(3, live=0)
    assert owner.maintenance.advance(0) is None

    owner.kept.add(1, 3)
    owner.now_ms += 300
    assert owner.maintenance.advance(owner.now_ms) is None

    owner.kept.add(2, 4)
    owner.settle_down()

    # The third is as old as the older checkpoint: a start may replay it.
    assert owner.segments() == ["00000003.seg"]


def test_a_checkpoint_is_written_some_seconds_after_a_write() -> None:
    owner = Owner(checkpoint_ms=10_000)
    owner.write(1, live=10)
    owner.now_ms = 9_000
    assert owner.next_step() is None

    owner.now_ms = 10_000
    step = owner.next_step()

    assert isinstance(step, CheckpointStep)
    owner.finish(step)
    assert "checkpoint.00000001" in owner.log.names()
    assert owner.statistics.checkpoints == 1


def test_the_oldest_of_three_checkpoints_goes() -> None:
    owner = Owner(checkpoint_ms=10_000)
    for _ in range(4):
        owner.write(1, live=10)
        owner.now_ms += 10_000
        owner.settle_down()

    names = [name for name in owner.log.names() if name.startswith("checkpoint")]
    assert names == ["checkpoint.00000003", "checkpoint.00000004"]
    assert owner.statistics.removed_segments == 0


def test_much_garbage_gets_its_checkpoints_and_goes() -> None:
    owner = Owner()
    owner.write(20, live=0)
    owner.write(1, live=10)

    kinds = owner.settle_down()

    assert kinds == [CheckpointStep, RemovalStep]
    assert owner.statistics.checkpoints == 2
    assert owner.segments() == ["00000021.seg"]
    assert owner.log.read() == owner.log.model


def test_garbage_is_merged() -> None:
    owner = Owner()
    owner.write(8, live=1)
    owner.cover()

    assert owner.settle_down() == [MergeStep, RemovalStep]

    assert owner.segments() == ["00000001-00000008.seg"]
    assert sorted(owner.maintenance.take_removed()) == list(range(1, 9))
    assert owner.log.read() == owner.log.model
    assert list(owner.log.index.segments) == [8]
    assert owner.statistics.merges == 1
    assert 8 * 300 < owner.statistics.merged_bytes < 8 * 400
    assert owner.log.index.queue(1).run_count == 1


def test_the_sizes_of_the_log_are_those_of_its_files() -> None:
    owner = Owner()
    owner.write(4, live=1)
    owner.write(1, live=10)
    sizes = [owner.log.filesystem.size(f"{LOG}/{name}") for name in owner.segments()]

    assert owner.maintenance.log_size == sum(sizes)
    garbage = int(owner.maintenance.garbage_size)
    # All but the records that are live: 14 of 50.
    assert abs(garbage - sum(sizes) * 36 / 50) < sum(sizes) / 50


def test_a_segment_that_is_needed_whole_is_not_merged() -> None:
    owner = Owner()
    owner.write(4, live=1)
    owner.write(1, live=10)
    owner.write(4, live=1)
    owner.cover()

    owner.settle_down()

    assert owner.segments() == [
        "00000001-00000004.seg",
        "00000005.seg",
        "00000006-00000009.seg",
    ]
    assert owner.log.read() == owner.log.model


def test_only_what_both_checkpoints_cover_is_merged() -> None:
    owner = Owner()
    owner.write(5, live=1)
    owner.cover()
    owner.write(3, live=1)

    owner.settle_down()

    assert owner.segments()[0] == "00000001-00000005.seg"
    assert len(owner.segments()) == 4


def test_many_nearly_empty_files_are_joined() -> None:
    owner = Owner()
    owner.options = StoreOptions(segment_size=1 << 20, checkpoint_ms=1_000_000)
    owner.maintenance = owner.begin()
    owner.write(31, live=1, count=1)
    owner.cover()
    assert owner.settle_down() == []
    owner.write(1, live=1, count=1)
    owner.cover()

    assert owner.settle_down() == [MergeStep, RemovalStep]

    assert owner.segments() == ["00000001-00000032.seg"]
    assert owner.log.read() == owner.log.model


def test_files_of_a_merge_stay_while_a_read_that_knows_them_goes_on() -> None:
    owner = Owner()
    owner.write(4, live=1)
    owner.cover()
    epoch = owner.maintenance.read_begun()

    assert owner.settle_down() == [MergeStep]
    assert len(owner.segments()) == 5
    later = owner.maintenance.read_begun()
    owner.maintenance.read_ended(epoch)

    assert owner.settle_down() == [RemovalStep]
    assert owner.segments() == ["00000001-00000004.seg"]
    owner.maintenance.read_ended(later)


def test_a_merge_that_fails_is_tried_again_after_a_minute() -> None:
    owner = Owner()
    owner.write(4, live=1)
    owner.cover()
    owner.log.filesystem.fault = Fault(1, errno.ENOSPC, "write")

    assert owner.settle_down() == [MergeStep]
    (problem,) = owner.maintenance.take_problems()
    assert "segments 1 to 4 stay as they are" in problem
    assert "No space" in problem
    assert len(owner.segments()) == 4
    owner.now_ms += MINUTE - 2_000
    assert owner.settle_down() == []

    owner.now_ms += 2_000

    assert owner.settle_down() == [MergeStep, RemovalStep]
    assert owner.log.read() == owner.log.model
    assert owner.maintenance.take_problems() == []


def test_a_segment_with_a_damaged_record_is_not_merged_again() -> None:
    owner = Owner()
    owner.write(5, live=1)
    owner.cover()
    data = owner.log.filesystem.content(f"{LOG}/00000002.seg")
    owner.log.filesystem.damage(f"{LOG}/00000002.seg", bytes(data).index(b"11:"))

    owner.settle_down()
    assert "segment 2 is damaged" in owner.maintenance.take_problems()[0]
    owner.now_ms += MINUTE
    owner.settle_down()

    assert owner.segments() == [
        "00000001.seg",
        "00000002.seg",
        "00000003-00000005.seg",
    ]
    assert owner.maintenance.take_problems() == []


def test_files_whose_merge_has_an_uncertain_name_are_not_merged_again() -> None:
    owner = Owner()
    owner.write(4, live=1)
    owner.cover()
    owner.log.filesystem.fault = Fault(1, errno.EIO, "sync_directory")

    owner.settle_down()
    owner.now_ms += MINUTE
    owner.write(4, live=1)
    owner.cover()
    owner.settle_down()

    assert owner.segments() == [
        "00000001.seg",
        "00000002.seg",
        "00000003.seg",
        "00000004.seg",
        "00000005-00000008.seg",
    ]


def test_a_checkpoint_that_fails_is_tried_again_after_a_minute() -> None:
    owner = Owner(checkpoint_ms=10_000)
    owner.write(1, live=10)
    owner.now_ms = 10_000
    owner.log.filesystem.fault = Fault(1, errno.ENOSPC, "write")

    assert owner.settle_down() == [CheckpointStep]
    assert "cannot write a checkpoint" in owner.maintenance.take_problems()[0]
    assert owner.statistics.checkpoints == 0
    owner.now_ms += MINUTE - 2_000
    assert owner.settle_down() == []
    owner.now_ms += 2_000

    assert owner.settle_down() == [CheckpointStep]
    assert owner.statistics.checkpoints == 1


def test_a_removal_that_fails_is_tried_again_after_a_minute() -> None:
    owner = Owner()
    owner.write(3, live=0)
    owner.cover()
    owner.log.filesystem.fault = Fault(3, errno.EIO, "remove")

    assert owner.settle_down() == [RemovalStep]
    assert "cannot remove" in owner.maintenance.take_problems()[0]
    assert owner.segments() == ["00000002.seg", "00000003.seg"]
    owner.now_ms += MINUTE - 2_000
    assert owner.settle_down() == []
    owner.now_ms += 2_000

    assert owner.settle_down() == [RemovalStep]
    assert owner.segments() == []


def test_a_merge_whose_messages_all_died_is_no_problem() -> None:
    owner = Owner()
    owner.write(4, live=1)
    owner.cover()
    step = owner.next_step()
    assert isinstance(step, MergeStep)
    owner.log.settle(1, *list(owner.log.model[1]))
    owner.finish(step)

    owner.settle_down()

    assert owner.segments() == []
    assert owner.maintenance.take_problems() == []


def test_nothing_is_done_while_a_step_is_out() -> None:
    owner = Owner()
    owner.write(3, live=0)
    owner.cover()
    step = owner.next_step()
    assert step is not None
    assert owner.maintenance.is_in_flight
    assert not owner.maintenance.has_work

    with pytest.raises(AssertionError):
        owner.maintenance.advance(0)


def test_a_log_without_checkpoints_is_tidied_up_to_what_is_written() -> None:
    owner = Owner(has_checkpoints=False)
    owner.write(3, live=0)
    owner.write(4, live=1)

    owner.settle_down()

    assert owner.segments() == ["00000004-00000006.seg", "00000007.seg"]
    assert owner.statistics.checkpoints == 0
    assert owner.log.read() == owner.log.model


def test_a_clean_stop_in_the_middle_of_anything_leaves_a_last_checkpoint() -> None:
    for count in range(40):
        owner = Owner()
        owner.write(4, live=1)
        owner.write(2, live=0)
        owner.cover()
        for _ in range(count):
            step = owner.maintenance.advance(owner.now_ms)
            if step is not None:
                owner.finish(step)

        step = owner.maintenance.stop()
        if step is not None:
            owner.finish(step)
        step = owner.maintenance.final_checkpoint_step(6, 100, 9)
        owner.finish(step)

        assert owner.maintenance.phase is Phase.IDLE
        assert not any(name.endswith(".tmp") for name in owner.log.names())
        assert owner.log.read() == owner.log.model
        assert owner.maintenance.take_problems() == []
        assert owner.statistics.checkpoints == 1
        assert owner.log.filesystem.open_count == 0


def test_a_checkpoint_of_many_queues_is_built_a_slice_at_a_time() -> None:
    owner = Owner(checkpoint_ms=10_000)
    for queue_id in range(1, 5_000):
        owner.log.index.queue(queue_id)
    owner.write(1, live=10)
    owner.now_ms = 10_000
    slices = 1
    while (step := owner.maintenance.advance(owner.now_ms)) is None:
        assert owner.maintenance.has_work
        slices += 1

    owner.finish(step)

    assert slices == 3
    assert owner.statistics.checkpoints == 1


def test_a_segment_without_a_file_is_left_alone() -> None:
    owner = Owner()
    owner.log.index.segment(1000)
    owner.write(4, live=1)
    owner.cover()

    owner.settle_down()

    assert owner.segments() == ["00000001-00000004.seg"]
    assert 1000 in owner.log.index.segments


def test_a_queue_that_is_deleted_before_it_is_repointed_is_left_out() -> None:
    owner = Owner()
    for number in range(1, 5):
        puts = [Put([(2, number)], b"x")]
        puts += [Put([(1, 10 * number + i)], b"y" * 99) for i in range(10)]
        owner.log.segment(puts)
    owner.log.settle(1, *[seq for seq in range(10, 50) if seq % 10])
    owner.cover()
    while owner.maintenance.phase is not Phase.REPOINTING:
        step = owner.maintenance.advance(owner.now_ms)
        if step is not None:
            owner.finish(step)
        owner.now_ms += 250
    owner.log.forget(2)

    owner.settle_down()

    assert owner.log.read() == owner.log.model


def test_a_stop_gives_up_a_checkpoint_that_is_being_built() -> None:
    owner = Owner(checkpoint_ms=10_000)
    for queue_id in range(1, 3_000):
        owner.log.index.queue(queue_id)
    owner.write(1, live=10)
    owner.now_ms = 10_000
    assert owner.maintenance.advance(owner.now_ms) is None
    assert owner.maintenance.has_work

    assert owner.maintenance.stop() is None

    assert owner.maintenance.phase is Phase.IDLE


def test_queues_are_repointed_some_at_a_time() -> None:
    owner = Owner()
    for number in range(1, 5):
        owner.log.segment(
            [Put([(queue, number)], b"%d" % queue * 9) for queue in range(1, 501)]
        )
    for queue in range(1, 501):
        owner.log.settle(queue, *[seq for seq in range(1, 5) if seq % 4 != queue % 4])
    owner.options = StoreOptions(segment_size=1 << 20)
    owner.maintenance = owner.begin()
    owner.cover()
    slices = 0
    while owner.statistics.merges == 0:
        step = owner.maintenance.advance(owner.now_ms)
        if step is not None:
            owner.finish(step)

    while owner.maintenance.phase is Phase.REPOINTING:
        # Whoever reads meanwhile finds everything, re-pointed or not.
        assert owner.log.read() == owner.log.model
        assert owner.maintenance.advance(owner.now_ms) is None
        slices += 1

    assert slices >= 5
    owner.settle_down()
    assert owner.log.read() == owner.log.model
