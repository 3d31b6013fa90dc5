"""Exchanges, queues and bindings over HTTP: the answers are RabbitMQ's."""

from __future__ import annotations

from urllib.parse import quote

import pytest
from pamqp import commands

from tests.server.conftest import Managed

DOUBLY = (
    "invalid payload: the request body JSON-decoded to a string. "
    "Is the input doubly-JSON-encoded?"
)
NOT_FOUND = {"error": "Object Not Found", "reason": "Not Found"}


def test_a_queue_is_declared_once_and_told_as_it_is(managed: Managed) -> None:
    path = f"/api/queues/{managed.vhost}/q"
    wanted = {"durable": True, "arguments": {"x-max-length": 10, "x-note": "a"}}
    first = managed.admin.put(path, wanted)
    again = managed.admin.put(path, wanted)
    queue = managed.admin.get(path)
    assert (first.status, first.body, again.status) == (201, b"", 204)
    assert queue["arguments"] == wanted["arguments"]
    told = {key: queue[key] for key in ("name", "vhost", "durable", "auto_delete")}
    assert told == {
        "name": "q",
        "vhost": managed.vhost,
        "durable": True,
        "auto_delete": False,
    }
    assert (queue["type"], queue["state"], queue["consumer_details"]) == (
        "classic",
        "running",
        [],
    )


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ({"durable": False}, "inequivalent arg 'durable' for queue 'q' in vhost '{}'"),
        (
            {"durable": True, "arguments": {"x-expires": 1}},
            "inequivalent arg 'x-expires' for queue 'q' in vhost '{}'",
        ),
    ],
)
def test_a_queue_declared_otherwise_is_refused_with_the_reason(
    body: object, reason: str, managed: Managed
) -> None:
    path = f"/api/queues/{managed.vhost}/q"
    managed.admin.put(path, {"durable": True})
    reply = managed.admin.put(path, body)
    assert (reply.status, reply.json["error"]) == (400, "bad_request")
    assert reply.reason.startswith(reason.format(managed.vhost))


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"{", "not_json"),
        (b"[1]", "not_json"),
        (b"NaN", "not_json"),
        (b"[" * 100_000, "not_json"),
        (b'"a"', DOUBLY),
        (b'{"durable": "x"}', ["not_boolean", "x"]),
        (b'{"arguments": 5}', "arguments must be an object"),
        (b'{"arguments": {"a": null}}', "null_not_allowed"),
        (b'{"node": "x@y"}', "Node x@y could not be contacted"),
    ],
)  # fmt: skip
def test_a_body_that_makes_no_sense_is_refused(
    body: bytes, reason: object, managed: Managed
) -> None:
    reply = managed.admin.call("PUT", f"/api/queues/{managed.vhost}/q", body)
    assert reply.status == 400
    assert reply.json == {"error": "bad_request", "reason": reason}


def test_a_flag_may_be_spelled_out(managed: Managed) -> None:
    path = f"/api/queues/{managed.vhost}/q"
    managed.admin.put(path, {"durable": "true", "auto_delete": "false"})
    assert managed.admin.get(path)["durable"] is True


def test_a_reserved_name_is_refused_as_an_access(managed: Managed) -> None:
    reply = managed.admin.put(f"/api/queues/{managed.vhost}/amq.x")
    assert (reply.status, reply.json) == (
        401,
        {"error": "not_authorised", "reason": "Access refused."},
    )


@pytest.mark.parametrize("kind", ["queues", "exchanges"])
def test_what_is_not_there_is_not_found(kind: str, managed: Managed) -> None:
    path = f"/api/{kind}/{managed.vhost}/nowhere"
    shown, gone = managed.admin.call("GET", path), managed.admin.delete(path)
    assert (shown.status, shown.json) == (404, NOT_FOUND)
    assert (gone.status, gone.json) == (404, NOT_FOUND)
    assert managed.admin.call("GET", f"/api/{kind}/no-such-vhost").json == NOT_FOUND


