"""Declaring and deleting queues: the order of checks, the texts, the commits."""

from pathlib import Path
from typing import Any

import pytest

from amqpd.broker.arguments import queue_type
from amqpd.broker.policies.vhost_metadata import VhostMetadata
from amqpd.wire.tables import Table
from tests.support.control_plane import ControlPlane, Outcome
from tests.support.deliveries import ConsumingChannel, message_of

LOCKED = (
    "405 cannot obtain exclusive access to locked queue 'q' in vhost '/'. It could be "
    "originally declared on another connection or the exclusive property value does "
    "not match that of the original declaration."
)


@pytest.fixture
def plane(tmp_path: Path) -> ControlPlane:
    return ControlPlane(tmp_path)


# -- declaring ----------------------------------------------------------------


def test_a_transient_queue_is_there_at_once(plane: ControlPlane) -> None:
    outcome = plane.declare_queue(plane.guest(), "q")
    assert outcome.queue is plane.vhost.queues["q"]
    assert outcome.queue.id >= 1 << 40


def test_a_durable_queue_is_there_with_its_commit(plane: ControlPlane) -> None:
    outcome = plane.declare_queue(plane.guest(), "q", durable=True)
    assert (outcome.is_done, plane.vhost.queues) == (False, {})
    plane.commit()
    assert outcome.queue is plane.vhost.queues["q"]
    assert plane.rows("queues") == [(outcome.queue.id, "/", "q", 0, 1, b"")]


def test_ids_of_durable_queues_never_come_again(plane: ControlPlane) -> None:
    guest = plane.guest()
    first = plane.declare_queue(guest, "q", durable=True)
    plane.commit()
    plane.delete_queue(guest, "q")
    plane.commit()
    second = plane.declare_queue(guest, "q", durable=True)
    plane.commit()
    assert second.queue.id > first.queue.id


def test_a_queue_without_a_name_gets_one(plane: ControlPlane) -> None:
    guest = plane.guest()
    one = plane.declare_queue(guest, "").queue.name
    other = plane.declare_queue(guest, "").queue.name
    assert one.startswith("amq.gen-")
    assert len(one) == len("amq.gen-") + 22
    assert one != other


def test_a_second_declaration_returns_the_queue(plane: ControlPlane) -> None:
    guest = plane.guest()
    first = plane.declare_queue(guest, "q", table={"x-max-length": 5}).queue
    again = plane.declare_queue(guest, "q", table={"x-max-length": 5}).queue
    assert again is first


@pytest.mark.parametrize(
    ("durable", "auto_delete", "table", "told"),
    [
        (True, True, {"x-expires": 1}, "'durable'"),
        (False, True, {"x-expires": 1}, "'auto_delete'"),
        (False, False, {"x-expires": 1}, "'x-expires'"),
    ],
)
def test_a_second_declaration_must_be_the_same(
    plane: ControlPlane, durable: bool, auto_delete: bool, table: Table, told: str
) -> None:
    guest = plane.guest()
    plane.declare_queue(guest, "q")
    refusal = plane.declare_queue(
        guest, "q", durable=durable, auto_delete=auto_delete, table=table
    ).refusal
    assert refusal.startswith(f"406 inequivalent arg {told} for queue 'q' in vhost '/'")


def test_texts_show_flags_as_words(plane: ControlPlane) -> None:
    guest = plane.guest()
    plane.declare_queue(guest, "q")
    assert plane.declare_queue(guest, "q", durable=True).refusal == (
        "406 inequivalent arg 'durable' for queue 'q' in vhost '/': "
        "received 'true' but current is 'false'"
    )


@pytest.mark.parametrize("exclusive", [False, True])
def test_an_exclusive_queue_is_locked_for_others(
    plane: ControlPlane, exclusive: bool
) -> None:
    plane.declare_queue(plane.guest(), "q", exclusive=True)
    other = plane.guest()
    assert plane.declare_queue(other, "q", exclusive=exclusive).refusal == LOCKED
    assert plane.check_queue(other, "q").refusal == LOCKED
    assert plane.delete_queue(other, "q").refusal == LOCKED


@pytest.mark.parametrize("was_exclusive", [False, True])
def test_exclusiveness_must_be_declared_again(
    plane: ControlPlane, was_exclusive: bool
) -> None:
    guest = plane.guest()
    plane.declare_queue(guest, "q", exclusive=was_exclusive)
    outcome = plane.declare_queue(guest, "q", exclusive=not was_exclusive)
    assert outcome.refusal == LOCKED


