"""What every test may ask for, which broker is tested, and how failures are shown."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

import amqpd

# The assertions of the shared test code explain themselves as those of tests do; that
# must be said before the first import of it.
pytest.register_assert_rewrite("tests.support")

from tests.support.connection_pair import Bench, ConnectionPair  # noqa: E402

# No deadline for one example: a busy machine is not a wrong broker.
settings.register_profile("amqpd", deadline=None)
settings.load_profile("amqpd")


def pytest_report_header() -> str:
    """Say which of the builds is tested, and where it lies."""
    place = Path(amqpd.__file__).parent
    return f"amqpd {amqpd.__version__} ({amqpd.build_kind()}) in {place}"


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    """A broker on an empty directory, turned by hand."""
    bench = Bench(tmp_path)
    yield bench
    bench.close()


@pytest.fixture
def pair(bench: Bench) -> ConnectionPair:
    """An open connection with an open channel 1."""
    return bench.connect()
