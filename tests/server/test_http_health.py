"""The broker at a glance, its node, and health checks over HTTP."""

from __future__ import annotations

from typing import Any

import pytest

from tests.server.conftest import Managed


def test_the_overview_has_what_tools_insist_on(managed: Managed) -> None:
    overview = managed.admin.get("/api/overview")
    strings = (
        "management_version",
        "rabbitmq_version",
        "product_name",
        "product_version",
        "cluster_name",
        "erlang_version",
        "erlang_full_version",
        "node",
        "rates_mode",
    )
    assert all(isinstance(overview[key], str) for key in strings)
    assert (overview["product_name"], overview["rabbitmq_version"]) == (
        "amqpd",
        "3.13.7",
    )
    assert set(overview["object_totals"]) == {
        "connections",
        "channels",
        "exchanges",
        "queues",
        "consumers",
    }
    assert {one["protocol"] for one in overview["listeners"]} == {"amqp", "http"}
    assert overview["contexts"][0]["port"] == str(managed.server.http_port)


def test_totals_move_with_what_they_count(managed: Managed) -> None:
    before = managed.admin.get("/api/overview")
    managed.admin.put(f"/api/queues/{managed.vhost}/q")
    managed.admin.post(
        f"/api/exchanges/{managed.vhost}/amq.default/publish",
        {
            "routing_key": "q",
            "properties": {},
            "payload": "m",
            "payload_encoding": "string",
        },
    )
    with managed.client():
        after = managed.admin.get("/api/overview")
    vhost = managed.admin.get(f"/api/vhosts/{managed.vhost}")

    def grown(part: str, key: str) -> int:
        return int(after[part][key] - before[part][key])

    assert grown("object_totals", "queues") == 1
    assert grown("object_totals", "connections") == 1
    assert grown("object_totals", "channels") == 1
    for churned in ("channel_created", "queue_created", "queue_declared"):
        assert grown("churn_rates", churned) == 1
    assert grown("queue_totals", "messages_ready") == 1
    assert grown("churn_rates", "connection_created") == 1
    assert (vhost["messages"], vhost["messages_unacknowledged"]) == (1, 0)


def test_the_node_tells_numbers_as_numbers(managed: Managed) -> None:
    [node] = managed.admin.get("/api/nodes")
    numbers = (
        "uptime",
        "processors",
        "fd_used",
        "fd_total",
        "sockets_used",
        "proc_total",
        "mem_used",
        "mem_limit",
        "disk_free",
        "disk_free_limit",
        "connection_created",
    )
    assert all(type(node[key]) is int for key in numbers)
    assert node["os_pid"] == str(managed.server.pid)
    assert (node["running"], node["mem_alarm"], node["disk_free_alarm"]) == (
        True,
        False,
        False,
    )
    assert 0 < node["fd_used"] < node["fd_total"]
    name = node["name"]
    assert managed.admin.get(f"/api/nodes/{name}")["name"] == name
    memory = managed.admin.get(f"/api/nodes/{name}/memory")["memory"]
    assert memory["total"]["rss"] > 1_000_000
    parts = managed.admin.get(f"/api/nodes/{name}/memory/relative")["memory"]
    assert parts["total"] == 100
    for path in ("", "/memory", "/memory/relative"):
        assert managed.admin.call("GET", f"/api/nodes/nope{path}").status == 404


def test_the_cluster_may_be_called_otherwise(managed: Managed) -> None:
    before = managed.admin.get("/api/cluster-name")["name"]
    assert managed.admin.put("/api/cluster-name", {"name": "other"}).status == 204
    assert managed.admin.get("/api/cluster-name") == {"name": "other"}
    assert managed.admin.get("/api/overview")["cluster_name"] == "other"
    managed.admin.put("/api/cluster-name", {"name": before})


UNITS = "Time unit not recognised. Supported units: days, weeks, months, years."

CHECKS: list[tuple[str, int, dict[str, Any]]] = [
    ("alarms", 200, {"status": "ok"}),
    ("local-alarms", 200, {"status": "ok"}),
    ("virtual-hosts", 200, {"status": "ok"}),
    ("protocol-listener/amqp091", 200, {"status": "ok", "protocol": "amqp"}),
    ("protocol-listener/amqp,http", 200, {"status": "ok", "protocol": "amqp,http"}),
    (
        "protocol-listener/mqtt",
        503,
        {
            "status": "failed",
            "reason": "No active listener",
            "missing": "mqtt",
            "protocols": ["amqp", "http"],
        },
    ),
    ("port-listener/a", 400, {"error": "bad_request", "reason": "Invalid port"}),
    ("certificate-expiration/1/weeks", 200, {"status": "ok"}),
    (
        "certificate-expiration/1/x",
        400,
        {
            "error": "bad_request",
            "reason": UNITS,
        },
    ),
    ("node-is-quorum-critical", 200, {"status": "ok", "reason": "single node cluster"}),
    ("reached-target-cluster-size", 200, {"status": "ok"}),
]


@pytest.mark.parametrize(("check", "status", "content"), CHECKS)
def test_a_check_says_what_is_well(
    check: str, status: int, content: object, managed: Managed
) -> None:
    reply = managed.admin.call("GET", f"/api/health/checks/{check}")
    assert (reply.status, reply.json) == (status, content)


def test_a_port_is_listened_on_or_not(managed: Managed) -> None:
    path = "/api/health/checks/port-listener/"
    port = managed.server.port
    assert managed.admin.get(f"{path}{port}") == {"status": "ok", "port": port}
    failed = managed.admin.call("GET", f"{path}1")
    assert failed.status == 503
    assert failed.json == {
        "status": "failed",
        "reason": "No active listener",
        "missing": 1,
        "ports": sorted([port, managed.server.http_port]),
    }


def test_old_checks_are_still_asked(managed: Managed) -> None:
    node = managed.admin.get("/api/overview")["node"]
    ok = {"status": "ok"}
    assert managed.admin.get("/api/healthchecks/node") == ok
    assert managed.admin.get(f"/api/healthchecks/node/{node}") == ok
    assert managed.admin.call("GET", "/api/healthchecks/node/nope").status == 404
    assert managed.admin.get(f"/api/aliveness-test/{managed.vhost}") == ok
    assert managed.admin.call("GET", "/api/aliveness-test/nope").status == 404


@pytest.mark.parametrize(
    "path",
    [
        "extensions",
        "feature-flags",
        "deprecated-features",
        "deprecated-features/used",
    ],
)
def test_what_there_is_none_of_is_an_empty_list(path: str, managed: Managed) -> None:
    assert managed.admin.get(f"/api/{path}") == []


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "rebalance/queues"),
        ("DELETE", "reset"),
        ("DELETE", "reset/node"),
        ("PUT", "feature-flags/quorum_queue/enable"),
    ],
)
def test_what_there_is_nothing_to_do_for_is_done(
    method: str, path: str, managed: Managed
) -> None:
    assert managed.admin.call(method, f"/api/{path}").status == 204


def test_the_version_is_told_to_anybody(managed: Managed) -> None:
    assert managed.admin.get("/api/version") == "3.13.7"
    assert managed.admin.get("/api/auth") == {"oauth_enabled": False}


def test_a_virtual_host_runs_on_the_only_node(managed: Managed) -> None:
    node = managed.admin.get("/api/overview")["node"]
    path = f"/api/vhosts/{managed.vhost}/start/"
    assert managed.admin.post(path + node).status == 204
    assert managed.admin.post(path + "other").reason == (
        "Request to node other failed with nodedown"
    )
