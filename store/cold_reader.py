"""Segments and their indexes as they are read back: descriptors and caches.

    blocks       256 KiB of a segment, aligned, shared by all queues: what one needs
                 the next one has. Who waits together is read together past them
                 (`shared_read.py`)
    directories  of `.idx` files: which queue has entries, and where
    entries      of one queue in one segment: where each of its messages lies

Each cache drops what was used longest ago once it holds more bytes than it may, and at
once what nobody has use for any more; of descriptors so many are open at most.
Neighbouring blocks are read by one call of at most 1 MiB. Nothing is mapped: a read
error must be an exception, not a signal.

Where queues are far apart, blocks go before others need them. So reading ahead of what
is handed out is a credit: when it is used up, of sparse blocks only what is wanted is
read, and in the long run no more than twice what is handed out.

What is behind the known end of a segment that is still written is never read, for it
would be kept as it is now; a block that was shorter when it was kept is read again.

One object belongs to one thread at a time. Where that must not wait (`may_wait`),
only what is in memory is read: files that are open, stretches that the kernel has.

It does not know which messages are wanted.
"""

from typing import Final, final

from mypy_extensions import i64

from store.cold_cache import (
    BLOCK_BITS,
    BLOCK_SIZE,
    BytesCache,
    CachedBytes,
    Descriptors,
    WantedBlock,
)
from store.filesystem import FileSystem, NotAtHand
from store.quarantine import damaged_part, save
from store.segment import TEMPORARY_SUFFIX
from store.segment_index import (
    ENTRY_SIZE,
    HEADER_SIZE,
    ROW_SIZE,
    IndexedRun,
    SegmentIndex,
    find_run,
    index_path,
    read_header,
    read_run,
)

_MIB: Final = 1024 * 1024
_BLOCK_CACHE_SIZE: Final = 8 * _MIB
_DIRECTORY_CACHE_SIZE: Final = 2 * _MIB
_ENTRY_CACHE_SIZE: Final = 4 * _MIB
_DESCRIPTORS_MAX: Final = 128

# Whole blocks are read as long as no more is read than so many times what is handed
# out, and this much in advance: sharing blocks pays when queues are at the same place.
_RATIO_MAX: Final = 2
_CREDIT_MAX: Final = 64 * _MIB
# A stretch of which less than this part is wanted is never read whole.
_SPARSE_MAX: Final = 8
# Of a block that is not read whole, this much is read by one call, if it lies together.
_PART_MAX: Final = 16 * 1024

# The directory of 84 queues is in the first bytes of the file. More would be read in
# vain where there are fewer: a start asks every segment for its directory, and 64 KiB
# of each were 45 MB of a log of 11 GB.
_HEAD_GUESS: Final = 4 * 1024
# A number for each (file, block), (file, queue): files are counted from 1.
_BLOCK_NUMBER_BITS: Final = 24
_QUEUE_ID_BITS: Final = 32


@final
class ColdFile:
    """A segment file that is read, and the key of what is cached of it."""

    __slots__ = (
        "compared",
        "first_number",
        "index_path",
        "is_rebuilt",
        "number",
        "path",
        "serial",
    )

    def __init__(self, path: str, first_number: i64, number: i64, serial: i64) -> None:
        self.path = path
        self.index_path: str = index_path(path)
        self.first_number = first_number
        self.number = number
        # Never used again, so what is cached of a forgotten file is never found.
        self.serial = serial
        # Whether the index was made from the segment just now, and whose entries were
        # compared with the segment: nothing better is to be had.
        self.is_rebuilt = False
        self.compared: set[int] = set()

    def is_sure(self, queue_id: i64) -> bool:
        """Say whether nobody knows better where a queue's messages lie."""
        return self.is_rebuilt or int(queue_id) in self.compared


