"""Connections, channels and consumers over HTTP."""

from __future__ import annotations

import time
from typing import Any
from urllib.parse import quote

from pamqp import commands

from tests.server.conftest import Managed
from tests.support.http_client import HttpClient
from tests.support.raw_client import connection_closed
from tests.support.waiting import eventually


def connections_of(managed: Managed) -> Any:
    return managed.admin.get(f"/api/vhosts/{managed.vhost}/connections")


def test_a_connection_is_listed_as_long_as_it_is_open(managed: Managed) -> None:
    with managed.client():
        [connection] = connections_of(managed)
        shown = managed.admin.get(
            "/api/connections/" + quote(connection["name"], safe="")
        )
        brief = managed.admin.get("/api/connections/username/guest")
    eventually(lambda: connections_of(managed) == [])
    told = {
        key: connection[key]
        for key in ("user", "vhost", "state", "type", "protocol", "channels", "ssl")
    }
    assert told == {
        "user": "guest",
        "vhost": managed.vhost,
        "state": "running",
        "type": "network",
        "protocol": "AMQP 0-9-1",
        "channels": 1,
        "ssl": False,
    }
    assert connection["port"] == managed.server.port
    assert (
        connection["name"]
        == f"127.0.0.1:{connection['peer_port']} -> 127.0.0.1:{managed.server.port}"
    )
    assert connection["recv_oct"] > 100
    assert connection["send_oct"] > 100
    assert abs(connection["connected_at"] / 1000 - time.time()) < 600
    assert shown["name"] == connection["name"]
    assert connection["name"] in [one["name"] for one in brief]


def test_a_closed_connection_is_told_why(managed: Managed) -> None:
    with managed.client() as client:
        [connection] = connections_of(managed)
        path = "/api/connections/" + quote(connection["name"], safe="")
        reply = managed.admin.call("DELETE", path, headers={"X-Reason": "because"})
        closed = client.expect_close(0)
    assert (reply.status, reply.body) == (204, b"")
    assert closed == connection_closed(320, "CONNECTION_FORCED - because")
    assert managed.admin.delete(path).status == 404


def test_all_connections_of_a_user_are_closed(managed: Managed) -> None:
    rights = {"configure": ".*", "write": ".*", "read": ".*"}
    managed.admin.put("/api/users/many", {"password": "p", "tags": ""})
    managed.admin.put(f"/api/permissions/{managed.vhost}/many", rights)
    with managed.client("many", "p") as one, managed.client("many", "p") as other:
        managed.admin.delete("/api/connections/username/many")
        closed = {one.expect_close(0), other.expect_close(0)}
    managed.admin.delete("/api/users/many")
    reason = "CONNECTION_FORCED - Closed via management plugin"
    assert closed == {connection_closed(320, reason)}


def test_users_see_their_own_connections_only(managed: Managed) -> None:
    rights = {"configure": ".*", "write": ".*", "read": ".*"}
    managed.admin.put("/api/users/seer", {"password": "p", "tags": "management"})
    managed.admin.put(f"/api/permissions/{managed.vhost}/seer", rights)
    with (
        managed.client(),
        managed.client("seer", "p"),
        HttpClient(managed.server.http_port, "seer", "p") as seer,
    ):
        path = f"/api/vhosts/{managed.vhost}"
        seen = seer.get(f"{path}/connections")
        channels = seer.get(f"{path}/channels")
        everything = seer.get("/api/overview")["object_totals"]
        all_users = {one["user"] for one in connections_of(managed)}
    managed.admin.delete("/api/users/seer")
    assert [one["user"] for one in seen] == ["seer"]
    assert [one["user"] for one in channels] == ["seer"]
    assert (everything["connections"], everything["channels"]) == (1, 1)
    assert all_users == {"guest", "seer"}


def test_a_channel_shows_its_modes_and_counts(managed: Managed) -> None:
    with managed.client() as client:
        client.open_channel(2)
        client.call(1, commands.Confirm.Select(), commands.Confirm.SelectOk)
        client.call(1, commands.Basic.Qos(0, 7), commands.Basic.QosOk)
        client.call(2, commands.Tx.Select(), commands.Tx.SelectOk)
        client.call(2, commands.Basic.Qos(0, 3, True), commands.Basic.QosOk)
        first, second = managed.admin.get(f"/api/vhosts/{managed.vhost}/channels")
        [connection] = connections_of(managed)
        path = "/api/connections/" + quote(connection["name"], safe="")
        of_connection = managed.admin.get(path + "/channels")
        sessions = managed.admin.get(path + "/sessions")
    assert (first["number"], first["confirm"], first["transactional"]) == (
        1,
        True,
        False,
    )
    assert (first["prefetch_count"], first["global_prefetch_count"]) == (7, 0)
    assert (second["number"], second["confirm"], second["transactional"]) == (
        2,
        False,
        True,
    )
    assert (second["prefetch_count"], second["global_prefetch_count"]) == (0, 3)
    assert first["name"] == f"{connection['name']} (1)"
    assert first["connection_details"] == {
        "name": connection["name"],
        "peer_host": "127.0.0.1",
        "peer_port": connection["peer_port"],
    }
    assert of_connection == [first, second]
    assert sessions == []


def test_a_consumer_is_shown_with_its_queue_and_its_channel(managed: Managed) -> None:
    with managed.client() as client:
        client.call(1, commands.Queue.Declare(0, "q"), commands.Queue.DeclareOk)
        consume = commands.Basic.Consume(
            0, "q", "tag", no_ack=True, arguments={"x-priority": 3}
        )
        client.call(1, consume, commands.Basic.ConsumeOk)
        [consumer] = managed.admin.get(f"/api/consumers/{managed.vhost}")
        channel = managed.admin.get(
            "/api/channels/" + quote(consumer["channel_details"]["name"], safe="")
        )
        queue = managed.admin.get(f"/api/queues/{managed.vhost}/q")
    told = {key: value for key, value in consumer.items() if key != "channel_details"}
    assert told == {
        "consumer_tag": "tag",
        "ack_required": False,
        "active": True,
        "activity_status": "up",
        "exclusive": False,
        "prefetch_count": 0,
        "arguments": {"x-priority": 3},
        "queue": {"name": "q", "vhost": managed.vhost},
    }
    assert consumer["channel_details"]["number"] == 1
    assert consumer["channel_details"]["user"] == "guest"
    assert channel["consumer_details"] == [consumer]
    assert (queue["consumers"], queue["consumer_details"]) == (1, [consumer])


def test_a_channel_that_is_not_there_is_not_found(managed: Managed) -> None:
    for path in (
        "/api/channels/x",
        "/api/connections/x",
        "/api/connections/x/channels",
    ):
        assert managed.admin.call("GET", path).status == 404


def test_who_monitors_sees_the_totals_of_everything(managed: Managed) -> None:
    managed.admin.put("/api/users/eye", {"password": "p", "tags": "monitoring"})
    managed.admin.put(f"/api/queues/{managed.vhost}/q")
    path = "/api/overview?columns=object_totals.queues,object_totals.exchanges"
    with HttpClient(managed.server.http_port, "eye", "p") as eye:
        seen, all_there = eye.get(path), managed.admin.get(path)
    managed.admin.delete("/api/users/eye")
    assert seen == all_there
    assert seen["object_totals"]["queues"] > 0
