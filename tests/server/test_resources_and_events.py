"""Alarms, limits of the node, events and the firehose, over real sockets.

Memory and disk are made short by moving their limits, as an operator can.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import pytest
from pamqp import commands, header

from amqpd.testing import AmqpdServer
from tests.server.conftest import Managed
from tests.support.http_client import HttpClient
from tests.support.raw_client import Endpoint, Message, RawClient, channel_closed
from tests.support.waiting import eventually

MEMORY: Final = "/api/amqpd/vm-memory-high-watermark"
DISK: Final = "/api/amqpd/disk-free-limit"
NO_MEMORY: Final = {"absolute": 0}
NO_DISK: Final = {"absolute": 1 << 60}
PLENTY: Final = {MEMORY: {"relative": 0.9}, DISK: {"absolute": 0}}
#: The exchanges of two virtual hosts that are there from the beginning; the first has
#: one for events.
PREDECLARED: Final = 2 * 7 + 1

LIMITS: Final = f"""
vhost_max = 2
cluster_queue_limit = 1
cluster_exchange_limit = {PREDECLARED + 1}
"""


@pytest.fixture(scope="module")
def server() -> Iterator[AmqpdServer]:
    with AmqpdServer(http=True, config=LIMITS) as server:
        yield server


@pytest.fixture
def api(server: AmqpdServer) -> Iterator[HttpClient]:
    with HttpClient(server.http_port, "guest", "guest") as api:
        yield api
        for path, limit in PLENTY.items():
            assert api.put(path, limit).status == 204


def connect(server: AmqpdServer) -> RawClient:
    endpoint = Endpoint("127.0.0.1", server.port, "guest", "guest", "/")
    return RawClient(endpoint).open().open_channel()


@pytest.fixture
def client(server: AmqpdServer) -> Iterator[RawClient]:
    client = connect(server)
    yield client
    client.disconnect()


def headers_of(message: Message) -> dict[str, Any]:
    found = header.ContentHeader()
    found.unmarshal(b"\x00\x3c\x00\x00" + bytes(8) + message.properties)
    return dict(found.properties.headers or {})


# -- alarms ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "limit", "resource"),
    [(MEMORY, NO_MEMORY, "memory"), (DISK, NO_DISK, "disk")],
    ids=["memory", "disk"],
)
def test_an_alarm_blocks_who_publishes_until_it_is_over(
    path: str,
    limit: dict[str, int],
    resource: str,
    api: HttpClient,
    client: RawClient,
) -> None:
    client.call(1, commands.Confirm.Select(), commands.Confirm.SelectOk)
    queue = client.temporary_queue()
    assert api.put(path, limit).status == 204
    client.publish_to_queue(queue, b"parked")
    blocked = client.expect_method(0, commands.Connection.Blocked)
    assert blocked.reason == f"low on {resource}"
    assert api.put(path, PLENTY[path]).status == 204
    client.expect_method(0, commands.Connection.Unblocked)
    client.expect_method(1, commands.Basic.Ack)
    found = client.get(queue)
    assert found is not None
    assert found.body == b"parked"


def test_who_only_consumes_goes_on_under_an_alarm(
    server: AmqpdServer, api: HttpClient, client: RawClient
) -> None:
    queue = "consumed"
    client.call(1, commands.Queue.Declare(queue=queue), commands.Queue.DeclareOk)
    for body in (b"1", b"2"):
        client.publish_to_queue(queue, body)
    consumer = connect(server)
    assert api.put(DISK, NO_DISK).status == 204
    eventually(lambda: api.call("GET", "/api/health/checks/alarms").status == 503)
    for body in (b"1", b"2"):
        found = consumer.get(queue, no_ack=False)
        assert found is not None
        assert found.body == body
        assert isinstance(found.method, commands.Basic.GetOk)
        assert found.method.delivery_tag is not None
        consumer.send_method(1, commands.Basic.Ack(found.method.delivery_tag))
    assert consumer.get(queue) is None
    consumer.call(1, commands.Queue.Delete(queue=queue), commands.Queue.DeleteOk)
    consumer.disconnect()


def test_alarms_are_seen_by_checks_nodes_and_metrics(api: HttpClient) -> None:
    assert api.put(DISK, NO_DISK).status == 204
    eventually(lambda: api.call("GET", "/api/health/checks/alarms").status == 503)
    [node] = api.get("/api/nodes")
    failed = api.call("GET", "/api/health/checks/local-alarms")
    assert (node["disk_free_alarm"], node["mem_alarm"]) == (True, False)
    assert failed.json["alarms"] == [{"node": node["name"], "resource": "disk"}]
    metrics = api.call("GET", "/metrics").body
    assert b"rabbitmq_alarms_free_disk_space_watermark 1.0" in metrics
    assert b"rabbitmq_alarms_memory_used_watermark 0.0" in metrics


def test_a_connection_is_blocking_and_then_blocked(
    api: HttpClient, client: RawClient
) -> None:
    def states() -> set[str]:
        return {str(one["state"]) for one in api.get("/api/connections")}

    assert states() == {"running"}
    assert api.put(MEMORY, NO_MEMORY).status == 204
    eventually(lambda: "blocking" in states())
    client.publish_to_queue("nowhere", b"x")
    client.expect_method(0, commands.Connection.Blocked)
    assert "blocked" in states()


# -- limits of the node ---------------------------------------------------------


def test_a_node_has_so_many_queues_exchanges_and_virtual_hosts(
    server: AmqpdServer, api: HttpClient, client: RawClient
) -> None:
    assert api.put("/api/vhosts/second").status == 201
    refused = api.put("/api/vhosts/third")
    assert (refused.status, refused.reason) == (
        400,
        "cannot create vhost 'third': vhost limit of 2 is reached",
    )
    declare = commands.Queue.Declare(queue="q")
    client.call(1, declare, commands.Queue.DeclareOk)
    # What is there is not a new one.
    client.call(1, declare, commands.Queue.DeclareOk)
    client.send_method(1, commands.Queue.Declare(queue="r"))
    text = "cannot declare queue 'r': queue limit in cluster (1) is reached"
    assert client.expect_close(1) == channel_closed(
        406, f"PRECONDITION_FAILED - {text}", 50, 10
    )
    client.open_channel()
    client.call(1, commands.Exchange.Declare(exchange="x"), commands.Exchange.DeclareOk)
    client.send_method(1, commands.Exchange.Declare(exchange="y"))
    limit = PREDECLARED + 1
    text = (
        f"cannot declare exchange 'y': exchange limit in cluster ({limit}) is reached"
    )
    assert client.expect_close(1) == channel_closed(
        406, f"PRECONDITION_FAILED - {text}", 40, 10
    )
    assert api.delete("/api/queues/%2F/q").status == 204
    assert api.delete("/api/exchanges/%2F/x").status == 204
    assert api.delete("/api/vhosts/second").status == 204
    assert api.put("/api/vhosts/third").status == 201
    assert api.delete("/api/vhosts/third").status == 204


# -- events and the firehose ----------------------------------------------------


def test_what_happens_is_told_by_the_event_exchange(
    managed_server: AmqpdServer, managed: Managed
) -> None:
    client = connect(managed_server)
    queue = client.temporary_queue()
    bind = commands.Queue.Bind(
        queue=queue, exchange="amq.rabbitmq.event", routing_key="queue.#"
    )
    client.call(1, bind, commands.Queue.BindOk)
    path = f"/api/queues/{managed.vhost}/told"
    assert managed.admin.put(path).status == 201
    assert managed.admin.delete(path).status == 204

    told: list[tuple[str, Any]] = []

    def is_told() -> bool:
        while (found := client.get(queue)) is not None:
            assert isinstance(found.method, commands.Basic.GetOk)
            headers = headers_of(found)
            if headers["vhost"] == managed.vhost:
                told.append((str(found.method.routing_key), headers["name"]))
        return len(told) == 2

    eventually(is_told)
    assert told == [("queue.created", "told"), ("queue.deleted", "told")]
    client.disconnect()


def test_the_firehose_copies_what_is_published_and_delivered(managed: Managed) -> None:
    client = managed.client()
    traced, copies = client.temporary_queue(), client.temporary_queue()
    bind = commands.Queue.Bind(
        queue=copies, exchange="amq.rabbitmq.trace", routing_key="#"
    )
    client.call(1, bind, commands.Queue.BindOk)
    assert (
        managed.admin.put(f"/api/vhosts/{managed.vhost}", {"tracing": True}).status
        == 204
    )
    client.publish_to_queue(traced, b"seen")
    delivered = client.get(traced)
    assert delivered is not None
    found: list[tuple[str, bytes, Any]] = []

    def is_copied() -> bool:
        while (copy := client.get(copies)) is not None:
            assert isinstance(copy.method, commands.Basic.GetOk)
            key = str(copy.method.routing_key)
            found.append((key, copy.body, headers_of(copy)))
        return len(found) >= 2

    assert (
        managed.admin.put(f"/api/vhosts/{managed.vhost}", {"tracing": False}).status
        == 204
    )
    eventually(is_copied)
    assert [(key, body) for key, body, _ in found[:2]] == [
        ("publish.", b"seen"),
        (f"deliver.{traced}", b"seen"),
    ]
    assert found[0][2]["routing_keys"] == [traced]
    assert found[0][2]["user"] == "guest"
    client.disconnect()


# -- logins -----------------------------------------------------------------------


def test_attempts_to_log_in_are_counted_by_protocol(
    server: AmqpdServer, api: HttpClient
) -> None:
    [node] = api.get("/api/nodes")
    path = f"/api/auth/attempts/{node['name']}"
    assert api.delete(path).status == 204
    with HttpClient(server.http_port, "guest", "wrong") as stranger:
        assert stranger.call("GET", "/api/whoami").status == 401
    connect(server).disconnect()
    found = {one.pop("protocol"): one for one in api.get(path)}
    assert found == {
        "http": {
            "auth_attempts": 2,
            "auth_attempts_failed": 1,
            "auth_attempts_succeeded": 1,
        },
        "amqp091": {
            "auth_attempts": 1,
            "auth_attempts_failed": 0,
            "auth_attempts_succeeded": 1,
        },
    }
    assert api.get(path + "/source") == []
    assert api.call("GET", "/api/auth/attempts/nowhere").status == 404