def test_an_exclusive_queue_is_never_durable(plane: ControlPlane) -> None:
    guest = plane.guest()
    queue = plane.declare_queue(guest, "q", durable=True, exclusive=True).queue
    assert not queue.durable
    assert plane.declare_queue(guest, "q", exclusive=True).queue is queue


def test_new_names_may_not_be_reserved_ones(plane: ControlPlane) -> None:
    assert plane.declare_queue(plane.guest(), "amq.q").refusal == (
        "403 queue name 'amq.q' contains reserved prefix 'amq.*'"
    )


def test_a_generated_name_may_be_declared_again(plane: ControlPlane) -> None:
    guest = plane.guest()
    queue = plane.declare_queue(guest, "").queue
    assert plane.declare_queue(guest, queue.name).queue is queue


def test_arguments_of_a_new_queue_are_checked(plane: ControlPlane) -> None:
    outcome = plane.declare_queue(plane.guest(), "q", table={"x-expires": 0})
    assert outcome.refusal.startswith("406 invalid arg 'x-expires'")
    assert plane.vhost.queues == {}


def test_arguments_of_a_known_queue_are_only_compared(plane: ControlPlane) -> None:
    guest = plane.guest()
    plane.declare_queue(guest, "q")
    outcome = plane.declare_queue(guest, "q", table={"x-expires": 0})
    assert outcome.refusal.startswith("406 inequivalent arg 'x-expires'")


@pytest.mark.parametrize(
    ("durable", "exclusive", "auto_delete", "wrong"),
    [
        (False, False, False, "non-durable"),
        (True, True, False, "exclusive-owner"),
        (False, True, True, "auto-delete"),
    ],
)
def test_a_quorum_queue_must_be_able_to_last(
    plane: ControlPlane,
    durable: bool,
    exclusive: bool,
    auto_delete: bool,
    wrong: str,
) -> None:
    outcome = plane.declare_queue(
        plane.guest(),
        "q",
        durable=durable,
        exclusive=exclusive,
        auto_delete=auto_delete,
        table={"x-queue-type": "quorum"},
    )
    expected = f"406 invalid property '{wrong}' for queue 'q' in vhost '/'"
    assert outcome.refusal == expected


def test_a_quorum_queue_can_be_declared(plane: ControlPlane) -> None:
    outcome = plane.declare_queue(
        plane.guest(), "q", durable=True, table={"x-queue-type": "quorum"}
    )
    plane.commit()
    assert outcome.queue.durable


def test_a_quorum_queue_needs_a_name(plane: ControlPlane) -> None:
    outcome = plane.declare_queue(
        plane.guest(), "", durable=True, table={"x-queue-type": "quorum"}
    )
    assert outcome.refusal == (
        "406 Cannot declare a server-named queue for type rabbit_quorum_queue"
    )


@pytest.mark.parametrize("prefix", ["app", "x" * 64, "é" * 32])
def test_a_name_that_is_chosen_begins_as_it_is_wanted(
    plane: ControlPlane, prefix: str
) -> None:
    table: dict[str, object] = {"x-name-prefix": prefix}
    outcome = plane.declare_queue(plane.guest(), "", table=table)
    assert outcome.queue.name.startswith(prefix + "-")
    assert len(outcome.queue.name) == len(prefix) + 1 + 22
    # It is not compared: who declares it again knows the name.
    again = plane.declare_queue(plane.guest(), outcome.queue.name)
    assert again.queue is outcome.queue


@pytest.mark.parametrize(
    ("prefix", "refusal"),
    [
        ("x" * 65, '"name prefix is longer than 64 bytes"'),
        ("é" * 33, '"name prefix is longer than 64 bytes"'),
        (1, "{unacceptable_type,signedint}"),
    ],
)
def test_the_beginning_of_a_name_is_a_short_text(
    plane: ControlPlane, prefix: object, refusal: str
) -> None:
    outcome = plane.declare_queue(plane.guest(), "", table={"x-name-prefix": prefix})
    assert outcome.refusal == (
        f"406 invalid arg 'x-name-prefix' for queue '' in vhost '/': {refusal}"
    )


def test_the_beginning_of_a_name_is_not_a_reserved_one(plane: ControlPlane) -> None:
    outcome = plane.declare_queue(plane.guest(), "", table={"x-name-prefix": "amq.x"})
    assert outcome.refusal.startswith("403 queue name 'amq.x-")
    assert outcome.refusal.endswith("' contains reserved prefix 'amq.*'")


