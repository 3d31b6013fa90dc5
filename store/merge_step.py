"""The system calls of a merge, one step of them at a time.

    write what was copied, sync         the new file, under a name that a start removes
    read an index file                  of the next of the files that are merged,
                                        or make it again from the file
    read extents                        stretches of that file with live records
    publish                             sync, rename, sync the directory, index file

A step does any of these, in this order, and no more: what the bytes mean is looked at
on the loop. Each write is synced at once, at most about 1 MiB: a long write-back at
the end would hold up the log's own syncs.

Whatever fails, the step leaves nothing behind of the new file, and the old ones as
they were. A name that was given and could not be made durable is taken back too, but
that may not be durable either: nobody may merge these files again in this process,
lest the two results overlap (`is_name_uncertain`).
"""

import errno
from typing import Final, final

from mypy_extensions import i64

from store.cold_reader import ColdReader
from store.errors import StoreError
from store.filesystem import FileSystem
from store.index_rebuild import IndexRebuild
from store.segment import TEMPORARY_SUFFIX, Segment, name_of
from store.segment_index import index_path

_CLOSED: Final = -1


@final
class Extent:
    """A stretch of a segment file, and the live records in it."""

    __slots__ = ("data", "offset", "offsets", "size", "sizes")

    def __init__(self, offset: i64) -> None:
        self.offset = offset
        self.size: i64 = 0
        self.data = b""
        # Of the records, in the segment.
        self.offsets: list[int] = []
        self.sizes: list[int] = []

    @property
    def end(self) -> i64:
        """Return the offset behind it."""
        return self.offset + self.size

    def add(self, offset: i64, size: i64) -> None:
        """Reach to the end of a record, which begins behind all others."""
        self.offsets.append(offset)
        self.sizes.append(size)
        self.size = offset + size - self.offset


@final
class MergeSource:
    """One of the files that are merged."""

    __slots__ = ("first_number", "number", "path")

    def __init__(self, directory: str, first_number: i64, number: i64) -> None:
        self.first_number = first_number
        self.number = number
        self.path: str = f"{directory}/{name_of(int(first_number), int(number))}"


@final
class MergeFiles:
    """The files of a merge that are open; only a step that runs touches them."""

    __slots__ = (
        "_descriptor",
        "_filesystem",
        "_is_created",
        "_path",
        "_store_uuid",
        "is_name_uncertain",
        "target",
    )

    def __init__(
        self, filesystem: FileSystem, store_uuid: bytes, target: Segment
    ) -> None:
        self._filesystem = filesystem
        self._store_uuid = store_uuid
        self.target = target
        self._is_created = False
        # The file that is read.
        self._path = ""
        self._descriptor: int = _CLOSED
        self.is_name_uncertain = False

    def write(self, chunks: list[bytes], offset: i64) -> None:
        """Write and sync a batch; raises OSError or SyncFailed."""
        if not self._is_created:
            self.target.create_hidden()
            self._is_created = True
        self.target.write(chunks, offset)
        self.target.sync()

    def read_index(self, source: MergeSource) -> bytes:
        """Return the index file of a segment, nothing if there is none; OSError."""
        try:
            return self._filesystem.read_file(index_path(source.path))
        except FileNotFoundError:
            return b""

    def make_index(self, source: MergeSource) -> bytes:
        """Return what the index file of a segment should be; raises OSError.

        It is not written: the segment goes as soon as it is merged.
        """
        reader = ColdReader(self._filesystem, self._store_uuid, "", 0, 0)
        try:
            file = reader.file(source.path, source.first_number, source.number)
            index = IndexRebuild(reader, file).run()
        finally:
            reader.close()
        return b"".join(index.chunks(self._store_uuid))

    def read(self, path: str, extents: list[Extent]) -> None:
        """Read extents of a segment; raises OSError."""
        if path != self._path:
            self._close_source()
            self._descriptor = self._filesystem.open_for_reading(path)
            self._path = path
        for extent in extents:
            extent.data = self._filesystem.read(
                self._descriptor, extent.size, extent.offset
            )

    def _close_source(self) -> None:
        if self._descriptor != _CLOSED:
            descriptor = self._descriptor
            self._descriptor = _CLOSED
            self._path = ""
            self._filesystem.close(descriptor)

    def publish(self, index_chunks: list[bytes]) -> None:
        """Give the new file its name, durably; raises OSError or SyncFailed."""
        self._close_source()
        self.is_name_uncertain = True
        self.target.publish()
        self.is_name_uncertain = False
        self.target.close()
        self._write_index(index_chunks)

    def _write_index(self, chunks: list[bytes]) -> None:
        """Write the index file, or none: then it is made again when it is needed."""
        path = index_path(self.target.path)
        try:
            descriptor = self._filesystem.create(path)
            try:
                self._filesystem.write(descriptor, chunks, 0)
            finally:
                self._filesystem.close(descriptor)
        except OSError:
            remove_if_possible(self._filesystem, path)

    def abandon(self) -> None:
        """Close everything and leave nothing of the new file."""
        try:
            self._close_source()
        finally:
            self._remove_target()

    def _remove_target(self) -> None:
        path = self.target.path
        try:
            self.target.close()
        finally:
            remove_if_possible(self._filesystem, path + TEMPORARY_SUFFIX)
        if self.is_name_uncertain:
            remove_if_possible(self._filesystem, path)


def remove_if_possible(filesystem: FileSystem, path: str) -> None:
    """Remove a file that a start would remove or make again."""
    try:
        filesystem.remove(path)
    except OSError:
        return


@final
class MergeStep:
    """Some calls of a merge: call `run` once, then hand it to `complete`."""

    __slots__ = (
        "_files",
        "chunks",
        "error",
        "extents",
        "index_chunks",
        "index_data",
        "is_abandoned",
        "is_last",
        "is_reading",
        "makes_index",
        "offset",
        "reads_index",
        "source",
    )

    def __init__(self, files: MergeFiles, source: MergeSource) -> None:
        self._files = files
        # The file that is read, and what of it.
        self.source = source
        self.reads_index = False
        self.makes_index = False
        self.index_data = b""
        self.extents: list[Extent] = []
        # What is written, and where.
        self.chunks: list[bytes] = []
        self.offset: i64 = 0
        self.is_reading = False
        self.is_last = False
        self.index_chunks: list[bytes] = []
        self.is_abandoned = False
        self.error: Exception | None = None

    @property
    def is_unreadable(self) -> bool:
        """Say whether the disk has lost what was to be read."""
        error = self.error
        is_lost = isinstance(error, OSError) and error.errno == errno.EIO
        return is_lost and self.is_reading

    def run(self) -> None:
        """Make the calls; blocks, raises nothing: what goes wrong is in `error`."""
        try:
            self._run()
        except (OSError, StoreError) as exc:
            self.error = exc
            self._abandon()

    def _abandon(self) -> None:
        try:
            self._files.abandon()
        except OSError:
            # A descriptor that cannot be closed: a start removes what is left.
            return

    def _run(self) -> None:
        if self.is_abandoned:
            self._abandon()
            return
        files = self._files
        if self.chunks:
            files.write(self.chunks, self.offset)
            self.chunks = []
        self.is_reading = True
        if self.makes_index:
            self.index_data = files.make_index(self.source)
        elif self.reads_index:
            self.index_data = files.read_index(self.source)
        if self.extents:
            files.read(self.source.path, self.extents)
        self.is_reading = False
        if self.is_last:
            files.publish(self.index_chunks)
            self.index_chunks = []
