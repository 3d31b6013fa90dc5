"""What comes and goes without asking: queues that end with consumers or connections."""

from pathlib import Path

import pytest

from amqpd.broker.errors import NotFound, ResourceLocked
from amqpd.broker.vhosts.topology import default_route_key
from tests.support.control_plane import ControlPlane


@pytest.fixture
def plane(tmp_path: Path) -> ControlPlane:
    return ControlPlane(tmp_path)


def test_a_virtual_host_is_born_with_rabbitmqs_exchanges(plane: ControlPlane) -> None:
    exchanges = plane.vhost.exchanges
    assert {name: exchange.type_name for name, exchange in exchanges.items()} == {
        "amq.direct": "direct",
        "amq.fanout": "fanout",
        "amq.topic": "topic",
        "amq.headers": "headers",
        "amq.match": "headers",
        "amq.rabbitmq.event": "topic",
        "amq.rabbitmq.trace": "topic",
    }
    assert all(exchange.durable for exchange in exchanges.values())
    internal = [name for name, exchange in exchanges.items() if exchange.internal]
    assert sorted(internal) == ["amq.rabbitmq.event", "amq.rabbitmq.trace"]


def test_the_default_exchange_knows_every_queue(plane: ControlPlane) -> None:
    name = "n\N{LATIN SMALL LETTER E WITH ACUTE}"
    queue = plane.declare_queue(plane.guest(), name).queue
    assert plane.vhost.default_routes == {b"\x00\x03n\xc3\xa9": queue}
    assert default_route_key(name) == b"\x00\x03n\xc3\xa9"


def test_exclusive_queues_end_with_their_connection(plane: ControlPlane) -> None:
    one, other = plane.guest(), plane.guest()
    for name in ("a", "b"):
        plane.declare_queue(one, name, exclusive=True)
    kept = plane.declare_queue(other, "c", exclusive=True).queue
    one.close()
    assert plane.vhost.queues == {"c": kept}


def test_a_name_is_free_as_soon_as_the_connection_has_ended(
    plane: ControlPlane,
) -> None:
    one, other = plane.guest(), plane.guest()
    plane.declare_queue(one, "q", exclusive=True)
    one.close()
    assert plane.declare_queue(other, "q", exclusive=True).queue.name == "q"


def test_an_exclusive_queue_that_was_deleted_is_forgotten(plane: ControlPlane) -> None:
    guest = plane.guest()
    plane.declare_queue(guest, "q", exclusive=True)
    plane.delete_queue(guest, "q")
    kept = plane.declare_queue(plane.guest(), "q").queue
    guest.close()
    assert plane.vhost.queues == {"q": kept}


def test_a_durable_queue_leaves_memory_at_once_and_its_rows_follow(
    plane: ControlPlane,
) -> None:
    guest = plane.guest()
    queue = plane.declare_queue(guest, "q", durable=True, auto_delete=True)
    plane.commit()
    plane.vhost.queue_unused(queue.queue)
    assert (plane.vhost.queues, len(plane.rows("queues"))) == ({}, 1)
    plane.commit()
    assert plane.rows("queues") == []


def test_a_queue_ends_only_once(plane: ControlPlane) -> None:
    guest = plane.guest()
    old = plane.declare_queue(guest, "q", auto_delete=True).queue
    plane.vhost.queue_unused(old)
    new = plane.declare_queue(guest, "q").queue
    plane.vhost.delete_queue_now(old)
    assert plane.vhost.queues == {"q": new}


def test_a_queue_that_is_not_auto_delete_stays_unused(plane: ControlPlane) -> None:
    queue = plane.declare_queue(plane.guest(), "q").queue
    plane.vhost.queue_unused(queue)
    assert plane.vhost.queues == {"q": queue}


@pytest.mark.parametrize("durable", [True, False])
def test_auto_delete_exchanges_end_with_a_queue_that_ends(
    plane: ControlPlane, durable: bool
) -> None:
    guest = plane.guest()
    plane.declare_exchange(guest, "near", durable=durable, auto_delete=True)
    plane.declare_exchange(guest, "far", durable=durable, auto_delete=True)
    plane.commit()
    plane.bind(guest, "far", "near", to_exchange=True)
    plane.commit()
    plane.declare_queue(guest, "q", exclusive=True)
    plane.bind(guest, "near", "q")
    guest.close()
    assert not {"near", "far"} & set(plane.vhost.exchanges)
    plane.commit()
    assert plane.rows("exchanges") == plane.rows("bindings") == []