@pytest.mark.parametrize("table", [{"x-name-prefix": "p"}, {"x-name-prefix": ""}])
def test_without_need_the_beginning_of_a_name_means_nothing(
    plane: ControlPlane, table: dict[str, object]
) -> None:
    assert plane.declare_queue(plane.guest(), "q", table=table).queue.name == "q"
    plain = plane.declare_queue(plane.guest(), "", table={"x-name-prefix": ""})
    assert plain.queue.name.startswith("amq.gen-")


# -- a quorum queue that is taken for a classic one ---------------------------

LIKE_CLASSIC: dict[str, object] = {"x-queue-type": "classic", "x-max-length": 1}


def declared_again(plane: ControlPlane, **fields: Any) -> Outcome:
    """Declare a quorum queue, then once more."""
    plane.declare_queue(
        plane.guest(),
        "q",
        durable=True,
        table={"x-queue-type": "quorum", "x-max-length": 1, "x-delivery-limit": 5},
    )
    plane.commit()
    return plane.declare_queue(plane.guest(), "q", **fields)


def test_a_quorum_queue_is_no_classic_one(plane: ControlPlane) -> None:
    outcome = declared_again(plane, durable=True, table=LIKE_CLASSIC)
    assert "inequivalent arg 'x-queue-type'" in outcome.refusal


@pytest.mark.parametrize("is_durable", [True, False])
def test_checks_that_are_relaxed_let_it_pass_for_one(
    plane: ControlPlane, is_durable: bool
) -> None:
    plane.broker.relax_quorum_checks()
    again = declared_again(plane, durable=is_durable, table=LIKE_CLASSIC)
    assert again.queue.arguments["x-queue-type"] == "quorum"
    untyped = declared_again(plane, durable=is_durable, table={"x-max-length": 1})
    assert untyped.queue is again.queue


def test_checks_that_are_relaxed_are_checks_still(plane: ControlPlane) -> None:
    plane.broker.relax_quorum_checks()
    longer = declared_again(plane, durable=True, table={})
    assert "inequivalent arg 'x-max-length'" in longer.refusal
    of_its_type: dict[str, object] = {"x-queue-type": "quorum", "x-max-length": 1}
    typed = declared_again(plane, durable=True, table=of_its_type)
    assert "inequivalent arg 'x-delivery-limit'" in typed.refusal


def test_a_classic_queue_is_compared_as_ever(plane: ControlPlane) -> None:
    plane.broker.relax_quorum_checks()
    plane.declare_queue(plane.guest(), "q", durable=True)
    plane.commit()
    outcome = plane.declare_queue(plane.guest(), "q", durable=False)
    assert "inequivalent arg 'durable'" in outcome.refusal


# -- rights -------------------------------------------------------------------


def test_declaring_needs_configure(plane: ControlPlane) -> None:
    joe = plane.user("^a", ".*", ".*")
    plane.declare_queue(plane.guest(), "q")
    expected = "403 configure access to queue 'q' in vhost '/' refused for user 'joe'"
    assert plane.declare_queue(joe, "q").refusal == expected
    assert plane.declare_queue(joe, "a").queue.name == "a"


def test_a_generated_name_needs_configure_too(plane: ControlPlane) -> None:
    refusal = plane.declare_queue(plane.user("^a$", "", ""), "").refusal
    assert refusal.startswith("403 configure access to queue 'amq.gen-")


def test_a_passive_declaration_needs_no_right(plane: ControlPlane) -> None:
    plane.declare_queue(plane.guest(), "q")
    assert plane.check_queue(plane.user("", "", ""), "q").queue.name == "q"


def test_dead_lettering_needs_read_on_the_queue(plane: ControlPlane) -> None:
    joe = plane.user(".*", ".*", "^x")
    table: Table = {"x-dead-letter-exchange": "x"}
    assert plane.declare_queue(joe, "q", table=table).refusal == (
        "403 read access to queue 'q' in vhost '/' refused for user 'joe'"
    )


def test_dead_lettering_needs_write_on_the_exchange(plane: ControlPlane) -> None:
    joe = plane.user(".*", "^x", ".*")
    table: Table = {"x-dead-letter-exchange": ""}
    assert plane.declare_queue(joe, "q", table=table).refusal == (
        "403 write access to exchange 'amq.default' in vhost '/' refused for user 'joe'"
    )


