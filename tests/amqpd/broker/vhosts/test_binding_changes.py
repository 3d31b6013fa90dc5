"""Binding and unbinding: the order of checks, the texts, the commits."""

from pathlib import Path

import pytest

from amqpd.auth.permissions import TopicPermission
from tests.support.control_plane import ControlPlane

DEFAULT = "403 operation not permitted on the default exchange"


@pytest.fixture
def plane(tmp_path: Path) -> ControlPlane:
    """A durable and a transient exchange and queue: dx, tx, dq, tq."""
    plane = ControlPlane(tmp_path)
    guest = plane.guest()
    plane.declare_exchange(guest, "dx", durable=True)
    plane.declare_exchange(guest, "tx")
    plane.declare_queue(guest, "dq", durable=True)
    plane.declare_queue(guest, "tq")
    plane.commit()
    return plane


# -- binding ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "queue"), [("dx", "tq"), ("tx", "dq"), ("tx", "tq")]
)
def test_a_binding_with_a_transient_end_is_there_at_once(
    plane: ControlPlane, source: str, queue: str
) -> None:
    assert plane.bind(plane.guest(), source, queue).value is None
    assert plane.bindings() == {(source, queue, b"k")}
    assert plane.rows("bindings") == []


def test_a_binding_between_durable_ends_is_there_with_its_commit(
    plane: ControlPlane,
) -> None:
    outcome = plane.bind(plane.guest(), "dx", "dq")
    assert (outcome.is_done, plane.bindings()) == (False, set())
    plane.commit()
    assert (outcome.value, plane.bindings()) == (None, {("dx", "dq", b"k")})
    assert plane.rows("bindings") == [("/", "dx", "dq", 0, b"k", b"")]


def test_exchanges_can_be_bound_to_exchanges(plane: ControlPlane) -> None:
    outcome = plane.bind(plane.guest(), "amq.topic", "dx", to_exchange=True)
    plane.commit()
    assert outcome.value is None
    assert plane.rows("bindings") == [("/", "amq.topic", "dx", 1, b"k", b"")]


def test_binding_twice_needs_no_commit(plane: ControlPlane) -> None:
    guest = plane.guest()
    plane.bind(guest, "dx", "dq", table={"a": 1, "b": 2})
    plane.commit()
    assert plane.bind(guest, "dx", "dq", table={"b": 2, "a": 1}).value is None
    assert len(plane.rows("bindings")) == 1


def test_a_missing_source_is_told_before_a_missing_queue(plane: ControlPlane) -> None:
    guest = plane.guest()
    assert plane.bind(guest, "a", "b").refusal == "404 no exchange 'a' in vhost '/'"
    assert plane.bind(guest, "dx", "b").refusal == "404 no queue 'b' in vhost '/'"
    refusal = plane.bind(guest, "dx", "b", to_exchange=True).refusal
    assert refusal == "404 no exchange 'b' in vhost '/'"


@pytest.mark.parametrize(
    ("source", "destination", "to_exchange"),
    [("", "tq", False), ("", "tx", True), ("tx", "", True)],
)
def test_the_default_exchange_takes_no_part(
    plane: ControlPlane, source: str, destination: str, to_exchange: bool
) -> None:
    nobody = plane.user("", "", "")
    for act in (plane.bind, plane.unbind):
        outcome = act(nobody, source, destination, to_exchange=to_exchange)
        assert outcome.refusal == DEFAULT


def test_a_wrong_match_is_refused(plane: ControlPlane) -> None:
    outcome = plane.bind(plane.guest(), "amq.headers", "tq", table={"x-match": "bad"})
    assert outcome.refusal == (
        '406 Invalid x-match field value <<"bad">>; '
        "expected all, any, all-with-x, or any-with-x"
    )


def test_a_match_of_the_wrong_type_is_refused(plane: ControlPlane) -> None:
    outcome = plane.bind(plane.guest(), "amq.headers", "tq", table={"x-match": 5})
    assert outcome.refusal == (
        "406 Invalid x-match field type signedint (value 5); expected longstr"
    )


def test_anothers_exclusive_queue_cannot_be_bound(plane: ControlPlane) -> None:
    plane.declare_queue(plane.guest(), "mine", exclusive=True)
    refusal = plane.bind(plane.guest(), "tx", "mine").refusal
    assert refusal.startswith("405 cannot obtain exclusive access to locked queue")


# -- rights -------------------------------------------------------------------


def test_write_on_the_destination_is_asked_first(plane: ControlPlane) -> None:
    joe = plane.user(".*", "^a", "^a")
    for act in (plane.bind, plane.unbind):
        assert act(joe, "x", "q").refusal == (
            "403 write access to queue 'q' in vhost '/' refused for user 'joe'"
        )
        assert act(joe, "x", "y", to_exchange=True).refusal == (
            "403 write access to exchange 'y' in vhost '/' refused for user 'joe'"
        )


def test_read_on_the_source_is_asked_next(plane: ControlPlane) -> None:
    joe = plane.user(".*", "^q", "^a")
    for act in (plane.bind, plane.unbind):
        assert act(joe, "x", "q").refusal == (
            "403 read access to exchange 'x' in vhost '/' refused for user 'joe'"
        )


# -- unbinding ----------------------------------------------------------------


