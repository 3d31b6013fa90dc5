"""What is kept of files that are read back: bytes by number, and open files.

Each cache drops what was used longest ago once it holds more than it may. A block of a
segment goes earlier: how much of it was handed out is counted, and one that nobody can
want any more is not kept for others. What is wanted of a block, and where it is once it
is read, is a `WantedBlock`.

It knows neither what the bytes are nor which files there are.
"""

from collections import OrderedDict
from typing import Final, final

from mypy_extensions import i64, mypyc_attr

from store.filesystem import FileSystem

BLOCK_BITS: Final = 18
BLOCK_SIZE: Final = 1 << BLOCK_BITS

# What a cached string costs beside its bytes: object, key, place in the cache.
_OVERHEAD: Final = 200
# Queues that a block was handed out to, if not to just one.
_NOBODY: Final = -1
_SEVERAL: Final = -2
# More than this does not stand between two messages, mostly: what a batch ends and
# begins with, and that with the facts before it.
_FRAME_MAX: Final = 128
_FACTS_MAX: Final = 4096


@final
@mypyc_attr(acyclic=True)
class WantedBlock:
    """What somebody wants of a block, and, once it is read, where that is."""

    __slots__ = (
        "base",
        "cached",
        "data",
        "end",
        "is_read",
        "number",
        "sharers",
        "size",
        "smallest",
        "start",
    )

    def __init__(self, number: i64, start: i64, end: i64, record_size: i64) -> None:
        self.number = number
        # From the start of the block; between them so many bytes are wanted.
        self.start = start
        self.end = end
        self.size = end - start
        self.smallest = record_size
        # A part of the block that begins at `base`.
        self.is_read = False
        self.base: i64 = 0
        self.data = b""
        # Where it is kept, and how many queues its messages go to.
        self.cached: CachedBytes | None = None
        self.sharers: i64 = 1

    def extend(self, start: i64, end: i64, record_size: i64) -> None:
        """Want one more record, or the part of it that is here."""
        self.end = end
        self.size += end - start
        self.smallest = min(self.smallest, record_size)

    def fill(self, cached: "CachedBytes") -> None:
        """Here is the whole block."""
        self.cached = cached
        self.data = cached.data
        self.is_read = True

    def fill_part(self, data: bytes) -> None:
        """Here is what is wanted; nothing if that must be read piece by piece."""
        self.data = data
        self.base = self.start
        self.is_read = True


@final
@mypyc_attr(acyclic=True)
class CachedBytes:
    """Something that is kept, and how much of it was handed out."""

    __slots__ = (
        "data",
        "first",
        "is_used",
        "key",
        "last",
        "owner",
        "served",
        "smallest",
    )

    def __init__(self, key: i64, data: bytes) -> None:
        self.key = key
        self.data = data
        # Whether it was asked for since it last stood at the end of the line.
        self.is_used = False
        self.served: i64 = 0
        # The first and last byte handed out, and the smallest message.
        self.first: i64 = len(data)
        self.last: i64 = 0
        self.smallest: i64 = len(data)
        # Which queue it was handed out to, if to one only.
        self.owner: i64 = _NOBODY

    def serve(self, block: "WantedBlock", queue_id: i64) -> bool:
        """What is wanted was handed out; return whether there can be any more.

        What is not there for any queue, as the frames of batches, nobody asks for.
        """
        self.served += block.size // block.sharers
        self.first = min(self.first, block.start)
        self.last = max(self.last, block.end)
        self.smallest = min(self.smallest, block.smallest)
        if self.owner == _NOBODY:
            self.owner = queue_id
        elif self.owner != queue_id:
            self.owner = _SEVERAL
        size = len(self.data)
        left = size - self.served
        if self.owner == _SEVERAL:
            # At both ends there may be parts of messages.
            are_ends_left = self.first > _FRAME_MAX or self.last + _FRAME_MAX < size
            return are_ends_left or left >= self.smallest
        return block.end + _FACTS_MAX < size or left * 8 > size


@final
class BytesCache:
    """Strings of bytes by number; those used long ago go when there is no room.

    They stand in line as they came, and whoever is first goes, unless it was asked for
    since: then it goes to the end. To move it there whenever it is asked for took a
    fifteenth of a drain of a thousand queues.
    """

    __slots__ = ("_items", "_size_max", "size")

    def __init__(self, size_max: i64) -> None:
        self._size_max = size_max
        self._items: OrderedDict[int, CachedBytes] = OrderedDict()
        self.size: i64 = 0

    def get(self, key: i64) -> CachedBytes | None:
        """Return what is kept under a number; it is used now."""
        found = self._items.get(key)
        if found is not None:
            found.is_used = True
        return found

    def put(self, key: i64, data: bytes) -> CachedBytes:
        """Keep bytes under a number, even if they alone are more than the room."""
        self.drop(key)
        cached = CachedBytes(key, data)
        self.size += len(data) + _OVERHEAD
        items = self._items
        while self.size > self._size_max and items:
            first, oldest = items.popitem(last=False)
            if oldest.is_used:
                oldest.is_used = False
                items[first] = oldest
            else:
                self.size -= len(oldest.data) + _OVERHEAD
        items[key] = cached
        return cached

    def drop(self, key: i64) -> None:
        """Keep nothing under a number."""
        found = self._items.pop(key, None)
        if found is not None:
            self.size -= len(found.data) + _OVERHEAD

    def clear(self) -> None:
        """Keep nothing."""
        self._items.clear()
        self.size = 0

    def drop_between(self, first: i64, last: i64) -> None:
        """Keep nothing under these numbers."""
        for key in [key for key in self._items if first <= key <= last]:
            self.drop(key)


@final
class Descriptors:
    """Files open for reading; the one used longest ago is closed for another."""

    __slots__ = ("_count_max", "_filesystem", "_open")

    def __init__(self, filesystem: FileSystem, count_max: i64) -> None:
        self._filesystem = filesystem
        self._count_max = count_max
        self._open: OrderedDict[str, int] = OrderedDict()

    def find(self, path: str) -> int:
        """Return the descriptor of a file, which is opened if it is not; OSError."""
        found = self._open.get(path)
        if found is not None:
            self._open.move_to_end(path)
            return found
        while len(self._open) >= self._count_max:
            _, oldest = self._open.popitem(last=False)
            self._filesystem.close(oldest)
        descriptor = self._filesystem.open_for_reading(path)
        self._open[path] = descriptor
        return descriptor

    def find_open(self, path: str) -> int | None:
        """Return the descriptor of a file that is open, None if it is not."""
        return self._open.get(path)

    def close(self, path: str) -> None:
        """Close a file if it is open."""
        descriptor = self._open.pop(path, None)
        if descriptor is not None:
            self._filesystem.close(descriptor)

    def close_all(self) -> None:
        """Close every file."""
        for path in list(self._open):
            self.close(path)

    @property
    def count(self) -> int:
        """Return how many files are open."""
        return len(self._open)