def test_a_dead_letter_exchange_must_be_a_text(plane: ControlPlane) -> None:
    table: Table = {"x-dead-letter-exchange": 5, "x-expires": 0}
    assert plane.declare_queue(plane.guest(), "q", table=table).refusal == (
        "406 invalid type 'signedint' for arg 'x-dead-letter-exchange' in "
        "queue 'q' in vhost '/'"
    )


def test_deleting_needs_configure_even_on_what_is_not_there(
    plane: ControlPlane,
) -> None:
    joe = plane.user("^a", ".*", ".*")
    refusal = plane.delete_queue(joe, "q").refusal
    assert refusal.startswith("403 configure access to queue 'q'")


# -- passive ------------------------------------------------------------------


def test_a_passive_declaration_of_nothing_is_refused(plane: ControlPlane) -> None:
    assert plane.check_queue(plane.guest(), "amq.x").refusal == (
        "404 no queue 'amq.x' in vhost '/'"
    )


def test_a_passive_declaration_waits_for_the_commit(plane: ControlPlane) -> None:
    guest = plane.guest()
    plane.declare_queue(guest, "q", durable=True)
    outcome = plane.check_queue(plane.guest(), "q")
    assert not outcome.is_done
    plane.commit()
    assert outcome.queue.name == "q"


# -- deleting -----------------------------------------------------------------


def test_deleting_nothing_succeeds(plane: ControlPlane) -> None:
    assert plane.delete_queue(plane.guest(), "amq.q").value == 0


def test_deleting_counts_the_messages(plane: ControlPlane) -> None:
    guest = plane.guest()
    queue = plane.declare_queue(guest, "q").queue
    queue.publish(message_of())
    queue.publish(message_of())
    assert plane.delete_queue(guest, "q").value == 2
    assert (queue.is_deleted, plane.vhost.queues) == (True, {})
    assert plane.vhost.default_routes == {}


def test_the_row_of_a_durable_queue_goes_first(plane: ControlPlane) -> None:
    guest = plane.guest()
    plane.declare_queue(guest, "q", durable=True)
    plane.commit()
    outcome = plane.delete_queue(guest, "q")
    assert (outcome.is_done, list(plane.vhost.queues)) == (False, ["q"])
    plane.commit()
    assert (outcome.value, plane.vhost.queues) == (0, {})
    assert plane.rows("queues") == []


def test_a_queue_that_is_being_deleted_is_not_found(plane: ControlPlane) -> None:
    guest = plane.guest()
    plane.declare_queue(guest, "q", durable=True)
    plane.commit()
    plane.delete_queue(guest, "q")
    with pytest.raises(Exception, match="no queue 'q' in vhost '/'"):
        plane.vhost.find_queue(guest, "q")


def test_a_queue_with_messages_is_not_deleted_if_empty(plane: ControlPlane) -> None:
    guest = plane.guest()
    queue = plane.declare_queue(guest, "q").queue
    queue.publish(message_of())
    outcome = plane.delete_queue(guest, "q", if_empty=True, if_unused=True)
    assert outcome.refusal == "406 queue 'q' in vhost '/' not empty"
    assert plane.vhost.queues == {"q": queue}


def test_a_queue_with_consumers_is_not_deleted_if_unused(plane: ControlPlane) -> None:
    guest = plane.guest()
    queue = plane.declare_queue(guest, "q").queue
    ConsumingChannel().subscribe(queue, "t")
    outcome = plane.delete_queue(guest, "q", if_empty=True, if_unused=True)
    assert outcome.refusal == "406 queue 'q' in vhost '/' in use"


def test_messages_that_are_with_a_consumer_do_not_count(plane: ControlPlane) -> None:
    guest = plane.guest()
    queue = plane.declare_queue(guest, "q").queue
    queue.publish(message_of())
    queue.get(no_ack=False)
    assert plane.delete_queue(guest, "q", if_empty=True).value == 0


def test_a_deletion_takes_auto_delete_exchanges_along(plane: ControlPlane) -> None:
    guest = plane.guest()
    plane.declare_queue(guest, "q")
    plane.declare_exchange(guest, "near", auto_delete=True)
    plane.declare_exchange(guest, "far", auto_delete=True)
    plane.declare_exchange(guest, "stays")
    plane.bind(guest, "far", "near", to_exchange=True)
    plane.bind(guest, "near", "q")
    plane.bind(guest, "stays", "q")
    plane.delete_queue(guest, "q")
    assert not {"near", "far"} & set(plane.vhost.exchanges)
    assert "stays" in plane.vhost.exchanges


