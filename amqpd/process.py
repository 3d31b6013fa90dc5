"""What this process has of the machine: memory, room on the disk, file descriptors.

Asked of the system each time; nothing is kept here, and what it means is the caller's.
"""

from __future__ import annotations

import fcntl
import os
import resource
from pathlib import Path
from typing import Final

_PAGE_SIZE: Final = os.sysconf("SC_PAGE_SIZE")
_STATM: Final = "/proc/self/statm"
# Seven numbers.
_STATM_SIZE_MAX: Final = 256
_DESCRIPTORS: Final = "/proc/self/fd"
# Half a MiB of the kernel's: as many clients as one process can serve.
_TABLE_SIZE: Final = 65_536

# What malloc.h calls them; from where on a block gets pages of its own, and how much
# may be free at the end of the heap.
_M_TRIM_THRESHOLD: Final = -1
_M_MMAP_THRESHOLD: Final = -3
_M_ARENA_MAX: Final = -8
_MAPPED_FROM: Final = 4 * 1024 * 1024
_FREE_MAX: Final = 2 * _MAPPED_FROM


def resident_size() -> int:
    """Return the resident set of this process in octets."""
    try:
        # Some 50 times a second: a file object would make three times as many calls.
        descriptor = os.open(_STATM, os.O_RDONLY | os.O_CLOEXEC)
        try:
            pages = os.read(descriptor, _STATM_SIZE_MAX)
        finally:
            os.close(descriptor)
        return int(pages.split()[1]) * _PAGE_SIZE
    except OSError:
        # Not Linux. This is its largest size so far, which is better than nothing.
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def free_space(path: Path) -> int:
    """Return how much this user may still write where `path` is, in octets.

    Raises:
        OSError: the file system does not say.
    """
    found = os.statvfs(path)
    return found.f_bavail * found.f_frsize


def keep_little_memory() -> None:
    """Have the C library keep less of what is freed, from now on; at a start.

    By itself glibc learns from each large block that is freed to take the next ones
    from its heap, and to give back nothing of that before twice as much is free at its
    end; and each thread that reads has a heap of its own. That was 18 MB of an idle
    broker, and 20 of one that is drained. Much lower, and each message of 64 KiB would
    have its pages made anew.
    """
    import ctypes

    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError):
        # Another C library than glibc.
        return
    mallopt(_M_MMAP_THRESHOLD, _MAPPED_FROM)
    mallopt(_M_TRIM_THRESHOLD, _FREE_MAX)
    mallopt(_M_ARENA_MAX, 1)


def give_back_memory() -> None:
    """Have the C library give back what was freed among what is still used.

    It would keep that, and an alarm would stay on although hardly anything is used.
    """
    # Only here: most processes never need it.
    import ctypes

    try:
        ctypes.CDLL(None).malloc_trim(0)
    except (AttributeError, OSError):
        # Another C library than glibc.
        return


def open_descriptors() -> int:
    """Return how many file descriptors are open; takes time, a microsecond each."""
    try:
        return len(os.listdir(_DESCRIPTORS))
    except OSError:
        return 0


def descriptors_max() -> int:
    """Return how many file descriptors this process may have."""
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def enlarge_descriptor_table() -> None:
    """Have the kernel make room for many file descriptors, before there are threads.

    Its table doubles when it is full, and in a process with threads it then waits until
    no processor can be looking at the old one: 10 to 25 ms in which `accept` does not
    return, at the 64th client, the 128th and so on.
    """
    size = min(_TABLE_SIZE, descriptors_max())
    try:
        descriptor = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.close(fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, size - 1))
        finally:
            os.close(descriptor)
    except OSError:
        # It grows when clients come, then.
        return
