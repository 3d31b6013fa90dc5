"""Policies, limits, parameters: in force when committed, also for what is there."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from amqpd.broker.errors import NotFound
from amqpd.broker.policies.parameters import (
    GLOBAL,
    OPERATOR_POLICY,
    POLICY,
    USER_LIMITS,
    VHOST_LIMITS,
    Parameter,
)
from amqpd.broker.policies.policy import ParameterInvalid
from amqpd.broker.queues.queue import Queue
from amqpd.broker.rules.queue_keeper import DROP_MAX
from amqpd.wire.tables import Table
from tests.support.control_plane import ControlPlane
from tests.support.ruled import RuledQueues, bodies_of


@pytest.fixture
def plane(tmp_path: Path) -> ControlPlane:
    return ControlPlane(tmp_path)


@pytest.fixture
def ruled(plane: ControlPlane) -> RuledQueues:
    return RuledQueues(plane.bench)


def queue_of(plane: ControlPlane, name: str = "q", table: Table | None = None) -> Queue:
    outcome = plane.declare_queue(plane.guest(), name, durable=True, table=table)
    plane.commit()
    return outcome.queue


def names_of(queue: Queue) -> tuple[str | None, str | None]:
    assert queue.keeper is not None
    effective = queue.keeper.rules.effective
    return effective.policy_name, effective.operator_policy_name


# -- policies -----------------------------------------------------------------


def test_a_policy_is_in_force_when_it_is_committed(
    plane: ControlPlane, ruled: RuledQueues
) -> None:
    queue = ruled.make("q")
    outcome = plane.put(POLICY, "p", {"pattern": "", "definition": {"max-length": 1}})
    ruled.publish(queue, b"1", b"2")
    assert (queue.ready_count, outcome.is_done) == (2, False)
    plane.commit()
    assert outcome.value is None
    assert bodies_of(queue) == [b"2"]


def test_a_policy_is_for_queues_that_come_later(plane: ControlPlane) -> None:
    plane.put_policy("p", {"max-length": 1}, pattern="^q")
    assert names_of(queue_of(plane, "q")) == ("p", None)
    assert names_of(queue_of(plane, "other")) == (None, None)


def test_policies_are_there_after_a_restart_and_before_messages(
    plane: ControlPlane,
) -> None:
    queue_of(plane)
    plane.put_policy("p", {"delivery-limit": 3})
    plane.put(OPERATOR_POLICY, "op", {"pattern": "", "definition": {"expires": 5000}})
    plane.commit()
    plane.reopen()
    queue = plane.vhost.queues["q"]
    assert names_of(queue) == ("p", "op")
    assert queue.is_ruled
    assert queue.expiry is not None


def test_a_policy_that_goes_is_in_force_no_more(
    plane: ControlPlane, ruled: RuledQueues
) -> None:
    queue = ruled.make("q")
    plane.put_policy("p", {"max-length": 1, "expires": 1000})
    plane.remove(POLICY, "p")
    plane.commit()
    ruled.publish(queue, b"1", b"2")
    assert (queue.ready_count, queue.expiry) == (2, None)
    assert names_of(queue) == (None, None)
    assert plane.broker.parameters.entries() == []
    assert plane.rows("parameters") == []


def test_the_operators_policy_bounds_the_others(
    plane: ControlPlane, ruled: RuledQueues
) -> None:
    queue = ruled.make("q", max_length=9)
    plane.put_policy("p", {"max-length": 5})
    plane.put(OPERATOR_POLICY, "op", {"pattern": "", "definition": {"max-length": 2}})
    plane.commit()
    ruled.publish(queue, b"1", b"2", b"3")
    assert bodies_of(queue) == [b"2", b"3"]


def test_what_the_disk_refuses_is_not_in_force(
    plane: ControlPlane, ruled: RuledQueues
) -> None:
    queue = ruled.make("q")
    plane.break_disk("parameters")
    outcome = plane.put(POLICY, "p", {"pattern": "", "definition": {"max-length": 0}})
    plane.commit()
    assert outcome.refusal.startswith("506 the change could not be stored")
    ruled.publish(queue, b"1")
    assert queue.ready_count == 1


def test_a_clearing_that_the_disk_refuses_changes_nothing(plane: ControlPlane) -> None:
    queue = queue_of(plane)
    plane.put_policy("p", {"max-length": 1})
    plane.break_disk("parameters")
    outcome = plane.remove(POLICY, "p")
    plane.commit()
    assert outcome.refusal.startswith("506 ")
    assert names_of(queue) == ("p", None)


def test_an_invalid_policy_is_refused_at_once(plane: ControlPlane) -> None:
    with pytest.raises(ParameterInvalid):
        plane.put(POLICY, "p", {"pattern": "(", "definition": {"max-length": 1}})
    with pytest.raises(ParameterInvalid):
        plane.put(POLICY, "p", "no object")
    assert not plane.broker.metadata_has_work()


def test_a_policy_needs_its_virtual_host(plane: ControlPlane) -> None:
    value = {"pattern": "", "definition": {"max-length": 1}}
    with pytest.raises(NotFound):
        plane.put(POLICY, "p", value, vhost="nowhere")


def test_a_policy_whose_virtual_host_goes_meanwhile_leaves_no_row(
    plane: ControlPlane,
) -> None:
    plane.put(POLICY, "p", {"pattern": "", "definition": {"max-length": 1}})
    del plane.broker.vhosts["/"]
    plane.commit()
    assert plane.rows("parameters") == []
    assert plane.broker.parameters.entries() == []


def test_what_has_no_meaning_any_more_is_kept_with_a_warning(
    plane: ControlPlane, caplog: pytest.LogCaptureFixture
) -> None:
    queue = queue_of(plane)
    with caplog.at_level(logging.WARNING):
        plane.put_policy("p", {"ha-mode": "all"})
    assert names_of(queue) == ("p", None)
    assert "ha-mode" in caplog.text


def test_a_stored_policy_that_cannot_be_is_passed_over(
    plane: ControlPlane, caplog: pytest.LogCaptureFixture
) -> None:
    broken = Parameter("/", POLICY, "p", {"pattern": "(", "definition": {"expires": 1}})
    with caplog.at_level(logging.ERROR):
        plane.broker.changes.adopt([broken])
    assert "'p' in vhost '/' is not applied" in caplog.text


# -- what policies do to what is there ----------------------------------------


def test_a_lower_length_drops_the_oldest_at_once(
    plane: ControlPlane, ruled: RuledQueues
) -> None:
    queue = ruled.make("q")
    ruled.publish(queue, b"1", b"2", b"3")
    plane.put_policy("p", {"max-length": 2})
    assert bodies_of(queue) == [b"2", b"3"]


def test_octets_that_are_there_already_count(
    plane: ControlPlane, ruled: RuledQueues
) -> None:
    queue = ruled.make("q")
    ruled.publish(queue, b"12345", b"67890", b"abcde")
    plane.put_policy("p", {"max-length-bytes": 10})
    ruled.publish(queue, b"x")
    assert bodies_of(queue) == [b"abcde", b"x"]


def test_octets_are_counted_anew_each_time(
    plane: ControlPlane, ruled: RuledQueues
) -> None:
    queue = ruled.make("q")
    plane.put_policy("p", {"max-length-bytes": 10})
    ruled.publish(queue, b"12345")
    plane.remove(POLICY, "p")
    plane.commit()
    ruled.publish(queue, b"67890", b"abcde")
    plane.put_policy("p", {"max-length-bytes": 10})
    assert bodies_of(queue) == [b"67890", b"abcde"]


def test_a_great_many_are_dropped_in_turns(
    plane: ControlPlane, ruled: RuledQueues
) -> None:
    queue = ruled.make("q")
    count = int(2 * DROP_MAX) + 10
    ruled.publish(queue, *[b"%d" % number for number in range(count)])
    plane.put_policy("p", {"max-length": 5})
    assert queue.ready_count == count - DROP_MAX
    for _ in range(3):
        plane.bench.pass_time(2)
    assert bodies_of(queue)[0] == b"%d" % (count - 5)


def test_a_queue_that_refuses_keeps_what_it_has(
    plane: ControlPlane, ruled: RuledQueues
) -> None:
    queue = ruled.make("q")
    ruled.publish(queue, b"1", b"2")
    plane.put_policy("p", {"max-length": 1, "overflow": "reject-publish"})
    ruled.publish(queue, b"3")
    assert bodies_of(queue) == [b"1", b"2"]


def test_a_time_to_live_is_also_for_what_is_there(
    plane: ControlPlane, ruled: RuledQueues
) -> None:
    queue = ruled.make("q")
    ruled.publish(queue, b"old")
    plane.bench.now_ms += 600
    ruled.publish(queue, b"new")
    plane.put_policy("p", {"message-ttl": 500})
    plane.bench.pass_time(0)
    assert queue.ready_count == 1
    plane.bench.pass_time(500)
    assert queue.ready_count == 0


def test_a_shorter_time_to_live_replaces_a_longer_one(
    plane: ControlPlane, ruled: RuledQueues
) -> None:
    queue = ruled.make("q", message_ttl=60_000)
    ruled.publish(queue, b"1")
    plane.bench.pass_time(0)
    plane.put_policy("p", {"message-ttl": 500})
    plane.bench.pass_time(500)
    assert queue.ready_count == 0


def test_without_a_time_to_live_only_messages_with_their_own_expire(
    plane: ControlPlane, ruled: RuledQueues
) -> None:
    queue = ruled.make("q")
    plane.put_policy("p", {"message-ttl": 500})
    ruled.publish(queue, b"stays")
    ruled.publish(queue, b"goes", ttl_ms=100)
    plane.remove(POLICY, "p")
    plane.commit()
    plane.bench.pass_time(0)
    plane.bench.pass_time(1000)
    assert bodies_of(queue) == [b"stays"]


def test_dead_letters_go_where_the_policy_says(
    plane: ControlPlane, ruled: RuledQueues
) -> None:
    queue = ruled.make("q")
    dead = ruled.make("dead", max_length=10)
    ruled.publish(queue, b"1", b"2")
    definition: Table = {
        "max-length": 1,
        "dead-letter-exchange": "",
        "dead-letter-routing-key": "dead",
    }
    plane.put_policy("p", definition, pattern="^q$")
    assert bodies_of(dead) == [b"1"]


def test_a_queue_with_priorities_keeps_the_rules_at_every_level(
    plane: ControlPlane, ruled: RuledQueues
) -> None:
    queue = queue_of(plane, "q", {"x-max-priority": 5})
    for priority in (b"\x03", b"\x00", b"\x03"):
        properties = b"\x08\x00" + priority
        queue.publish(ruled.message(b"m" + priority, properties))
    plane.put_policy("p", {"max-length": 1})
    assert queue.ready_count == 1
    plane.put_policy("p", {"message-ttl": 100})
    queue.publish(ruled.message(b"high", b"\x08\x00\x03"))
    plane.bench.pass_time(0)
    plane.bench.pass_time(100)
    assert queue.ready_count == 0


def test_returns_are_counted_from_now_on(
    plane: ControlPlane, ruled: RuledQueues
) -> None:
    queue = ruled.make("q")
    ruled.publish(queue, b"1")
    plane.put_policy("p", {"delivery-limit": 1})
    for expected in (1, 0):
        reference = queue.get(False)
        assert reference is not None
        queue.requeue(reference)
        assert queue.ready_count == expected


def test_a_queue_expires_by_a_policy(plane: ControlPlane, ruled: RuledQueues) -> None:
    ruled.make("q")
    plane.put_policy("p", {"expires": 1000})
    plane.bench.pass_time(0)
    plane.bench.pass_time(999)
    assert "q" in plane.vhost.queues
    plane.bench.pass_time(1)
    assert "q" not in plane.vhost.queues


def test_an_earlier_clock_does_not_end_a_queue(
    plane: ControlPlane, ruled: RuledQueues
) -> None:
    ruled.make("q", expires=1000)
    plane.bench.pass_time(0)
    plane.put_policy("p", {"expires": 500})
    plane.bench.pass_time(0)
    plane.remove(POLICY, "p")
    plane.commit()
    plane.bench.pass_time(700)
    assert "q" in plane.vhost.queues


def test_a_policy_with_another_name_starts_no_clock(
    plane: ControlPlane, ruled: RuledQueues
) -> None:
    queue = ruled.make("q")
    plane.put_policy("p", {"expires": 1000})
    clock = queue.expiry
    plane.put_policy("a", {"expires": 1000})
    assert names_of(queue) == ("a", None)
    assert queue.expiry is clock


def test_an_exchange_gets_an_alternate(plane: ControlPlane, ruled: RuledQueues) -> None:
    session = plane.guest()
    plane.declare_exchange(session, "x")
    plane.declare_exchange(session, "own", table={"alternate-exchange": "mine"})
    definition: Table = {"alternate-exchange": "amq.fanout"}
    plane.put_policy("p", definition, **{"apply-to": "exchanges"})
    plane.declare_exchange(session, "later")
    exchanges = plane.vhost.exchanges
    assert exchanges["x"].alternate == exchanges["later"].alternate == "amq.fanout"
    assert exchanges["own"].alternate == "mine"
    ruled.make("q")
    plane.bind(session, "amq.fanout", "q")
    plane.commit()
    raw = b"\x01x\x04some"
    assert [queue.name for queue in session.find_route(raw).queues] == ["q"]
    plane.remove(POLICY, "p")
    plane.commit()
    assert exchanges["x"].alternate is None
    assert session.find_route(raw).queues == []


# -- limits -------------------------------------------------------------------


def test_queues_of_a_virtual_host_are_limited(plane: ControlPlane) -> None:
    session = plane.guest()
    plane.put(VHOST_LIMITS, "limits", {"max-queues": 2})
    plane.commit()
    first = plane.declare_queue(session, "a", durable=True)
    second = plane.declare_queue(session, "b")
    third = plane.declare_queue(session, "c")
    again = plane.declare_queue(session, "b")
    plane.commit()
    assert (first.queue.name, second.queue.name) == ("a", "b")
    assert again.queue is second.queue
    assert third.refusal == (
        "406 cannot declare queue 'c': queue limit in vhost '/' (2) is reached"
    )
    plane.delete_queue(session, "b")
    assert plane.declare_queue(session, "c").queue.name == "c"
    plane.remove(VHOST_LIMITS, "limits")
    plane.commit()
    assert plane.declare_queue(session, "d").queue.name == "d"


def test_a_declaration_that_fails_takes_no_place(plane: ControlPlane) -> None:
    session = plane.guest()
    plane.put(VHOST_LIMITS, "limits", {"max-queues": 1})
    plane.commit()
    plane.break_disk("queues")
    failed = plane.declare_queue(session, "a", durable=True)
    plane.commit()
    assert failed.refusal.startswith("506 ")
    assert plane.declare_queue(session, "b").queue.name == "b"


def test_limits_of_users_are_kept(plane: ControlPlane) -> None:
    plane.put(USER_LIMITS, "guest", {"max-channels": 3}, vhost="")
    plane.commit()
    plane.reopen()
    assert plane.broker.admission.limits_of_user("guest") == {"max-channels": 3}
    plane.remove(USER_LIMITS, "guest", vhost="")
    plane.commit()
    assert plane.broker.admission.limits_of_user("guest") == {}


def test_limits_need_their_user(plane: ControlPlane) -> None:
    with pytest.raises(NotFound):
        plane.put(USER_LIMITS, "nobody", {"max-channels": 3}, vhost="")
    with pytest.raises(ParameterInvalid):
        plane.put(USER_LIMITS, "guest", {"max-queues": 3}, vhost="")
    with pytest.raises(ParameterInvalid):
        plane.put(VHOST_LIMITS, "limits", {"max-channels": 3})


def test_a_virtual_host_takes_its_parameters_along(plane: ControlPlane) -> None:
    plane.put(VHOST_LIMITS, "limits", {"max-queues": 1})
    plane.put(GLOBAL, "g", [1], vhost="")
    plane.commit()
    plane.broker.changes.forget_vhost("/")
    assert [one.name for one in plane.broker.parameters.entries()] == ["g"]
    assert plane.broker.admission.queue_limit("/") == -1


def test_global_parameters_are_any_value(plane: ControlPlane) -> None:
    plane.put(GLOBAL, "g", {"a": [1, None]}, vhost="")
    plane.commit()
    plane.reopen()
    (found,) = plane.broker.parameters.global_parameters()
    assert (found.name, found.value) == ("g", {"a": [1, None]})