def test_an_exchange_that_is_being_bound_outlives_a_queue_that_ends(
    plane: ControlPlane,
) -> None:
    guest = plane.guest()
    plane.declare_exchange(guest, "x", durable=True, auto_delete=True)
    plane.declare_queue(guest, "q", durable=True)
    plane.commit()
    one = plane.guest()
    plane.declare_queue(one, "mine", exclusive=True)
    plane.bind(one, "x", "mine")
    plane.bind(guest, "x", "q")
    one.close()
    plane.commit()
    assert plane.bindings() == {("x", "q", b"k")}
    assert [row[1] for row in plane.rows("exchanges")] == ["x"]


def test_an_exchange_whose_only_hope_was_refused_by_the_disk_ends(
    plane: ControlPlane,
) -> None:
    guest = plane.guest()
    plane.declare_exchange(guest, "x", durable=True, auto_delete=True)
    plane.declare_queue(guest, "q", durable=True)
    plane.commit()
    one = plane.guest()
    plane.declare_queue(one, "mine", exclusive=True)
    plane.bind(one, "x", "mine")
    plane.break_disk("bindings")
    refused = plane.bind(guest, "x", "q")
    one.close()
    plane.commit()
    assert refused.refusal.startswith("506")
    assert "x" not in plane.vhost.exchanges


@pytest.mark.parametrize("is_queue", [True, False])
def test_an_exchange_that_loses_its_bindings_on_two_ways_ends(
    plane: ControlPlane, is_queue: bool
) -> None:
    guest = plane.guest()
    plane.declare_exchange(guest, "x", durable=True, auto_delete=True)
    plane.declare_exchange(guest, "other", durable=True)
    plane.declare_queue(guest, "other", durable=True)
    plane.declare_queue(guest, "q", auto_delete=True)
    plane.commit()
    plane.bind(guest, "x", "q")
    plane.bind(guest, "x", "other", to_exchange=not is_queue)
    plane.commit()
    if is_queue:
        plane.delete_queue(guest, "other")
    else:
        plane.delete_exchange(guest, "other")
    plane.vhost.queue_unused(plane.vhost.queues["q"])
    plane.commit()
    assert "x" not in plane.vhost.exchanges
    assert "x" not in [row[1] for row in plane.rows("exchanges")]


def test_a_queue_that_ends_while_it_is_being_deleted_ends_once(
    plane: ControlPlane,
) -> None:
    guest = plane.guest()
    queue = plane.declare_queue(guest, "q", durable=True)
    plane.commit()
    deleted = plane.delete_queue(guest, "q")
    plane.vhost.delete_queue_now(queue.queue)
    plane.commit()
    assert (deleted.value, plane.rows("queues")) == (0, [])


def test_rows_that_the_disk_would_not_remove_are_removed_later(
    plane: ControlPlane,
) -> None:
    guest = plane.guest()
    queue = plane.declare_queue(guest, "q", durable=True)
    plane.commit()
    plane.break_disk("queues")
    plane.vhost.delete_queue_now(queue.queue)
    plane.commit()
    plane.mend_disk("queues")
    assert len(plane.rows("queues")) == 1
    plane.declare_exchange(guest, "x", durable=True)
    plane.commit()
    assert plane.rows("queues") == []


def test_a_queue_is_found_by_who_may_use_it(plane: ControlPlane) -> None:
    one, other = plane.guest(), plane.guest()
    queue = plane.declare_queue(one, "q", exclusive=True).queue
    assert plane.vhost.find_queue(one, "q") is queue
    with pytest.raises(ResourceLocked):
        plane.vhost.find_queue(other, "q")
    with pytest.raises(NotFound, match="no queue 'z' in vhost '/'"):
        plane.vhost.find_queue(one, "z")
