"""What the API has answered is on the disk: kill -9 behind it, and look again."""

from __future__ import annotations

from typing import Any

from amqpd.testing import AmqpdServer
from tests.support.http_client import HttpClient
from tests.support.raw_client import Endpoint, RawClient

RIGHTS = {"configure": ".*", "write": ".*", "read": ".*"}
TOPIC = {"exchange": "x", "write": "a", "read": "b"}


def publish(admin: HttpClient, payload: str, delivery_mode: int) -> None:
    body = {
        "routing_key": "q",
        "properties": {"delivery_mode": delivery_mode},
        "payload": payload,
        "payload_encoding": "string",
    }
    reply = admin.post("/api/exchanges/kept/amq.default/publish", body)
    assert reply.json == {"routed": True}


def change_everything(admin: HttpClient) -> None:
    admin.put("/api/vhosts/kept", {"description": "kept"})
    admin.put("/api/queues/kept/q", {"durable": True})
    admin.post("/api/bindings/kept/e/amq.topic/q/q", {"routing_key": "k"})
    publish(admin, "kept", 2)
    publish(admin, "lost", 1)
    admin.put("/api/vhosts/gone")
    admin.put("/api/queues/gone/q", {"durable": True})
    admin.put("/api/users/u", {"password": "p", "tags": "management"})
    admin.put("/api/users/left", {"password": "p", "tags": ""})
    admin.put("/api/permissions/kept/u", RIGHTS)
    admin.put("/api/topic-permissions/kept/u", TOPIC)
    admin.delete("/api/vhosts/gone")
    admin.delete("/api/users/left")


def what_there_is(admin: HttpClient) -> dict[str, Any]:
    wish = {"count": 9, "ackmode": "ack_requeue_true", "encoding": "auto"}
    messages = admin.post("/api/queues/kept/q/get", wish).json
    return {
        "vhosts": {one["name"]: one["description"] for one in admin.get("/api/vhosts")},
        "users": [one["name"] for one in admin.get("/api/users")],
        "rights": admin.get("/api/permissions/kept/u"),
        "topics": admin.get("/api/topic-permissions"),
        "keys": [one["routing_key"] for one in admin.get("/api/bindings/kept")],
        "messages": [one["payload"] for one in messages],
    }


def test_what_was_answered_survives_a_crash() -> None:
    with AmqpdServer(http=True) as server:
        with HttpClient(server.http_port, "guest", "guest") as admin:
            change_everything(admin)
        server.kill()
        server.start()
        with HttpClient(server.http_port, "guest", "guest") as admin:
            found = what_there_is(admin)
        with RawClient(Endpoint("127.0.0.1", server.port, "u", "p", "kept")) as client:
            client.open()
    assert found == {
        "vhosts": {"/": "Default virtual host", "kept": "kept"},
        "users": ["guest", "u"],
        "rights": {"user": "u", "vhost": "kept", **RIGHTS},
        "topics": [{"user": "u", "vhost": "kept", **TOPIC}],
        "keys": ["q", "k"],
        "messages": ["kept"],
    }
