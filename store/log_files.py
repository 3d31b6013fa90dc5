"""What files there are in the log's directory, and which of them count.

    00000001-00000007.seg   stands for segments 1 to 7 and hides their files
    00000003.seg            hidden: its removal was not finished
    00000008.seg
    *.tmp                   was not finished

Segments are numbered without gaps, but dead ones go, and those that are merged become
one file. From the segment that a start replays first, none may be missing.

It knows names, and nothing of what is in the files.
"""

from typing import final

from mypy_extensions import i64

from store import segment as segment_file
from store.filesystem import FileSystem
from store.segment import numbers_in
from store.segment_index import SUFFIX, index_path


@final
class SegmentFile:
    """A segment found in the directory."""

    __slots__ = ("first_number", "number", "path")

    def __init__(self, first_number: i64, number: i64, path: str) -> None:
        self.first_number = first_number
        self.number = number
        self.path = path

    @property
    def is_copy(self) -> bool:
        """Say whether it stands for others: then it was synced before it was named."""
        return self.first_number < self.number

    @property
    def index_path(self) -> str:
        """Return the name of its index file."""
        return index_path(self.path)

    def covers(self, number: i64) -> bool:
        """Say whether it stands for a segment."""
        return self.first_number <= number <= self.number


@final
class LogFiles:
    """The segments, oldest first, and what is not needed any more."""

    __slots__ = ("_directory", "files", "names", "unneeded")

    def __init__(self, filesystem: FileSystem, directory: str) -> None:
        """Look; raises OSError."""
        self._directory = directory
        self.names: list[str] = filesystem.list_directory(directory)
        self.files: list[SegmentFile] = []
        # Paths to remove once everything is safe.
        self.unneeded: list[str] = []
        found: list[SegmentFile] = []
        for name in self.names:
            numbers = numbers_in(name)
            path = f"{directory}/{name}"
            if numbers is not None:
                found.append(SegmentFile(numbers[0], numbers[1], path))
            elif name.endswith(segment_file.TEMPORARY_SUFFIX):
                self.unneeded.append(path)
        # The widest of those that begin together comes first and hides the others.
        found.sort(key=_position)
        upper: i64 = 0
        for file in found:
            if file.number > upper:
                upper = file.number
                self.files.append(file)
            else:
                self.unneeded.append(file.path)

    def missing_from(self, number: i64) -> i64:
        """Return the first segment from `number` on that no file stands for.

        0 if none is missing up to the last file, and there is one for `number`.
        """
        due = number
        for file in self.files:
            if file.number >= due:
                if not file.covers(due):
                    return due
                due = file.number + 1
        return due if due == number else 0

    def drop_last(self) -> SegmentFile:
        """Count the last file among what is not needed, and return it."""
        file = self.files.pop()
        self.unneeded.append(file.path)
        return file

    def find_orphans(self) -> None:
        """Count index files whose segments are gone among what is not needed."""
        wanted = {file.index_path for file in self.files}
        for name in self.names:
            path = f"{self._directory}/{name}"
            if name.endswith(SUFFIX) and path not in wanted:
                self.unneeded.append(path)


def _position(file: SegmentFile) -> tuple[int, int]:
    return file.first_number, -file.number
