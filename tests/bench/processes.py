"""Which processes there are: descendants of one, and those that carry a mark.

A broker may be several processes, and some of them may have left the tree in which they
were started (a daemon's parent is process 1). What they cannot leave is the environment
that they inherited: so a mark in it finds all that a start has led to.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

PROC: Final = Path("/proc")
LOOK_SECONDS: Final = 0.05


def process_tree(root: int, proc: Path = PROC) -> tuple[int, ...]:
    """Return a process and all its descendants, parents first."""
    children: dict[int, list[int]] = {}
    for pid in _pids(proc):
        parent = _parent_of(pid, proc)
        if parent is not None:
            children.setdefault(parent, []).append(pid)
    found = [root]
    for pid in found:
        found += sorted(children.get(pid, []))
    return tuple(found)


def marked_processes(mark: str, proc: Path = PROC) -> list[int]:
    """Return the processes that have `mark` (NAME=value) in their environment."""
    wanted = mark.encode()
    found: list[int] = []
    for pid in _pids(proc):
        try:
            environment = (proc / str(pid) / "environ").read_bytes()
        except OSError:
            # It has ended, or is somebody else's.
            continue
        if wanted in environment.split(b"\0"):
            found.append(pid)
    return found


def end_marked(mark: str, seconds_max: float) -> None:
    """Wait for all marked processes to end; kill those that take longer."""
    deadline = time.monotonic() + seconds_max
    while marked_processes(mark) and time.monotonic() < deadline:
        time.sleep(LOOK_SECONDS)
    for pid in marked_processes(mark):
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            # It has ended by itself just now.
            continue
    while marked_processes(mark):
        time.sleep(LOOK_SECONDS)


def _pids(proc: Path) -> Iterator[int]:
    for entry in proc.iterdir():
        if entry.name.isdigit():
            yield int(entry.name)


def _parent_of(pid: int, proc: Path) -> int | None:
    try:
        stat = (proc / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    # The name of the command is in parentheses and may hold anything.
    return int(stat.rpartition(")")[2].split()[1])
