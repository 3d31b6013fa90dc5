"""Rows: what is written comes back, wholly or not at all."""

from pathlib import Path

import pytest

from amqpd.broker.catalogue.catalogue import (
    SCHEMA,
    SCHEMA_VERSION,
    Catalogue,
    CommitFailed,
)
from amqpd.broker.catalogue.statements import (
    delete_binding,
    delete_exchange,
    delete_queue,
    insert_binding,
    insert_exchange,
    insert_queue,
    put_parameter,
    put_permission,
    put_topic_permission,
    put_user,
    put_vhost,
)
from amqpd.broker.exchange import Exchange
from routing.binding import Binding
from routing.delayed import DELAYED
from store.filesystem import OsFileSystem
from store.metadata import Metadata
from tests.support.control_plane import arguments

BINDING = Binding("x", "q", False, b"k\xff", {}, b"raw")


@pytest.fixture
def metadata(tmp_path: Path) -> Metadata:
    (tmp_path / "log").mkdir()
    path = str(tmp_path / "meta.db")
    return Metadata.open(path, SCHEMA, SCHEMA_VERSION, OsFileSystem())


@pytest.fixture
def catalogue(metadata: Metadata) -> Catalogue:
    return Catalogue(metadata)


def test_a_new_catalogue_is_empty(catalogue: Catalogue) -> None:
    assert not catalogue.users()
    assert not catalogue.vhosts()
    assert not catalogue.permissions()
    assert not catalogue.exchanges()
    assert not catalogue.queues()
    assert not catalogue.bindings()
    assert catalogue.known_queue_ids() == set()
    assert catalogue.highest_queue_id() == 0
    assert (catalogue.has_work, catalogue.begin()) == (False, None)


def test_users_come_back(catalogue: Catalogue) -> None:
    catalogue.commit_now(put_user("joe", "old", "a", ()))
    catalogue.commit_now(put_user("joe", "hash", "algorithm", ("one", "two")))
    (row,) = catalogue.users()
    assert (row.name, row.password_hash, row.algorithm) == ("joe", "hash", "algorithm")
    assert row.tags == ("one", "two")


def test_virtual_hosts_come_back(catalogue: Catalogue) -> None:
    catalogue.commit_now(put_vhost("b", {}) + put_vhost("a", {}))
    catalogue.commit_now(put_vhost("a", {"description": "changed"}))
    assert catalogue.vhosts() == ["a", "b"]


def test_permissions_come_back(catalogue: Catalogue) -> None:
    catalogue.commit_now(put_permission("joe", "/", "x", "x", "x"))
    catalogue.commit_now(put_permission("joe", "/", "c", "w", "r"))
    (row,) = catalogue.permissions()
    assert (row.user, row.vhost) == ("joe", "/")
    assert (row.configure, row.write, row.read) == ("c", "w", "r")


def test_topic_permissions_come_back(catalogue: Catalogue) -> None:
    catalogue.commit_now(put_topic_permission("joe", "/", "x", "x", "x"))
    catalogue.commit_now(put_topic_permission("joe", "/", "x", "w", "r"))
    (row,) = catalogue.topic_permissions()
    assert (row.user, row.vhost, row.exchange) == ("joe", "/", "x")
    assert (row.write, row.read) == ("w", "r")


def test_what_is_only_kept_is_kept(catalogue: Catalogue, metadata: Metadata) -> None:
    catalogue.commit_now(put_parameter("/", "policy", "p", {"pattern": "^q"}))
    assert metadata.query("SELECT * FROM parameters") == [
        ("/", "policy", "p", '{"pattern": "^q"}')
    ]


def test_exchanges_come_back(catalogue: Catalogue) -> None:
    exchange = Exchange("x", "topic", True, True, False, arguments({"a": 1}))
    catalogue.commit_now(insert_exchange("/", exchange))
    (row,) = catalogue.exchanges()
    assert (row.vhost, row.name, row.type_name) == ("/", "x", "topic")
    assert (row.auto_delete, row.internal) == (True, False)
    assert row.arguments == exchange.arguments.raw


def test_where_messages_wait_has_an_id_as_a_queue_has(catalogue: Catalogue) -> None:
    exchange = Exchange("x", DELAYED, True, False, False, arguments({}))
    room_id = catalogue.commit_now(insert_exchange("/", exchange))[0]
    (queue_id,) = catalogue.commit_now(insert_queue("/", "q", False, b""))
    assert queue_id == room_id + 1
    assert [row.id for row in catalogue.queues()] == [queue_id]
    (row,) = catalogue.exchanges()
    assert row.waiting_room_id == room_id
    (room,) = catalogue.waiting_rooms()
    assert (room.vhost, room.name) == ("/", "delayed messages of exchange 'x'")
    assert catalogue.known_queue_ids() == {room_id, queue_id}


