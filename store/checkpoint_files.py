"""The checkpoints in the directory: writing one, and finding those that are good.

    log/checkpoint.00000011      the older
    log/checkpoint.00000012      the newest

Two are kept, so that one may be damaged. What only the older one and the log behind
it know must therefore stay in the log: a segment file may go only if its number is
below the older one's segment.

It does not know what is in them (see checkpoint.py), nor who decides when.
"""

import re
from typing import Final, final

from mypy_extensions import i64

from store import checkpoint
from store.checkpoint import Checkpoint, CheckpointHeader
from store.errors import StoreDamaged, StoreForeign, repair_hint
from store.filesystem import FileSystem

KEPT_COUNT: Final = 2
TEMPORARY_SUFFIX: Final = ".tmp"
_NAME: Final = re.compile(r"checkpoint\.(\d{8,})")


def checkpoint_name(number: int) -> str:
    """Return the file name of a checkpoint."""
    return f"checkpoint.{number:08d}"


def checkpoint_number(name: str) -> int | None:
    """Return the number in a file name; None if it is no checkpoint's."""
    match = _NAME.fullmatch(name)
    return None if match is None else int(match[1])


def write_checkpoint(
    filesystem: FileSystem, directory: str, number: int, chunks: list[bytes]
) -> None:
    """Write the file of a checkpoint durably, all of it or nothing; blocks.

    Raises:
        OSError: it is not there, or nobody knows; what was kept before must stay.
    """
    path = f"{directory}/{checkpoint_name(number)}"
    temporary = path + TEMPORARY_SUFFIX
    descriptor = filesystem.create(temporary)
    try:
        filesystem.write(descriptor, chunks, 0)
        filesystem.sync(descriptor)
    except OSError:
        filesystem.remove(temporary)
        raise
    finally:
        filesystem.close(descriptor)
    filesystem.rename(temporary, path)
    filesystem.sync_directory(directory)


@final
class KeptCheckpoints:
    """The checkpoints that are kept, oldest first; the last two count."""

    __slots__ = ("_numbers", "_segments", "next_number")

    def __init__(self) -> None:
        self._numbers: list[int] = []
        self._segments: list[int] = []
        # Higher than that of any file there ever was.
        self.next_number: i64 = 1

    def add(self, number: int, segment: int) -> list[int]:
        """A newer one is there, durably; return the numbers of those that may go."""
        self._numbers.append(number)
        self._segments.append(segment)
        self.next_number = max(self.next_number, number + 1)
        spare = self._numbers[:-KEPT_COUNT]
        del self._numbers[:-KEPT_COUNT]
        del self._segments[:-KEPT_COUNT]
        return spare

    @property
    def needed_segment(self) -> i64:
        """Return the segment from which on every file must stay, dead or not.

        Below two checkpoints that is the first: if the only one were damaged, the
        whole log would be needed.
        """
        return self._segments[0] if len(self._segments) == KEPT_COUNT else 0


@final
class FoundCheckpoints:
    """What a start found."""

    __slots__ = ("bytes_read", "damaged", "kept", "newest", "spare")

    def __init__(self) -> None:
        # The newest good one; None in a store too young to have any.
        self.newest: Checkpoint | None = None
        self.kept = KeptCheckpoints()
        # Paths of files that are not what was written, and of those older than the
        # two that are kept.
        self.damaged: list[str] = []
        self.spare: list[str] = []
        self.bytes_read: i64 = 0


@final
class CheckpointSearch:
    """Looks for the newest good checkpoint; touches nothing."""

    __slots__ = ("_directory", "_filesystem", "_found", "_store_uuid")

    def __init__(
        self, filesystem: FileSystem, directory: str, store_uuid: bytes
    ) -> None:
        self._filesystem = filesystem
        self._directory = directory
        self._store_uuid = store_uuid
        self._found = FoundCheckpoints()

    def run(self, names: list[str], data_directory: str) -> FoundCheckpoints:
        """Look at those of the names that are checkpoints'.

        Raises:
            StoreDamaged: there are some, and none is good.
            StoreError: they are another store's or another version's.
            OSError: the disk refuses.
        """
        found = self._found
        numbers = sorted(
            number for number in map(checkpoint_number, names) if number is not None
        )
        good: list[CheckpointHeader] = []
        for number in reversed(numbers):
            path = f"{self._directory}/{checkpoint_name(number)}"
            found.kept.next_number = max(found.kept.next_number, number + 1)
            if len(good) == KEPT_COUNT:
                found.spare.append(path)
                continue
            try:
                header = self._look(path, number)
            except StoreForeign as exc:
                # What another version wrote is not to be repaired.
                raise StoreForeign(f"{exc}; {repair_hint(data_directory)}") from exc
            if header is None:
                found.damaged.append(path)
            else:
                good.append(header)
        if numbers and found.newest is None:
            raise StoreDamaged(
                f"none of the checkpoints in {self._directory} is what was written; "
                f"{repair_hint(data_directory)}"
            )
        for header in reversed(good):
            found.kept.add(header.number, header.segment)
        return found

    def _look(self, path: str, number: int) -> CheckpointHeader | None:
        """Return the header of a file that is good."""
        newest = self._found.newest
        if newest is not None and newest.header.is_clean:
            # Not needed at all: how far back it reaches is all that is asked.
            return self._check(self._read_head(path), path, number)
        data = self._filesystem.read_file(path)
        self._found.bytes_read += len(data)
        header = self._check(data, path, number)
        if header is None:
            return None
        if newest is not None:
            # Damage that is found now is made good by the next checkpoint.
            return header if checkpoint.is_whole(data, header) else None
        self._found.newest = checkpoint.parse_checkpoint(data, header)
        return None if self._found.newest is None else header

    def _check(self, data: bytes, path: str, number: int) -> CheckpointHeader | None:
        header = checkpoint.read_header(data, path, self._store_uuid)
        return header if header is not None and header.number == number else None

    def _read_head(self, path: str) -> bytes:
        descriptor = self._filesystem.open_for_reading(path)
        try:
            data = self._filesystem.read(descriptor, checkpoint.HEADER_SIZE, 0)
        finally:
            self._filesystem.close(descriptor)
        self._found.bytes_read += len(data)
        return data
