"""When a checkpoint is due, and what is kept."""

import errno

from store.checkpoint_files import CheckpointSearch, FoundCheckpoints, KeptCheckpoints
from store.checkpointer import Checkpointer, CheckpointStep
from store.index import Index
from store.options import StoreOptions
from tests.support.memory_filesystem import Fault, MemoryFileSystem

LOG = "/data/log"
UUID = b"0123456789abcdef"
OPTIONS = StoreOptions(segment_size=1000, checkpoint_seals=4, checkpoint_ms=10_000)


class Log:
    """An index that is told of batches, and its checkpointer."""

    def __init__(self) -> None:
        self.filesystem = MemoryFileSystem()
        self.index = Index()
        self.kept = KeptCheckpoints()
        self.apply(1, 1)
        self.checkpointer = Checkpointer(
            self.filesystem, LOG, UUID, OPTIONS, self.index, self.kept, 0
        )

    def apply(self, segment: int, batch: int) -> None:
        self.index.applied_segment = segment
        self.index.applied_offset = 64
        self.index.applied_batch = batch
        self.index.adopt_segment(segment, segment, 500)
        queue = self.index.queue(batch)
        queue.add(self.index.segment(segment), 1, 1, 1, 100, None)

    def write(self, now_ms: int) -> list[str]:
        self.checkpointer.begin(now_ms)
        step = self.step(100)
        step.run()
        assert step.error is None
        return self.checkpointer.complete(step)

    def step(self, units: int) -> CheckpointStep:
        while True:
            step = self.checkpointer.advance(units)
            if step is not None:
                return step

    def found(self) -> FoundCheckpoints:
        names = self.filesystem.list_directory(LOG)
        return CheckpointSearch(self.filesystem, LOG, UUID).run(names, "/data")


def test_nothing_is_due_while_nothing_was_written() -> None:
    log = Log()

    assert not log.checkpointer.is_due(1_000_000, 0)


def test_a_checkpoint_is_due_some_time_after_something_was_written() -> None:
    log = Log()
    log.apply(1, 2)

    assert not log.checkpointer.is_due(9_999, 0)
    assert log.checkpointer.is_due(10_000, 0)


def test_a_checkpoint_is_due_after_so_many_segments() -> None:
    log = Log()
    log.apply(4, 9)
    assert not log.checkpointer.is_due(1, 0)

    log.apply(5, 10)

    assert log.checkpointer.is_due(1, 0)


def test_much_garbage_makes_one_due_at_once() -> None:
    log = Log()

    assert not log.checkpointer.is_due(1, 4_000)
    assert log.checkpointer.is_due(1, 4_001)


def test_garbage_that_is_little_beside_a_checkpoint_waits() -> None:
    log = Log()
    for batch in range(2, 100):
        log.apply(1, batch)
    log.write(1)

    size = log.filesystem.size(f"{LOG}/checkpoint.00000001")
    assert 4 * size > 4_000
    assert not log.checkpointer.is_due(2, 4 * size)
    assert log.checkpointer.is_due(2, 4 * size + 1)


def test_an_index_that_was_told_of_nothing_has_no_checkpoint() -> None:
    log = Log()
    log.index.applied_segment = 0

    assert not log.checkpointer.is_due(1_000_000, 1_000_000)


def test_a_checkpoint_makes_the_next_one_wait() -> None:
    log = Log()
    log.apply(9, 2)
    log.write(10_000)
    assert not log.checkpointer.is_due(1_000_000, 0)

    log.apply(9, 3)

    assert not log.checkpointer.is_due(19_999, 0)
    assert log.checkpointer.is_due(20_000, 0)


def test_a_checkpoint_says_where_the_log_was_when_it_was_begun() -> None:
    log = Log()
    log.apply(3, 7)
    log.checkpointer.begin(0)
    log.apply(4, 8)

    step = log.step(1)
    step.run()
    log.checkpointer.complete(step)

    newest = log.found().newest
    assert newest is not None
    header = newest.header
    assert (header.number, header.segment, header.offset) == (1, 3, 64)
    assert header.next_batch == 8
    assert not header.is_clean


def test_two_are_kept_and_the_older_one_says_what_is_needed() -> None:
    log = Log()
    spare = []
    for segment in (3, 5, 8):
        log.apply(segment, segment)
        spare.append(log.write(0))

    assert spare == [[], [], [f"{LOG}/checkpoint.00000001"]]
    assert log.checkpointer.needed_segment == 5


def test_one_checkpoint_frees_nothing() -> None:
    log = Log()
    log.apply(7, 2)
    log.write(0)

    assert log.checkpointer.needed_segment == 0


def test_a_checkpoint_that_cannot_be_written_is_still_due() -> None:
    for call in ("create", "write", "sync", "rename", "sync_directory"):
        log = Log()
        log.apply(9, 2)
        log.checkpointer.begin(0)
        log.filesystem.fault = Fault(1, errno.EIO, call)

        step = log.step(10)
        step.run()

        assert isinstance(step.error, OSError)
        assert log.checkpointer.complete(step) == []
        assert log.checkpointer.is_due(10_000, 0)
        assert not any(
            name.endswith(".tmp") for name in log.filesystem.list_directory(LOG)
        )
        log.write(1)


def test_a_temporary_file_that_cannot_be_removed_stays() -> None:
    log = Log()
    log.checkpointer.begin(0)
    log.filesystem.fault = Fault(1, errno.EIO, "rename")
    log.filesystem.second_fault = Fault(1, errno.EIO, "remove")

    step = log.step(10)
    step.run()

    assert isinstance(step.error, OSError)
    assert log.filesystem.list_directory(LOG) == ["checkpoint.00000001.tmp"]


def test_the_last_checkpoint_says_that_the_log_was_ended() -> None:
    log = Log()
    for batch in range(2, 50):
        log.apply(2, batch)

    step = log.checkpointer.final_step(2, 900, 51)
    step.run()
    log.checkpointer.complete(step)

    newest = log.found().newest
    assert newest is not None
    assert newest.header.is_clean
    assert (newest.header.segment, newest.header.offset) == (2, 900)