def test_an_auto_delete_exchange_with_another_binding_stays(
    plane: ControlPlane,
) -> None:
    guest = plane.guest()
    plane.declare_exchange(guest, "x", auto_delete=True)
    for name in ("q", "other"):
        plane.declare_queue(guest, name)
        plane.bind(guest, "x", name)
    plane.delete_queue(guest, "q")
    assert "x" in plane.vhost.exchanges


def test_durable_exchanges_go_with_a_transient_queue_in_one_commit(
    plane: ControlPlane,
) -> None:
    guest = plane.guest()
    plane.declare_queue(guest, "q")
    for name in ("near", "far"):
        plane.declare_exchange(guest, name, durable=True, auto_delete=True)
    plane.commit()
    plane.bind(guest, "far", "near", to_exchange=True)
    plane.commit()
    plane.bind(guest, "near", "q")
    outcome = plane.delete_queue(guest, "q")
    assert not outcome.is_done
    plane.bench.commit()
    assert outcome.value == 0
    assert not {"near", "far"} & set(plane.vhost.exchanges)
    assert plane.rows("exchanges") == []


# -- the disk refuses ---------------------------------------------------------


def test_a_declaration_that_the_disk_refuses_leaves_nothing(
    plane: ControlPlane,
) -> None:
    guest = plane.guest()
    plane.break_disk("queues")
    outcome = plane.declare_queue(guest, "q", durable=True)
    plane.commit()
    assert outcome.refusal.startswith("506 the change could not be stored")
    assert (plane.vhost.queues, plane.vhost.default_routes) == ({}, {})


def test_a_deletion_that_the_disk_refuses_leaves_the_queue(
    plane: ControlPlane,
) -> None:
    guest = plane.guest()
    queue = plane.declare_queue(guest, "q", durable=True)
    plane.commit()
    plane.break_disk("queues")
    outcome = plane.delete_queue(guest, "q")
    plane.commit()
    assert outcome.refusal.startswith("506 the change could not be stored")
    assert plane.vhost.find_queue(guest, "q") is queue.queue


def test_a_refused_declaration_can_be_repeated(plane: ControlPlane) -> None:
    guest = plane.guest()
    plane.break_disk("queues")
    plane.declare_queue(guest, "q", durable=True)
    plane.commit()
    plane.mend_disk("queues")
    outcome = plane.declare_queue(guest, "q", durable=True)
    plane.commit()
    assert outcome.queue.name == "q"


# -- connections that end -----------------------------------------------------


def test_nothing_is_made_for_a_connection_that_has_ended(plane: ControlPlane) -> None:
    guest, gone = plane.guest(), plane.guest()
    plane.declare_queue(guest, "q", durable=True)
    plane.commit()
    plane.delete_queue(guest, "q")
    outcome = plane.declare_queue(gone, "q", exclusive=True)
    gone.close()
    plane.commit()
    assert (outcome.is_done, plane.vhost.queues) == (False, {})


# -- the virtual host's type of queues ----------------------------------------


@pytest.fixture
def quorum_by_default(plane: ControlPlane) -> ControlPlane:
    plane.vhost.metadata = VhostMetadata(default_queue_type="quorum")
    return plane


def test_a_queue_is_of_the_type_of_its_virtual_host(
    quorum_by_default: ControlPlane,
) -> None:
    plane = quorum_by_default
    session = plane.guest()
    first = plane.declare_queue(session, "q", durable=True)
    plane.commit()
    assert first.queue.arguments == {"x-queue-type": "quorum"}
    again = plane.declare_queue(session, "q", durable=True)
    named = plane.declare_queue(
        session, "q", durable=True, table={"x-queue-type": "quorum"}
    )
    assert again.queue is named.queue is first.queue
    plane.reopen()
    assert plane.vhost.queues["q"].arguments == {"x-queue-type": "quorum"}


@pytest.mark.parametrize(
    ("name", "properties"),
    [
        ("q", {"exclusive": True}),
        ("q", {"auto_delete": True, "durable": True}),
        ("q", {"durable": False}),
        ("", {"durable": True}),
        ("q", {"durable": True, "table": {"x-queue-type": "classic"}}),
    ],
)
def test_a_queue_that_cannot_be_of_it_or_says_its_own_is_not(
    quorum_by_default: ControlPlane, name: str, properties: dict[str, Any]
) -> None:
    plane = quorum_by_default
    declared = plane.declare_queue(plane.guest(), name, **properties)
    plane.commit()
    assert queue_type(declared.queue.arguments) == "classic"