def test_a_queue_with_messages_is_deleted_only_if_it_may_have_some(
    managed: Managed,
) -> None:
    path = f"/api/queues/{managed.vhost}/q"
    managed.admin.put(path)
    managed.admin.post(
        f"/api/exchanges/{managed.vhost}/amq.default/publish",
        {
            "routing_key": "q",
            "properties": {},
            "payload": "m",
            "payload_encoding": "string",
        },
    )
    kept = managed.admin.delete(path + "?if-empty=true")
    gone = managed.admin.delete(path + "?if-unused=true")
    assert (kept.status, kept.reason) == (
        400,
        f"queue 'q' in vhost '{managed.vhost}' not empty",
    )
    assert (gone.status, gone.body) == (204, b"")


def test_an_exclusive_queue_names_its_owner_and_stays(managed: Managed) -> None:
    with managed.client() as client:
        declare = commands.Queue.Declare(0, "mine", exclusive=True)
        client.call(1, declare, commands.Queue.DeclareOk)
        path = f"/api/queues/{managed.vhost}/mine"
        owner = managed.admin.get(path)["owner_pid_details"]
        reply = managed.admin.delete(path)
    assert " -> 127.0.0.1:" in owner["name"]
    assert owner["peer_host"] == "127.0.0.1"
    assert reply.status == 400
    assert "cannot obtain exclusive access to locked queue 'mine'" in reply.reason


def test_an_exchange_is_declared_shown_and_deleted(managed: Managed) -> None:
    base = f"/api/exchanges/{managed.vhost}/x"
    arguments = {"alternate-exchange": "amq.fanout"}
    made = managed.admin.put(
        base, {"type": "topic", "durable": True, "arguments": arguments}
    )
    shown = managed.admin.get(base)
    other = managed.admin.put(base, {"type": "fanout", "durable": True})
    unknown = managed.admin.put(base + "2", {"type": "nope"})
    gone = managed.admin.delete(base)
    assert (made.status, gone.status) == (201, 204)
    assert (shown["type"], shown["arguments"], shown["internal"]) == (
        "topic",
        arguments,
        False,
    )
    assert other.reason == (
        f"inequivalent arg 'type' for exchange 'x' in vhost '{managed.vhost}': "
        "received 'fanout' but current is 'topic'"
    )
    assert (unknown.status, unknown.json["error"]) == (400, "bad_request")


def test_the_default_exchange_is_listed_and_stays(managed: Managed) -> None:
    base = f"/api/exchanges/{managed.vhost}"
    names = [one["name"] for one in managed.admin.get(base)]
    assert names == [
        "",
        "amq.direct",
        "amq.fanout",
        "amq.headers",
        "amq.match",
        "amq.rabbitmq.trace",
        "amq.topic",
    ]
    assert managed.admin.get(base + "/amq.default")["type"] == "direct"
    assert managed.admin.delete(base + "/amq.default").status == 401
    assert managed.admin.delete(base + "/amq.direct").status == 401


def test_a_binding_is_where_the_answer_says(managed: Managed) -> None:
    managed.admin.put(f"/api/queues/{managed.vhost}/a%2Fq")
    base = f"/api/bindings/{managed.vhost}/e/amq.topic/q/"
    body = {"routing_key": "a/b~ c%", "arguments": {"x": 1}}
    made = managed.admin.post(base + "a%2Fq", body)
    place = base + made.headers["Location"]
    shown = managed.admin.get(place)
    gone = managed.admin.delete(place)
    assert (made.status, gone.status) == (201, 204)
    assert (shown["routing_key"], shown["arguments"]) == ("a/b~ c%", {"x": 1})
    assert managed.admin.delete(place).json == NOT_FOUND


@pytest.mark.parametrize(
    ("key", "name"), [("", "~"), ("a.b", "a.b"), ("#", "%23"), ("a b", "a+b")]
)
def test_a_binding_without_arguments_is_called_by_its_key(
    key: str, name: str, managed: Managed
) -> None:
    managed.admin.put(f"/api/queues/{managed.vhost}/q")
    base = f"/api/bindings/{managed.vhost}/e/amq.topic/q/q"
    managed.admin.post(base, {"routing_key": key})
    assert [one["properties_key"] for one in managed.admin.get(base)] == [name]
    # Clients send it as it is listed, or the key itself.
    for sent in {quote(name, safe=""), quote(key, safe="") or "~"}:
        assert managed.admin.get(f"{base}/{sent}")["routing_key"] == key


