"""The numbered segments of the log, the one being written, and rolling over.

Two sides meet here. On the loop, `SegmentSet` decides: which segment the next
batch goes to, from which offset, which files may go. In a step's `run`, a
`LogWrite` makes the system calls and nothing else, strictly in the order the
steps were begun:

    create the segment (if a roll comes before it was prepared)
    seal the one before: cut, sync       before the first byte of the next
    write the batch, sync
    prepare the next segment, remove dead ones, allocate the reserve

What both know is the `LogTail`: the end of the last whole batch, moved only by
`run`. A write that the disk refuses is cut off there; the steps begun meanwhile
are refused with it, since they would leave a hole.

It does not know what a batch holds.
"""

from typing import Final, final

from mypy_extensions import i64

from store.batch import BatchWriter
from store.errors import StoreError
from store.filesystem import FileSystem
from store.segment import HEADER_SIZE, Segment

RESERVE_NAME: Final = "reserve"


@final
class Reserve:
    """Allocated blocks that are given back when the disk is full."""

    __slots__ = ("_filesystem", "_path", "_size")

    def __init__(self, filesystem: FileSystem, directory: str, size: i64) -> None:
        self._filesystem = filesystem
        self._path: str = f"{directory}/{RESERVE_NAME}"
        self._size = size

    def allocate(self) -> bool:
        """Take the blocks, unless they are there; return whether they are now."""
        if self._filesystem.size(self._path) == self._size:
            return True
        try:
            descriptor = self._filesystem.create(self._path)
        except OSError:
            return False
        try:
            self._filesystem.allocate(descriptor, self._size)
            self._filesystem.sync(descriptor)
        except OSError:
            self._truncate(descriptor)
            return False
        finally:
            self._filesystem.close(descriptor)
        return True

    def release(self) -> None:
        """Give the blocks back; a disk that refuses even this keeps them."""
        try:
            descriptor = self._filesystem.create(self._path)
        except OSError:
            return
        self._filesystem.close(descriptor)

    def _truncate(self, descriptor: int) -> None:
        try:
            self._filesystem.truncate(descriptor, 0)
        except OSError:
            # The file is as large as it got: `allocate` will not take it for whole.
            return


@final
class LogTail:
    """Where the last whole batch ends, and why nothing more is written, if so."""

    __slots__ = ("error", "fatal", "offset", "segment")

    def __init__(self, segment: Segment, offset: i64) -> None:
        self.segment = segment
        self.offset = offset
        self.error: OSError | None = None
        self.fatal: Exception | None = None


@final
class LogWrite:
    """The system calls of one step, and what came of them."""

    __slots__ = (
        "_reserve",
        "_set",
        "_tail",
        "allocates_reserve",
        "chunks",
        "error",
        "fatal",
        "is_reserve_back",
        "length",
        "marker",
        "offset",
        "prepares",
        "removed_count",
        "removes",
        "segment",
        "sync",
    )

    def __init__(self, owner: "SegmentSet", sync: bool) -> None:
        self._set = owner
        self._tail = owner.tail
        self._reserve = owner.reserve
        self.sync = sync
        self.segment: Segment = owner.current
        self.offset: i64 = owner.end
        self.length: i64 = 0
        self.chunks: list[bytes] = []
        self.marker: list[bytes] = []
        self.prepares: Segment | None = None
        self.removes: list[str] = []
        self.removed_count: i64 = 0
        self.allocates_reserve = False
        self.is_reserve_back = False
        self.error: OSError | None = None
        self.fatal: Exception | None = None

    @property
    def end(self) -> i64:
        """Return the offset behind the batch."""
        return self.offset + self.length

    def run(self) -> None:
        """Make the calls; whatever goes wrong is kept in `error` or `fatal`."""
        tail = self._tail
        if tail.fatal is None and tail.error is None:
            try:
                self._write()
                self._tidy()
            except Exception as exc:  # noqa: BLE001 - complete() tells, on the loop
                tail.fatal = exc
        self.fatal = tail.fatal
        self.error = tail.error

    def _write(self) -> None:
        tail = self._tail
        try:
            self._write_batch()
        except OSError as exc:
            tail.error = exc
            # This also syncs: the batches before this one are durable now.
            tail.segment.cut(tail.offset)
            self._reserve.release()
            return
        if self.sync:
            tail.segment.sync()

    def _write_batch(self) -> None:
        tail = self._tail
        segment = self.segment
        if not segment.is_ready:
            segment.create(self._set.allocation)
        if tail.segment is not segment:
            tail.segment.cut(tail.offset)
            tail.segment.close()
            tail.segment = segment
            tail.offset = HEADER_SIZE
        assert tail.offset == self.offset, "the loop and the disk agree on the end"
        if self.chunks:
            segment.write(self.chunks, self.offset)
            tail.offset = self.end
            self.chunks = []

    def _tidy(self) -> None:
        if self._tail.error is not None:
            return
        if self.prepares is not None and not self.prepares.is_ready:
            self._prepare(self.prepares)
        for path in self.removes:
            if not self._set.remove(path):
                break
            self.removed_count += 1
        if self.allocates_reserve:
            self.is_reserve_back = self._reserve.allocate()
        if self.marker:
            self._end_log()

    def _prepare(self, segment: Segment) -> None:
        try:
            segment.create(self._set.allocation)
        except OSError:
            # No room: the roll will try again, and refuse its batch if it must.
            return

    def _end_log(self) -> None:
        """Write that all before is durable, which it is; cut; close."""
        tail = self._tail
        try:
            tail.segment.write(self.marker, tail.offset)
        except OSError:
            # Without the marker the next start copies the tail, as after a crash.
            return
        size: i64 = tail.offset
        for chunk in self.marker:
            size += len(chunk)
        tail.segment.cut(size)


