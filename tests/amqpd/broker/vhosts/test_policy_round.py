"""Very many queues get new rules in several turns; who waits is told at the end."""

from __future__ import annotations

from pathlib import Path

import pytest

from amqpd.broker.policies.parameters import POLICY
from amqpd.broker.vhosts.policy_round import EXCHANGES_MAX, QUEUES_MAX
from tests.support.control_plane import ControlPlane
from tests.support.ruled import RuledQueues

COUNT = 2 * QUEUES_MAX + 1


@pytest.fixture
def plane(tmp_path: Path) -> ControlPlane:
    plane = ControlPlane(tmp_path)
    ruled = RuledQueues(plane.bench)
    for number in range(COUNT):
        ruled.make(f"q{number}")
    return plane


def names(plane: ControlPlane) -> list[str | None]:
    """The policies of all queues."""
    found = []
    for queue in plane.vhost.queues.values():
        assert queue.keeper is not None
        found.append(queue.keeper.rules.effective.policy_name)
    return found


def value(length: int) -> dict[str, object]:
    return {"pattern": "", "definition": {"max-length": length}}


def test_a_policy_is_set_when_all_queues_have_it(plane: ControlPlane) -> None:
    outcome = plane.put(POLICY, "p", value(1))
    plane.commit()
    counts = []
    while not outcome.is_done:
        counts.append(names(plane).count("p"))
        plane.bench.pass_time(1)
    assert counts == [QUEUES_MAX, 2 * QUEUES_MAX]
    assert names(plane).count("p") == COUNT


def test_a_second_change_begins_anew_and_both_are_told(plane: ControlPlane) -> None:
    first = plane.put(POLICY, "a", value(1))
    plane.commit()
    second = plane.remove(POLICY, "a")
    plane.commit()
    assert (first.is_done, second.is_done) == (False, False)
    for _ in range(3):
        plane.bench.pass_time(1)
    assert (first.value, second.value) == (None, None)
    assert names(plane) == [None] * COUNT


def test_queues_that_come_and_go_meanwhile_do_no_harm(plane: ControlPlane) -> None:
    outcome = plane.put(POLICY, "p", value(1))
    plane.commit()
    plane.vhost.delete_queue_now(plane.vhost.queues["q0"])
    RuledQueues(plane.bench).make("new")
    for _ in range(3):
        plane.bench.pass_time(1)
    assert outcome.value is None
    assert set(names(plane)) == {"p"}


def test_of_very_many_exchanges_some_follow_in_the_next_turn(
    plane: ControlPlane,
) -> None:
    guest = plane.guest()
    for number in range(EXCHANGES_MAX):
        plane.declare_exchange(guest, f"x{number}")
    value = {"pattern": "^x", "definition": {"alternate-exchange": "amq.fanout"}}
    outcome = plane.put(POLICY, "p", value)
    plane.commit()
    gone = plane.delete_exchange(guest, "x0")
    plane.commit()
    assert (outcome.is_done, gone.told) == (False, "None")
    while not outcome.is_done:
        plane.bench.pass_time(1)
    exchanges = plane.vhost.exchanges
    found = {name for name, one in exchanges.items() if one.policy is not None}
    assert found == {f"x{number}" for number in range(1, EXCHANGES_MAX)}
