"""The rules of a queue with priorities: they hold at every level, lengths over all."""

from __future__ import annotations

from pathlib import Path

import pytest

from amqpd.broker.queues.delivery import Reference
from amqpd.broker.queues.queue import Queue
from tests.support.connection_pair import Bench
from tests.support.deliveries import ConsumingChannel
from tests.support.little_memory import NOTHING
from tests.support.ruled import RuledQueues, body_of, headers_of


@pytest.fixture
def ruled(bench: Bench) -> RuledQueues:
    return RuledQueues(bench)


def publish(
    ruled: RuledQueues, queue: Queue, *names: str, ttl_ms: int | None = None
) -> None:
    """Publish messages whose names begin with their priority."""
    for name in names:
        properties = b"\x08\x00" + bytes([int(name[0])])
        message = ruled.message(name.encode(), properties, ttl_ms=ttl_ms)
        assert queue.keeper is not None
        if queue.keeper.refuses(message):
            queue.keeper.on_refused(message)
        else:
            queue.publish(message)
        ruled.surroundings.keepers.run()


def get(queue: Queue) -> Reference:
    reference = queue.get(False)
    assert reference is not None
    return reference


def names(queue: Queue) -> list[str]:
    found = []
    while (reference := queue.get(True)) is not None:
        found.append(body_of(reference.message).decode())
    return found


def test_what_is_too_much_goes_from_the_front_of_all(ruled: RuledQueues) -> None:
    queue = ruled.make("q", max_priority=9, max_length=2)
    publish(ruled, queue, "9a", "1a", "5a")
    assert names(queue) == ["5a", "1a"]
    publish(ruled, queue, "1a", "5a", "9a", "3a")
    assert names(queue) == ["3a", "1a"]


def test_octets_count_over_all_levels(ruled: RuledQueues) -> None:
    queue = ruled.make("q", max_priority=9, max_length_bytes=6)
    publish(ruled, queue, "1a", "5a", "9a", "0a")
    assert names(queue) == ["5a", "1a", "0a"]


def test_a_full_queue_refuses_whatever_the_level(ruled: RuledQueues) -> None:
    queue = ruled.make("q", max_priority=9, max_length=2, overflow="reject-publish")
    publish(ruled, queue, "1a", "5a", "9a", "0a")
    assert names(queue) == ["5a", "1a"]


def test_what_comes_back_may_be_too_much(ruled: RuledQueues) -> None:
    queue = ruled.make("q", max_priority=9, max_length=1)
    publish(ruled, queue, "9a")
    unacked = get(queue)
    publish(ruled, queue, "1a")
    unacked.queue.requeue(unacked)
    assert names(queue) == ["1a"]


@pytest.mark.parametrize("is_each", [False, True])
def test_messages_expire_at_every_level(ruled: RuledQueues, is_each: bool) -> None:
    table: dict[str, object] = {} if is_each else {"message_ttl": 100}
    dead = ruled.make("dead")
    queue = ruled.make(
        "q",
        max_priority=9,
        dead_letter_exchange="",
        dead_letter_routing_key="dead",
        **table,
    )
    publish(ruled, queue, "1a", "9a", "0a", ttl_ms=100 if is_each else None)
    ruled.bench.pass_time(50)
    publish(ruled, queue, "9b", ttl_ms=100 if is_each else None)
    ruled.bench.pass_time(50)
    assert queue.ready_count == 1
    assert sorted(names(dead)) == ["0a", "1a", "9a"]
    assert names(queue) == ["9b"]


def test_now_or_never_is_in_order_too(ruled: RuledQueues) -> None:
    queue = ruled.make("q", max_priority=9)
    channel = ConsumingChannel()
    publish(ruled, queue, "9a", "5a")
    channel.subscribe(queue, "t")
    publish(ruled, queue, "5b", ttl_ms=0)
    ruled.bench.dispatch()
    found = [body for _, body in channel.take()]
    assert found[:2] == [b"9a", b"5a"]


def test_what_is_rejected_at_a_level_is_a_dead_letter(ruled: RuledQueues) -> None:
    dead = ruled.make("dead")
    queue = ruled.make(
        "q", max_priority=9, dead_letter_exchange="", dead_letter_routing_key="dead"
    )
    publish(ruled, queue, "5a", "0a")
    rejected = get(queue)
    rejected.queue.reject(rejected)
    assert (queue.ready_count, int(queue.unacked_count)) == (1, 0)
    letter = get(dead)
    assert body_of(letter.message) == b"5a"
    assert headers_of(letter)["x-first-death-queue"] == "q"


def test_deliveries_are_limited_at_every_level(ruled: RuledQueues) -> None:
    queue = ruled.make("q", max_priority=9, delivery_limit=1)
    publish(ruled, queue, "5a", "0a")
    for _ in range(2):
        taken = get(queue)
        assert body_of(taken.message) == b"5a"
        taken.queue.requeue(taken)
    assert (queue.ready_count, int(queue.unacked_count)) == (1, 0)
    assert names(queue) == ["0a"]


def test_what_goes_from_the_front_is_a_dead_letter(ruled: RuledQueues) -> None:
    dead = ruled.make("dead")
    queue = ruled.make(
        "q",
        max_priority=9,
        max_length=1,
        dead_letter_exchange="",
        dead_letter_routing_key="dead",
    )
    publish(ruled, queue, "5a", "0a")
    assert names(dead) == ["5a"]
    assert names(queue) == ["0a"]


def test_dead_letters_may_go_to_a_queue_with_priorities(ruled: RuledQueues) -> None:
    dead = ruled.make("dead", max_priority=9)
    queue = ruled.make(
        "q", max_length=0, dead_letter_exchange="", dead_letter_routing_key="dead"
    )
    publish(ruled, queue, "1a", "9a", "5a")
    assert names(dead) == ["9a", "5a", "1a"]


def test_now_or_never_comes_behind_all_that_is_higher(ruled: RuledQueues) -> None:
    queue = ruled.make("q", max_priority=9)
    channel = ConsumingChannel()
    publish(ruled, queue, "9a", "7a", "5a", "3a")
    channel.subscribe(queue, "t")
    publish(ruled, queue, "5b", ttl_ms=0)
    ruled.bench.dispatch()
    found = [body for _, body in channel.take()]
    assert found == [b"9a", b"7a", b"5a", b"5b", b"3a"]


def test_now_or_never_is_never_if_what_is_higher_takes_all_room(
    ruled: RuledQueues,
) -> None:
    queue = ruled.make("q", max_priority=9)
    channel = ConsumingChannel()
    publish(ruled, queue, "9a", "9b")
    channel.subscribe(queue, "t", prefetch=2)
    publish(ruled, queue, "5a", ttl_ms=0)
    ruled.bench.dispatch()
    assert [body for _, body in channel.take()] == [b"9a", b"9b"]
    assert queue.ready_count == 0


def test_now_or_never_does_not_overtake_what_is_being_read(fast_path: Path) -> None:
    bench = Bench(fast_path / "d", budgets=NOTHING)
    ruled = RuledQueues(bench)
    queue = ruled.make("q", max_priority=9)
    channel = ConsumingChannel()
    publish(ruled, queue, "9a")
    bench.page_out()
    bench.broker.timers.now_ms = bench.now_ms
    assert not queue.part(queue.id + 9).has_memory()
    channel.subscribe(queue, "t")
    publish(ruled, queue, "5a", ttl_ms=0)
    publish(ruled, queue, "5b")
    bench.turn()
    assert [body for _, body in channel.take()] == [b"9a", b"5b"]
    bench.close()