def test_the_id_of_a_waiting_room_never_comes_again(catalogue: Catalogue) -> None:
    exchange = Exchange("x", DELAYED, True, False, False, arguments({}))
    first = catalogue.commit_now(insert_exchange("/", exchange))[0]
    catalogue.commit_now(delete_exchange("/", "x"))
    assert catalogue.known_queue_ids() == set()
    assert catalogue.highest_queue_id() == first
    assert catalogue.commit_now(insert_exchange("/", exchange))[0] == first + 1


def test_queues_come_back_with_their_ids(catalogue: Catalogue) -> None:
    ids = catalogue.commit_now(
        insert_queue("/", "b", True, b"raw") + insert_queue("/", "a", False, b"")
    )
    rows = catalogue.queues()
    assert [row.id for row in rows] == ids
    assert [(row.vhost, row.name) for row in rows] == [("/", "b"), ("/", "a")]
    assert [(row.auto_delete, row.arguments) for row in rows] == [
        (True, b"raw"),
        (False, b""),
    ]
    assert catalogue.known_queue_ids() == set(ids)


def test_a_queue_with_levels_has_the_ids_that_follow(catalogue: Catalogue) -> None:
    first, _, second = catalogue.commit_now(
        insert_queue("/", "levels", False, b"", 10) + insert_queue("/", "q", False, b"")
    )
    assert [list(row.ids()) for row in catalogue.queues()] == [
        list(range(first, first + 10)),
        [second],
    ]
    assert second == first + 10
    assert catalogue.known_queue_ids() == set(range(first, second + 1))


def test_ids_of_levels_never_come_again(catalogue: Catalogue) -> None:
    levels = insert_queue("/", "q", False, b"", 256)
    first = catalogue.commit_now(levels)[0]
    assert catalogue.highest_queue_id() == first + 255
    catalogue.commit_now(delete_queue("/", first, "q"))
    assert catalogue.highest_queue_id() == first + 255
    assert catalogue.commit_now(levels)[0] == first + 256


def test_the_highest_id_is_of_a_queue_that_may_have_gone(catalogue: Catalogue) -> None:
    (queue_id,) = catalogue.commit_now(insert_queue("/", "q", False, b""))
    catalogue.commit_now(delete_queue("/", queue_id, "q"))
    assert catalogue.known_queue_ids() == set()
    assert catalogue.highest_queue_id() == queue_id


def test_bindings_come_back(catalogue: Catalogue) -> None:
    catalogue.commit_now(insert_binding("/", BINDING))
    catalogue.commit_now(insert_binding("/", BINDING))
    (row,) = catalogue.bindings()
    assert (row.vhost, row.source, row.destination) == ("/", "x", "q")
    assert (row.to_exchange, row.routing_key, row.arguments) == (
        False,
        b"k\xff",
        b"raw",
    )


def test_a_binding_goes_alone(catalogue: Catalogue) -> None:
    other = Binding("x", "q", True, b"k\xff", {}, b"raw")
    catalogue.commit_now(insert_binding("/", BINDING) + insert_binding("/", other))
    catalogue.commit_now(delete_binding("/", BINDING))
    assert [row.to_exchange for row in catalogue.bindings()] == [True]


def test_bindings_go_with_either_end(catalogue: Catalogue) -> None:
    (queue_id,) = catalogue.commit_now(insert_queue("/", "q", False, b""))
    to_exchange = Binding("y", "x", True, b"", {}, b"")
    elsewhere = Binding("y", "q", True, b"", {}, b"")
    for vhost, binding in (
        ("/", BINDING),
        ("/", to_exchange),
        ("/", elsewhere),
        ("v", BINDING),
    ):
        catalogue.commit_now(insert_binding(vhost, binding))
    catalogue.commit_now(delete_queue("/", queue_id, "q"))
    assert len(catalogue.bindings()) == 3
    catalogue.commit_now(delete_exchange("/", "x"))
    left = [(row.vhost, row.source, row.destination) for row in catalogue.bindings()]
    assert sorted(left) == [("/", "y", "q"), ("v", "x", "q")]


def test_a_change_happens_wholly_or_not_at_all(catalogue: Catalogue) -> None:
    queue = insert_queue("/", "q", False, b"")
    with pytest.raises(CommitFailed, match="UNIQUE"):
        catalogue.commit_now(insert_queue("/", "other", False, b"") + queue + queue)
    assert catalogue.queues() == []


def test_no_errand_is_no_work(catalogue: Catalogue) -> None:
    catalogue.stage_errand([])
    assert not catalogue.has_work


def test_the_order_of_errands_and_changes_is_kept(catalogue: Catalogue) -> None:
    (queue_id,) = catalogue.commit_now(insert_queue("/", "q", False, b""))
    catalogue.stage_errand(delete_queue("/", queue_id, "q"))
    (new_id,) = catalogue.commit_now(insert_queue("/", "q", False, b""))
    assert catalogue.known_queue_ids() == {new_id}


def test_a_closed_catalogue_cannot_be_read(catalogue: Catalogue) -> None:
    catalogue.close()
    with pytest.raises(Exception, match="closed"):
        catalogue.users()
