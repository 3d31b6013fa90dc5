"""What has changed of a queue since it was looked at last."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pamqp import commands
from pamqp.common import FieldTable

from amqpd.broker.policies.effective_policy import EffectivePolicy
from amqpd.broker.queues.queue import Queue
from amqpd.broker.queues.queue_state import QueueState, note_all
from tests.support.connection_pair import Bench
from tests.support.control_plane import ControlPlane
from tests.support.deliveries import (
    ConsumingChannel,
    message_of,
    message_with_priority,
    persistent_message,
)
from tests.support.little_memory import NO_COLD, queue_of


def declare(bench: Bench, arguments: FieldTable | None = None) -> Queue:
    declare = commands.Queue.Declare(queue="q", durable=True, arguments=arguments)
    bench.connect().call(1, declare, commands.Queue.DeclareOk)
    return queue_of(bench)


@pytest.fixture
def queue(bench: Bench) -> Queue:
    return declare(bench)


def noted(queue: Queue) -> QueueState:
    state = QueueState()
    assert state.note(queue)
    return state


def test_a_queue_that_was_never_looked_at_has_changed_and_then_not(
    queue: Queue,
) -> None:
    state = QueueState()
    assert [state.note(queue) for _ in range(3)] == [True, False, False]


@pytest.mark.parametrize(
    "change",
    [
        lambda queue: queue.publish(message_of(b"more")),
        lambda queue: queue.purge(),
        lambda queue: queue.get(True),
        lambda queue: queue.get(False),
        lambda queue: ConsumingChannel().subscribe(queue, "c"),
    ],
    ids=["publish", "purge", "get", "get with ack", "consume"],
)
def test_what_happens_to_a_queue_changes_it_once(
    queue: Queue, change: Callable[[Queue], object]
) -> None:
    queue.publish(message_of(b"1"))
    state = noted(queue)
    change(queue)
    assert [state.note(queue) for _ in range(2)] == [True, False]


def test_one_message_in_place_of_a_larger_one_is_a_change(queue: Queue) -> None:
    queue.publish(message_of(b"12"))
    state = noted(queue)
    queue.get(True)
    queue.publish(message_of(b"3"))
    assert state.note(queue)


def test_an_exclusive_consumer_in_place_of_another_is_a_change(queue: Queue) -> None:
    channel = ConsumingChannel()
    channel.subscribe(queue, "c", exclusive=True)
    state = noted(queue)
    assert (state.consumer_count, state.exclusive_tag) == (1, "c")
    channel.consuming.cancel("c")
    channel.subscribe(queue, "d", exclusive=True)
    assert state.note(queue)
    assert state.exclusive_tag == "d"
    channel.consuming.cancel("d")
    assert state.note(queue)
    assert (state.consumer_count, state.exclusive_tag) == (0, "")


def test_another_active_consumer_is_a_change(bench: Bench) -> None:
    queue = declare(bench, {"x-single-active-consumer": True})
    channel = ConsumingChannel()
    channel.subscribe(queue, "a")
    channel.subscribe(queue, "b")
    state = noted(queue)
    assert state.single_active_tag == "a"
    channel.consuming.cancel("a")
    channel.subscribe(queue, "a")
    assert state.note(queue)
    assert (state.single_active_tag, state.consumer_count) == ("b", 2)


def test_a_policy_is_a_change(tmp_path: Path) -> None:
    plane = ControlPlane(tmp_path)
    guest = plane.guest()
    plane.declare_queue(guest, "q")
    plane.commit()
    queue = plane.vhost.queues["q"]
    state = noted(queue)
    plane.put_policy("p", {"max-length": 10})
    plane.commit()
    assert state.note(queue)
    assert isinstance(state.policy, EffectivePolicy)
    assert state.policy.policy_name == "p"
    assert not state.note(queue)


def test_a_dead_letter_that_stays_and_one_that_goes_are_changes(bench: Bench) -> None:
    queue = declare(
        bench,
        {
            "x-queue-type": "quorum",
            "x-overflow": "reject-publish",
            "x-dead-letter-strategy": "at-least-once",
            "x-dead-letter-exchange": "",
            "x-dead-letter-routing-key": "dead",
        },
    )
    queue.publish(message_of(b"more"))
    reference = queue.get(False)
    assert reference is not None
    queue.reject(reference)
    state = noted(queue)
    assert (state.held_count, state.held_size) == (1, 4)
    assert not state.note(queue)
    keeper = queue.keeper
    assert keeper is not None
    keeper.held_size += 1
    assert state.note(queue), "one went, and a longer one came"
    keeper.held_size -= 1
    assert state.note(queue)
    bench.connect().declare("dead")
    bench.pass_time(0)
    bench.pass_time(1000)
    assert state.note(queue)
    assert (state.held_count, state.held_size) == (0, 0)


def test_what_leaves_memory_is_a_change(fast_path: Path) -> None:
    bench = Bench(fast_path / "little", budgets=NO_COLD)
    queue = declare(bench)
    for _ in range(3):
        queue.publish(persistent_message(bytes(1500)))
    state = noted(queue)
    assert (state.ready_count, state.on_disk_count) == (3, 0)
    bench.sync()
    bench.page_out()
    assert state.note(queue)
    assert (state.ready_count, state.on_disk_count) == (3, 3)
    bench.close()


def test_of_a_queue_with_priorities_all_levels_count(bench: Bench) -> None:
    queue = declare(bench, {"x-max-priority": 9})
    state = noted(queue)
    queue.publish(message_with_priority(b"1", 5))
    queue.publish(message_of(b"2"))
    assert state.note(queue)
    assert state.ready_count == 2
    assert state.ready_size > 0
    queue.get(False)
    assert state.note(queue)
    assert (state.ready_count, state.unacked_count) == (1, 1)


def test_of_many_those_that_have_changed_are_told_by_their_places(
    bench: Bench,
) -> None:
    pair = bench.connect()
    for name in "abc":
        pair.declare(name)
    queues = [queue_of(bench, name) for name in "abc"]
    states = [QueueState() for _ in queues]
    assert note_all(states, queues) == [0, 1, 2]
    queues[1].publish(message_of(b"1"))
    assert note_all(states, queues) == [1]
    assert note_all(states, queues) == []