@pytest.mark.parametrize(("source", "queue"), [("a", "tq"), ("tx", "b"), ("tx", "tq")])
def test_unbinding_what_is_not_there_succeeds(
    plane: ControlPlane, source: str, queue: str
) -> None:
    assert plane.unbind(plane.guest(), source, queue).value is None


def test_a_transient_binding_goes_at_once(plane: ControlPlane) -> None:
    guest = plane.guest()
    plane.bind(guest, "tx", "tq")
    assert plane.unbind(guest, "tx", "tq").value is None
    assert plane.bindings() == set()


def test_the_row_of_a_durable_binding_goes_first(plane: ControlPlane) -> None:
    guest = plane.guest()
    plane.bind(guest, "dx", "dq")
    plane.commit()
    outcome = plane.unbind(guest, "dx", "dq")
    assert (outcome.is_done, len(plane.bindings())) == (False, 1)
    plane.commit()
    assert (outcome.value, plane.bindings()) == (None, set())
    assert plane.rows("bindings") == []


def test_anothers_exclusive_queue_cannot_be_unbound(plane: ControlPlane) -> None:
    owner, other = plane.guest(), plane.guest()
    plane.declare_queue(owner, "mine", exclusive=True)
    plane.bind(owner, "tx", "mine")
    assert plane.unbind(other, "tx", "mine").refusal.startswith("405 ")
    assert plane.unbind(other, "tx", "mine", b"not bound").value is None


def test_an_auto_delete_exchange_ends_with_its_last_binding(
    plane: ControlPlane,
) -> None:
    guest = plane.guest()
    plane.declare_exchange(guest, "x", durable=True, auto_delete=True)
    plane.commit()
    plane.bind(guest, "x", "dq", b"1")
    plane.bind(guest, "x", "dq", b"2")
    plane.commit()
    plane.unbind(guest, "x", "dq", b"1")
    plane.commit()
    assert "x" in plane.vhost.exchanges
    plane.unbind(guest, "x", "dq", b"2")
    plane.commit()
    assert "x" not in plane.vhost.exchanges
    assert [row[1] for row in plane.rows("exchanges")] == ["dx"]


# -- the disk refuses ---------------------------------------------------------


def test_a_binding_that_the_disk_refuses_is_not_there(plane: ControlPlane) -> None:
    plane.break_disk("bindings")
    outcome = plane.bind(plane.guest(), "dx", "dq")
    plane.commit()
    assert outcome.refusal.startswith("506 the change could not be stored")
    assert plane.bindings() == set()


def test_an_unbinding_that_the_disk_refuses_has_not_happened(
    plane: ControlPlane,
) -> None:
    guest = plane.guest()
    plane.bind(guest, "dx", "dq")
    plane.commit()
    plane.break_disk("bindings")
    outcome = plane.unbind(guest, "dx", "dq")
    plane.commit()
    assert outcome.refusal.startswith("506 the change could not be stored")
    assert plane.bindings() == {("dx", "dq", b"k")}


# -- queues that end meanwhile ------------------------------------------------


def test_a_queue_that_ends_while_it_is_bound_leaves_no_binding(
    plane: ControlPlane,
) -> None:
    guest = plane.guest()
    plane.declare_exchange(guest, "x", durable=True, auto_delete=True)
    plane.commit()
    outcome = plane.bind(guest, "x", "dq")
    plane.vhost.delete_queue_now(plane.vhost.queues["dq"])
    plane.commit()
    assert outcome.value is None
    assert (plane.bindings(), plane.rows("bindings")) == (set(), [])
    assert "x" not in plane.vhost.exchanges


def test_an_exchange_ends_when_its_bindings_go_on_two_ways_at_once(
    plane: ControlPlane,
) -> None:
    guest = plane.guest()
    plane.declare_exchange(guest, "x", durable=True, auto_delete=True)
    plane.commit()
    plane.bind(guest, "x", "dq")
    plane.commit()
    plane.bind(guest, "x", "tq")
    plane.unbind(guest, "x", "dq")
    plane.vhost.delete_queue_now(plane.vhost.queues["tq"])
    plane.commit()
    assert "x" not in plane.vhost.exchanges


def test_a_key_of_a_topic_exchange_may_be_forbidden(plane: ControlPlane) -> None:
    joe = plane.user(".*", ".*", ".*")
    rights = TopicPermission("joe", "/", "amq.topic", "", "^ok$")
    plane.broker.permissions.put_topic(rights)
    refusal = (
        "403 read access to topic 'no' in exchange 'amq.topic' in vhost '/' "
        "refused for user 'joe'"
    )
    # Before it is asked whether the queue exists.
    assert plane.bind(joe, "amq.topic", "missing", b"no").refusal == refusal
    assert plane.unbind(joe, "amq.topic", "missing", b"no").refusal == refusal
    assert plane.bind(joe, "amq.topic", "tq", b"ok").value is None
    assert plane.bind(joe, "amq.direct", "tq", b"no").value is None
    missing = plane.bind(joe, "missing", "tq", b"no").refusal
    assert missing == "404 no exchange 'missing' in vhost '/'"


def test_a_binding_that_the_type_refuses_is_not_there(plane: ControlPlane) -> None:
    guest = plane.guest()
    plane.declare_exchange(guest, "h", "x-consistent-hash", durable=True)
    plane.commit()
    refusal = '406 The binding key must be an integer: <<"k">>'
    assert plane.bind(guest, "h", "dq").refusal == refusal
    assert plane.bindings() == set()
