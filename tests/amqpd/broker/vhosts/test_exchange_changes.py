"""Declaring and deleting exchanges: the order of checks, the texts, the commits."""

from pathlib import Path

import pytest

from amqpd.wire.tables import Table, encode_table
from tests.support.control_plane import ControlPlane

AE: Table = {"alternate-exchange": "y"}
DEFAULT = "403 operation not permitted on the default exchange"


@pytest.fixture
def plane(tmp_path: Path) -> ControlPlane:
    return ControlPlane(tmp_path)


# -- declaring ----------------------------------------------------------------


def test_a_transient_exchange_is_there_at_once(plane: ControlPlane) -> None:
    assert plane.declare_exchange(plane.guest(), "x", "topic").value is None
    assert plane.vhost.exchanges["x"].type_name == "topic"


def test_a_durable_exchange_is_there_with_its_commit(plane: ControlPlane) -> None:
    table: Table = {"alternate-exchange": "y"}
    outcome = plane.declare_exchange(
        plane.guest(), "x", "fanout", durable=True, internal=True, table=table
    )
    assert (outcome.is_done, "x" in plane.vhost.exchanges) == (False, False)
    plane.commit()
    assert outcome.value is None
    assert plane.vhost.exchanges["x"].alternate == "y"
    raw = encode_table(table)
    assert plane.rows("exchanges") == [("/", "x", "fanout", 0, 1, raw, 0)]


def test_an_unknown_type_is_refused_before_anything_else(plane: ControlPlane) -> None:
    refusal = plane.declare_exchange(plane.user("", "", ""), "", "x-nope").refusal
    assert refusal == "406 unknown exchange type 'x-nope'"


def test_the_default_exchange_cannot_be_declared(plane: ControlPlane) -> None:
    assert plane.declare_exchange(plane.user("", "", ""), "").refusal == DEFAULT
    assert plane.check_exchange(plane.guest(), "").refusal == DEFAULT


def test_new_names_may_not_be_reserved_ones(plane: ControlPlane) -> None:
    assert plane.declare_exchange(plane.guest(), "amq.x").refusal == (
        "403 exchange name 'amq.x' contains reserved prefix 'amq.*'"
    )


def test_predeclared_exchanges_can_be_declared_as_they_are(
    plane: ControlPlane,
) -> None:
    guest = plane.guest()
    assert plane.declare_exchange(guest, "amq.direct", durable=True).value is None
    trace = plane.declare_exchange(
        guest, "amq.rabbitmq.trace", "topic", durable=True, internal=True
    )
    assert trace.value is None
    assert plane.rows("exchanges") == []


@pytest.mark.parametrize(
    ("type_name", "durable", "auto_delete", "internal", "table", "told"),
    [
        ("topic", True, True, True, AE, "'type' {x}: received 'topic' but {is_direct}"),
        ("direct", True, True, True, AE, "'durable' {x}: received 'true' but {is_no}"),
        (
            "direct",
            False,
            True,
            True,
            AE,
            "'auto_delete' {x}: received 'true' but {is_no}",
        ),
        (
            "direct",
            False,
            False,
            True,
            AE,
            "'internal' {x}: received 'true' but {is_no}",
        ),
        (
            "direct",
            False,
            False,
            False,
            AE,
            "'alternate-exchange' {x}: received {an_ae}",
        ),
    ],
)
def test_a_second_declaration_must_be_the_same(
    plane: ControlPlane,
    type_name: str,
    durable: bool,
    auto_delete: bool,
    internal: bool,
    table: Table,
    told: str,
) -> None:
    guest = plane.guest()
    plane.declare_exchange(guest, "x")
    outcome = plane.declare_exchange(
        guest,
        "x",
        type_name,
        durable=durable,
        auto_delete=auto_delete,
        internal=internal,
        table=table,
    )
    expected = told.format(
        x="for exchange 'x' in vhost '/'",
        is_direct="current is 'direct'",
        is_no="current is 'false'",
        an_ae="the value 'y' of type 'longstr' but current is none",
    )
    assert outcome.refusal == f"406 inequivalent arg {expected}"


def test_other_arguments_are_not_compared(plane: ControlPlane) -> None:
    guest = plane.guest()
    plane.declare_exchange(guest, "x", table={"a": 1})
    assert plane.declare_exchange(guest, "x").value is None


def test_an_alternate_exchange_must_be_a_text(plane: ControlPlane) -> None:
    table: Table = {"alternate-exchange": 5}
    assert plane.declare_exchange(plane.guest(), "x", table=table).refusal == (
        "406 invalid type 'signedint' for arg 'alternate-exchange' in "
        "exchange 'x' in vhost '/'"
    )


def test_a_passive_declaration_asks_for_the_name_only(plane: ControlPlane) -> None:
    nobody = plane.user("", "", "")
    assert plane.check_exchange(nobody, "amq.topic").value is None
    expected = "404 no exchange 'x' in vhost '/'"
    assert plane.check_exchange(nobody, "x").refusal == expected


# -- rights -------------------------------------------------------------------


def test_declaring_needs_configure(plane: ControlPlane) -> None:
    refusal = plane.declare_exchange(plane.user("^a", ".*", ".*"), "x").refusal
    assert refusal == (
        "403 configure access to exchange 'x' in vhost '/' refused for user 'joe'"
    )


def test_an_alternate_needs_read_on_the_exchange(plane: ControlPlane) -> None:
    joe = plane.user(".*", ".*", "^y")
    table: Table = {"alternate-exchange": "y"}
    assert plane.declare_exchange(joe, "x", table=table).refusal == (
        "403 read access to exchange 'x' in vhost '/' refused for user 'joe'"
    )


