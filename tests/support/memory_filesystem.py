"""A file system in memory that loses what was not synced, and fails on request.

It implements `store.filesystem.FileSystem`. Every file has two contents: what the
page cache holds (reads see it) and what is on the disk. A sync copies the dirty
pages from the one to the other; a failed sync marks them clean without copying,
as Linux does, so that they are still read and never written again. Names are kept
in the same two ways.

    restart()    the process died: page cache and disk stay as they are
    power_cut()  only the disk stays, plus those dirty pages and names that happened
                 to reach it: all, none, or any of them

`Fault` lets the n-th call fail, tear or cut the power.
"""

import errno
import os
import random
from collections.abc import Callable, Sequence
from typing import Final

PAGE: Final = 512


class PowerCut(BaseException):
    """The power goes in the middle of a call; nothing catches this but the test."""


class Fault:
    """What happens at one call: an error, or a power cut, after some bytes."""

    def __init__(
        self,
        call: int,
        code: int | None = None,
        only: str | None = None,
        bytes_done: int = 0,
    ) -> None:
        self.call = call
        self.code = code
        self.only = only
        self.bytes_done = bytes_done


class MemoryFile:
    """The two contents of a file."""

    def __init__(self) -> None:
        self.cache = bytearray()
        self.disk = bytearray()
        self.dirty: set[int] = set()
        self.allocated = 0

    @property
    def blocks(self) -> int:
        return max(self.allocated, len(self.cache))

    def write(self, data: bytes, offset: int) -> None:
        if offset > len(self.cache):
            self.cache.extend(bytes(offset - len(self.cache)))
        self.cache[offset : offset + len(data)] = data
        self.dirty.update(range(offset // PAGE, (offset + len(data)) // PAGE + 1))

    def sync(self) -> None:
        self._keep(self.dirty, len(self.cache))
        self.dirty = set()

    def _keep(self, pages: set[int], size: int) -> None:
        old = self.disk
        self.disk = bytearray(old[:size])
        self.disk.extend(bytes(size - len(self.disk)))
        for page in pages:
            part = self.cache[page * PAGE : (page + 1) * PAGE]
            part = part[: max(0, size - page * PAGE)]
            self.disk[page * PAGE : page * PAGE + len(part)] = part

    def lose_power(self, chance: Callable[[], bool]) -> None:
        pages = {page for page in sorted(self.dirty) if chance()}
        size = len(self.cache) if chance() else len(self.disk)
        self._keep(pages, size)
        self.cache = bytearray(self.disk)
        self.dirty = set()
        self.allocated = len(self.cache)


class MemoryFileSystem:
    """Files, directories and a disk of a certain size."""

    def __init__(self, capacity: int = 1 << 40) -> None:
        self.capacity = capacity
        self.fault: Fault | None = None
        # What happens after `fault` did.
        self.second_fault: Fault | None = None
        self.calls: list[str] = []
        self.is_off = False
        self._names: dict[str, MemoryFile] = {}
        self._disk_names: dict[str, MemoryFile] = {}
        self._directories: set[str] = set()
        self._open: dict[int, MemoryFile] = {}
        self._locked: dict[int, str] = {}
        self._next_descriptor = 100

    # -- what a test does

    def restart(self) -> None:
        """The process dies: descriptors and locks go, nothing else."""
        self._open = {}
        self._locked = {}
        self.fault = None
        self.second_fault = None
        self.calls = []
        self.is_off = False

    def power_cut(self, choice: random.Random | bool) -> None:
        """Keep all that is dirty (True), nothing of it (False), or any of it."""

        def chance() -> bool:
            if isinstance(choice, bool):
                return choice
            return choice.random() < 0.5

        names = dict(self._disk_names)
        for path in sorted(set(self._names) | set(self._disk_names)):
            if self._names.get(path) is self._disk_names.get(path) or not chance():
                continue
            if path in self._names:
                names[path] = self._names[path]
            else:
                del names[path]
        for file in {id(file): file for file in names.values()}.values():
            file.lose_power(chance)
        self._names = names
        self._disk_names = dict(names)
        self.restart()

    def content(self, path: str) -> bytearray:
        """Return what the page cache holds, to look at or to damage."""
        return self._names[path].cache

    def damage(self, path: str, offset: int, xor: int = 0xFF) -> None:
        """Change one byte of a file, on the disk too."""
        file = self._names[path]
        file.cache[offset] ^= xor
        file.disk = bytearray(file.cache)

    def used(self) -> int:
        """Return how many bytes of the disk are taken."""
        files = {id(file): file for file in self._names.values()}
        return sum(file.blocks for file in files.values())

    def is_dirty(self, path: str) -> bool:
        """Say whether some of a file is in the page cache only."""
        return bool(self._names[path].dirty)

    @property
    def open_count(self) -> int:
        """Return how many descriptors are open."""
        return len(self._open)

    # -- faults

    def _call(self, name: str) -> Fault | None:
        """Count a call; return the fault if this is the one that fails."""
        if self.is_off:
            raise PowerCut
        self.calls.append(name)
        fault = self.fault
        if fault is None or (fault.only is not None and fault.only != name):
            return None
        fault.call -= 1
        if fault.call > 0:
            return None
        self.fault = self.second_fault
        self.second_fault = None
        return fault

    def _fail(self, fault: Fault) -> None:
        if fault.code is None:
            self.is_off = True
            raise PowerCut
        raise OSError(fault.code, os.strerror(fault.code))

    def _simple(self, name: str) -> None:
        fault = self._call(name)
        if fault is not None:
            self._fail(fault)

    # -- the protocol

    def make_directory(self, path: str) -> None:
        self._simple("make_directory")
        self._directories.add(path)

    def list_directory(self, path: str) -> list[str]:
        self._simple("list_directory")
        prefix = f"{path}/"
        return [
            name[len(prefix) :]
            for name in self._names
            if name.startswith(prefix) and "/" not in name[len(prefix) :]
        ]

    def sync_directory(self, path: str) -> None:
        self._simple("sync_directory")
        prefix = f"{path}/"
        for name in set(self._names) | set(self._disk_names):
            if name.startswith(prefix) and "/" not in name[len(prefix) :]:
                if name in self._names:
                    self._disk_names[name] = self._names[name]
                else:
                    del self._disk_names[name]

    def exists(self, path: str) -> bool:
        return path in self._names

    def create(self, path: str) -> int:
        self._simple("create")
        file = MemoryFile()
        self._names[path] = file
        return self._descriptor(file)

    def _descriptor(self, file: MemoryFile) -> int:
        self._next_descriptor += 1
        self._open[self._next_descriptor] = file
        return self._next_descriptor

    def close(self, descriptor: int) -> None:
        if self.is_off:
            raise PowerCut
        fault = self.fault
        if fault is not None and fault.only == "close":
            # Not counted among the calls: it fails only when it is asked to.
            self.fault = None
            self._fail(fault)
        self._locked.pop(descriptor, None)
        self._open.pop(descriptor)

    def read_file(self, path: str) -> bytes:
        self._simple("read_file")
        if path not in self._names:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        return bytes(self._names[path].cache)

    def open_for_reading(self, path: str) -> int:
        self._simple("open_for_reading")
        if path not in self._names:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        return self._descriptor(self._names[path])

    def read(self, descriptor: int, size: int, offset: int) -> bytes:
        self._simple("read")
        return bytes(self._open[descriptor].cache[offset : offset + size])

    def is_at_hand(self, descriptor: int, size: int, offset: int) -> bool:
        return True

    def write(self, descriptor: int, buffers: Sequence[bytes], offset: int) -> None:
        fault = self._call("write")
        file = self._open[descriptor]
        data = b"".join(buffers)
        if fault is not None:
            file.write(data[: fault.bytes_done], offset)
            self._fail(fault)
        room = self.capacity - self.used()
        growth = offset + len(data) - file.blocks
        if growth > room:
            file.write(data[: max(0, len(data) - growth + room)], offset)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        file.write(data, offset)

    def allocate(self, descriptor: int, size: int) -> None:
        self._simple("allocate")
        file = self._open[descriptor]
        room = self.capacity - self.used()
        missing = size - file.blocks
        if missing > room:
            file.allocated = file.blocks + max(0, room)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        file.allocated = max(size, file.allocated)
        file.cache.extend(bytes(max(0, size - len(file.cache))))

    def truncate(self, descriptor: int, size: int) -> None:
        self._simple("truncate")
        file = self._open[descriptor]
        del file.cache[size:]
        file.cache.extend(bytes(size - len(file.cache)))
        file.allocated = size
        file.dirty = {page for page in file.dirty if page * PAGE < size}

    def sync(self, descriptor: int) -> None:
        fault = self._call("sync")
        file = self._open[descriptor]
        if fault is not None:
            if fault.code is not None:
                # The kernel reports the error once and calls the pages clean.
                file.dirty = set()
            self._fail(fault)
        file.sync()

    def rename(self, source: str, target: str) -> None:
        self._simple("rename")
        self._names[target] = self._names.pop(source)

    def remove(self, path: str) -> None:
        self._simple("remove")
        self._names.pop(path, None)

    def size(self, path: str) -> int:
        file = self._names.get(path)
        return 0 if file is None else len(file.cache)

    def lock(self, path: str) -> int:
        self._simple("lock")
        if path in self._locked.values():
            raise BlockingIOError(errno.EWOULDBLOCK, os.strerror(errno.EWOULDBLOCK))
        file = self._names.setdefault(path, MemoryFile())
        descriptor = self._descriptor(file)
        self._locked[descriptor] = path
        return descriptor