@final
class ColdReader:
    """Reads segments and indexes through caches."""

    __slots__ = (
        "_blocks",
        "_credit",
        "_descriptors",
        "_directories",
        "_entries",
        "_files",
        "_filesystem",
        "_name",
        "_next_serial",
        "_quarantine",
        "_store_uuid",
        "bytes_read",
        "index_bytes_read",
        "may_wait",
    )

    def __init__(
        self,
        filesystem: FileSystem,
        store_uuid: bytes,
        quarantine: str,
        block_cache_size: i64 = _BLOCK_CACHE_SIZE,
        index_cache_size: i64 = _DIRECTORY_CACHE_SIZE + _ENTRY_CACHE_SIZE,
        descriptors_max: i64 = _DESCRIPTORS_MAX,
        name: str = "read",
    ) -> None:
        self._filesystem = filesystem
        self._store_uuid = store_uuid
        self._quarantine = quarantine
        # Two readers may make the same index again at the same time.
        self._name = name
        self._blocks = BytesCache(block_cache_size)
        self._directories = BytesCache(index_cache_size // 3)
        self._entries = BytesCache(index_cache_size - index_cache_size // 3)
        self._descriptors = Descriptors(filesystem, descriptors_max)
        self._files: dict[str, ColdFile] = {}
        self._next_serial: i64 = 1
        # How many bytes may be read before only what is wanted is.
        self._credit: i64 = _CREDIT_MAX
        # Whether whoever reads may wait for the disk.
        self.may_wait = True
        # Of segments, and of their indexes.
        self.bytes_read: i64 = 0
        self.index_bytes_read: i64 = 0

    def file(self, path: str, first_number: i64, number: i64) -> ColdFile:
        """Return a file, which need not be there before it is read."""
        found = self._files.get(path)
        if found is None:
            found = ColdFile(path, first_number, number, self._next_serial)
            self._next_serial += 1
            self._files[path] = found
        return found

    def forget(self, number: i64) -> None:
        """Close the files of a segment number; nothing cached of them is used again."""
        for file in list(self._files.values()):
            if file.number == number:
                self.forget_file(file)

    def forget_file(self, file: ColdFile) -> None:
        """Close a file; nothing is kept of it."""
        self._descriptors.close(file.path)
        self._descriptors.close(file.index_path)
        self._files.pop(file.path, None)
        serial = file.serial
        self._blocks.drop_between(
            serial << _BLOCK_NUMBER_BITS, ((serial + 1) << _BLOCK_NUMBER_BITS) - 1
        )
        self._directories.drop(serial)
        self._entries.drop_between(
            serial << _QUEUE_ID_BITS, ((serial + 1) << _QUEUE_ID_BITS) - 1
        )

    def empty(self) -> None:
        """Keep nothing of what was read; files stay open."""
        self._blocks.clear()
        self._directories.clear()
        self._entries.clear()

    def close(self) -> None:
        """Close every file."""
        self._descriptors.close_all()

    @property
    def cached_size(self) -> i64:
        """Return how many bytes the caches hold."""
        return self._blocks.size + self._directories.size + self._entries.size

    # -- segments

    def read(self, file: ColdFile, size: i64, offset: i64) -> bytes:
        """Return bytes of a segment past the cache, fewer where it ends; OSError."""
        data = self._read(file.path, size, offset)
        self.bytes_read += len(data)
        self._credit -= len(data)
        return data

    def _read(self, path: str, size: i64, offset: i64) -> bytes:
        if self.may_wait:
            return self._filesystem.read(self._descriptors.find(path), size, offset)
        descriptor = self._descriptors.find_open(path)
        if descriptor is None or size > BLOCK_SIZE:
            raise NotAtHand
        if not self._filesystem.is_at_hand(descriptor, size, offset):
            raise NotAtHand
        return self._filesystem.read(descriptor, size, offset)

    def expect_to_wait(self) -> None:
        """Something follows that takes long; raises NotAtHand if it must not."""
        if not self.may_wait:
            raise NotAtHand

    def read_whole(self, file: ColdFile) -> bytes:
        """Return all bytes of a segment; raises OSError."""
        data = self._filesystem.read_file(file.path)
        self.bytes_read += len(data)
        return data

    def read_blocks(
        self, file: ColdFile, wanted: list[WantedBlock], limit: i64
    ) -> None:
        """Fill these blocks, whose numbers rise, with what is wanted of them.

        Nothing beyond `limit` in the file is read. Where the file ends early there is
        less than was wanted.

        Raises:
            OSError: the first that is not `is_read` cannot be.
        """
        base = file.serial << _BLOCK_NUMBER_BITS
        for block in wanted:
            cached = self._blocks.get(base + block.number)
            if cached is not None and len(cached.data) >= block.end:
                block.fill(cached)
            elif self._credit > 0 or block.size * _RATIO_MAX > BLOCK_SIZE:
                # Neighbours too: cut out of one read they would be copied once more.
                block.fill(self._load_block(file, block.number, limit))
            else:
                self._load_part(file, block)

    def read_stretch(
        self, file: ColdFile, start: i64, end: i64, wanted: i64
    ) -> bytes | None:
        """Return a stretch of a segment past the cache, of which so much is wanted.

        None if that is so little that each record is better read alone. OSError.
        """
        size = end - start
        self._credit = min(_CREDIT_MAX, self._credit + _RATIO_MAX * wanted)
        is_dense = wanted * _RATIO_MAX >= size
        if is_dense or (self._credit > 0 and wanted * _SPARSE_MAX >= size):
            return self.read(file, size, start)
        return None

    def release(self, wanted: list[WantedBlock], queue_id: i64, size: i64) -> None:
        """So many bytes of messages were handed out to a queue, from these blocks.

        A block of which nothing is left is not kept.
        """
        self._credit = min(_CREDIT_MAX, self._credit + _RATIO_MAX * size)
        for block in wanted:
            cached = block.cached
            if cached is not None and not cached.serve(block, queue_id):
                self._blocks.drop(cached.key)

    def _load_part(self, file: ColdFile, block: WantedBlock) -> None:
        """Read only what is wanted of a block, if that is in one place."""
        size = block.end - block.start
        data = b""
        if size <= _PART_MAX:
            start = (block.number << BLOCK_BITS) + block.start
            data = self.read(file, size, start)
        block.fill_part(data)

    def _load_block(self, file: ColdFile, number: i64, limit: i64) -> CachedBytes:
        start = number << BLOCK_BITS
        data = self.read(file, min(BLOCK_SIZE, limit - start), start)
        return self._blocks.put((file.serial << _BLOCK_NUMBER_BITS) + number, data)

    def drop_blocks(self, file: ColdFile, offset: i64, size: i64) -> None:
        """Read the blocks of a stretch anew the next time they are needed."""
        base = file.serial << _BLOCK_NUMBER_BITS
        last = (offset + size - 1) >> BLOCK_BITS
        for number in range(offset >> BLOCK_BITS, last + 1):
            self._blocks.drop(base + number)

    def put_aside(self, file: ColdFile, offset: i64, data: bytes) -> tuple[str, bool]:
        """Put a damaged record into quarantine; return what to report, and whether.

        A disk that has no room for it must not keep a queue from going on: then the
        report says so, and the record is still needed where it is.
        """
        self.expect_to_wait()
        part = damaged_part(file.number, offset, data, "a record is damaged")
        try:
            (line,) = save(self._filesystem, self._quarantine, [part])
        except OSError as exc:
            return f"{part.what}, left there, for it cannot be saved: {exc}", False
        return line, True

    # -- indexes

    def entries(self, file: ColdFile, queue_id: i64) -> bytes | None:
        """Return a queue's entries in a segment, none if it has none there.

        None if the index is missing or damaged; OSError if it cannot be read.
        """
        key = (file.serial << _QUEUE_ID_BITS) | queue_id
        known = self._entries.get(key)
        if known is not None:
            return known.data
        try:
            directory = self._directory(file)
            if directory is None:
                return None
            run = find_run(directory, len(directory) // ROW_SIZE, queue_id)
            if run is None:
                return b""
            size = run.count * ENTRY_SIZE
            data = self._read_index(file, size, run.entries_at)
        except FileNotFoundError:
            return None
        if not run.are_entries(data):
            return None
        self._entries.put(key, data)
        return data

    def runs_with_deadlines(self, file: ColdFile) -> list[IndexedRun] | None:
        """Return the runs that have deadlines; None if the index is damaged.

        Raises:
            OSError: it cannot be read, or is missing.
        """
        directory = self._directory(file)
        if directory is None:
            return None
        runs = [read_run(directory, at) for at in range(0, len(directory), ROW_SIZE)]
        return [run for run in runs if run.deadline_count > 0]

    def deadlines(self, file: ColdFile, run: IndexedRun) -> bytes | None:
        """Return the deadlines of a run, None if they are damaged; raises OSError."""
        data = self._read_index(file, run.deadlines_size, run.deadlines_at)
        return run.deadlines_in(data)

    def adopt_index(self, file: ColdFile, index: SegmentIndex) -> None:
        """Use an index that was made again: leave it on the disk and forget the old.

        A disk that refuses it is no reason to stop: then it is made again once more,
        and the old one is not left to be believed.
        """
        self._descriptors.close(file.index_path)
        self._write_index(file, index.chunks(self._store_uuid))
        file.serial = self._next_serial
        self._next_serial += 1
        file.is_rebuilt = True

    def keep_entries(self, file: ColdFile, queue_id: i64, entries: bytes) -> None:
        """Keep the entries of a queue in an index that was made again."""
        self._entries.put((file.serial << _QUEUE_ID_BITS) | queue_id, entries)

    def _write_index(self, file: ColdFile, chunks: list[bytes]) -> None:
        # A start removes what is left of it.
        path = f"{file.index_path}.{self._name}{TEMPORARY_SUFFIX}"
        try:
            descriptor = self._filesystem.create(path)
            try:
                self._filesystem.write(descriptor, chunks, 0)
            finally:
                self._filesystem.close(descriptor)
            self._filesystem.rename(path, file.index_path)
        except OSError:
            self._remove(path)
            self._remove(file.index_path)

    def _remove(self, path: str) -> None:
        try:
            self._filesystem.remove(path)
        except OSError:
            return

    def drop_entries(self, file: ColdFile, queue_id: i64) -> None:
        """A queue has read all that it has in a segment."""
        self._entries.drop((file.serial << _QUEUE_ID_BITS) | queue_id)

    def _directory(self, file: ColdFile) -> bytes | None:
        known = self._directories.get(file.serial)
        if known is not None:
            return known.data
        data = self._read_index(file, _HEAD_GUESS, 0)
        header = read_header(data, file.first_number, file.number, self._store_uuid)
        if header is None:
            return None
        end = HEADER_SIZE + header.head_size
        if end > len(data):
            data += self._read_index(file, end - len(data), len(data))
        head = data[HEADER_SIZE:end]
        if not header.is_head(head):
            return None
        directory = head[: header.directory_size]
        self._directories.put(file.serial, directory)
        return directory

    def _read_index(self, file: ColdFile, size: i64, offset: i64) -> bytes:
        data = self._read(file.index_path, size, offset)
        self.index_bytes_read += len(data)
        return data