def test_an_alternate_needs_write_on_the_alternate(plane: ControlPlane) -> None:
    joe = plane.user(".*", "^x", ".*")
    table: Table = {"alternate-exchange": "y"}
    assert plane.declare_exchange(joe, "x", table=table).refusal == (
        "403 write access to exchange 'y' in vhost '/' refused for user 'joe'"
    )


def test_deleting_needs_configure(plane: ControlPlane) -> None:
    refusal = plane.delete_exchange(plane.user("^a", ".*", ".*"), "x").refusal
    assert refusal.startswith("403 configure access to exchange 'x'")


# -- deleting -----------------------------------------------------------------


def test_deleting_nothing_succeeds(plane: ControlPlane) -> None:
    assert plane.delete_exchange(plane.guest(), "x", if_unused=True).value is None


@pytest.mark.parametrize("name", ["amq.direct", "amq.nope"])
def test_system_exchanges_cannot_be_deleted(plane: ControlPlane, name: str) -> None:
    assert plane.delete_exchange(plane.user("", "", ""), name).refusal == (
        f"403 deletion of system exchange '{name}' in vhost '/' not allowed"
    )


def test_the_default_exchange_cannot_be_deleted(plane: ControlPlane) -> None:
    assert plane.delete_exchange(plane.user("", "", ""), "").refusal == DEFAULT


def test_an_exchange_with_bindings_is_not_deleted_if_unused(
    plane: ControlPlane,
) -> None:
    guest = plane.guest()
    plane.declare_exchange(guest, "x")
    plane.declare_queue(guest, "q")
    plane.bind(guest, "x", "q")
    outcome = plane.delete_exchange(guest, "x", if_unused=True)
    assert outcome.refusal == "406 exchange 'x' in vhost '/' in use"


def test_being_bound_to_is_no_use(plane: ControlPlane) -> None:
    guest = plane.guest()
    plane.declare_exchange(guest, "x")
    plane.bind(guest, "amq.direct", "x", to_exchange=True)
    assert plane.delete_exchange(guest, "x", if_unused=True).value is None


def test_bindings_go_with_the_exchange(plane: ControlPlane) -> None:
    guest = plane.guest()
    plane.declare_exchange(guest, "x", durable=True)
    plane.declare_queue(guest, "q", durable=True)
    plane.commit()
    plane.bind(guest, "x", "q")
    plane.bind(guest, "amq.topic", "x", to_exchange=True)
    plane.commit()
    outcome = plane.delete_exchange(guest, "x")
    assert (outcome.is_done, len(plane.bindings())) == (False, 2)
    plane.commit()
    assert (outcome.value, plane.bindings()) == (None, set())
    assert plane.rows("bindings") == plane.rows("exchanges") == []


def test_auto_delete_sources_go_with_the_exchange(plane: ControlPlane) -> None:
    guest = plane.guest()
    plane.declare_exchange(guest, "x")
    plane.declare_exchange(guest, "source", durable=True, auto_delete=True)
    plane.commit()
    plane.bind(guest, "source", "x", to_exchange=True)
    plane.delete_exchange(guest, "x")
    plane.commit()
    assert not {"x", "source"} & set(plane.vhost.exchanges)
    assert plane.rows("exchanges") == []


def test_auto_delete_exchanges_in_a_circle_go_together(plane: ControlPlane) -> None:
    guest = plane.guest()
    for name in ("x", "y"):
        plane.declare_exchange(guest, name, auto_delete=True)
    plane.bind(guest, "x", "y", to_exchange=True)
    plane.bind(guest, "y", "x", to_exchange=True)
    assert plane.delete_exchange(guest, "x").value is None
    assert not {"x", "y"} & set(plane.vhost.exchanges)


# -- the disk refuses ---------------------------------------------------------


def test_a_declaration_that_the_disk_refuses_leaves_nothing(
    plane: ControlPlane,
) -> None:
    plane.break_disk("exchanges")
    outcome = plane.declare_exchange(plane.guest(), "x", durable=True)
    plane.commit()
    assert outcome.refusal.startswith("506 the change could not be stored")
    assert "x" not in plane.vhost.exchanges


def test_a_deletion_that_the_disk_refuses_leaves_the_exchange(
    plane: ControlPlane,
) -> None:
    guest = plane.guest()
    plane.declare_exchange(guest, "x", durable=True)
    plane.commit()
    plane.break_disk("exchanges")
    outcome = plane.delete_exchange(guest, "x")
    plane.commit()
    assert outcome.refusal.startswith("506 the change could not be stored")
    assert "x" in plane.vhost.exchanges


@pytest.mark.parametrize("durable", [True, False])
def test_arguments_that_the_type_cannot_work_with_are_refused(
    plane: ControlPlane, durable: bool
) -> None:
    table: Table = {"hash-property": "app_id"}
    outcome = plane.declare_exchange(
        plane.guest(), "h", "x-consistent-hash", durable=durable, table=table
    )
    assert outcome.refusal == "406 Unsupported property: app_id"
    assert plane.rows("exchanges") == []


def test_an_exchange_of_every_type_comes_back(plane: ControlPlane) -> None:
    names = [
        "x-consistent-hash",
        "x-modulus-hash",
        "x-random",
        "x-local-random",
        "x-recent-history",
    ]
    for name in names:
        plane.declare_exchange(plane.guest(), name, name, durable=True)
    plane.commit()
    plane.reopen()
    found = {name: plane.vhost.exchanges[name].type_name for name in names}
    assert found == {name: name for name in names}
