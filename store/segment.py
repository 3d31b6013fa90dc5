"""One append-only file of the log.

    0  magic          8 bytes
    8  version        u16
    10 header size    u16   64
    12 -              u32   0
    16 first number   u64   lowest segment number this file stands for
    24 number         u64   its own number: the last of the range
    32 store uuid     16 bytes
    48 -              u64   0
    56 -              u32   0
    60 checksum       u32   CRC-32 of the 60 bytes before
    64 batches, then zeros up to the allocated size (none once it is sealed)

A file is named by its number, or by its range when it replaces others:
`00000003.seg`, `00000001-00000003.seg`. It is written and synced through the one
descriptor it was created with, from creation to seal: a failed sync is reported to
the descriptors that were open then, and to no later one.

Everything here blocks and belongs into a step's `run`. It does not know batches.
"""

import re
import struct
from collections.abc import Sequence
from typing import Final, final

from mypy_extensions import i64

from store.checksum import crc32
from store.errors import SyncFailed
from store.filesystem import FileSystem

MAGIC: Final = b"amqpdseg"
VERSION: Final = 2
HEADER_SIZE: Final = 64
_HEADER: Final = struct.Struct(">8sHHIQQ16sQI")
_CHECKSUM: Final = struct.Struct(">I")
_NAME: Final = re.compile(r"(?:(\d{8,})-)?(\d{8,})\.seg")

SUFFIX: Final = ".seg"
TEMPORARY_SUFFIX: Final = ".tmp"


@final
class SegmentHeader:
    """The first bytes of a segment file, or what its name says."""

    __slots__ = ("first_number", "number", "store_uuid", "version")

    def __init__(
        self, first_number: i64, number: i64, store_uuid: bytes, version: i64
    ) -> None:
        self.first_number = first_number
        self.number = number
        self.store_uuid = store_uuid
        self.version = version


def name_of(first_number: int, number: int) -> str:
    """Return the file name of a segment."""
    if first_number == number:
        return f"{number:08d}{SUFFIX}"
    return f"{first_number:08d}-{number:08d}{SUFFIX}"


def numbers_in(name: str) -> tuple[int, int] | None:
    """Return first and last number from a file name; None if it is no segment's."""
    match = _NAME.fullmatch(name)
    if match is None:
        return None
    number = int(match[2])
    return (number if match[1] is None else int(match[1])), number


def is_any_segment(names: list[str]) -> bool:
    """Say whether a directory with these names holds a log."""
    return any(numbers_in(name) is not None for name in names)


def header_of(first_number: int, number: int, store_uuid: bytes) -> bytes:
    """Return the header of a segment."""
    header = _HEADER.pack(
        MAGIC, VERSION, HEADER_SIZE, 0, first_number, number, store_uuid, 0, 0
    )
    return header + _CHECKSUM.pack(crc32(header))


def read_header(data: bytes) -> SegmentHeader | None:
    """Return what a segment's first bytes say, or None if they are damaged."""
    if len(data) < HEADER_SIZE or not data.startswith(MAGIC):
        return None
    fields = _HEADER.unpack_from(data)
    (checksum,) = _CHECKSUM.unpack_from(data, _HEADER.size)
    if checksum != crc32(data[: _HEADER.size]):
        return None
    return SegmentHeader(fields[4], fields[5], fields[6], fields[1])


@final
class Segment:
    """A segment file that this process writes."""

    __slots__ = (
        "_descriptor",
        "_directory",
        "_filesystem",
        "_store_uuid",
        "_syncs",
        "first_number",
        "is_ready",
        "number",
        "path",
    )

    def __init__(
        self,
        filesystem: FileSystem,
        directory: str,
        store_uuid: bytes,
        first_number: i64,
        number: i64,
        syncs: bool = True,
    ) -> None:
        self._filesystem = filesystem
        # Without, what is written may be lost with the power: the caller's will.
        self._syncs = syncs
        self._directory = directory
        self._store_uuid = store_uuid
        self._descriptor: int = -1
        self.first_number = first_number
        self.number = number
        self.path: str = f"{directory}/{name_of(first_number, number)}"
        self.is_ready = False

    def create(self, size: i64) -> None:
        """Make the file, allocate its blocks and make its name durable.

        Raises:
            OSError: there is no room; nothing is left behind.
            SyncFailed: the disk refused a sync.
        """
        self._open(self.path, size)
        self._sync_directory()
        self.is_ready = True

    def create_hidden(self) -> None:
        """Make the file under a name that a start ignores, until `publish`."""
        self._open(self.path + TEMPORARY_SUFFIX, 0)

    def publish(self) -> None:
        """Sync the hidden file and give it its name, durably."""
        self.sync()
        self._filesystem.rename(self.path + TEMPORARY_SUFFIX, self.path)
        self._sync_directory()
        self.is_ready = True

    def _open(self, path: str, size: i64) -> None:
        self._descriptor = self._filesystem.create(path)
        try:
            if size > 0:
                self._filesystem.allocate(self._descriptor, size)
            header = header_of(self.first_number, self.number, self._store_uuid)
            self._filesystem.write(self._descriptor, [header], 0)
        except OSError:
            self.close()
            self._filesystem.remove(path)
            raise
        self.sync()

    def write(self, chunks: Sequence[bytes], offset: i64) -> None:
        """Write chunks at an offset; raises OSError."""
        self._filesystem.write(self._descriptor, chunks, offset)

    def sync(self) -> None:
        """Make everything written durable; raises SyncFailed."""
        if not self._syncs:
            return
        try:
            self._filesystem.sync(self._descriptor)
        except OSError as exc:
            raise SyncFailed(self.path, exc) from exc

    def cut(self, size: i64) -> None:
        """Cut the file and make that durable; a failure of either is a SyncFailed."""
        try:
            self._filesystem.truncate(self._descriptor, size)
        except OSError as exc:
            raise SyncFailed(self.path, exc) from exc
        self.sync()

    def close(self) -> None:
        """Close the descriptor, if it is open."""
        if self._descriptor >= 0:
            descriptor = self._descriptor
            self._descriptor = -1
            self._filesystem.close(descriptor)

    def _sync_directory(self) -> None:
        try:
            self._filesystem.sync_directory(self._directory)
        except OSError as exc:
            raise SyncFailed(self._directory, exc) from exc
