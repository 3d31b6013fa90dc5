"""The segment of the log that is written, the next one, and rolling over.

Two sides meet here. On the loop, `SegmentSet` decides: which segment the next
batch goes to, from which offset, which files may go. In a step's `run`, a
`LogWrite` makes the system calls and nothing else, strictly in the order the
steps were begun:

    create the segment (if a roll comes before it was prepared)
    seal the one before: cut, sync       before the first byte of the next
    write the batch, sync
    prepare the next segment, write the .idx of a sealed one, allocate the reserve

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
from store.segment import HEADER_SIZE, Segment, name_of

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
        "index_chunks",
        "index_path",
        "is_index_written",
        "is_reserve_back",
        "length",
        "marker",
        "offset",
        "prepares",
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
        # The index file of a segment that was sealed, if one is to be written.
        self.index_path = ""
        self.index_chunks: list[bytes] = []
        self.is_index_written = False
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
        if self.index_path:
            self.is_index_written = self._set.write_index(
                self.index_path, self.index_chunks
            )
            self.index_chunks = []
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
    """The segment that is being written, and those begun before and after it."""

    __slots__ = (
        "_directory",
        "_filesystem",
        "_open",
        "_prepared_number",
        "_store_uuid",
        "_syncs",
        "allocation",
        "current",
        "durable_offset",
        "durable_segment",
        "end",
        "next_batch",
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
        syncs: bool,
    ) -> None:
        self._filesystem = filesystem
        self._directory = directory
        self._store_uuid = store_uuid
        self._syncs = syncs
        self.segment_size = segment_size
        self.next_batch = next_batch
        self._open: dict[int, Segment] = {}
        self._prepared_number: i64 = number
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

    def _segment(self, number: i64) -> Segment:
        found = self._open.get(number)
        if found is None:
            found = Segment(
                self._filesystem,
                self._directory,
                self._store_uuid,
                number,
                number,
                self._syncs,
            )
            self._open[number] = found
        return found

    def begin_batch(self, estimate: i64, may_roll: bool) -> BatchWriter:
        """Return the writer of the next batch, in a new segment if it must roll."""
        is_full = self.end + estimate > self.segment_size
        if may_roll and is_full and self.end > HEADER_SIZE:
            self.current = self._segment(self.current.number + 1)
            self.end = HEADER_SIZE
        number = self.next_batch
        self.next_batch += 1
        return BatchWriter(
            self.current.number, number, self.durable_segment, self.durable_offset
        )

    def plan(self, writer: BatchWriter | None, sync: bool) -> LogWrite:
        """Return the write of a batch, or of none."""
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

    def plan_end(self, write: LogWrite) -> None:
        """Let a write, which must sync, end the log cleanly."""
        writer = BatchWriter(
            self.current.number, self.next_batch, self.current.number, self.end
        )
        self.next_batch += 1
        write.marker = writer.finish()

    def on_durable(self, write: LogWrite) -> None:
        """Everything up to the end of this write is durable."""
        self.durable_segment = write.segment.number
        self.durable_offset = write.end

    def on_done(self, write: LogWrite) -> None:
        """Forget what a write closed."""
        if write.error is None and write.fatal is None:
            for number in list(self._open):
                if number < write.segment.number:
                    del self._open[number]

    def on_refused(self) -> None:
        """Go back to the end of the last whole batch; no step may be in flight."""
        self.tail.error = None
        self.current = self.tail.segment
        self.end = self.tail.offset
        self.durable_segment = self.current.number
        self.durable_offset = self.end

    def path_of(self, number: i64) -> str:
        """Return the name of a segment that this process wrote."""
        return f"{self._directory}/{name_of(number, number)}"

    def write_index(self, path: str, chunks: list[bytes]) -> bool:
        """Write a whole file, unsynced: it can be made again; blocks."""
        try:
            descriptor = self._filesystem.create(path)
        except OSError:
            return False
        try:
            self._filesystem.write(descriptor, chunks, 0)
        except OSError:
            return False
        finally:
            self._filesystem.close(descriptor)
        return True

    def close(self) -> None:
        """Close every descriptor; remove the segment that was prepared in vain."""
        for segment in self._open.values():
            segment.close()
            if segment.is_ready and segment.number > self.current.number:
                self._filesystem.remove(segment.path)
