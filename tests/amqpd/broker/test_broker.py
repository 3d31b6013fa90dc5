"""The broker: what a start finds, and who may enter."""

from pathlib import Path

import pytest

from amqpd.auth.passwords import verify
from amqpd.auth.permissions import Permission
from amqpd.auth.users import User
from amqpd.broker.broker import Defaults
from amqpd.broker.errors import NotAllowed
from amqpd.wire.properties import PERSISTENT
from tests.support.content import PERSISTENT_PROPERTIES, content_of, publish
from tests.support.control_plane import ControlPlane


@pytest.fixture
def plane(tmp_path: Path) -> ControlPlane:
    return ControlPlane(tmp_path)


# -- a blank directory --------------------------------------------------------


def test_a_blank_directory_gets_a_guest_and_a_virtual_host(
    plane: ControlPlane,
) -> None:
    guest = plane.broker.users.get("guest")
    assert guest is not None
    assert guest.is_administrator
    assert verify("guest", guest.password_hash, guest.algorithm)
    assert not verify("other", guest.password_hash, guest.algorithm)
    rights = plane.broker.permissions.get("guest", "/")
    assert rights is not None
    assert (rights.configure, rights.write, rights.read) == (".*", ".*", ".*")


def test_the_defaults_are_there_after_a_restart(plane: ControlPlane) -> None:
    plane.reopen()
    assert plane.broker.users.names() == ["guest"]
    assert plane.guest().vhost.name == "/"


def test_defaults_are_for_a_blank_directory_only(plane: ControlPlane) -> None:
    plane.broker.create_defaults(Defaults("joe", "secret", "v"))
    assert plane.broker.users.names() == ["guest"]
    assert list(plane.broker.vhosts) == ["/"]


# -- a restart ----------------------------------------------------------------


def test_what_is_durable_is_there_after_a_restart(plane: ControlPlane) -> None:
    guest = plane.guest()
    plane.declare_exchange(
        guest, "x", "topic", durable=True, table={"alternate-exchange": "y"}
    )
    plane.declare_queue(
        guest, "q", durable=True, auto_delete=True, table={"x-max-priority": 5}
    )
    plane.declare_queue(guest, "transient")
    plane.commit()
    plane.bind(guest, "x", "q", b"a.*", table={"a": 1})
    plane.bind(guest, "amq.direct", "q")
    plane.bind(guest, "amq.direct", "x", to_exchange=True)
    plane.bind(guest, "x", "transient")
    plane.commit()
    old = plane.vhost.queues["q"]
    plane.reopen()
    exchange, queue = plane.vhost.exchanges["x"], plane.vhost.queues["q"]
    assert (exchange.type_name, exchange.alternate) == ("topic", "y")
    assert (queue.id, queue.auto_delete, queue.arguments) == (
        old.id,
        True,
        {"x-max-priority": 5},
    )
    assert "transient" not in plane.vhost.queues
    assert plane.bindings() == {
        ("x", "q", b"a.*"),
        ("amq.direct", "q", b"k"),
        ("amq.direct", "x", b"k"),
    }


def test_a_binding_is_the_same_after_a_restart(plane: ControlPlane) -> None:
    guest = plane.guest()
    plane.declare_queue(guest, "q", durable=True)
    plane.commit()
    plane.bind(guest, "amq.topic", "q", table={"b": 1, "a": 2})
    plane.commit()
    plane.reopen()
    again = plane.bind(plane.guest(), "amq.topic", "q", table={"a": 2, "b": 1})
    assert again.value is None


def test_messages_are_back_in_their_places(plane: ControlPlane) -> None:
    client = plane.bench.connect()
    client.declare("q", durable=True)
    for body in (b"one", b"two", b"three"):
        client.send(publish("q", body, properties=PERSISTENT_PROPERTIES))
    client.send(publish("q", b"transient"))
    taken = plane.vhost.queues["q"].get(no_ack=False)
    assert taken is not None
    plane.reopen()
    queue = plane.vhost.queues["q"]
    assert queue.ready_count == 3
    for body in (b"one", b"two", b"three"):
        reference = queue.get(no_ack=True)
        assert reference is not None
        assert reference.message.content == content_of(body, PERSISTENT_PROPERTIES)


def test_a_delivered_message_comes_back_as_redelivered(plane: ControlPlane) -> None:
    client = plane.bench.connect()
    client.declare("q", durable=True)
    for body in (b"one", b"two"):
        client.send(publish("q", body, properties=PERSISTENT_PROPERTIES))
    plane.bench.sync()
    plane.vhost.queues["q"].get(no_ack=False)
    plane.reopen()
    queue = plane.vhost.queues["q"]
    first, second = queue.get(no_ack=False), queue.get(no_ack=False)
    assert first is not None
    assert second is not None
    assert (first.redelivered, second.redelivered) == (True, False)


def test_new_messages_come_after_recovered_ones(plane: ControlPlane) -> None:
    client = plane.bench.connect()
    client.declare("q", durable=True)
    client.send(publish("q", b"old", properties=PERSISTENT_PROPERTIES))
    plane.reopen()
    queue = plane.vhost.queues["q"]
    old = queue.get(no_ack=False)
    assert old is not None
    client = plane.bench.connect()
    client.send(publish("q", b"new", properties=PERSISTENT_PROPERTIES))
    new = queue.get(no_ack=False)
    assert new is not None
    assert new.seq > old.seq


def test_a_recovered_message_that_was_acked_does_not_come_again(
    plane: ControlPlane,
) -> None:
    client = plane.bench.connect()
    client.declare("q", durable=True)
    client.send(publish("q", b"one", properties=PERSISTENT_PROPERTIES))
    plane.reopen()
    queue = plane.vhost.queues["q"]
    taken = queue.get(no_ack=False)
    assert taken is not None
    assert taken.message.facts & PERSISTENT
    queue.settle(taken)
    plane.reopen()
    assert plane.vhost.queues["q"].ready_count == 0


def test_every_queue_has_its_copy_of_one_message_again(plane: ControlPlane) -> None:
    client = plane.bench.connect()
    guest = plane.guest()
    for name in ("a", "b"):
        client.declare(name, durable=True)
        plane.bind(guest, "amq.fanout", name)
        plane.commit()
    client.send(
        publish("", b"one", exchange="amq.fanout", properties=PERSISTENT_PROPERTIES)
    )
    plane.reopen()
    one = plane.vhost.queues["a"].get(no_ack=True)
    other = plane.vhost.queues["b"].get(no_ack=True)
    assert one is not None
    assert other is not None
    assert (
        one.message.content
        == other.message.content
        == content_of(b"one", PERSISTENT_PROPERTIES)
    )


# -- entering -----------------------------------------------------------------


def test_a_virtual_host_must_be_there(plane: ControlPlane) -> None:
    user = plane.broker.users.get("guest")
    assert user is not None
    for name, told in (("nope", "vhost nope not found"), ("", "vhost  not found")):
        with pytest.raises(NotAllowed, match=told):
            plane.broker.open_vhost(user, name, object())


def test_entering_needs_an_entry(plane: ControlPlane) -> None:
    joe = User("joe", "")
    with pytest.raises(NotAllowed) as caught:
        plane.broker.open_vhost(joe, "/", object())
    assert caught.value.text == "access to vhost '/' refused for user 'joe'"
    plane.broker.permissions.put(Permission("joe", "/", "", "", ""))
    assert plane.broker.open_vhost(joe, "/", object()).user is joe


def test_a_virtual_host_is_made_once(plane: ControlPlane) -> None:
    vhost = plane.vhost
    plane.broker.add_vhost("/")
    assert plane.vhost is vhost
