"""AMQPStorm's management client, as its users call it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import amqpstorm
import pytest
from amqpstorm.management import ApiError, ManagementApi

from tests.support.waiting import eventually

MakeName = Callable[[str], str]


@pytest.fixture
def api(management_url: str) -> Iterator[Any]:
    """The client, logged in as guest."""
    api = ManagementApi(management_url, "guest", "guest", timeout=20)
    yield api
    api.http_client.session.close()


@pytest.fixture
def vhost(api: Any, make_name: MakeName) -> Iterator[str]:
    """A virtual host that is deleted afterwards."""
    name = make_name("vhost")
    api.virtual_host.create(name)
    yield name
    api.virtual_host.delete(name)


def test_the_broker_is_alive_and_knows_who_asks(api: Any) -> None:
    assert api.aliveness_test("/") == {"status": "ok"}
    assert api.whoami()["name"] == "guest"
    assert api.overview()["rabbitmq_version"]
    assert [node["running"] for node in api.nodes()] == [True]
    assert api.healthchecks.get() == {"status": "ok"}


def test_queues_are_declared_listed_and_deleted(api: Any, vhost: str) -> None:
    api.queue.declare("jobs", vhost, durable=True, arguments={"x-max-length": 5})
    assert api.queue.get("jobs", vhost)["arguments"] == {"x-max-length": 5}
    assert [queue["name"] for queue in api.queue.list(vhost)] == ["jobs"]
    assert [queue["name"] for queue in api.queue.list(vhost, name="J")] == ["jobs"]
    api.queue.delete("jobs", vhost)
    with pytest.raises(ApiError) as refused:
        api.queue.get("jobs", vhost)
    assert refused.value.error_code == 404


def test_messages_go_through_an_exchange_into_a_queue(api: Any, vhost: str) -> None:
    api.exchange.declare("events", exchange_type="topic", virtual_host=vhost)
    api.queue.declare("jobs", vhost)
    api.queue.bind("jobs", "events", "a.#", vhost)
    sent = api.basic.publish(
        "hello", "a.b", "events", vhost, properties={"headers": {"n": 1}}
    )
    lost = api.basic.publish("hello", "b", "events", vhost)
    found = api.basic.get("jobs", vhost, requeue=True, to_dict=True)
    again = api.basic.get("jobs", vhost)
    assert (sent, lost) == ({"routed": True}, {"routed": False})
    assert (found[0]["payload"], found[0]["properties"]) == (
        "hello",
        {"headers": {"n": 1}},
    )
    assert again[0].body == "hello"
    assert api.basic.get("jobs", vhost) == []
    api.queue.unbind("jobs", "events", "a.%23", vhost)
    bound = [one["source"] for one in api.queue.bindings("jobs", vhost)]
    assert bound == [""]
    assert api.exchange.get("events", vhost)["type"] == "topic"
    api.exchange.delete("events", vhost)


def test_a_purge_empties_a_queue(api: Any, vhost: str) -> None:
    api.queue.declare("jobs", vhost)
    api.basic.publish("hello", "jobs", virtual_host=vhost)
    api.queue.purge("jobs", vhost)
    assert api.basic.get("jobs", vhost) == []


def test_users_and_their_rights(api: Any, vhost: str, make_name: MakeName) -> None:
    user = make_name("user")
    api.user.create(user, "secret", tags="monitoring")
    api.user.set_permission(
        user, vhost, configure_regex="^c", write_regex="^w", read_regex="^r"
    )
    rights = {"user": user, "vhost": vhost}
    rights |= {"configure": "^c", "write": "^w", "read": "^r"}
    assert api.user.get(user)["tags"] in (["monitoring"], "monitoring")
    assert api.user.get_permission(user, vhost) == rights
    assert api.user.get_permissions(user) == [rights]
    assert rights in api.virtual_host.get_permissions(vhost)
    api.user.delete_permission(user, vhost)
    assert api.user.get_permissions(user) == []
    api.user.delete(user)
    with pytest.raises(ApiError):
        api.user.get(user)


def connections(api: Any) -> list[Any]:
    """Those of this library, as they are listed."""
    return [
        one
        for one in api.connection.list()
        if one.get("client_properties", {}).get("product") == "AMQPStorm"
    ]


def test_a_connection_is_listed_and_closed(api: Any, amqp_url: str) -> None:
    with amqpstorm.UriConnection(amqp_url) as connection:
        connection.channel()
        # RabbitMQ's lists are up to five seconds old.
        eventually(lambda: bool(connections(api) and api.channel.list()))
        channels = [one["number"] for one in api.channel.list()]
        api.connection.close(connections(api)[0]["name"], reason="because")
        eventually(lambda: bool(connection.exceptions))
        assert "because" in str(connection.exceptions[0])
    assert 1 in channels


def test_a_wrong_password_is_refused(management_url: str) -> None:
    api = ManagementApi(management_url, "guest", "wrong")
    with pytest.raises(ApiError) as refused:
        api.whoami()
    assert refused.value.error_code == 401
