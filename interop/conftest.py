"""The broker that real clients talk to: any, by `AMQP_URL`, or our own.

    pytest interop                                         starts amqpd
    AMQP_URL=amqp://guest:guest@localhost/ pytest interop   uses what runs there

The tests are written as the users of each client write, know nothing of the broker but
its URL, and use names of their own, so they may run against a broker that is in use.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest

HERE: Final = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let clients leave sockets to the garbage collector: it is not for us to mend.

    pika does so when a connection is refused, and the warning comes in any later test.
    """
    leaks = pytest.mark.filterwarnings(
        "ignore::ResourceWarning",
        "ignore::pytest.PytestUnraisableExceptionWarning",
    )
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker(leaks)


@pytest.fixture(scope="session")
def amqp_url() -> Iterator[str]:
    """Where the broker is."""
    url = os.environ.get("AMQP_URL")
    if url:
        yield url
        return
    from amqpd.testing import amqpd_server

    with amqpd_server() as own:
        yield own


@pytest.fixture
def make_name() -> Callable[[str], str]:
    """Make a name that nobody else uses."""
    return lambda what: f"interop-{what}-{uuid.uuid4().hex[:12]}"
