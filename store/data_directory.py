"""The directory that holds everything, and the lock that makes it one process's.

    VERSION      format of what is in it; another one is refused
    lock         locked as long as a process has the directory open
    meta.db      the metadata (see metadata.py)
    log/         the segments (see segment_set.py)
    quarantine/  damaged bytes that a start found

It knows the names and nothing of what is in the files.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from store.errors import (
    AlreadyLocked,
    StoreDamaged,
    StoreError,
    VersionUnknown,
    repair_hint,
)
from store.filesystem import FileSystem
from store.segment import is_any_segment

FORMAT: Final = "2"
VERSION_NAME: Final = "VERSION"
LOCK_NAME: Final = "lock"
METADATA_NAME: Final = "meta.db"


@contextmanager
def errors_of(path: str) -> Iterator[None]:
    """Say of which data directory the operating system complains.

    Raises:
        AlreadyLocked: another process has it open.
        StoreError: the disk refuses.
    """
    try:
        yield
    except BlockingIOError:
        raise AlreadyLocked(
            f"another process has the data directory {path} open"
        ) from None
    except OSError as exc:
        raise StoreError(f"cannot open the data directory {path}: {exc}") from exc


class DataDirectory:
    """An open data directory; its lock is held until `close`."""

    def __init__(self, path: str, filesystem: FileSystem, descriptor: int) -> None:
        self.path = path
        self._filesystem = filesystem
        self._descriptor = descriptor

    @staticmethod
    def open(path: str, filesystem: FileSystem) -> "DataDirectory":
        """Make the directory if it is missing, lock it and check its version.

        Raises:
            AlreadyLocked: another process has it open.
            VersionUnknown: it was written in a format that this version cannot read.
            StoreDamaged: it holds data and no VERSION.
            StoreError: the disk refuses.
        """
        with errors_of(path):
            filesystem.make_directory(path)
            descriptor = filesystem.lock(f"{path}/{LOCK_NAME}")
        directory = DataDirectory(path, filesystem, descriptor)
        try:
            with errors_of(path):
                directory._check_version()
        except StoreError:
            directory.close()
            raise
        return directory

    @property
    def metadata_path(self) -> str:
        """Return where the metadata lies."""
        return f"{self.path}/{METADATA_NAME}"

    def close(self) -> None:
        """Let another process have the directory."""
        self._filesystem.close(self._descriptor)

    def _check_version(self) -> None:
        path = f"{self.path}/{VERSION_NAME}"
        if not self._filesystem.exists(path):
            self._write_version(path)
            return
        found = self._filesystem.read_file(path).decode("utf-8", "replace").strip()
        if found != FORMAT:
            raise VersionUnknown(
                f"{path} says format {found!r}, this program reads {FORMAT!r}: "
                "use the version that wrote it, or an empty directory"
            )

    def _write_version(self, path: str) -> None:
        names = self._filesystem.list_directory(f"{self.path}/log")
        if self._filesystem.exists(self.metadata_path) or is_any_segment(names):
            raise StoreDamaged(
                f"{self.path} holds data but no {VERSION_NAME}; "
                f"{repair_hint(self.path)}"
            )
        temporary = f"{path}.tmp"
        descriptor = self._filesystem.create(temporary)
        try:
            self._filesystem.write(descriptor, [f"{FORMAT}\n".encode()], 0)
            self._filesystem.sync(descriptor)
        finally:
            self._filesystem.close(descriptor)
        self._filesystem.rename(temporary, path)
        self._filesystem.sync_directory(self.path)
