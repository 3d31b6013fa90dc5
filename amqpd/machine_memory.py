"""How much memory this process may use: the machine's, or what its cgroup is given.

A container's limit is that of the innermost control group that sets one. Version 2
has `memory.max` in each group up to the root, version 1 `memory.limit_in_bytes` in the
groups of its memory controller (no limit is a number larger than any machine).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

_ROOT: Final = Path("/sys/fs/cgroup")
_MEMBERSHIP: Final = Path("/proc/self/cgroup")


def memory_limit(
    machine_size: int, root: Path = _ROOT, membership: Path = _MEMBERSHIP
) -> int:
    """Return the limit in octets: that of the machine unless a group has less."""
    limit = machine_size
    for path in _limit_files(root, membership):
        try:
            text = path.read_text().strip()
        except OSError:
            continue
        if text.isdigit():
            limit = min(limit, int(text))
    return limit


def machine_size() -> int:
    """Return the memory of the machine in octets."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _limit_files(root: Path, membership: Path) -> Iterator[Path]:
    try:
        lines = membership.read_text().splitlines()
    except OSError:
        lines = []
    for line in lines:
        _, controllers, group = line.split(":", 2)
        if not controllers:
            top, name = root, "memory.max"
        elif "memory" in controllers.split(","):
            top, name = root / "memory", "memory.limit_in_bytes"
        else:
            continue
        # Inside a container the path may be that of the host: then only the top is.
        parts = [part for part in group.split("/") if part and part != ".."]
        for depth in range(len(parts) + 1):
            yield top.joinpath(*parts[:depth]) / name
