"""What this process has of the machine: memory, room on the disk, file descriptors.

Asked of the system each time; nothing is kept here, and what it means is the caller's.
"""

from __future__ import annotations

import os
import resource
from pathlib import Path
from typing import Final

_PAGE_SIZE: Final = os.sysconf("SC_PAGE_SIZE")
_STATM: Final = "/proc/self/statm"
_DESCRIPTORS: Final = "/proc/self/fd"


def resident_size() -> int:
    """Return the resident set of this process in octets."""
    try:
        with open(_STATM, "rb") as file:
            return int(file.read().split()[1]) * _PAGE_SIZE
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
