"""Messages over HTTP: published, taken, given back, purged."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from pamqp import commands

from tests.server.conftest import Managed
from tests.support import content
from tests.support.http_client import HttpClient, Reply

ALL_PROPERTIES: dict[str, Any] = {
    "content_type": "text/plain",
    "content_encoding": "utf-8",
    "headers": {"n": 1, "s": "c", "l": [1, "a"], "t": {"x": "y"}, "f": 1.5, "b": True},
    "delivery_mode": 2,
    "priority": 3,
    "correlation_id": "c",
    "reply_to": "r",
    "expiration": "100000",
    "message_id": "m",
    "timestamp": 1234,
    "type": "t",
    "user_id": "guest",
    "app_id": "a",
    "cluster_id": "k",
}

BOB = (
    "406 PRECONDITION_FAILED - user_id property set to 'bob' but authenticated user "
    "was 'guest'"
)


def publish(managed: Managed, payload: str = "m", **wanted: Any) -> Reply:
    exchange = wanted.pop("exchange", "amq.default")
    body = {
        "routing_key": "q",
        "properties": {},
        "payload": payload,
        "payload_encoding": "string",
        **wanted,
    }
    path = f"/api/exchanges/{managed.vhost}/{exchange}/publish"
    return managed.admin.post(path, body)


def get(managed: Managed, **wanted: Any) -> Any:
    body = {"count": 10, "ackmode": "ack_requeue_false", "encoding": "auto", **wanted}
    reply = managed.admin.post(f"/api/queues/{managed.vhost}/q/get", body)
    assert reply.status == 200, reply.body
    return reply.json


@pytest.fixture(autouse=True)
def queue(managed: Managed) -> None:
    managed.admin.put(f"/api/queues/{managed.vhost}/q", {"durable": True})


def test_a_message_comes_out_as_it_went_in(managed: Managed) -> None:
    published = publish(managed, "grüße", properties=ALL_PROPERTIES)
    found = get(managed)
    assert (published.status, published.json) == (200, {"routed": True})
    assert found == [
        {
            "payload_bytes": 7,
            "redelivered": False,
            "exchange": "",
            "routing_key": "q",
            "message_count": 0,
            "properties": ALL_PROPERTIES,
            "payload": "grüße",
            "payload_encoding": "string",
        }
    ]


@pytest.mark.parametrize("size", [0, 1, 200, 70_000])
def test_octets_go_in_and_out_as_base64(size: int, managed: Managed) -> None:
    octets = bytes(range(256)) * (size // 256 + 1)
    payload = base64.b64encode(octets[:size]).decode()
    publish(managed, payload, payload_encoding="base64")
    [message] = get(managed, encoding="base64")
    assert (message["payload"], message["payload_encoding"]) == (payload, "base64")
    assert (message["payload_bytes"], message["properties"]) == (size, [])


def test_what_is_no_text_is_shown_as_base64(managed: Managed) -> None:
    publish(managed, "/w==", payload_encoding="base64")
    [message] = get(managed)
    assert (message["payload"], message["payload_encoding"]) == ("/w==", "base64")


def test_a_message_without_a_way_is_not_routed(managed: Managed) -> None:
    assert publish(managed, routing_key="nowhere").json == {"routed": False}


@pytest.mark.parametrize(
    ("wanted", "reason"),
    [
        ({"payload": 5}, "payload_not_string"),
        ({"payload_encoding": "x"}, ["unsupported_encoding", "x"]),
        ({"payload": "!", "payload_encoding": "base64"}, ["not_base64", "!"]),
        ({"properties": {"expiration": 5}}, ["not_string", "expiration"]),
        ({"properties": {"priority": "x"}}, ["not_int", "priority"]),
        ({"properties": {"priority": 256}}, "priority must be between 0 and 255"),
        ({"properties": {"headers": {"a": None}}}, "null_not_allowed"),
        ({"properties": 5}, "properties must be an object"),
        (
            {"properties": {"user_id": "bob"}},
            BOB,
        ),
        (
            {"properties": {"expiration": "x"}},
            "406 PRECONDITION_FAILED - invalid expiration 'x': no_integer",
        ),
        (
            {"properties": {"reply_to": "amq.rabbitmq.reply-to"}},
            "406 PRECONDITION_FAILED - fast reply consumer does not exist",
        ),
        (
            {"properties": {"delivery_mode": 3}},
            "406 PRECONDITION_FAILED - invalid message: {delivery_mode_unknown,3}",
        ),
    ],
)
def test_a_message_that_makes_no_sense_is_refused(
    wanted: dict[str, Any], reason: object, managed: Managed
) -> None:
    payload = wanted.pop("payload", "m")
    reply = publish(managed, payload, **wanted)
    assert (reply.status, reply.reason) == (400, reason)
    assert get(managed) == []


def test_a_missing_exchange_is_told_as_a_channel_would(managed: Managed) -> None:
    reply = publish(managed, exchange="nope")
    assert (reply.status, reply.reason) == (
        400,
        f"404 NOT_FOUND - no exchange 'nope' in vhost '{managed.vhost}'",
    )


def test_fields_that_are_missing_are_named(managed: Managed) -> None:
    path = f"/api/exchanges/{managed.vhost}/amq.default/publish"
    assert managed.admin.post(path).reason == (
        "[{key_missing,routing_key},\n {key_missing,properties},\n"
        " {key_missing,payload},\n {key_missing,payload_encoding}]"
    )


def test_a_full_queue_that_refuses_is_told(managed: Managed) -> None:
    managed.admin.put(
        f"/api/queues/{managed.vhost}/full",
        {"arguments": {"x-max-length": 1, "x-overflow": "reject-publish"}},
    )
    first = publish(managed, routing_key="full")
    second = publish(managed, routing_key="full")
    assert first.json == {"routed": True}
    assert (second.status, second.reason) == (
        400,
        "rejected Unable to publish message. Check queue limits.",
    )


def test_keys_in_cc_lead_somewhere_too(managed: Managed) -> None:
    managed.admin.put(f"/api/queues/{managed.vhost}/other")
    publish(managed, properties={"headers": {"CC": ["other"], "BCC": ["q"]}})
    counts = managed.admin.get(f"/api/queues/{managed.vhost}")
    assert {one["name"]: one["messages"] for one in counts} == {"other": 1, "q": 1}
    [message] = get(managed)
    assert message["properties"] == {"headers": {"CC": ["other"]}}


@pytest.mark.parametrize("mode", ["ack_requeue_true", "reject_requeue_true"])
def test_what_is_given_back_is_at_its_place_again(mode: str, managed: Managed) -> None:
    for payload in ("a", "b", "c"):
        publish(managed, payload)
    first = get(managed, count=2, ackmode=mode)
    again = get(managed, ackmode=mode)
    assert [one["payload"] for one in first] == ["a", "b"]
    assert [one["message_count"] for one in first] == [2, 1]
    assert [(one["payload"], one["redelivered"]) for one in again] == [
        ("a", True),
        ("b", True),
        ("c", False),
    ]


def test_many_messages_are_at_their_places_again(managed: Managed) -> None:
    bodies = [str(number) for number in range(3000)]
    with managed.client() as client:
        client.send_bytes(
            b"".join(content.publish("q", body.encode()) for body in bodies)
        )
        client.call(1, commands.Confirm.Select(), commands.Confirm.SelectOk)
        for mode in ("ack_requeue_true", "ack_requeue_false"):
            found = get(managed, count=5000, ackmode=mode)
            assert [one["payload"] for one in found] == bodies
    assert get(managed) == []


def test_what_is_acked_is_gone(managed: Managed) -> None:
    publish(managed)
    assert len(get(managed)) == 1
    assert get(managed) == []


def test_what_is_rejected_is_a_dead_letter(managed: Managed) -> None:
    managed.admin.put(
        f"/api/queues/{managed.vhost}/dying",
        {
            "arguments": {
                "x-dead-letter-exchange": "",
                "x-dead-letter-routing-key": "q",
            }
        },
    )
    publish(managed, "d", routing_key="dying")
    body = {"count": 1, "ackmode": "reject_requeue_false", "encoding": "auto"}
    managed.admin.post(f"/api/queues/{managed.vhost}/dying/get", body)
    [message] = get(managed)
    assert message["payload"] == "d"
    assert message["properties"]["headers"]["x-death"][0]["reason"] == "rejected"


def test_a_long_message_is_cut_for_show_and_stays_whole(managed: Managed) -> None:
    publish(managed, "abcdef")
    [shown] = get(managed, truncate=3, ackmode="ack_requeue_true")
    [whole] = get(managed)
    assert (shown["payload"], shown["payload_bytes"]) == ("abc", 6)
    assert whole["payload"] == "abcdef"


@pytest.mark.parametrize(
    ("wanted", "reason"),
    [
        ({"ackmode": "x"}, ["unknown_ackmode", "x"]),
        ({"encoding": "x"}, "Unsupported encoding. Please use auto or base64."),
        ({"count": -1}, ["not_integer", -1]),
        ({"count": "x"}, ["not_integer", "x"]),
    ],
)
def test_a_wish_that_makes_no_sense_is_refused(
    wanted: dict[str, Any], reason: object, managed: Managed
) -> None:
    publish(managed)
    body = {"count": 1, "ackmode": "ack_requeue_false", "encoding": "auto", **wanted}
    reply = managed.admin.post(f"/api/queues/{managed.vhost}/q/get", body)
    assert (reply.status, reply.reason) == (400, reason)
    assert len(get(managed)) == 1


def test_old_clients_say_requeue(managed: Managed) -> None:
    publish(managed)
    body = {"count": 1, "requeue": "true", "encoding": "auto"}
    path = f"/api/queues/{managed.vhost}/q/get"
    assert len(managed.admin.post(path, body).json) == 1
    assert len(get(managed)) == 1


def test_a_queue_that_is_not_there_has_no_messages(managed: Managed) -> None:
    body = {"count": 1, "ackmode": "ack_requeue_false", "encoding": "auto"}
    reply = managed.admin.post(f"/api/queues/{managed.vhost}/nope/get", body)
    assert (reply.status, reply.json) == (
        404,
        {
            "error": "not_found",
            "reason": f"NOT_FOUND - no queue 'nope' in vhost '{managed.vhost}'",
        },
    )


def test_a_purge_leaves_what_a_consumer_has(managed: Managed) -> None:
    publish(managed, "held", properties={"delivery_mode": 2})
    publish(managed, "ready", properties={"delivery_mode": 2})
    with managed.client() as client:
        client.call(1, commands.Basic.Get(0, "q"), commands.Basic.GetOk)
        purged = managed.admin.delete(f"/api/queues/{managed.vhost}/q/contents")
    assert purged.status == 204
    assert [one["payload"] for one in get(managed)] == ["held"]


def test_a_user_needs_the_rights_that_a_client_needs(managed: Managed) -> None:
    managed.admin.put("/api/users/reader", {"password": "p", "tags": "management"})
    rights = {"configure": "", "write": "", "read": "^q$"}
    managed.admin.put(f"/api/permissions/{managed.vhost}/reader", rights)
    publish(managed)
    with HttpClient(managed.server.http_port, "reader", "p") as reader:
        own = Managed(managed.server, reader, managed.vhost)
        refused = publish(own)
        found = get(own)
        purged = reader.delete(f"/api/queues/{managed.vhost}/q/contents")
        declared = reader.put(f"/api/queues/{managed.vhost}/q2")
    managed.admin.delete("/api/users/reader")
    assert refused.status == 400
    assert refused.reason == (
        "403 ACCESS_REFUSED - write access to exchange 'amq.default' in vhost "
        f"'{managed.vhost}' refused for user 'reader'"
    )
    assert len(found) == 1
    assert (purged.status, declared.status) == (204, 401)
    assert declared.reason == "Access refused."
