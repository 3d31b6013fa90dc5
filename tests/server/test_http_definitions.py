"""Definitions over HTTP: what goes out comes in again, and nothing changes by it.

`rabbitmq_definitions.json` has the shape of what RabbitMQ exports: users with hashes of
all its kinds, policies of mirrored queues, bindings with arguments, entries without the
newer keys.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pika
import pytest

from amqpd.testing import AmqpdServer
from tests.support.http_client import HttpClient

FILE: Final = Path(__file__).with_name("rabbitmq_definitions.json")
LISTS: Final = (
    "users",
    "vhosts",
    "permissions",
    "topic_permissions",
    "parameters",
    "global_parameters",
    "policies",
    "queues",
    "exchanges",
    "bindings",
)


@pytest.fixture(scope="module")
def server() -> Iterator[AmqpdServer]:
    with AmqpdServer(http=True) as server:
        yield server


@pytest.fixture
def api(server: AmqpdServer) -> Iterator[HttpClient]:
    with HttpClient(server.http_port, "guest", "guest") as client:
        yield client


def rabbitmqs() -> dict[str, Any]:
    content = json.loads(FILE.read_text())
    assert isinstance(content, dict)
    return content


def facts(exported: dict[str, Any]) -> dict[str, list[str]]:
    """All lists of an export, in an order of their own."""
    return {
        name: sorted(json.dumps(item, sort_keys=True) for item in exported[name])
        for name in LISTS
    }


def test_an_export_that_is_imported_changes_nothing(api: HttpClient) -> None:
    reply = api.call("POST", "/api/definitions", rabbitmqs())
    assert reply.status == 204, reply.body
    first = api.get("/api/definitions")
    assert api.call("POST", "/api/definitions", first).status == 204
    assert facts(api.get("/api/definitions")) == facts(first)
    assert api.call("POST", "/api/definitions", rabbitmqs()).status == 204
    assert facts(api.get("/api/definitions")) == facts(first)


def test_an_export_makes_the_same_broker_elsewhere(
    api: HttpClient, server: AmqpdServer
) -> None:
    assert api.call("POST", "/api/definitions", rabbitmqs()).status == 204
    first = api.get("/api/definitions")
    with AmqpdServer(http=True, definitions=first) as second:
        with HttpClient(second.http_port, "guest", "guest") as other:
            assert facts(other.get("/api/definitions")) == facts(first)
    server.restart()
    lasting = dict(first)
    transient = {item["name"] for item in first["queues"] if not item["durable"]}
    transient |= {item["name"] for item in first["exchanges"] if not item["durable"]}
    for name, ends in (("queues", ["name"]), ("exchanges", ["name"])):
        lasting[name] = [one for one in first[name] if one[ends[0]] not in transient]
    lasting["bindings"] = [
        one
        for one in first["bindings"]
        if transient.isdisjoint((one["source"], one["destination"]))
    ]
    with HttpClient(server.http_port, "guest", "guest") as again:
        assert facts(again.get("/api/definitions")) == facts(lasting)


def test_everything_of_rabbitmqs_file_is_there(
    api: HttpClient, server: AmqpdServer
) -> None:
    assert api.call("POST", "/api/definitions", rabbitmqs()).status == 204
    policies = {one["name"]: one for one in api.get("/api/policies/shop")}
    assert policies["mirrored"]["definition"]["ha-mode"] == "exactly"
    assert api.get("/api/vhost-limits/shop") == [
        {"vhost": "shop", "value": {"max-queues": 50}}
    ]
    assert api.get("/api/user-limits/old") == [
        {"user": "old", "value": {"max-connections": 5}}
    ]
    for user in ("new", "old", "long", "plain"):
        url = f"amqp://{user}:secret@127.0.0.1:{server.port}/shop"
        pika.BlockingConnection(pika.URLParameters(url)).close()


def test_one_virtual_host_goes_into_another(api: HttpClient) -> None:
    assert api.call("POST", "/api/definitions", rabbitmqs()).status == 204
    part = api.get("/api/definitions/shop")
    assert part["original_vhost_name"] == "shop"
    assert part["rabbitmq_definition_format"] == "single_virtual_host"
    assert {"users", "vhosts", "permissions"}.isdisjoint(part)
    assert not any(
        "vhost" in one for name in ("queues", "policies") for one in part[name]
    )
    assert api.put("/api/vhosts/copy").status == 201
    assert api.call("POST", "/api/definitions/copy", part).status == 204
    copied = api.get("/api/definitions/copy")
    for name in ("parameters", "policies", "queues", "exchanges", "bindings"):
        assert sorted(map(json.dumps, copied[name])) == sorted(
            map(json.dumps, part[name])
        )


def test_what_ends_with_its_connection_is_not_exported(
    api: HttpClient, server: AmqpdServer
) -> None:
    connection = pika.BlockingConnection(pika.URLParameters(server.url))
    channel = connection.channel()
    name = channel.queue_declare("", exclusive=True).method.queue
    channel.queue_bind(name, "amq.fanout")
    exported = api.get("/api/definitions")
    assert name not in [queue["name"] for queue in exported["queues"]]
    assert name not in [binding["destination"] for binding in exported["bindings"]]
    declared = [exchange["name"] for exchange in exported["exchanges"]]
    assert not [one for one in declared if one.startswith("amq.") or not one]
    connection.close()


def test_an_import_says_what_is_wrong_and_changes_nothing(api: HttpClient) -> None:
    before = facts(api.get("/api/definitions"))
    queue = {"name": "q", "vhost": "/", "durable": True}
    for wrong, told in (
        ({"queues": [queue, {**queue, "vhost": "v"}]}, "there is no vhost 'v'"),
        (
            {
                "queues": [queue],
                "policies": [{"vhost": "/", "name": "p", "pattern": "("}],
            },
            "policies[0]: definition should be an object but was null",
        ),
    ):
        reply = api.call("POST", "/api/definitions", wrong)
        assert (reply.status, reply.reason.split("\n")[0]) == (400, told)
    for octets in (b"nojson", b""):
        reply = api.call("POST", "/api/definitions", octets)
        assert (reply.status, reply.reason) == (400, "failed_to_parse_json")
    assert facts(api.get("/api/definitions")) == before


def test_a_file_may_come_as_a_form(api: HttpClient) -> None:
    form = (
        b'--XX\r\nContent-Disposition: form-data; name="file"; filename="a.json"\r\n'
        b"Content-Type: application/json\r\n\r\n"
        b'{"queues":[{"name":"q\xc3\xa4","vhost":"/","durable":true}]}\r\n--XX--\r\n'
    )
    headers = {"Content-Type": "multipart/form-data; boundary=XX"}
    reply = api.call("POST", "/api/definitions", form, headers)
    assert reply.status == 204, reply.body
    assert "qä" in [one["name"] for one in api.get("/api/definitions")["queues"]]


def test_an_export_may_be_a_download(api: HttpClient) -> None:
    reply = api.call("GET", "/api/definitions?download=all.json")
    assert reply.headers["Content-Disposition"] == "attachment; filename=all.json"


def test_clients_wait_for_an_import_that_names_their_queue(
    api: HttpClient, server: AmqpdServer
) -> None:
    """And see it as it was imported: nobody is told that it is there in part."""
    queues = [{"name": f"q{n}", "vhost": "/", "durable": True} for n in range(2000)]
    connection = pika.BlockingConnection(pika.URLParameters(server.url))
    channel = connection.channel()
    assert api.call("POST", "/api/definitions", {"queues": queues}).status == 204
    for name in ("q0", "q1999"):
        assert channel.queue_declare(name, passive=True).method.queue == name
    connection.close()


def test_a_stream_is_left_out_and_the_rest_is_there(
    api: HttpClient, server: AmqpdServer
) -> None:
    stream = {"x-queue-type": "stream"}
    queues = [
        {"name": "kept", "vhost": "/", "durable": True, "arguments": {}},
        {"name": "log", "vhost": "/", "durable": True, "arguments": stream},
    ]
    reply = api.post("/api/definitions", {"queues": queues})
    assert (reply.status, reply.headers["Amqpd-Left-Out"]) == (204, "1")
    assert api.call("GET", "/api/queues/%2F/log").status == 404
    assert api.delete("/api/queues/%2F/kept").status == 204
    assert "queue 'log' in vhost '/' is a stream" in server.log
