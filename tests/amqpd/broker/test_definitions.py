"""Loading definitions: what is there afterwards, once, and after a restart."""

import json
import logging
from pathlib import Path
from typing import Any

import pytest

from amqpd.auth.passwords import verify
from amqpd.auth.permissions import Permission
from amqpd.broker.arguments import Arguments, queue_type
from amqpd.broker.catalogue.catalogue import CommitFailed
from amqpd.broker.definition_file import (
    DefinitionsInvalid,
    read_definitions,
    read_vhost_definitions,
)
from amqpd.broker.definitions import Loading, NameHold, load_definitions
from amqpd.broker.policies.vhost_metadata import NO_METADATA
from routing.binding import Binding
from tests.support.control_plane import ControlPlane, Outcome

FILE: dict[str, Any] = {
    "rabbit_version": "3.13.7",
    "users": [
        {"name": "joe", "password": "secret", "tags": ["management"]},
        {
            "name": "guest",
            "password_hash": "AQIDBEMMOXwY6PKx/JKP9PAqfsb4ozuD0Ta3pxxa9gEYBMmD",
            "hashing_algorithm": "rabbit_password_hashing_sha256",
            "tags": "administrator",
        },
    ],
    "vhosts": [{"name": "v"}, {"name": "/"}],
    "permissions": [
        {"user": "joe", "vhost": "v", "configure": "^c", "write": "^w", "read": "^r"}
    ],
    "exchanges": [
        {"name": "x", "vhost": "v", "type": "topic", "durable": True},
        {"name": "t", "vhost": "v", "type": "fanout", "durable": False},
    ],
    "queues": [
        {"name": "q", "vhost": "v", "durable": True, "arguments": {"x-max-length": 5}},
        {"name": "u", "vhost": "v", "durable": False},
    ],
    "bindings": [
        {
            "source": source,
            "vhost": "v",
            "destination": destination,
            "destination_type": kind,
            "routing_key": "k",
            "arguments": {},
        }
        for source, destination, kind in (
            ("x", "q", "queue"),
            ("t", "q", "queue"),
            ("amq.topic", "x", "exchange"),
            ("", "q", "queue"),
        )
    ],
}


@pytest.fixture
def plane(tmp_path: Path) -> ControlPlane:
    return ControlPlane(tmp_path)


def changed(**sections: object) -> dict[str, Any]:
    """The file with other sections."""
    return {**FILE, **sections}


def test_everything_is_there_at_once(plane: ControlPlane) -> None:
    load_definitions(plane.broker, FILE)
    vhost = plane.broker.vhosts["v"]
    assert {"x", "t", "amq.topic"} <= set(vhost.exchanges)
    assert {name: queue.durable for name, queue in vhost.queues.items()} == {
        "q": True,
        "u": False,
    }
    ends = {(one.source, one.destination) for one in vhost.router.bindings()}
    assert ends == {("x", "q"), ("t", "q"), ("amq.topic", "x")}
    joe = plane.broker.users.get("joe")
    assert joe is not None
    assert verify("secret", joe.password_hash, joe.algorithm)
    rights = plane.broker.permissions.get("joe", "v")
    assert rights is not None
    assert rights.may_configure("c")


def test_an_empty_file_changes_nothing(plane: ControlPlane) -> None:
    load_definitions(plane.broker, {})
    assert list(plane.broker.vhosts) == ["/"]


def test_what_is_durable_is_there_after_a_restart(plane: ControlPlane) -> None:
    load_definitions(plane.broker, FILE)
    queue_id = plane.broker.vhosts["v"].queues["q"].id
    plane.reopen()
    vhost = plane.broker.vhosts["v"]
    assert list(vhost.queues) == ["q"]
    assert vhost.queues["q"].id == queue_id
    assert "t" not in vhost.exchanges
    ends = {(one.source, one.destination) for one in vhost.router.bindings()}
    assert ends == {("x", "q"), ("amq.topic", "x")}
    assert plane.broker.users.names() == ["guest", "joe"]