def test_bindings_are_listed_from_both_ends(managed: Managed) -> None:
    vhost = managed.vhost
    managed.admin.put(f"/api/queues/{vhost}/q")
    managed.admin.post(f"/api/bindings/{vhost}/e/amq.topic/q/q", {"routing_key": "k"})
    managed.admin.post(f"/api/bindings/{vhost}/e/amq.topic/e/amq.fanout")
    default = {
        "source": "",
        "vhost": vhost,
        "destination": "q",
        "destination_type": "queue",
        "routing_key": "q",
        "arguments": {},
        "properties_key": "q",
    }
    bound = {
        **default,
        "source": "amq.topic",
        "routing_key": "k",
        "properties_key": "k",
    }
    onward = {
        **bound,
        "destination": "amq.fanout",
        "destination_type": "exchange",
        "routing_key": "",
        "properties_key": "~",
    }
    exchange = f"/api/exchanges/{vhost}"
    get = managed.admin.get
    assert get(f"/api/bindings/{vhost}") == [default, onward, bound]
    assert get(f"/api/queues/{vhost}/q/bindings") == [default, bound]
    assert get(f"{exchange}/amq.topic/bindings/source") == [onward, bound]
    assert get(f"{exchange}/amq.fanout/bindings/destination") == [onward]
    assert get(f"{exchange}/amq.default/bindings/source") == [default]


def test_what_cannot_be_bound_is_not_found_or_refused(managed: Managed) -> None:
    managed.admin.put(f"/api/queues/{managed.vhost}/q")
    base = f"/api/bindings/{managed.vhost}/e"
    missing = managed.admin.post(f"{base}/nope/q/q", {"routing_key": "k"})
    default = managed.admin.post(f"{base}/amq.default/q/q", {"routing_key": "k"})
    strange = managed.admin.post(f"{base}/amq.topic/z/q", {"routing_key": "k"})
    assert (missing.status, missing.json) == (
        404,
        {
            "error": "not_found",
            "reason": f"no exchange 'nope' in vhost '{managed.vhost}'",
        },
    )
    assert default.status == 401
    assert strange.json == NOT_FOUND


def test_mirrors_have_nothing_left_to_do(managed: Managed) -> None:
    managed.admin.put(f"/api/queues/{managed.vhost}/q")
    path = f"/api/queues/{managed.vhost}/q/actions"
    assert managed.admin.post(path, {"action": "sync"}).status == 204
    assert managed.admin.post(path, {"action": "x"}).reason == ["unknown", "x"]


@pytest.mark.parametrize("kind", ["queues", "exchanges"])
@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("a" * 256, "should be less than 255 bytes, actually was 256\n"),
        ("%C3%A9" * 128, "should be less than 255 bytes, actually was 256\n"),
        ("%FF", "should be UTF-8"),
    ],
)
def test_nothing_gets_a_name_that_no_client_can_say(
    kind: str, name: str, why: str, managed: Managed
) -> None:
    path = f"/api/{kind}/{managed.vhost}"
    reply = managed.admin.put(f"{path}/{name}", {"durable": True})
    assert (reply.status, reply.reason) == (400, f"{kind[:-1]} {why}")
    assert name not in {one["name"] for one in managed.admin.get(path)}
    assert managed.admin.call("GET", f"{path}/{name}").status == 404


def test_a_routing_key_that_no_client_can_say_is_refused(managed: Managed) -> None:
    path = f"/api/bindings/{managed.vhost}/e/amq.topic/e/amq.fanout"
    long = managed.admin.post(path, {"routing_key": "k" * 256})
    half = managed.admin.call("POST", path, b'{"routing_key": "\\ud800"}')
    assert (long.status, long.reason) == (
        400,
        "routing_key should be less than 255 bytes, actually was 256\n",
    )
    assert (half.status, half.reason) == (400, "a text is no Unicode")
