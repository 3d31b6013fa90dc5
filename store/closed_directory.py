"""A data directory that no broker has open, for the tools that look at one.

It is locked like an open one, so that no broker starts meanwhile, and unlike that it
is neither made nor written to unless somebody asks. It knows names, and nothing of
what is in the files.
"""

from typing import Final, final

from store.data_directory import (
    FORMAT,
    LOCK_NAME,
    METADATA_NAME,
    VERSION_NAME,
    errors_of,
)
from store.errors import StoreError, VersionUnknown
from store.filesystem import FileSystem
from store.segment import is_any_segment

_LOG_NAME: Final = "log"


@final
class ClosedDirectory:
    """A locked data directory; `close` unlocks it."""

    __slots__ = ("_descriptor", "_filesystem", "has_version", "names", "path")

    def __init__(self, path: str, filesystem: FileSystem) -> None:
        """Lock it and look.

        Raises:
            AlreadyLocked: a broker, or another tool, has it open.
            VersionUnknown: it was written in a format that this version cannot read.
            StoreError: there is none, or it cannot be read.
        """
        self.path = path
        self._filesystem = filesystem
        self.names: list[str] = []
        self.has_version = False
        with errors_of(path):
            self.names = filesystem.list_directory(path)
            if not self.is_any_data():
                raise StoreError(f"{path} holds no data of a broker")
            self._descriptor: int = filesystem.lock(f"{path}/{LOCK_NAME}")
        try:
            with errors_of(path):
                self._check_version()
        except StoreError:
            self.close()
            raise

    def close(self) -> None:
        """Let a broker have the directory."""
        self._filesystem.close(self._descriptor)

    def write_version(self) -> None:
        """Say again which format the directory has; raises OSError."""
        path = f"{self.path}/{VERSION_NAME}"
        descriptor = self._filesystem.create(path)
        try:
            self._filesystem.write(descriptor, [f"{FORMAT}\n".encode()], 0)
            self._filesystem.sync(descriptor)
        finally:
            self._filesystem.close(descriptor)
        self._filesystem.sync_directory(self.path)
        self.has_version = True

    @property
    def metadata_path(self) -> str:
        """Return where the metadata lies, or should."""
        return f"{self.path}/{METADATA_NAME}"

    @property
    def has_metadata(self) -> bool:
        """Say whether there is any."""
        return METADATA_NAME in self.names

    def is_any_data(self) -> bool:
        """Say whether this was a broker's at all."""
        if VERSION_NAME in self.names or METADATA_NAME in self.names:
            return True
        return self.has_log()

    def has_log(self) -> bool:
        """Say whether there are segments."""
        return is_any_segment(
            self._filesystem.list_directory(f"{self.path}/{_LOG_NAME}")
        )

    def _check_version(self) -> None:
        self.has_version = VERSION_NAME in self.names
        if not self.has_version:
            return
        path = f"{self.path}/{VERSION_NAME}"
        found = self._filesystem.read_file(path).decode("utf-8", "replace").strip()
        if found != FORMAT:
            raise VersionUnknown(
                f"{path} says format {found!r}, this program reads {FORMAT!r}"
            )
