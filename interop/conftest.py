"""The broker that real clients talk to: any, by `AMQP_URL`, or our own.

    pytest interop                                         starts amqpd
    AMQP_URL=amqp://guest:guest@localhost/ pytest interop   uses what runs there; tools
                                                           find it by MANAGEMENT_URL

The tests are written as the users of each client write, know nothing of the broker but
its URL, and use names of their own, so they may run against a broker that is in use.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from tests.support.leaks import let_clients_leak

HERE: Final = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let clients leave sockets to the garbage collector."""
    let_clients_leak(items, HERE)


@dataclass(frozen=True)
class Addresses:
    """Where the broker is."""

    amqp: str
    #: Of the management API, without a user.
    management: str


@pytest.fixture(scope="session")
def addresses() -> Iterator[Addresses]:
    """Where the broker is."""
    url = os.environ.get("AMQP_URL")
    if url:
        yield Addresses(url, os.environ.get("MANAGEMENT_URL", "http://127.0.0.1:15672"))
        return
    from amqpd.testing import AmqpdServer

    with AmqpdServer(http=True) as own:
        yield Addresses(own.url, f"http://127.0.0.1:{own.http_port}")


@pytest.fixture(scope="session")
def amqp_url(addresses: Addresses) -> str:
    """Where the broker is, for clients."""
    return addresses.amqp


@pytest.fixture(scope="session")
def management_url(addresses: Addresses) -> str:
    """Where the broker is, for tools; they log in as guest."""
    return addresses.management


@pytest.fixture
def make_name() -> Callable[[str], str]:
    """Make a name that nobody else uses."""
    return lambda what: f"interop-{what}-{uuid.uuid4().hex[:12]}"
