"""The only module that touches `os`: every system call of the store goes through here.

The store is written against the `FileSystem` protocol, so that a test can put a
file system in its place that fails the n-th call, forgets what was not synced or
loses the power in the middle of a write. SQLite opens its own files; all else is
in this list. Every method may raise OSError; none of them retries anything but
an interrupted or short read or write.

It knows paths and descriptors, and nothing of what is in the files.
"""

import fcntl
import os
from collections.abc import Sequence
from typing import Final, Protocol

# Linux refuses more buffers than this in one pwritev (IOV_MAX).
_BUFFERS_MAX: Final = 1024
# So far apart are the bytes that say whether a stretch of a file is in memory. The
# kernel reads ahead and writes in runs that are longer.
_PROBE_STEP: Final = 128 * 1024
# "Do not wait", where the system knows it.
_NO_WAIT: Final[int] = getattr(os, "RWF_NOWAIT", 0)


class NotAtHand(OSError):
    """It takes the disk, or long, and whoever reads must not wait for that."""


class FileSystem(Protocol):
    """The calls the store makes; `OsFileSystem` says what each one promises."""

    def make_directory(self, path: str) -> None: ...
    def list_directory(self, path: str) -> list[str]: ...
    def sync_directory(self, path: str) -> None: ...
    def exists(self, path: str) -> bool: ...
    def create(self, path: str) -> int: ...
    def close(self, descriptor: int) -> None: ...
    def read_file(self, path: str) -> bytes: ...
    def open_for_reading(self, path: str) -> int: ...
    def read(self, descriptor: int, size: int, offset: int) -> bytes: ...
    def is_at_hand(self, descriptor: int, size: int, offset: int) -> bool: ...
    def write(self, descriptor: int, buffers: Sequence[bytes], offset: int) -> None: ...
    def allocate(self, descriptor: int, size: int) -> None: ...
    def truncate(self, descriptor: int, size: int) -> None: ...
    def sync(self, descriptor: int) -> None: ...
    def rename(self, source: str, target: str) -> None: ...
    def remove(self, path: str) -> None: ...
    def size(self, path: str) -> int: ...
    def lock(self, path: str) -> int: ...


class OsFileSystem:
    """The operating system's files."""

    def make_directory(self, path: str) -> None:
        """Make a directory and its parents; one that is there is fine."""
        os.makedirs(path, mode=0o700, exist_ok=True)

    def list_directory(self, path: str) -> list[str]:
        """Return the names in a directory, in no order; none if it is missing."""
        try:
            return os.listdir(path)
        except FileNotFoundError:
            return []

    def sync_directory(self, path: str) -> None:
        """Make the names in a directory durable."""
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def exists(self, path: str) -> bool:
        """Return whether there is a file or directory of this name."""
        return os.path.exists(path)

    def create(self, path: str) -> int:
        """Open an empty file for reading and writing, replacing what was there."""
        flags = os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
        return os.open(path, flags, 0o600)

    def close(self, descriptor: int) -> None:
        """Close a descriptor."""
        os.close(descriptor)

    def read_file(self, path: str) -> bytes:
        """Return the whole content of a file."""
        with open(path, "rb", buffering=0) as file:
            return file.readall()

    def open_for_reading(self, path: str) -> int:
        """Open a file that is there for `read`."""
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)

    def read(self, descriptor: int, size: int, offset: int) -> bytes:
        """Return `size` bytes from an offset; fewer only where the file ends."""
        data = os.pread(descriptor, size, offset)
        if len(data) == size or not data:
            return data
        # A signal, or the end of the file: only another read can tell.
        return data + self.read(descriptor, size - len(data), offset + len(data))

    def is_at_hand(self, descriptor: int, size: int, offset: int) -> bool:
        """Return whether the kernel has a stretch in memory, so that no disk is read.

        Some of its bytes are asked for, the first and the last among them. Where the
        system cannot tell, nothing is at hand.
        """
        if not _NO_WAIT:
            return False
        probe = [bytearray(1)]
        last = offset + size - 1
        try:
            for at in (*range(offset, last, _PROBE_STEP), last):
                os.preadv(descriptor, probe, at, _NO_WAIT)
        except OSError:
            return False
        return True

    def write(self, descriptor: int, buffers: Sequence[bytes], offset: int) -> None:
        """Write all buffers one after the other from an offset."""
        for first in range(0, len(buffers), _BUFFERS_MAX):
            offset = self._write_some(
                descriptor, buffers[first : first + _BUFFERS_MAX], offset
            )

    def _write_some(
        self, descriptor: int, buffers: Sequence[bytes], offset: int
    ) -> int:
        size = sum(map(len, buffers))
        written = os.pwritev(descriptor, buffers, offset)
        if written < size:
            # A short write is how a nearly full disk begins to refuse: the rest
            # either gets through or raises the reason.
            rest = b"".join(buffers)[written:]
            return self._write_some(descriptor, [rest], offset + written)
        return offset + size

    def allocate(self, descriptor: int, size: int) -> None:
        """Give a file blocks (reading as zeros) up to a size."""
        os.posix_fallocate(descriptor, 0, size)

    def truncate(self, descriptor: int, size: int) -> None:
        """Cut a file to a size."""
        os.ftruncate(descriptor, size)

    def sync(self, descriptor: int) -> None:
        """Make a file's content (and its size) durable."""
        os.fdatasync(descriptor)

    def rename(self, source: str, target: str) -> None:
        """Give a file another name, in one step."""
        os.rename(source, target)

    def remove(self, path: str) -> None:
        """Remove a file; one that is missing is fine."""
        try:
            os.unlink(path)
        except FileNotFoundError:
            pass

    def size(self, path: str) -> int:
        """Return a file's size; 0 if it is missing."""
        try:
            return os.stat(path).st_size
        except FileNotFoundError:
            return 0

    def lock(self, path: str) -> int:
        """Open a file and lock it against other processes until it is closed.

        Raises:
            BlockingIOError: another process holds the lock.
        """
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(descriptor)
            raise
        return descriptor