def test_loading_twice_changes_nothing(plane: ControlPlane) -> None:
    load_definitions(plane.broker, FILE)
    queue = plane.broker.vhosts["v"].queues["q"]
    rows = [plane.rows(table) for table in ("queues", "exchanges", "bindings")]
    load_definitions(plane.broker, FILE)
    assert plane.broker.vhosts["v"].queues["q"] is queue
    again = [plane.rows(table) for table in ("queues", "exchanges", "bindings")]
    assert again == rows


def test_what_is_declared_already_stays_as_it_is(plane: ControlPlane) -> None:
    load_definitions(plane.broker, FILE)
    queues = [{**FILE["queues"][0], "arguments": {"x-max-length": 6}}]
    load_definitions(plane.broker, changed(queues=queues))
    queue = plane.broker.vhosts["v"].queues["q"]
    assert queue.arguments == {"x-max-length": 5}


@pytest.mark.parametrize("durable", [True, False])
def test_levels_of_a_queue_have_ids_of_their_own(
    plane: ControlPlane, durable: bool
) -> None:
    queues = [
        {**FILE["queues"][0], "name": name, "durable": durable, "arguments": arguments}
        for name, arguments in (("q", {}), ("p", {"x-max-priority": 9}), ("r", {}))
    ]
    load_definitions(plane.broker, changed(queues=queues, bindings=[]))
    made = plane.broker.vhosts["v"].queues
    ids = [number for name in ("q", "p", "r") for number in made[name].ids()]
    assert ids == list(range(ids[0], ids[0] + 12))


@pytest.mark.parametrize("durable", [True, False])
def test_a_delayed_exchange_has_a_waiting_room(
    plane: ControlPlane, durable: bool
) -> None:
    exchange = {
        **FILE["exchanges"][0],
        "type": "x-delayed-message",
        "durable": durable,
        "arguments": {"x-delayed-type": "topic"},
    }
    load_definitions(plane.broker, changed(exchanges=[exchange], bindings=[]))
    room = plane.broker.vhosts["v"].topology.waiting_rooms["x"]
    assert room.durable == durable
    if durable:
        plane.reopen()
        again = plane.broker.vhosts["v"].topology.waiting_rooms["x"]
        assert again.id == room.id


def test_rights_become_what_the_file_says(plane: ControlPlane) -> None:
    load_definitions(plane.broker, FILE)
    rights = [{**FILE["permissions"][0], "configure": ""}]
    load_definitions(plane.broker, changed(permissions=rights))
    plane.reopen()
    permission = plane.broker.permissions.get("joe", "v")
    assert permission is not None
    assert not permission.may_configure("c")


def test_the_same_binding_twice_in_a_file_is_one(plane: ControlPlane) -> None:
    load_definitions(plane.broker, changed(bindings=FILE["bindings"] * 2))
    assert len(list(plane.broker.vhosts["v"].router.bindings())) == 3


@pytest.mark.parametrize(
    ("sections", "told"),
    [
        ({"vhosts": []}, "there is no vhost 'v'"),
        ({"users": []}, "there is no user 'joe'"),
        ({"exchanges": []}, "binding from 'x' to 'q' in vhost 'v': no exchange 'x'"),
        ({"queues": []}, "binding from 'x' to 'q' in vhost 'v': no destination 'q'"),
        (
            {"exchanges": [{**FILE["exchanges"][0], "name": "amq.x"}]},
            "exchange 'amq.x' in vhost 'v' has a reserved name",
        ),
        (
            {
                "bindings": [
                    {
                        **FILE["bindings"][0],
                        "source": "amq.headers",
                        "arguments": {"x-match": "bad"},
                    }
                ]
            },
            "binding from 'amq.headers' to 'q' in vhost 'v': Invalid x-match",
        ),
    ],
)
def test_a_file_that_does_not_fit_is_refused_as_a_whole(
    plane: ControlPlane, sections: dict[str, Any], told: str
) -> None:
    with pytest.raises(DefinitionsInvalid) as caught:
        load_definitions(plane.broker, changed(**sections))
    assert str(caught.value).startswith(told)
    assert list(plane.broker.vhosts) == ["/"]
    assert plane.rows("queues") == []
    assert plane.broker.users.names() == ["guest"]


