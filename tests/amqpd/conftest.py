"""A broker without sockets, for the tests of what stands on it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.connection_pair import Bench, ConnectionPair
from tests.support.fast_directory import fast_directory


@pytest.fixture
def fast_path() -> Iterator[Path]:
    """An empty directory on which syncs cost nothing."""
    with fast_directory() as directory:
        yield directory


@pytest.fixture
def bench(fast_path: Path) -> Iterator[Bench]:
    """A broker on an empty directory, turned by hand."""
    bench = Bench(fast_path)
    yield bench
    bench.close()


@pytest.fixture
def pair(bench: Bench) -> ConnectionPair:
    """An open connection with an open channel 1."""
    return bench.connect()
