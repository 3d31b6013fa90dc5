"""Users, rights and virtual hosts change when it is durable, or not at all."""

from collections.abc import Callable
from pathlib import Path

import pytest

from amqpd.auth.permissions import Permission, TopicPermission
from amqpd.auth.users import User
from amqpd.broker.policies.vhost_metadata import NO_METADATA, VhostMetadata
from tests.support.control_plane import ControlPlane, Outcome
from tests.support.delayed import DelayedExchange

NOW = 1_700_000_000_000


@pytest.fixture
def plane(tmp_path: Path) -> ControlPlane:
    return ControlPlane(tmp_path)


def rights_of(plane: ControlPlane, user: str, vhost: str) -> str | None:
    rights = plane.broker.permissions.get(user, vhost)
    return None if rights is None else rights.configure


def test_a_user_is_there_when_it_is_durable(plane: ControlPlane) -> None:
    outcome, users = Outcome(), plane.broker.users
    plane.broker.accounts.put_user(User("joe", "hash", tags=("a",)), outcome)
    before = users.get("joe")
    plane.commit()
    user = users.get("joe")
    assert (before, outcome.value) == (None, None)
    assert user is not None
    assert (user.password_hash, user.tags) == ("hash", ("a",))
    plane.reopen()
    again = plane.broker.users.get("joe")
    assert again is not None
    assert (again.password_hash, again.tags) == ("hash", ("a",))


def test_what_the_disk_refuses_has_not_happened(plane: ControlPlane) -> None:
    plane.break_disk("users")
    made, gone = Outcome(), Outcome()
    plane.broker.accounts.put_user(User("joe", "hash"), made)
    plane.commit()
    plane.broker.accounts.delete_users(["guest"], NOW, gone)
    plane.commit()
    assert made.refusal.startswith("506 the change could not be stored: ")
    assert gone.refusal.startswith("506 the change could not be stored: ")
    assert plane.broker.users.names() == ["guest"]


def test_a_user_goes_with_all_rights(plane: ControlPlane) -> None:
    plane.user(".*", ".*", ".*")
    table = plane.broker.permissions
    table.put_topic(TopicPermission("joe", "/", "x", "a", "b"))
    outcome = Outcome()
    plane.broker.accounts.delete_users(["joe"], NOW, outcome)
    plane.commit()
    assert outcome.value is None
    assert plane.broker.users.names() == ["guest"]
    assert [one.user for one in table.entries()] == ["guest"]
    assert table.topic_entries() == []
    assert [row[0] for row in plane.rows("permissions")] == ["guest"]


def test_rights_come_and_go(plane: ControlPlane) -> None:
    accounts = plane.broker.accounts
    generation = plane.broker.permissions.generation
    plane.broker.users.put(User("joe", ""))
    accounts.put_permission(Permission("joe", "/", "c", "w", "r"), Outcome())
    accounts.put_topic_permission(TopicPermission("joe", "/", "x", "w", "r"), Outcome())
    accounts.put_topic_permission(TopicPermission("joe", "/", "y", "w", "r"), Outcome())
    plane.commit()
    assert rights_of(plane, "joe", "/") == "c"
    assert plane.broker.permissions.generation > generation
    assert plane.rows("topic_permissions") == [
        ("joe", "/", "x", "w", "r"),
        ("joe", "/", "y", "w", "r"),
    ]
    accounts.delete_permission("joe", "/", Outcome())
    accounts.delete_topic_permissions("joe", "/", ["x", "y"], Outcome())
    plane.commit()
    assert rights_of(plane, "joe", "/") is None
    assert plane.broker.permissions.topic_entries() == []
    assert plane.rows("topic_permissions") == []
    assert [row[0] for row in plane.rows("permissions")] == ["guest"]


def test_rights_of_who_has_gone_meanwhile_go_too(plane: ControlPlane) -> None:
    accounts = plane.broker.accounts
    plane.broker.users.put(User("joe", ""))
    accounts.delete_users(["joe"], NOW, Outcome())
    accounts.put_permission(Permission("joe", "/", "c", "w", "r"), Outcome())
    accounts.put_topic_permission(TopicPermission("joe", "/", "x", "w", "r"), Outcome())
    plane.commit()
    assert rights_of(plane, "joe", "/") is None
    assert plane.broker.permissions.topic_entries() == []
    assert [row[0] for row in plane.rows("permissions")] == ["guest"]
    assert plane.rows("topic_permissions") == []


def test_who_makes_a_virtual_host_may_do_everything_in_it(plane: ControlPlane) -> None:
    guest = plane.broker.users.get("guest")
    accounts = plane.broker.accounts
    accounts.put_vhost("v", VhostMetadata("about"), guest, Outcome())
    accounts.put_vhost("w", NO_METADATA, None, Outcome())
    plane.commit()
    assert plane.broker.vhosts["v"].metadata.description == "about"
    assert (rights_of(plane, "guest", "v"), rights_of(plane, "guest", "w")) == (
        ".*",
        None,
    )
    # A change of what is there gives nobody rights.
    accounts.put_vhost("w", VhostMetadata("more"), guest, Outcome())
    plane.commit()
    assert rights_of(plane, "guest", "w") is None
    assert plane.broker.vhosts["w"].metadata.description == "more"
    plane.reopen()
    assert plane.broker.vhosts["w"].metadata.description == "more"