def test_a_file_that_the_disk_refuses_is_not_loaded(plane: ControlPlane) -> None:
    plane.break_disk("queues")
    with pytest.raises(CommitFailed, match="disk is full"):
        load_definitions(plane.broker, FILE)
    assert list(plane.broker.vhosts) == ["/"]
    assert plane.rows("exchanges") == []


def test_predeclared_exchanges_in_a_file_are_there_already(plane: ControlPlane) -> None:
    exchanges = [
        *FILE["exchanges"],
        {"name": "amq.direct", "vhost": "v", "type": "direct", "durable": True},
        {"name": "", "vhost": "v", "type": "direct", "durable": True},
    ]
    load_definitions(plane.broker, changed(exchanges=exchanges))
    assert [row[1] for row in plane.rows("exchanges")] == ["x"]


def test_topic_rights_hold_at_once_and_after_a_restart(plane: ControlPlane) -> None:
    topic = {"user": "joe", "vhost": "v", "exchange": "x", "write": "w", "read": "r"}
    load_definitions(plane.broker, changed(topic_permissions=[topic]))
    assert plane.rows("topic_permissions") == [("joe", "v", "x", "w", "r")]
    for _ in range(2):
        rights = plane.broker.permissions.topic("joe", "v", "x")
        assert rights is not None
        assert (rights.may_write("w"), rights.may_write("r")) == (True, False)
        assert (rights.may_read("w"), rights.may_read("r")) == (False, True)
        plane.reopen()


def test_parameters_are_in_force_and_others_kept_with_a_warning(
    plane: ControlPlane, caplog: pytest.LogCaptureFixture
) -> None:
    policy = {"vhost": "v", "name": "p", "pattern": "", "definition": {"max-length": 2}}
    limits = {"vhost": "v", "component": "vhost-limits", "name": "limits"}
    shovel = {"vhost": "v", "component": "shovel", "name": "s", "value": {}}
    sections = {
        "global_parameters": [{"name": "cluster_name", "value": "c"}],
        "policies": [policy],
        "parameters": [{**limits, "value": {"max-queues": 9}}, shovel],
    }
    with caplog.at_level(logging.WARNING):
        load_definitions(plane.broker, changed(**sections))
    assert caplog.messages == [
        "definitions: parameter 's' of shovel is kept, but nothing acts on it"
    ]
    for _ in range(2):
        keeper = plane.broker.vhosts["v"].queues["q"].keeper
        assert keeper is not None
        assert keeper.rules.limits.length_max == 2
        assert plane.broker.admission.queue_limit("v") == 9
        kept = [one.name for one in plane.broker.parameters.entries()]
        assert kept == ["cluster_name", "p", "s", "limits"]
        plane.reopen()


def test_what_is_known_of_a_virtual_host_is_what_the_file_says(
    plane: ControlPlane,
) -> None:
    entry = {"name": "v", "metadata": {"description": "d", "tags": ["t"]}}
    load_definitions(plane.broker, changed(vhosts=[entry, {"name": "/"}]))
    load_definitions(plane.broker, changed(vhosts=[{"name": "v", "tracing": True}]))
    # The firehose does not outlive the process.
    for is_traced in (True, False):
        metadata = plane.broker.vhosts["v"].metadata
        assert (metadata.description, metadata.tags) == ("d", ("t",))
        assert metadata.tracing is is_traced
        plane.reopen()


def test_limits_of_a_user_are_replaced_if_they_are_said(plane: ControlPlane) -> None:
    def load(**fields: object) -> dict[str, int]:
        users = [{**FILE["users"][0], **fields}]
        load_definitions(plane.broker, changed(users=users))
        return plane.broker.admission.limits_of_user("joe")

    assert load(limits={"max-channels": 2}) == {"max-channels": 2}
    assert load() == {"max-channels": 2}
    assert load(limits={}) == {}
    assert plane.rows("parameters") == []


