"""Dead letters at-least-once, as pika and the HTTP API see them; and relaxed checks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import pika
import pika.exceptions
import pytest

from amqpd.testing import AmqpdServer
from tests.support.http_client import HttpClient
from tests.support.waiting import eventually

CONFIG: Final = "[compat]\nrelaxed_quorum_checks = true\n"
RULES: Final[dict[str, Any]] = {
    "x-queue-type": "quorum",
    "x-overflow": "reject-publish",
    "x-dead-letter-strategy": "at-least-once",
    "x-dead-letter-exchange": "",
}
NOTHING: Final[dict[str, Any]] = {}
PERSISTENT: Final = pika.BasicProperties(delivery_mode=2)


@pytest.fixture(scope="module")
def server() -> Iterator[AmqpdServer]:
    with AmqpdServer(http=True, config=CONFIG) as server:
        yield server


class Client:
    """A pika channel, and what the API says of queues."""

    def __init__(self, server: AmqpdServer) -> None:
        self._server = server
        self.connection = pika.BlockingConnection(pika.URLParameters(server.url))
        self.channel = self.connection.channel()
        self.channel.confirm_delivery()

    def declare(self, name: str, arguments: Mapping[str, Any] = NOTHING) -> None:
        self.channel.queue_declare(name, durable=True, arguments=dict(arguments))

    def publish(self, queue: str, *bodies: bytes) -> None:
        for body in bodies:
            self.channel.basic_publish("", queue, body, PERSISTENT)

    def reject(self, queue: str, count: int = 1) -> None:
        """Take so many, then reject them."""
        tags: list[int] = []
        while len(tags) < count:
            method, _, _ = self.channel.basic_get(queue)
            if method is not None:
                tags.append(method.delivery_tag)
        self.channel.basic_nack(tags[-1], multiple=True, requeue=False)

    def bodies(self, queue: str) -> list[bytes]:
        """Take everything that is ready."""
        found: list[bytes] = []
        while True:
            method, _, body = self.channel.basic_get(queue, auto_ack=True)
            if method is None:
                return found
            found.append(body)

    def has(self, queue: str, ready: int, held: int) -> Callable[[], bool]:
        """Whether so many are ready in a queue, and so many kept that are dead."""

        def ask() -> bool:
            with HttpClient(self._server.http_port, "guest", "guest") as api:
                facts = api.get(f"/api/queues/%2F/{queue}")
            assert facts["messages"] == (
                facts["messages_ready"]
                + facts["messages_unacknowledged"]
                + facts["messages_dlx"]
            )
            return bool(
                (facts["messages_ready"], facts["messages_dlx"]) == (ready, held)
                and (facts["message_bytes_dlx"] > 0) == (held > 0)
            )

        return ask


@pytest.fixture
def connect(server: AmqpdServer) -> Iterator[Callable[[], Client]]:
    clients: list[Client] = []

    def open_one() -> Client:
        clients.append(Client(server))
        return clients[-1]

    yield open_one
    for client in clients:
        if client.connection.is_open:
            client.connection.close()


def test_what_has_nowhere_to_go_waits_until_it_has(
    connect: Callable[[], Client],
) -> None:
    client = connect()
    client.declare("nowhere", {**RULES, "x-dead-letter-routing-key": "nowhere-dead"})
    client.publish("nowhere", b"1", b"2", b"3")
    client.reject("nowhere", 2)
    eventually(client.has("nowhere", 1, 2))
    assert client.bodies("nowhere") == [b"3"]
    assert client.channel.queue_purge("nowhere").method.message_count == 0
    with pytest.raises(pika.exceptions.ChannelClosedByBroker, match="not empty"):
        client.channel.queue_delete("nowhere", if_empty=True)
    other = connect()
    other.declare("nowhere-dead")
    eventually(other.has("nowhere", 0, 0))
    _, properties, body = other.channel.basic_get("nowhere-dead", auto_ack=True)
    assert body == b"1"
    assert properties.headers["x-first-death-reason"] == "rejected"
    assert other.bodies("nowhere-dead") == [b"2"]


def test_a_full_queue_gets_them_one_by_one_when_it_has_room(
    connect: Callable[[], Client],
) -> None:
    client = connect()
    room = {"x-max-length": 1, "x-overflow": "reject-publish"}
    client.declare("full-dead", room)
    client.declare("full", {**RULES, "x-dead-letter-routing-key": "full-dead"})
    client.publish("full", b"1", b"2", b"3")
    client.reject("full", 3)
    eventually(client.has("full", 0, 2))
    found: list[bytes] = []

    def all_came() -> bool:
        found.extend(client.bodies("full-dead"))
        return len(found) >= 3

    eventually(all_came)
    assert found == [b"1", b"2", b"3"]
    eventually(client.has("full", 0, 0))


def test_dead_letters_that_wait_take_the_room_of_others(
    connect: Callable[[], Client],
) -> None:
    client = connect()
    client.declare("short", {**RULES, "x-max-length": 2})
    client.channel.queue_bind("short", "amq.fanout")
    for body in (b"1", b"2"):
        client.channel.basic_publish("amq.fanout", "nobody", body, PERSISTENT)
    client.reject("short", 2)
    eventually(client.has("short", 0, 2))
    with pytest.raises(pika.exceptions.NackError):
        client.publish("short", b"3")


@pytest.mark.parametrize("is_killed", [True, False])
def test_they_wait_on_after_a_restart(
    server: AmqpdServer, connect: Callable[[], Client], is_killed: bool
) -> None:
    name = f"restart-{is_killed}"
    client = connect()
    client.declare(name, {**RULES, "x-dead-letter-routing-key": f"{name}-dead"})
    client.publish(name, b"1", b"2", b"3")
    client.reject(name, 2)
    eventually(client.has(name, 1, 2))
    # Its confirm tells that what was before it is on the disk, too.
    client.publish(name, b"4")
    if is_killed:
        server.kill()
        with pytest.raises(pika.exceptions.AMQPConnectionError):
            client.connection.process_data_events(5)
        server.start()
    else:
        client.connection.close()
        server.restart()
    client = connect()
    assert client.has(name, 2, 2)()
    assert client.bodies(name) == [b"3", b"4"]
    client.declare(f"{name}-dead")
    eventually(client.has(name, 0, 0))
    assert client.bodies(f"{name}-dead") == [b"1", b"2"]


def test_a_policy_says_so_and_says_otherwise(
    server: AmqpdServer, connect: Callable[[], Client]
) -> None:
    client = connect()
    client.declare("policy", {"x-queue-type": "quorum"})
    definition = {
        "overflow": "reject-publish",
        "dead-letter-strategy": "at-least-once",
        "dead-letter-exchange": "gone",
    }
    with HttpClient(server.http_port, "guest", "guest") as api:
        policy = {"pattern": "^policy$", "definition": definition}
        assert api.put("/api/policies/%2F/p", policy).status == 201
        client.publish("policy", b"1")
        client.reject("policy")
        eventually(client.has("policy", 0, 1))
        policy["definition"] = {**definition, "dead-letter-strategy": "at-most-once"}
        assert api.put("/api/policies/%2F/p", policy).status == 204
    eventually(client.has("policy", 0, 0))


def test_a_quorum_queue_passes_for_a_classic_one_where_checks_are_relaxed(
    connect: Callable[[], Client],
) -> None:
    client = connect()
    client.declare("relaxed", {"x-queue-type": "quorum", "x-delivery-limit": 3})
    client.declare("relaxed", {"x-queue-type": "classic", "x-max-priority": 5})
    with pytest.raises(pika.exceptions.ChannelClosedByBroker, match="x-max-length"):
        client.declare("relaxed", {"x-max-length": 3})
