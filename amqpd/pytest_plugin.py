"""The fixtures `amqp_url` and `amqpd_server`, which pytest finds by itself.

Each test that asks for one gets a broker of its own, so that no test sees another's
queues. A suite that prefers speed shares one:

    [pytest]
    amqpd_server_scope = session

It knows nothing but `amqpd.testing`, which has everything for those who use something
else than pytest.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, cast

import pytest

from amqpd.testing import AmqpdServer

Scope = Literal["session", "package", "module", "class", "function"]


def pytest_addoption(parser: pytest.Parser) -> None:
    """Announce the setting."""
    parser.addini(
        "amqpd_server_scope",
        "how long one broker serves: function, class, module, package or session",
        default="function",
    )


def _scope(fixture_name: str, config: pytest.Config) -> Scope:
    return cast(Scope, config.getini("amqpd_server_scope"))


@pytest.fixture(scope=_scope)
def amqpd_server() -> Iterator[AmqpdServer]:
    """A running broker: `.url`, `.pid`, `.kill()`, `.restart()`, `.log`."""
    with AmqpdServer() as server:
        yield server


@pytest.fixture(scope=_scope)
def amqp_url(amqpd_server: AmqpdServer) -> str:
    """The URL of a running broker."""
    return amqpd_server.url
