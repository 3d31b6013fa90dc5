"""When a checkpoint is due, and having it written.

    every 64 segments, every 10 s in which something was written, at a clean stop,
    and when much garbage waits for one: only what is older than both checkpoints
    that are kept may be removed or merged

    begin()         the position is noted, and building begins
    advance(units)  loop: some more queues; at last a step
    step.run()      write, sync, rename, sync of the directory
    complete(step)  it is kept, and the oldest of three may go

It does not know which files are garbage.
"""

from typing import Final, final

from mypy_extensions import i64

from store.checkpoint import CheckpointBuilder, CheckpointHeader
from store.checkpoint_files import (
    TEMPORARY_SUFFIX,
    KeptCheckpoints,
    checkpoint_name,
    write_checkpoint,
)
from store.filesystem import FileSystem
from store.index import Index
from store.options import StoreOptions

# So much garbage, in segments and in sizes of a checkpoint, makes one due: writing
# two of them is then at most half of what they free.
_GARBAGE_SEGMENTS: Final = 4
_GARBAGE_CHECKPOINTS: Final = 4

# More units than there are queues.
_ALL: Final = 1 << 40


@final
class CheckpointStep:
    """The writing of a checkpoint: call `run` once, then hand it to `complete`."""

    __slots__ = ("_builder", "_directory", "_filesystem", "error", "header", "size")

    def __init__(
        self,
        filesystem: FileSystem,
        directory: str,
        header: CheckpointHeader,
        builder: CheckpointBuilder,
    ) -> None:
        self._filesystem = filesystem
        self._directory = directory
        # Complete: all of it is in a few arrays that nobody else has.
        self._builder = builder
        self.header = header
        self.size: i64 = 0
        self.error: OSError | None = None

    def run(self) -> None:
        """Write it; blocks, raises nothing."""
        number = int(self.header.number)
        # Here, since checksums of large arrays are made without the interpreter.
        chunks = self._builder.chunks()
        for chunk in chunks:
            self.size += len(chunk)
        try:
            write_checkpoint(self._filesystem, self._directory, number, chunks)
        except OSError as exc:
            self.error = exc
            self._remove_temporary(number)

    def _remove_temporary(self, number: int) -> None:
        path = f"{self._directory}/{checkpoint_name(number)}{TEMPORARY_SUFFIX}"
        try:
            self._filesystem.remove(path)
        except OSError:
            # A start removes it.
            return


@final
class Checkpointer:
    """The checkpoints of one log."""

    __slots__ = (
        "_builder",
        "_directory",
        "_filesystem",
        "_header",
        "_index",
        "_kept",
        "_last_batch",
        "_last_ms",
        "_last_segment",
        "_last_size",
        "_options",
        "_store_uuid",
    )

    def __init__(
        self,
        filesystem: FileSystem,
        directory: str,
        store_uuid: bytes,
        options: StoreOptions,
        index: Index,
        kept: KeptCheckpoints,
        now_ms: i64,
    ) -> None:
        self._filesystem = filesystem
        self._directory = directory
        self._store_uuid = store_uuid
        self._options = options
        self._index = index
        self._kept = kept
        self._header = CheckpointHeader(0, 0, 0, 0, False)
        self._builder: CheckpointBuilder | None = None
        # Of the last checkpoint; until there is one, of the start.
        self._last_ms = now_ms
        self._last_segment: i64 = index.applied_segment
        self._last_batch: i64 = index.applied_batch
        self._last_size: i64 = 0

    @property
    def needed_segment(self) -> i64:
        """Return the segment from which on every file must stay as it is."""
        return self._kept.needed_segment

    def is_due(self, now_ms: i64, garbage_size: i64) -> bool:
        """Say whether it is time; the garbage is what two checkpoints would free."""
        options = self._options
        if self._index.applied_segment == 0:
            # Nothing was ever written: a checkpoint has no place to start from.
            return False
        bound: i64 = max(
            i64(_GARBAGE_SEGMENTS * options.segment_size),
            _GARBAGE_CHECKPOINTS * self._last_size,
        )
        if garbage_size > bound:
            return True
        if self._index.applied_batch == self._last_batch:
            return False
        if self._index.applied_segment - self._last_segment >= options.checkpoint_seals:
            return True
        return now_ms - self._last_ms >= options.checkpoint_ms

    def begin(self, now_ms: i64) -> None:
        """Begin to build one of all that the index has been told of."""
        index = self._index
        self._begin(
            index.applied_segment, index.applied_offset, index.applied_batch + 1, False
        )
        self._last_ms = now_ms

    def _begin(
        self, segment: i64, offset: i64, next_batch: i64, is_clean: bool
    ) -> None:
        self._header = CheckpointHeader(
            self._kept.next_number, segment, offset, next_batch, is_clean
        )
        self._builder = CheckpointBuilder(self._index, self._store_uuid, self._header)

    def advance(self, units: i64) -> CheckpointStep | None:
        """Take some more queues; return the step that writes it when all are taken."""
        builder = self._builder
        assert builder is not None, "begun before it goes on"
        if not builder.advance(int(units)):
            return None
        self._builder = None
        return CheckpointStep(self._filesystem, self._directory, self._header, builder)

    def final_step(self, segment: i64, offset: i64, next_batch: i64) -> CheckpointStep:
        """Return the step of a clean stop: the log's end marker is at the offset."""
        self._begin(segment, offset, next_batch, True)
        step = self.advance(_ALL)
        assert step is not None, "all queues are taken at once"
        return step

    def complete(self, step: CheckpointStep) -> list[str]:
        """Keep what was written; return the paths of those that may go."""
        if step.error is not None:
            return []
        header = step.header
        self._last_segment = header.segment
        self._last_batch = header.next_batch - 1
        self._last_size = step.size
        spare = self._kept.add(int(header.number), int(header.segment))
        return [f"{self._directory}/{checkpoint_name(number)}" for number in spare]
