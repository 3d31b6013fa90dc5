"""A disk that fails when it is told to, and works otherwise."""

from __future__ import annotations

import errno
from collections.abc import Sequence

from store.filesystem import OsFileSystem


class FailingDisk(OsFileSystem):
    """A disk that refuses to write or to sync when it is told to."""

    def __init__(self) -> None:
        self.is_full = False
        self.is_broken = False

    def write(self, descriptor: int, buffers: Sequence[bytes], offset: int) -> None:
        if self.is_full:
            raise OSError(errno.ENOSPC, "no space left on device")
        super().write(descriptor, buffers, offset)

    def sync(self, descriptor: int) -> None:
        if self.is_broken:
            raise OSError(errno.EIO, "input/output error")
        super().sync(descriptor)
