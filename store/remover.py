"""Removing files that nobody needs: segments with their indexes, old checkpoints.

    add(...)        this file may go, once those who may be reading it are done
    step = begin()  the next files of which that is true
    complete(step)  what could not be removed is tried again later

A read is planned on the loop and opens its files later, on another thread. So reads
are counted by the *epoch* they began in, and with each file that is to go an epoch
ends: nobody who begins later can know of the file.

That a file is gone need not be durable: a start removes it again, and a merged file
hides those it stands for. But what depends on it is begun after the directory was
synced. It does not know why a file may go.
"""

from typing import Final, final

from mypy_extensions import i64

from store.filesystem import FileSystem

# So many files in one step: giving back 16 MiB takes a file system its time.
_COUNT_MAX: Final = 16


@final
class ReadEpochs:
    """Who may still be reading what, without knowing who reads what."""

    __slots__ = ("_counts", "_current")

    def __init__(self) -> None:
        self._counts: dict[int, int] = {}
        self._current: i64 = 0

    def begin(self) -> i64:
        """A read is planned; return its epoch, which `end` wants."""
        self._counts[self._current] = self._counts.get(self._current, 0) + 1
        return self._current

    def end(self, epoch: i64) -> None:
        """A read is complete."""
        count = self._counts[epoch] - 1
        if count > 0:
            self._counts[epoch] = count
        else:
            del self._counts[epoch]

    def turn(self) -> i64:
        """Begin another epoch; return the one that ends."""
        ended = self._current
        self._current += 1
        return ended

    def is_over(self, epoch: i64) -> bool:
        """Say whether all reads of this epoch and those before are complete."""
        return min(self._counts, default=epoch + 1) > epoch


@final
class SpareFile:
    """Something that may go: its paths, and who may still be reading them."""

    __slots__ = ("epoch", "number", "paths")

    def __init__(self, number: i64, paths: list[str], epoch: i64) -> None:
        # Of a segment; 0 for anything else.
        self.number = number
        self.paths = paths
        self.epoch = epoch


@final
class RemovalStep:
    """Some removals: call `run` once, then hand it to `complete`."""

    __slots__ = ("_directory", "_filesystem", "error", "files", "removed_count")

    def __init__(
        self, filesystem: FileSystem, directory: str, files: list[SpareFile]
    ) -> None:
        self._filesystem = filesystem
        self._directory = directory
        self.files = files
        self.removed_count: i64 = 0
        self.error: OSError | None = None

    def run(self) -> None:
        """Remove; blocks, raises nothing."""
        try:
            for file in self.files:
                for path in file.paths:
                    self._filesystem.remove(path)
                self.removed_count += 1
            self._filesystem.sync_directory(self._directory)
        except OSError as exc:
            self.error = exc


@final
class Remover:
    """The files that are to go."""

    __slots__ = ("_directory", "_filesystem", "_spare", "reads", "removed_numbers")

    def __init__(self, filesystem: FileSystem, directory: str) -> None:
        self._filesystem = filesystem
        self._directory = directory
        self._spare: list[SpareFile] = []
        self.reads = ReadEpochs()
        # Segments whose files went, for whoever has descriptors of them.
        self.removed_numbers: list[int] = []

    @property
    def is_empty(self) -> bool:
        """Say whether there is nothing to remove."""
        return not self._spare

    def add(self, number: i64, paths: list[str]) -> None:
        """Remove these files, of a segment if the number is not 0, when nobody reads.

        No read that is planned from now on may know them.
        """
        self._spare.append(SpareFile(number, paths, self.reads.turn()))

    def begin(self) -> RemovalStep | None:
        """Return a step that removes what nobody reads; None if there is nothing."""
        files: list[SpareFile] = []
        for file in self._spare:
            if len(files) < _COUNT_MAX and self.reads.is_over(file.epoch):
                files.append(file)
        if not files:
            return None
        return RemovalStep(self._filesystem, self._directory, files)

    def complete(self, step: RemovalStep) -> None:
        """Forget what was removed; the rest is handed out again."""
        gone = step.files[: step.removed_count]
        self._spare = [file for file in self._spare if file not in gone]
        for file in gone:
            if file.number > 0:
                self.removed_numbers.append(file.number)
