"""A node stopped, started and limited over HTTP: /api/amqpd."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pamqp import commands

from amqpd.testing import AmqpdServer
from tests.support.content import PERSISTENT_PROPERTIES, publish
from tests.support.http_client import HttpClient, Reply
from tests.support.raw_client import Endpoint, RawClient
from tests.support.waiting import eventually

APP = "/api/amqpd/app"
LISTENERS = "/api/amqpd/listeners"
MEMORY = "/api/amqpd/vm-memory-high-watermark"
DISK = "/api/amqpd/disk-free-limit"


@pytest.fixture(scope="module")
def server() -> Iterator[AmqpdServer]:
    # Passwords that take long to verify: a stopped node has to do that, too.
    with AmqpdServer(http=True, env={"AMQPD_PASSWORD_HASHING": "argon2id"}) as running:
        yield running


def put(server: AmqpdServer, path: str, content: object) -> Reply:
    with HttpClient(server.http_port, "guest", "guest") as client:
        return client.put(path, content)


def answers(server: AmqpdServer, path: str, status: int) -> bool:
    """Say whether a path that changes nothing is answered so, if at all."""
    try:
        return put(server, path, {"state": "nothing"}).status == status
    except OSError:
        return False


def stop_app(server: AmqpdServer) -> None:
    assert put(server, APP, {"state": "stopped"}).status == 204
    wait_until_stopped(server)


def wait_until_stopped(server: AmqpdServer) -> None:
    eventually(lambda: answers(server, LISTENERS, 503))


def start_app(server: AmqpdServer) -> None:
    assert put(server, APP, {"state": "running"}).status == 204
    eventually(lambda: answers(server, LISTENERS, 400))


def client_of(server: AmqpdServer) -> RawClient:
    return RawClient(Endpoint.from_url(server.url))


def is_connectable(server: AmqpdServer) -> bool:
    try:
        with client_of(server) as client:
            client.open()
    except OSError:
        return False
    return True


def declare(client: RawClient, name: str, durable: bool) -> None:
    method = commands.Queue.Declare(0, name, durable=durable)
    client.call(1, method, commands.Queue.DeclareOk)


def test_after_a_stop_and_a_start_the_state_is_as_after_a_restart(
    server: AmqpdServer,
) -> None:
    with client_of(server) as client:
        client.open().open_channel()
        declare(client, "kept", durable=True)
        declare(client, "gone", durable=False)
        client.call(1, commands.Confirm.Select(), commands.Confirm.SelectOk)
        for body, properties in ((b"kept", PERSISTENT_PROPERTIES), (b"gone", b"\0\0")):
            client.send_bytes(publish("kept", body, properties=properties))
            client.expect_method(1, commands.Basic.Ack)
        assert client.get("kept", no_ack=False) is not None
        assert put(server, APP, {"state": "stopped"}).status == 204
        closed = client.expect_close(0)
    wait_until_stopped(server)
    start_app(server)
    assert (closed.code, closed.text) == (
        320,
        "CONNECTION_FORCED - broker forced connection closure with reason 'shutdown'",
    )
    with client_of(server) as client:
        client.open().open_channel()
        message = client.get("kept")
        assert message is not None
        assert message.body == b"kept"
        assert isinstance(message.method, commands.Basic.GetOk)
        assert message.method.redelivered
        assert client.get("kept") is None
        client.send_method(1, commands.Queue.Declare(0, "gone", passive=True))
        assert client.expect_close(1).code == 404


def test_a_stopped_node_lets_nobody_connect_and_says_why_over_http(
    server: AmqpdServer,
) -> None:
    stop_app(server)
    try:
        reply = put(server, LISTENERS, {})
        assert not is_connectable(server)
        with HttpClient(server.http_port, "guest", "wrong") as stranger:
            assert stranger.call("GET", "/api/whoami").status == 401
        assert put(server, APP, {"state": "stopped"}).status == 204
    finally:
        start_app(server)
    assert reply.status == 503
    assert reply.reason == "the node is stopped; amqpctl start_app starts it"
    assert is_connectable(server)


def test_what_runs_stays_as_it_is_when_it_is_started(server: AmqpdServer) -> None:
    with client_of(server) as client:
        client.open().open_channel()
        assert put(server, APP, {"state": "running"}).status == 204
        declare(client, "still-here", durable=False)


def test_a_stopped_node_ends_with_sigterm_as_a_running_one() -> None:
    with AmqpdServer(http=True) as server:
        stop_app(server)
        assert server.stop() == 0


@pytest.mark.parametrize("stops_first", [False, True])
def test_a_node_ends_when_it_is_told_to(stops_first: bool) -> None:
    with AmqpdServer(http=True) as server:
        if stops_first:
            stop_app(server)
        assert put(server, APP, {"state": "ended"}).status == 204
        assert server.wait() == 0


def test_suspended_listeners_keep_who_is_connected(server: AmqpdServer) -> None:
    with client_of(server) as client:
        client.open().open_channel()
        assert put(server, LISTENERS, {"state": "suspended"}).status == 204
        assert not is_connectable(server)
        declare(client, "while-suspended", durable=False)
        for _ in range(2):
            assert put(server, LISTENERS, {"state": "running"}).status == 204
        assert is_connectable(server)


@pytest.mark.parametrize("path", [APP, LISTENERS])
def test_a_state_that_there_is_not_is_refused(path: str, server: AmqpdServer) -> None:
    reply = put(server, path, {"state": "upside down"})
    assert reply.status == 400
    assert "'upside down'" in reply.reason


@pytest.mark.parametrize(
    ("path", "low", "high"),
    [
        (MEMORY, {"relative": 0}, {"relative": 0.9}),
        (MEMORY, {"absolute": 1}, {"absolute": 1 << 50}),
        (DISK, {"absolute": 1 << 60}, {"absolute": 1}),
        (DISK, {"relative": 1e9}, {"relative": 0}),
    ],
)
def test_a_limit_holds_at_once(
    path: str, low: object, high: object, server: AmqpdServer
) -> None:
    with client_of(server) as client:
        client.open().open_channel()
        declare(client, "limited", durable=False)
        client.call(1, commands.Confirm.Select(), commands.Confirm.SelectOk)
        assert put(server, path, low).status == 204
        client.send_bytes(publish("limited", b"held"))
        client.expect_method(0, commands.Connection.Blocked)
        assert put(server, path, high).status == 204
        told = {type(client.next_frame().method) for _ in range(2)}
    assert told == {commands.Connection.Unblocked, commands.Basic.Ack}


@pytest.mark.parametrize(
    ("path", "low", "high", "reason"),
    [
        (MEMORY, {"absolute": 1}, {"absolute": 1 << 50}, "low on memory"),
        (DISK, {"absolute": 1 << 60}, {"absolute": 1}, "low on disk"),
    ],
)
def test_only_who_publishes_is_blocked_and_told_why(
    path: str, low: object, high: object, reason: str, server: AmqpdServer
) -> None:
    with client_of(server) as publisher, client_of(server) as consumer:
        publisher.open().open_channel()
        consumer.open().open_channel()
        queue = publisher.temporary_queue()
        publisher.publish_to_queue("nowhere")
        consumer.publish_to_queue("nowhere")
        assert put(server, path, low).status == 204
        publisher.publish_to_queue(queue, b"held")
        blocked = publisher.expect_method(0, commands.Connection.Blocked)
        assert blocked.reason == reason
        # What is not behind the publish is answered as ever, here and there.
        publisher.open_channel(2)
        consumer.call(1, commands.Basic.Qos(), commands.Basic.QosOk)
        assert put(server, path, high).status == 204
        publisher.expect_method(0, commands.Connection.Unblocked)
        message = publisher.get(queue)
        assert message is not None
        assert message.body == b"held"


@pytest.mark.parametrize(
    "content",
    [
        {},
        {"relative": 1e13},
        {"relative": 10**400},
        {"absolute": -1},
        {"relative": "0.5"},
        {"absolute": 1, "relative": 0.5},
    ],
)
def test_what_is_no_limit_is_refused(content: object, server: AmqpdServer) -> None:
    assert put(server, MEMORY, content).status == 400
    assert put(server, DISK, content).status == 400


def test_the_level_of_the_log_changes_while_the_node_runs(server: AmqpdServer) -> None:
    assert put(server, "/api/amqpd/log-level", {"level": "loud"}).status == 400
    assert put(server, "/api/amqpd/log-level", {"level": "error"}).status == 204
    before = server.log
    with client_of(server) as client:
        client.open()
    assert server.log == before
    assert put(server, "/api/amqpd/log-level", {"level": "info"}).status == 204
    with client_of(server) as client:
        client.open()
    assert server.log != before


@pytest.mark.parametrize("is_stopped", [False, True])
def test_the_configuration_is_shown_without_its_secrets(
    is_stopped: bool, server: AmqpdServer
) -> None:
    if is_stopped:
        stop_app(server)
    with HttpClient(server.http_port, "guest", "guest") as client:
        rows = client.get("/api/config/effective")
    if is_stopped:
        start_app(server)
    settings = {row["key"]: (row["value"], row["origin"]) for row in rows}
    assert settings["data_dir"] == (f'"{server.data_dir}"', "--data-dir")
    assert settings["default_pass"][0] == "********"
