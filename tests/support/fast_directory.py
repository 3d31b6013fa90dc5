"""Directories for tests that sync a lot and never lose the power.

Memory where the machine has a file system of memory: a sync costs nothing there, and
hundreds of brokers are opened and closed in the time of a few on a disk.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

MEMORY: Final = "/dev/shm"


@contextmanager
def fast_directory() -> Iterator[Path]:
    """An empty directory that is gone afterwards."""
    parent = MEMORY if os.access(MEMORY, os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="amqpd-", dir=parent) as directory:
        yield Path(directory)
