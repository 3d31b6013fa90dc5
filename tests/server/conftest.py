"""The broker under test, connections to it and names that nobody else uses.

Without `AMQP_URL` the tests start our own broker with the users of `definitions.json`.
With it they use the broker it names, which must know the same users: RabbitMQ is set up
once by `rabbitmqctl import_definitions tests/server/definitions.json`, with the plugins
that bring exchange types: rabbitmq_consistent_hash_exchange, rabbitmq_random_exchange,
rabbitmq_recent_history_exchange, rabbitmq_sharding.
"""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest
from pamqp import commands

from amqpd.testing import AmqpdServer, amqpd_server
from tests.support.differences import Expectations, is_another_broker
from tests.support.http_client import HttpClient
from tests.support.leaks import let_clients_leak
from tests.support.raw_client import Endpoint, RawClient
from tests.support.wiring import Wiring

DEFINITIONS: Final = Path(__file__).with_name("definitions.json")


@dataclass(frozen=True)
class Managed:
    """A broker of our own with its management API, shared by all tests of it."""

    server: AmqpdServer
    admin: HttpClient
    #: A virtual host for this test alone, as it is in paths and as it is.
    vhost: str

    def client(self, user: str = "guest", password: str = "guest") -> RawClient:
        """A connection to the virtual host with channel 1 open."""
        endpoint = Endpoint("127.0.0.1", self.server.port, user, password, self.vhost)
        return RawClient(endpoint).open().open_channel()


Connect = Callable[[], RawClient]
FreshName = Callable[[], str]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let pika leave sockets to the garbage collector."""
    let_clients_leak(items, Path(__file__).parent)


@pytest.fixture(scope="session")
def broker() -> Iterator[Endpoint]:
    """Where the broker listens, with a user who may do everything."""
    url = os.environ.get("AMQP_URL")
    if url:
        yield Endpoint.from_url(url)
        return
    with amqpd_server(definitions=json.loads(DEFINITIONS.read_text())) as own:
        yield Endpoint.from_url(own)


@pytest.fixture(scope="session")
def is_rabbitmq(broker: Endpoint) -> bool:
    """Whether the broker is not ours."""
    return is_another_broker(broker)


@pytest.fixture(scope="session")
def managed_server() -> Iterator[AmqpdServer]:
    """A broker of our own with its management API."""
    with AmqpdServer(http=True) as server:
        yield server


@pytest.fixture
def managed(managed_server: AmqpdServer) -> Iterator[Managed]:
    """The same, with a virtual host for this test and an administrator's client."""
    vhost = f"v-{uuid.uuid4().hex[:8]}"
    with HttpClient(managed_server.http_port, "guest", "guest") as admin:
        assert admin.put(f"/api/vhosts/{vhost}").status == 201
        yield Managed(managed_server, admin, vhost)
        admin.delete(f"/api/vhosts/{vhost}")


@pytest.fixture
def expectations(
    is_rabbitmq: bool, record_property: Callable[[str, object], None]
) -> Expectations:
    """What this broker is expected to say where ours and RabbitMQ differ."""
    return Expectations(is_rabbitmq, lambda row: record_property("difference", row))


@pytest.fixture(scope="session")
def janitor(broker: Endpoint) -> Iterator[RawClient]:
    """Who deletes what tests leave: one connection, for its start costs more."""
    with RawClient(broker) as janitor:
        yield janitor.open().open_channel()


@pytest.fixture
def fresh_name(janitor: RawClient) -> Iterator[FreshName]:
    """Make names for queues and exchanges; what bears them is deleted afterwards."""
    made: list[str] = []

    def make() -> str:
        made.append(f"test-{uuid.uuid4().hex[:12]}")
        return made[-1]

    yield make
    for name in made:
        delete_all_called(janitor, name)


def delete_all_called(janitor: RawClient, name: str) -> None:
    """Delete the queue and the exchange of that name, whether they exist or not."""
    for method in (commands.Queue.Delete(0, name), commands.Exchange.Delete(0, name)):
        janitor.send_method(1, method)
        reply = janitor.next_frame().method
        if isinstance(reply, commands.Channel.Close):
            # An exclusive queue: it goes with the connection that owns it.
            janitor.send_method(1, commands.Channel.CloseOk())
            janitor.open_channel()


@pytest.fixture
def connect(broker: Endpoint, fresh_name: FreshName) -> Iterator[Connect]:
    """Open connections with channel 1; they are gone before the names are deleted."""
    clients: list[RawClient] = []

    def open_one() -> RawClient:
        client = RawClient(broker)
        clients.append(client)
        return client.open().open_channel()

    yield open_one
    for client in clients:
        client.disconnect()


@pytest.fixture
def client(connect: Connect) -> RawClient:
    """A connection with channel 1 open."""
    return connect()


@pytest.fixture
def wiring(client: RawClient, fresh_name: FreshName) -> Wiring:
    """Exchanges, queues and bindings on a channel in confirm mode."""
    return Wiring(client, fresh_name)


@pytest.fixture
def stranger(broker: Endpoint) -> Iterator[RawClient]:
    """A socket on which nothing has been said yet."""
    with RawClient(broker) as client:
        yield client