def test_a_virtual_host_goes_with_all_that_is_in_it(plane: ControlPlane) -> None:
    accounts, guest = plane.broker.accounts, plane.guest()
    plane.declare_queue(guest, "q", durable=True)
    plane.declare_exchange(guest, "x", durable=True)
    plane.commit()
    plane.bind(guest, "x", "q", b"k")
    plane.commit()
    vhost = plane.vhost
    outcome = Outcome()
    accounts.delete_vhost(vhost, NOW, outcome)
    # Nobody finds it any more, although it is not gone yet.
    assert "/" not in plane.broker.vhosts
    plane.commit()
    assert outcome.value is None
    for table in ("queues", "exchanges", "bindings", "permissions"):
        assert plane.rows(table) == []
    assert rights_of(plane, "guest", "/") is None
    assert vhost.drop_queues(10) is False
    assert vhost.queues == {}
    plane.reopen()
    assert plane.broker.vhosts == {}


def test_queues_of_a_deleted_virtual_host_are_dropped_bit_by_bit(
    plane: ControlPlane,
) -> None:
    guest = plane.guest()
    queues = [plane.declare_queue(guest, f"q{number}").queue for number in range(5)]
    vhost = plane.vhost
    plane.broker.accounts.delete_vhost(vhost, NOW, Outcome())
    plane.commit()
    more = [vhost.drop_queues(2), vhost.drop_queues(2), vhost.drop_queues(2)]
    assert more == [True, True, False]
    assert all(queue.is_deleted for queue in queues)


def test_nothing_is_declared_in_a_virtual_host_that_goes(plane: ControlPlane) -> None:
    guest = plane.guest()
    begun = plane.declare_queue(guest, "begun", durable=True)
    waiting = plane.declare_queue(guest, "begun", durable=True)
    plane.broker.accounts.delete_vhost(plane.vhost, NOW, Outcome())
    late = plane.declare_queue(guest, "late", durable=True)
    refusal = "320 vhost '/' is deleted"
    assert (waiting.refusal, late.refusal) == (refusal, refusal)
    plane.commit()
    assert begun.is_done
    assert plane.rows("queues") == []
    plane.reopen()
    assert plane.broker.vhosts == {}


def test_a_virtual_host_that_the_disk_keeps_is_back(plane: ControlPlane) -> None:
    vhost, guest, outcome = plane.vhost, plane.guest(), Outcome()
    plane.break_disk("vhosts")
    plane.broker.accounts.delete_vhost(vhost, NOW, outcome)
    plane.commit()
    assert outcome.refusal.startswith("506 ")
    assert plane.broker.vhosts["/"] is vhost
    assert plane.declare_queue(guest, "q").is_done
    assert rights_of(plane, "guest", "/") == ".*"


def test_a_virtual_host_of_the_same_name_begins_anew(plane: ControlPlane) -> None:
    guest = plane.guest()
    plane.declare_queue(guest, "q", durable=True)
    plane.commit()
    accounts = plane.broker.accounts
    accounts.delete_vhost(plane.vhost, NOW, Outcome())
    accounts.put_vhost("/", NO_METADATA, plane.broker.users.get("guest"), Outcome())
    plane.commit()
    assert plane.vhost.queues == {}
    assert rights_of(plane, "guest", "/") == ".*"
    plane.reopen()
    assert plane.vhost.queues == {}


@pytest.mark.parametrize(
    ("end", "text"),
    [
        (
            lambda plane: plane.broker.accounts.delete_vhost(
                plane.vhost, NOW, Outcome()
            ),
            "CONNECTION_FORCED - vhost '/' is deleted",
        ),
        (
            lambda plane: plane.broker.accounts.delete_users(["guest"], NOW, Outcome()),
            "CONNECTION_FORCED - user 'guest' is deleted",
        ),
    ],
    ids=["vhost", "user"],
)
def test_connections_end_when_it_is_durable(
    end: Callable[[ControlPlane], None], text: str, plane: ControlPlane
) -> None:
    pair = plane.bench.connect()
    end(plane)
    plane.bench.turn()
    assert len(plane.broker.connections.of_user("guest")) == 1
    plane.commit()
    closed = pair.expect_close(0)
    assert (closed.code, closed.text) == (320, text)
    assert plane.broker.connections.all() == []


def test_a_change_does_not_bring_a_virtual_host_back_that_is_being_deleted(
    plane: ControlPlane,
) -> None:
    accounts = plane.broker.accounts
    accounts.put_vhost("/", VhostMetadata("about"), None, Outcome())
    accounts.delete_vhost(plane.vhost, NOW, Outcome())
    plane.commit()
    assert plane.broker.vhosts == {}
    plane.reopen()
    assert plane.broker.vhosts == {}


def test_what_is_dropped_late_takes_no_rows_of_a_virtual_host_of_the_same_name(
    plane: ControlPlane,
) -> None:
    def declare() -> None:
        guest = plane.guest()
        plane.declare_queue(guest, "q", durable=True)
        plane.declare_exchange(guest, "x", durable=True, auto_delete=True)
        plane.commit()
        plane.bind(guest, "x", "q", b"k")
        plane.commit()

    declare()
    before, accounts = plane.vhost, plane.broker.accounts
    accounts.delete_vhost(before, NOW, Outcome())
    accounts.put_vhost("/", NO_METADATA, plane.broker.users.get("guest"), Outcome())
    plane.commit()
    declare()
    assert before.drop_queues(10) is False
    plane.commit()
    assert len(plane.rows("bindings")) == len(plane.rows("exchanges")) == 1
    plane.reopen()
    assert plane.bindings() == {("x", "q", b"k")}


def test_what_waits_at_exchanges_goes_with_the_virtual_host(
    plane: ControlPlane,
) -> None:
    delayed = DelayedExchange(plane.bench)
    delayed.publish(b"later", 5000)
    room, vhost = delayed.room, plane.vhost
    plane.broker.accounts.delete_vhost(vhost, NOW, Outcome())
    plane.commit()
    assert vhost.drop_queues(10) is False
    assert room.is_deleted
    assert vhost.surroundings.queues_by_id == {}