@final
class SegmentSet:
    """The segments in order, oldest first; the last is being written."""

    __slots__ = (
        "_directory",
        "_filesystem",
        "_next_batch",
        "_numbers",
        "_open",
        "_paths",
        "_prepared_number",
        "_removing",
        "_store_uuid",
        "allocation",
        "current",
        "durable_offset",
        "durable_segment",
        "end",
        "reserve",
        "segment_size",
        "tail",
    )

    def __init__(
        self,
        filesystem: FileSystem,
        directory: str,
        store_uuid: bytes,
        segment_size: i64,
        reserve: Reserve,
        number: i64,
        next_batch: i64,
    ) -> None:
        self._filesystem = filesystem
        self._directory = directory
        self._store_uuid = store_uuid
        self.segment_size = segment_size
        self._next_batch = next_batch
        self._numbers: list[int] = []
        self._paths: dict[int, str] = {}
        self._open: dict[int, Segment] = {}
        self._prepared_number: i64 = number
        self._removing: i64 = 0
        self.allocation: i64 = segment_size
        self.reserve = reserve
        self.current: Segment = self._segment(number)
        self.end: i64 = HEADER_SIZE
        self.durable_segment: i64 = number
        self.durable_offset: i64 = HEADER_SIZE
        self.tail = LogTail(self.current, HEADER_SIZE)

    def open(self) -> bool:
        """Create the first segment of this process; return whether it is allocated.

        Raises:
            StoreError: not even an empty file can be made.
        """
        try:
            self.current.create(self.allocation)
            return True
        except OSError:
            self.allocation = 0
        try:
            self.current.create(0)
        except OSError as exc:
            raise StoreError(f"cannot create {self.current.path}: {exc}") from exc
        return False

    def adopt(self, number: int, path: str) -> None:
        """Take over a sealed segment from before, oldest first."""
        self._numbers.append(number)
        self._paths[number] = path

    def _segment(self, number: i64) -> Segment:
        found = self._open.get(number)
        if found is None:
            found = Segment(
                self._filesystem, self._directory, self._store_uuid, number, number
            )
            self._open[number] = found
        return found

    def begin_batch(self, estimate: i64, may_roll: bool) -> BatchWriter:
        """Return the writer of the next batch, in a new segment if it must roll."""
        is_full = self.end + estimate > self.segment_size
        if may_roll and is_full and self.end > HEADER_SIZE:
            self._numbers.append(self.current.number)
            self._paths[self.current.number] = self.current.path
            self.current = self._segment(self.current.number + 1)
            self.end = HEADER_SIZE
        number = self._next_batch
        self._next_batch += 1
        return BatchWriter(
            self.current.number, number, self.durable_segment, self.durable_offset
        )

    def plan(self, writer: BatchWriter | None, sync: bool) -> LogWrite:
        """Return the write of a batch (or of none), without removals."""
        write = LogWrite(self, sync)
        if writer is not None:
            write.chunks = writer.finish()
            write.length = writer.size
            self.end += writer.size
        number = self.current.number + 1
        if self.end > self.segment_size // 2 and self._prepared_number < number:
            # A write or two from now it is needed; the disk is asked once.
            self._prepared_number = number
            write.prepares = self._segment(number)
        return write

    def plan_removal(self, write: LogWrite, dead: list[int]) -> None:
        """Let a write remove the oldest segments, which nobody needs."""
        for number in dead:
            write.removes.append(self._paths[number])
        self._removing += len(dead)

    def plan_end(self, write: LogWrite) -> None:
        """Let a write, which must sync, end the log cleanly."""
        writer = BatchWriter(
            self.current.number, self._next_batch, self.current.number, self.end
        )
        self._next_batch += 1
        write.marker = writer.finish()

    def oldest(self) -> list[int]:
        """Return the sealed, durable segments, oldest first.

        None while a removal is under way: a younger one must not overtake it.
        """
        numbers: list[int] = []
        if self._removing > 0:
            return numbers
        for number in self._numbers:
            if number >= self.durable_segment:
                break
            numbers.append(number)
        return numbers

    def on_durable(self, write: LogWrite) -> None:
        """Everything up to the end of this write is durable."""
        self.durable_segment = write.segment.number
        self.durable_offset = write.end

    def on_done(self, write: LogWrite) -> list[int]:
        """Forget what a write closed and removed; return the removed numbers."""
        if write.error is None and write.fatal is None:
            for number in list(self._open):
                if number < write.segment.number:
                    del self._open[number]
        removed = self._numbers[: write.removed_count]
        del self._numbers[: write.removed_count]
        self._removing -= len(write.removes)
        for number in removed:
            del self._paths[number]
        return removed

    def on_refused(self) -> None:
        """Go back to the end of the last whole batch; no step may be in flight."""
        self.tail.error = None
        self.current = self.tail.segment
        self.end = self.tail.offset
        self.durable_segment = self.current.number
        self.durable_offset = self.end
        while self._numbers and self._numbers[-1] >= self.current.number:
            del self._paths[self._numbers.pop()]

    def remove(self, path: str) -> bool:
        """Remove a file durably, before a younger one goes; blocks."""
        try:
            self._filesystem.remove(path)
        except OSError:
            # It stays and is tried again; what it holds is dead all the same.
            return False
        self._sync_directory()
        return True

    def _sync_directory(self) -> None:
        try:
            self._filesystem.sync_directory(self._directory)
        except OSError as exc:
            raise StoreError(f"cannot sync {self._directory}: {exc}") from exc

    def close(self) -> None:
        """Close every descriptor; remove the segment that was prepared in vain."""
        for segment in self._open.values():
            segment.close()
            if segment.is_ready and segment.number > self.current.number:
                self._filesystem.remove(segment.path)
