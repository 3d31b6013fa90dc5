"""kombu's manager (pyrabbit underneath), as tools around Celery call it.

What pyrabbit keeps for administrators is left out: it looks for tags that are one text,
which RabbitMQ has not sent since 3.9.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest
from kombu import Connection

from tests.support.waiting import eventually

MakeName = Callable[[str], str]


@pytest.fixture
def manager(amqp_url: str, management_url: str) -> Iterator[Any]:
    """The manager of a connection."""
    parts = urlsplit(management_url)
    options = {"manager_hostname": parts.hostname, "manager_port": parts.port}
    manager = Connection(amqp_url, transport_options=options).manager
    yield manager
    manager.http.client.close()


@pytest.fixture
def vhost(manager: Any, make_name: MakeName) -> Iterator[str]:
    """A virtual host that is deleted afterwards."""
    name = make_name("vhost")
    manager.create_vhost(name)
    yield name
    manager.delete_vhost(name)


def test_the_broker_knows_who_asks_and_what_there_is(manager: Any, vhost: str) -> None:
    assert manager.get_whoami()["name"] == "guest"
    assert manager.get_overview()["rabbitmq_version"]
    assert len(manager.get_nodes()) == 1
    assert manager.get_vhost(vhost)["name"] == vhost
    assert vhost in manager.get_vhost_names()


def test_a_queue_is_filled_counted_read_and_emptied(manager: Any, vhost: str) -> None:
    manager.create_queue(vhost, "jobs", durable=True)
    manager.create_exchange(vhost, "events", "topic")
    manager.create_binding(vhost, "events", "jobs", "a.*")
    assert manager.publish(vhost, "events", "a.b", "hello")
    [message] = manager.get_messages(vhost, "jobs", requeue=True)
    bindings = manager.get_queue_bindings(vhost, "jobs")
    depth = manager.get_queue(vhost, "jobs")["messages_ready"]
    manager.purge_queue(vhost, "jobs")
    assert (message["payload"], depth) == ("hello", 1)
    assert {one["source"] for one in bindings} == {"", "events"}
    assert not manager.get_messages(vhost, "jobs")
    manager.delete_exchange(vhost, "events")
    manager.delete_queue(vhost, "jobs")
    assert manager.get_queues(vhost) == []


def test_users_and_their_rights(manager: Any, vhost: str, make_name: MakeName) -> None:
    user = make_name("user")
    manager.create_user(user, "secret", "management")
    manager.set_vhost_permissions(vhost, user, "^c", "^r", "^w")
    rights = manager.get_permission(vhost, user)
    manager.delete_permission(vhost, user)
    manager.delete_user(user)
    assert (rights["configure"], rights["write"], rights["read"]) == ("^c", "^w", "^r")
    assert manager.get_vhost_permissions(vhost)[0]["user"] == "guest"


def test_a_connection_is_listed_with_its_channel(manager: Any, amqp_url: str) -> None:
    with Connection(amqp_url) as connection:
        connection.default_channel.basic_qos(0, 1, False)

        def is_listed() -> bool:
            # An empty list comes as None.
            listed = manager.get_connections() or []
            connections = {one.get("name") for one in listed}
            channels = manager.get_channels() or []
            owners = {one.get("connection_details", {}).get("name") for one in channels}
            return bool((connections & owners) - {None})

        # RabbitMQ's lists are up to five seconds old.
        eventually(is_listed)