def test_queues_without_a_type_are_of_their_virtual_hosts(plane: ControlPlane) -> None:
    vhosts = [{"name": "v", "default_queue_type": "quorum"}]
    queue = {"vhost": "v", "durable": True}
    queues = [
        {**queue, "name": "q"},
        {**queue, "name": "c", "type": "classic"},
        {**queue, "name": "a", "auto_delete": True},
        {**queue, "name": "t", "type": "quorum"},
    ]
    load_definitions(plane.broker, changed(vhosts=vhosts, queues=queues))
    made = plane.broker.vhosts["v"].queues
    kinds = {name: queue_type(queue.arguments) for name, queue in made.items()}
    assert kinds == {"q": "quorum", "c": "classic", "a": "classic", "t": "quorum"}


def test_more_queues_than_there_may_be_are_refused(plane: ControlPlane) -> None:
    load_definitions(plane.broker, FILE)
    plane.put("vhost-limits", "limits", {"max-queues": 2}, vhost="v")
    plane.commit()
    more = [*FILE["queues"], {"name": "r", "vhost": "v", "durable": True}]
    with pytest.raises(DefinitionsInvalid) as caught:
        load_definitions(plane.broker, changed(queues=more))
    assert str(caught.value).splitlines()[0] == (
        'Adding 1 queue(s) to virtual host "v" would exceed the limit of 2 queue(s).'
    )
    load_definitions(plane.broker, FILE)


def test_an_integer_of_another_size_makes_no_other_binding(plane: ControlPlane) -> None:
    load_definitions(plane.broker, changed(bindings=[]))
    vhost = plane.broker.vhosts["v"]
    long = Arguments({"n": 1}, b"\x01nl" + bytes(7) + b"\x01")
    raw = long.canonical()
    vhost.router.bind(Binding("x", "q", False, b"k", long.table, raw))
    binding = {**FILE["bindings"][0], "arguments": {"n": 1}}
    load_definitions(plane.broker, changed(bindings=[binding]))
    assert len(list(vhost.router.bindings())) == 1


def test_a_file_of_one_virtual_host_goes_into_another(plane: ControlPlane) -> None:
    part = {
        "queues": [{"name": "q", "durable": True}],
        "exchanges": [{"name": "x", "type": "topic", "durable": True}],
        "bindings": [
            {"source": "x", "destination": "q", "destination_type": "queue"},
        ],
        "policies": [{"name": "p", "pattern": "", "definition": {"expires": 9}}],
        "users": [{"name": "nobody"}],
        "vhosts": [{"name": "nowhere"}],
    }
    definitions = read_vhost_definitions(part, "/")
    loading = Loading(plane.broker, definitions)
    assert loading.names() == {"/": {"queue q", "exchange x"}}
    for _ in loading.plan():
        pass
    outcome = Outcome()
    loading.stage(outcome)
    plane.commit()
    assert isinstance(outcome.value, list)
    for _ in loading.make(outcome.value):
        pass
    plane.reopen()
    assert list(plane.broker.vhosts) == ["/"]
    assert plane.bindings() == {("x", "q", b"")}
    assert plane.vhost.queues["q"].expiry is not None


def test_who_comes_with_a_name_that_is_held_waits(plane: ControlPlane) -> None:
    ready, session = Outcome(), plane.guest()
    first = plane.declare_queue(session, "q", durable=True)
    hold = NameHold({"queue q"}, ready)
    plane.vhost.topology.line.submit(hold)
    assert not ready.is_done
    plane.commit()
    assert (first.queue.name, ready.value) == ("q", None)
    second = plane.check_queue(session, "q")
    assert not second.is_done
    hold.end()
    assert second.queue is first.queue


def test_nothing_is_staged_for_a_virtual_host_that_is_gone(
    plane: ControlPlane,
) -> None:
    definitions = read_vhost_definitions({"queues": [{"name": "q"}]}, "/")
    loading = Loading(plane.broker, definitions)
    for _ in loading.plan():
        pass
    del plane.broker.vhosts["/"]
    with pytest.raises(DefinitionsInvalid, match="no vhost '/'"):
        loading.stage(Outcome())


