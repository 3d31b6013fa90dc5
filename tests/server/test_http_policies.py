"""Policies, parameters and limits over HTTP: what RabbitMQ answers, and what happens.

The answers are those of RabbitMQ's management API to the same calls, but for texts
where ours has more to say.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

import pika
import pika.exceptions
import pytest

from amqpd.testing import AmqpdServer
from tests.support.http_client import HttpClient
from tests.support.waiting import eventually

FAILED: Final = "Validation failed\n\n%s\n"
NOT_FOUND: Final = {"error": "Object Not Found", "reason": "Not Found"}


@pytest.fixture(scope="module")
def server() -> Iterator[AmqpdServer]:
    hashing = {"AMQPD_PASSWORD_HASHING": "argon2id"}
    with AmqpdServer(http=True, env=hashing) as server:
        yield server


@pytest.fixture
def api(server: AmqpdServer) -> Iterator[HttpClient]:
    with HttpClient(server.http_port, "guest", "guest") as client:
        assert client.put("/api/vhosts/v").status == 201
        yield client
        assert client.delete("/api/vhosts/v").status == 204


@pytest.fixture
def connect(server: AmqpdServer) -> Iterator[Callable[[], pika.BlockingConnection]]:
    made: list[pika.BlockingConnection] = []

    def make() -> pika.BlockingConnection:
        url = f"amqp://guest:guest@127.0.0.1:{server.port}/v"
        made.append(pika.BlockingConnection(pika.URLParameters(url)))
        return made[-1]

    yield make
    for connection in made:
        if connection.is_open:
            connection.close()


def policy(definition: object, **fields: object) -> dict[str, object]:
    said = {key.replace("_", "-"): value for key, value in fields.items()}
    return {"pattern": ".*", "definition": definition, **said}


# -- answers --------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["policies", "operator-policies"])
def test_a_policy_is_set_shown_replaced_and_cleared(api: HttpClient, kind: str) -> None:
    path = f"/api/{kind}/v/p"
    first = policy({"max-length": 1}, apply_to="queues", priority=3, name="x", z=1)
    assert api.put(path, first).status == 201
    assert api.put(path, policy({"expires": 9}, apply_to="queues")).status == 204
    expected = {
        "vhost": "v",
        "name": "p",
        "pattern": ".*",
        "apply-to": "queues",
        "definition": {"expires": 9},
        "priority": 0,
    }
    assert api.get(path) == expected
    assert api.get(f"/api/{kind}/v") == api.get(f"/api/{kind}") == [expected]
    assert api.delete(path).status == 204
    for method in ("GET", "DELETE"):
        reply = api.call(method, path)
        assert (reply.status, reply.json) == (404, NOT_FOUND)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ({"pattern": "x"}, "[{key_missing,definition}]"),
        ({"definition": {"expires": 1}}, "[{key_missing,pattern}]"),
        (policy({}), "Validation failed\n\nno policy provided\n"),
        (
            policy({"foo": 1, "bar": 2}),
            FAILED % '[{<<"bar">>,2},{<<"foo">>,1}] are not recognised policy settings',
        ),
        (
            policy({"max-length": -1}),
            "Validation failed\n\n-1 is not a valid maximum length\n",
        ),
        (
            policy({"expires": 1}, priority="7"),
            'Validation failed\n\npriority should be a number, actually was <<"7">>\n',
        ),
        (
            {"pattern": 5, "definition": {"expires": 1}},
            "Validation failed\n\npattern should be a binary but was 5\n",
        ),
        (b"nojson", "not_json"),
        (b"[]", "not_json"),
    ],
)
def test_a_policy_that_cannot_be_is_refused(
    api: HttpClient, body: object, reason: str
) -> None:
    reply = api.call("PUT", "/api/policies/v/p", body)
    assert (reply.status, reply.json["error"]) == (400, "bad_request")
    assert reply.reason == reason
    assert api.get("/api/policies/v") == []


def test_a_policy_for_no_virtual_host_is_refused(api: HttpClient) -> None:
    body = policy({"expires": 1})
    for kind in ("policies", "operator-policies"):
        assert api.put(f"/api/{kind}/nowhere/p", body).status == 404
        assert api.call("GET", f"/api/{kind}/nowhere").status == 404


def test_parameters_have_their_components(api: HttpClient) -> None:
    path = "/api/parameters/vhost-limits/v/limits"
    assert api.put(path, {"value": {"max-queues": 4}}).status == 201
    expected = {
        "value": {"max-queues": 4},
        "vhost": "v",
        "component": "vhost-limits",
        "name": "limits",
    }
    assert api.get(path) == expected
    for listed in ("", "/vhost-limits", "/vhost-limits/v"):
        assert api.get("/api/parameters" + listed) == [expected]
    assert api.get("/api/parameters/shovel/v") == []
    assert api.put(path, {"value": {"max-queues": 5}}).status == 204
    assert api.delete(path).status == 204
    assert api.delete(path).status == 404


@pytest.mark.parametrize(
    ("place", "body", "reason"),
    [
        (
            "shovel/v/s",
            {"value": {}},
            "Validation failed\n\ncomponent shovel not found\n",
        ),
        (
            "policy/v/p",
            {"value": policy({"expires": 1})},
            "policies may not be set using this method",
        ),
        ("vhost-limits/v/limits", {}, "[{key_missing,value}]"),
        (
            "vhost-limits/v/limits",
            {"value": {"max-foo": 4}},
            'Validation failed\n\nUnrecognised terms [{<<"max-foo">>,4}] in limits\n',
        ),
    ],
)
def test_a_parameter_that_cannot_be_is_refused(
    api: HttpClient, place: str, body: object, reason: str
) -> None:
    reply = api.call("PUT", f"/api/parameters/{place}", body)
    assert (reply.status, reply.reason) == (400, reason)


def test_global_parameters_are_any_json(api: HttpClient) -> None:
    path = "/api/global-parameters/g"
    assert api.put(path, {"value": {"a": 1}}).status == 201
    value = [1, "b", None, 1.5, True]
    assert api.put(path, {"value": value, "name": "other"}).status == 204
    assert api.get(path) == {"name": "g", "value": value}
    assert {"name": "g", "value": value} in api.get("/api/global-parameters")
    assert api.call("PUT", path, {}).reason == "[{key_missing,value}]"
    assert api.delete(path).status == 204
    assert api.delete(path).status == 404


def test_limits_of_a_virtual_host_are_set_one_by_one(api: HttpClient) -> None:
    path = "/api/vhost-limits/v"
    assert api.get(path) == []
    assert api.put(f"{path}/max-connections", {"value": 10}).status == 204
    assert api.put(f"{path}/max-queues", {"value": -5}).status == 204
    expected = [{"vhost": "v", "value": {"max-connections": 10, "max-queues": -5}}]
    assert api.get(path) == api.get("/api/vhost-limits") == expected
    for name, value, told in (
        ("max-queues", "x", 'max-queues should be a number, actually was <<"x">>'),
        ("max-queues", 1.5, "max-queues should be a number, actually was 1.5"),
        ("foo", 5, 'Unrecognised terms [{<<"foo">>,5}] in limits'),
    ):
        reply = api.put(f"{path}/{name}", {"value": value})
        expected_reason = f"Validation failed\n\n{told}\n"
        assert (reply.status, reply.reason) == (400, expected_reason)
    for name in ("max-queues", "max-connections", "max-connections", "foo"):
        assert api.delete(f"{path}/{name}").status == 204
    assert api.get(path) == []
    assert api.put("/api/vhost-limits/nowhere/max-queues", {"value": 1}).status == 404


def test_limits_of_a_user_are_set_one_by_one(api: HttpClient) -> None:
    assert api.put("/api/users/joe", {"password": "p", "tags": ""}).status == 201
    path = "/api/user-limits/joe"
    assert api.get(path) == []
    assert api.put(f"{path}/max-connections", {"value": 3}).status == 204
    assert api.put(f"{path}/max-channels", {"value": -3}).status == 204
    limits = {"max-channels": -3, "max-connections": 3}
    expected = [{"user": "joe", "value": limits}]
    assert api.get(path) == api.get("/api/user-limits") == expected
    assert api.get("/api/users/joe")["limits"] == limits
    reply = api.put(f"{path}/max-foo", {"value": 4})
    told = 'Unrecognised terms [{<<"max-foo">>,4}] in user-limits'
    assert (reply.status, reply.reason) == (400, told)
    assert api.delete(f"{path}/max-channels").status == 204
    assert api.get(path) == [{"user": "joe", "value": {"max-connections": 3}}]
    assert api.delete("/api/users/joe").status == 204
    assert api.call("GET", path).status == 404
    assert api.get("/api/user-limits") == []
    reply = api.put(f"{path}/max-channels", {"value": 1})
    assert (reply.status, reply.json["reason"]) == (400, ["no_such_user", "joe"])


# -- what happens ---------------------------------------------------------------


def test_a_policy_acts_on_what_is_there_before_the_answer(
    api: HttpClient, connect: Callable[[], pika.BlockingConnection]
) -> None:
    channel = connect().channel()
    channel.confirm_delivery()
    channel.queue_declare("q", durable=True)
    channel.queue_declare("dead")
    for number in range(5):
        channel.basic_publish("", "q", b"%d" % number)
    body = policy(
        {
            "max-length": 2,
            "dead-letter-exchange": "",
            "dead-letter-routing-key": "dead",
        },
        pattern="^q$",
    )
    assert api.put("/api/policies/v/p", body).status == 201
    counts = [
        channel.queue_declare(name, passive=True).method.message_count
        for name in ("q", "dead")
    ]
    assert counts == [2, 3]
    assert channel.basic_get("q", auto_ack=True)[2] == b"3"
    shown = api.get("/api/queues/v/q")
    assert shown["policy"] == "p"
    assert shown["operator_policy"] is None
    assert shown["effective_policy_definition"] == body["definition"]


def test_both_kinds_of_policies_are_shown_together(
    api: HttpClient, connect: Callable[[], pika.BlockingConnection]
) -> None:
    channel = connect().channel()
    channel.queue_declare("q", durable=True, arguments={"x-max-length": 9})
    definition = {"max-length": 5, "message-ttl": 500_000, "overflow": "reject-publish"}
    assert api.put("/api/policies/v/p", policy(definition)).status == 201
    bounds = policy({"max-length": 4, "expires": 900_000}, apply_to="queues")
    assert api.put("/api/operator-policies/v/op", bounds).status == 201
    shown = api.get("/api/queues/v/q")
    assert (shown["policy"], shown["operator_policy"]) == ("p", "op")
    assert shown["effective_policy_definition"] == {
        "max-length": 4,
        "message-ttl": 500_000,
        "expires": 900_000,
        "overflow": "reject-publish",
    }
    assert api.get("/api/exchanges/v/amq.direct")["policy"] == "p"


def test_policies_last() -> None:
    with AmqpdServer(http=True) as server:
        with HttpClient(server.http_port, "guest", "guest") as api:
            assert (
                api.put("/api/policies/%2F/p", policy({"max-length": 5})).status == 201
            )
            assert api.put("/api/queues/%2F/q", {"durable": True}).status == 201
            assert api.put("/api/vhost-limits/%2F/max-queues", {"value": 1}).status
        server.restart()
        with HttpClient(server.http_port, "guest", "guest") as api:
            assert api.get("/api/queues/%2F/q")["policy"] == "p"
            reply = api.put("/api/queues/%2F/r", {"durable": True})
            assert (reply.status, reply.reason) == (
                400,
                "cannot declare queue 'r': queue limit in vhost '/' (1) is reached",
            )


def test_a_queue_goes_by_a_policy(api: HttpClient) -> None:
    assert api.put("/api/queues/v/q", {"durable": True}).status == 201
    assert api.put("/api/policies/v/p", policy({"expires": 50})).status == 201
    eventually(lambda: api.call("GET", "/api/queues/v/q").status == 404)


def test_a_virtual_host_lets_in_as_many_as_it_may(
    api: HttpClient, connect: Callable[[], pika.BlockingConnection]
) -> None:
    connect()
    assert api.put("/api/vhost-limits/v/max-connections", {"value": 1}).status == 204
    with pytest.raises(pika.exceptions.ProbableAccessDeniedError) as caught:
        connect()
    assert "connection limit (1) is reached" in str(caught.value)
    assert api.delete("/api/vhost-limits/v/max-connections").status == 204
    connect()


def test_a_user_opens_as_many_channels_as_it_may(
    api: HttpClient, connect: Callable[[], pika.BlockingConnection]
) -> None:
    assert api.put("/api/user-limits/guest/max-channels", {"value": 1}).status == 204
    connection = connect()
    connection.channel()
    with pytest.raises(pika.exceptions.ConnectionClosedByBroker) as caught:
        connection.channel()
    assert caught.value.reply_code == 530
    assert api.delete("/api/user-limits/guest/max-channels").status == 204


def test_queues_are_of_the_virtual_hosts_type(api: HttpClient) -> None:
    body = {"default_queue_type": "quorum"}
    assert api.put("/api/vhosts/v", body).status == 204
    assert api.put("/api/queues/v/q", {"durable": True}).status == 201
    assert api.get("/api/queues/v/q")["type"] == "quorum"


def test_what_is_protected_is_not_deleted(api: HttpClient) -> None:
    assert api.post("/api/vhosts/v/deletion/protection").status == 204
    reply = api.delete("/api/vhosts/v")
    assert (reply.status, reply.json["error"]) == (412, "precondition_failed")
    assert api.delete("/api/vhosts/v/deletion/protection").status == 204


def test_a_virtual_host_that_comes_again_has_nothing_of_the_old_one(
    api: HttpClient,
) -> None:
    assert api.put("/api/policies/v/p", policy({"max-length": 5})).status == 201
    assert api.put("/api/vhost-limits/v/max-queues", {"value": 0}).status == 204
    assert api.delete("/api/vhosts/v").status == 204
    assert api.put("/api/vhosts/v").status == 201
    assert api.get("/api/policies/v") == api.get("/api/vhost-limits/v") == []
    assert api.put("/api/queues/v/q", {"durable": True}).status == 201


# -- logins ---------------------------------------------------------------------


def test_a_new_password_is_kept_as_argon2_and_lets_in(
    server: AmqpdServer, api: HttpClient
) -> None:
    assert api.put("/api/users/joe", {"password": "secret", "tags": ""}).status == 201
    rights: dict[str, Any] = {"configure": ".*", "write": ".*", "read": ".*"}
    assert api.put("/api/permissions/v/joe", rights).status == 201
    user = api.get("/api/users/joe")
    assert user["hashing_algorithm"] == "amqpd_password_hashing_argon2id"
    url = f"amqp://joe:{{}}@127.0.0.1:{server.port}/v"
    pika.BlockingConnection(pika.URLParameters(url.format("secret"))).close()
    with pytest.raises(pika.exceptions.ProbableAuthenticationError):
        pika.BlockingConnection(pika.URLParameters(url.format("wrong")))
    copy = {key: user[key] for key in ("password_hash", "hashing_algorithm", "tags")}
    assert api.put("/api/users/joe", copy).status == 204
    pika.BlockingConnection(pika.URLParameters(url.format("secret"))).close()
    assert api.delete("/api/users/joe").status == 204


def test_rabbitmqs_hashes_may_be_chosen_for_new_passwords() -> None:
    hashing = {"AMQPD_PASSWORD_HASHING": "sha512"}
    with AmqpdServer(http=True, env=hashing) as server:
        with HttpClient(server.http_port, "guest", "guest") as api:
            user = api.get("/api/users/guest")
            assert user["hashing_algorithm"] == "rabbit_password_hashing_sha512"
        pika.BlockingConnection(pika.URLParameters(server.url)).close()


def test_a_policymaker_does_not_lift_what_administrators_have_set(
    server: AmqpdServer, api: HttpClient
) -> None:
    rights = {"configure": "", "write": "", "read": ""}
    api.put("/api/users/pm", {"tags": "policymaker", "password": "x"})
    api.put("/api/permissions/v/pm", rights)
    limits = "/api/parameters/vhost-limits/v/limits"
    bound = "/api/parameters/operator_policy/v/op"
    api.put(limits, {"value": {"max-queues": 4}})
    api.put("/api/operator-policies/v/op", policy({"max-length": 1}))
    with HttpClient(server.http_port, "pm", "x") as joe:
        refused = [
            joe.put(limits, {"value": {}}),
            joe.put(bound, {"value": policy({"max-length": 9})}),
            joe.delete(limits),
            joe.delete(bound),
        ]
        assert [reply.status for reply in refused] == [401] * 4
        assert joe.put("/api/policies/v/p", policy({"max-length": 9})).status == 201
    assert api.get(limits)["value"] == {"max-queues": 4}
    assert api.delete("/api/users/pm").status == 204


def test_a_policymaker_does_not_make_the_broker_search_for_ever(
    server: AmqpdServer, api: HttpClient
) -> None:
    costly = policy({"max-length": 1}, pattern="(a+)+$")
    api.put("/api/users/pm", {"tags": "policymaker", "password": "x"})
    api.put("/api/permissions/v/pm", {"configure": "", "write": "", "read": ""})
    with HttpClient(server.http_port, "pm", "x") as joe:
        reply = joe.put("/api/policies/v/p", costly)
    assert (reply.status, reply.reason) == (
        400,
        "the regular expression is too complex",
    )
    # Who may do everything may do this, too; definitions come from there.
    assert api.put("/api/policies/v/p", costly).status == 201
    assert api.delete("/api/users/pm").status == 204