def test_a_binding_whose_queue_ends_meanwhile_leaves_no_row(
    plane: ControlPlane,
) -> None:
    plane.declare_queue(plane.guest(), "q", durable=True)
    plane.commit()
    part = {"source": "amq.topic", "destination": "q", "destination_type": "queue"}
    loading = Loading(plane.broker, read_vhost_definitions({"bindings": [part]}, "/"))
    for _ in loading.plan():
        pass
    loading.stage(Outcome())
    plane.vhost.delete_queue_now(plane.vhost.queues["q"])
    plane.commit()
    for _ in loading.make([]):
        pass
    plane.commit()
    assert plane.rows("bindings") == []


def test_the_definitions_of_the_server_tests_can_be_loaded(
    plane: ControlPlane,
) -> None:
    path = Path(__file__).parents[2] / "server" / "definitions.json"
    load_definitions(plane.broker, json.loads(path.read_text()))
    limited = plane.broker.users.get("limited")
    assert limited is not None
    assert limited.tags == ()


def staged(plane: ControlPlane, parsed: object) -> tuple[Loading, Outcome]:
    """A load that waits for its commit."""
    loading, outcome = Loading(plane.broker, read_definitions(parsed)), Outcome()
    for _ in loading.plan():
        pass
    loading.stage(outcome)
    return loading, outcome


def finish(loading: Loading, outcome: Outcome) -> None:
    """Make what is committed."""
    assert isinstance(outcome.value, list)
    for _ in loading.make(outcome.value):
        pass
    loading.end()


def test_who_is_deleted_after_the_commit_is_not_there_again(
    plane: ControlPlane,
) -> None:
    load_definitions(plane.broker, FILE)
    loading, outcome = staged(plane, FILE)
    accounts = plane.broker.accounts
    accounts.delete_users(["joe"], 0, Outcome())
    accounts.delete_vhost(plane.broker.vhosts["v"], 0, Outcome())
    plane.commit()
    finish(loading, outcome)
    for _ in range(2):
        assert plane.broker.users.get("joe") is None
        assert [one.user for one in plane.broker.permissions.entries()] == ["guest"]
        assert list(plane.broker.vhosts) == ["/"]
        plane.commit()
        plane.reopen()


def test_rights_of_somebody_who_has_gone_meanwhile_are_refused(
    plane: ControlPlane,
) -> None:
    load_definitions(plane.broker, FILE)
    loading = Loading(plane.broker, read_definitions(changed(users=[])))
    for _ in loading.plan():
        pass
    plane.broker.accounts.delete_users(["joe"], 0, Outcome())
    plane.commit()
    with pytest.raises(DefinitionsInvalid, match="there is no user 'joe'"):
        loading.stage(Outcome())


@pytest.mark.parametrize("begins", [True, False])
def test_a_virtual_host_that_has_come_or_gone_meanwhile_is_refused(
    plane: ControlPlane, begins: bool
) -> None:
    accounts = plane.broker.accounts
    if not begins:
        load_definitions(plane.broker, FILE)
    loading = Loading(plane.broker, read_definitions(FILE))
    for _ in loading.plan():
        pass
    if begins:
        accounts.put_vhost("v", NO_METADATA, None, Outcome())
    else:
        accounts.delete_vhost(plane.broker.vhosts["v"], 0, Outcome())
    plane.commit()
    with pytest.raises(DefinitionsInvalid, match="'v' has come or gone meanwhile"):
        loading.stage(Outcome())


def test_nobody_takes_a_name_in_a_virtual_host_before_it_is_made_there(
    plane: ControlPlane,
) -> None:
    loading, outcome = staged(plane, FILE)
    plane.commit()
    guest = plane.broker.users.get("guest")
    assert guest is not None
    plane.broker.permissions.put(Permission("guest", "v", ".*", ".*", ".*"))
    session = plane.broker.open_vhost(guest, "v", object())
    early = plane.check_queue(session, "q")
    other = plane.declare_queue(session, "other")
    assert (early.is_done, other.is_done) == (False, True)
    finish(loading, outcome)
    assert early.queue is plane.broker.vhosts["v"].queues["q"]
