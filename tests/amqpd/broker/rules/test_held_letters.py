"""Dead letters that stay in their queue until all others take them."""

from __future__ import annotations

import pytest

from amqpd.broker.queues.queue import Queue
from amqpd.broker.queues.queue_rules import QueueRules
from amqpd.broker.rules.held_letters import (
    PAUSE_MAX_MS,
    PAUSE_MIN_MS,
    TELL_PAUSE_MS,
    TRY_MAX,
    WINDOW_COUNT,
    HeldLetter,
    mark_of,
    reason_and_time,
)
from routing.binding import Binding
from tests.support.connection_pair import Bench
from tests.support.held import (
    ALL,
    OWN_KEYS,
    get,
    held,
    held_size,
    numbers,
    reject,
)
from tests.support.ruled import RuledQueues, bodies_of, headers_of


@pytest.fixture
def ruled(bench: Bench) -> RuledQueues:
    return RuledQueues(bench)


def change(queue: Queue, **table: object) -> None:
    """Give a queue other arguments, as a policy would."""
    arguments = {"x-" + key.replace("_", "-"): value for key, value in table.items()}
    assert queue.keeper is not None
    queue.keeper.change_rules(QueueRules(arguments))


def bind(ruled: RuledQueues, source: str, queue: str, key: bytes = b"") -> None:
    ruled.topology.router.bind(Binding(source, queue, False, key, {}, b""))


# -- what stays, and what goes ------------------------------------------------


def test_what_is_taken_is_gone_at_once(ruled: RuledQueues) -> None:
    dead = ruled.make("dead")
    queue = ruled.make("q", **ALL)
    ruled.publish(queue, b"1")
    reject(queue)
    assert held(queue) == 0
    assert bodies_of(dead) == [b"1"]


def test_what_no_queue_takes_stays_and_is_not_ready(ruled: RuledQueues) -> None:
    queue = ruled.make("q", **ALL)
    ruled.publish(queue, b"12", b"3")
    reject(queue)
    assert (held(queue), held_size(queue)) == (1, 2)
    assert (queue.ready_count, int(queue.unacked_count)) == (1, 0)
    assert bodies_of(queue) == [b"3"]


def test_they_go_in_order_when_their_queue_comes(ruled: RuledQueues) -> None:
    queue = ruled.make("q", **ALL)
    ruled.publish(queue, b"1", b"2", b"3")
    reject(queue, 3)
    dead = ruled.make("dead")
    ruled.bench.pass_time(int(PAUSE_MIN_MS))
    ruled.bench.pass_time(0)
    assert (held(queue), held_size(queue)) == (0, 0)
    assert bodies_of(dead) == [b"1", b"2", b"3"]


def test_a_full_queue_gets_as_many_as_it_has_room_for(ruled: RuledQueues) -> None:
    dead = ruled.make("dead", max_length=2, overflow="reject-publish")
    queue = ruled.make("q", **ALL)
    ruled.publish(queue, *numbers(0, 5))
    reject(queue, 5)
    assert (held(queue), dead.ready_count) == (3, 2)
    assert bodies_of(dead) == [b"0", b"1"]
    ruled.bench.pass_time(0)
    ruled.bench.pass_time(int(PAUSE_MAX_MS))
    assert (held(queue), dead.ready_count) == (1, 2)
    assert bodies_of(dead) == [b"2", b"3"]


def test_one_that_refuses_keeps_it_from_the_others(ruled: RuledQueues) -> None:
    """All have it or none: what is in its queue still is nowhere else."""
    full = ruled.make("full", max_length=0, overflow="reject-publish")
    free = ruled.make("free")
    for name in ("full", "free"):
        bind(ruled, "amq.fanout", name)
    queue = ruled.make("q", **{**ALL, "dead_letter_exchange": "amq.fanout"})
    ruled.publish(queue, b"1")
    reject(queue)
    assert (held(queue), free.ready_count) == (1, 0)
    change(full, max_length=1, overflow="reject-publish")
    ruled.bench.pass_time(0)
    ruled.bench.pass_time(int(PAUSE_MAX_MS))
    assert (held(queue), bodies_of(full), bodies_of(free)) == (0, [b"1"], [b"1"])


def test_one_that_is_stuck_is_in_nobodys_way(ruled: RuledQueues) -> None:
    queue = ruled.make("q", **OWN_KEYS, dead_letter_exchange="amq.direct")
    dead = ruled.make("dead")
    bind(ruled, "amq.direct", "dead", b"good")
    for key in ("bad", "good", "bad", "good"):
        queue.publish(ruled.message(key.encode(), key=key))
    reject(queue, 4)
    ruled.bench.pass_time(0)
    ruled.bench.pass_time(int(PAUSE_MIN_MS))
    assert bodies_of(dead) == [b"good", b"good"]
    assert held(queue) == 2


def test_behind_so_many_that_are_stuck_the_others_wait(ruled: RuledQueues) -> None:
    queue = ruled.make("q", **OWN_KEYS, dead_letter_exchange="")
    dead = ruled.make("good")
    for _ in range(WINDOW_COUNT):
        queue.publish(ruled.message(b"", key="bad"))
    queue.publish(ruled.message(b"x", key="good"))
    reject(queue, WINDOW_COUNT + 1)
    for _ in range(3):
        ruled.bench.pass_time(int(PAUSE_MAX_MS))
    assert (held(queue), dead.ready_count) == (WINDOW_COUNT + 1, 0)
    ruled.make("bad")
    ruled.bench.pass_time(0)
    ruled.bench.pass_time(int(PAUSE_MIN_MS))
    assert (held(queue), bodies_of(dead)) == (0, [b"x"])


def test_very_many_go_in_several_turns(ruled: RuledQueues) -> None:
    queue = ruled.make("q", **ALL)
    ruled.publish(queue, *numbers(0, TRY_MAX + 10))
    reject(queue, TRY_MAX + 10)
    dead = ruled.make("dead")
    ruled.bench.pass_time(0)
    assert dead.ready_count == TRY_MAX
    ruled.bench.pass_time(1)
    assert bodies_of(dead) == numbers(0, TRY_MAX + 10)


@pytest.mark.parametrize("ttl_ms", [None, 50])
def test_what_expires_and_what_comes_back_too_often_stays_as_well(
    ruled: RuledQueues, ttl_ms: int | None
) -> None:
    queue = ruled.make("q", **ALL, delivery_limit=0)
    ruled.publish(queue, b"1")
    ruled.publish(queue, b"2", ttl_ms=ttl_ms)
    if ttl_ms is None:
        queue.requeue(get(queue), True)
    ruled.bench.pass_time(0)
    ruled.bench.pass_time(100)
    assert (held(queue), queue.ready_count) == (1, 1)
    dead = ruled.make("dead")
    ruled.bench.pass_time(0)
    ruled.bench.pass_time(100)
    letter = get(dead)
    reason = "delivery_limit" if ttl_ms is None else "expired"
    assert headers_of(letter)["x-first-death-reason"] == reason
    assert "x-delivery-count" not in headers_of(letter)


def test_a_letter_tells_when_it_died_and_not_when_it_went(ruled: RuledQueues) -> None:
    queue = ruled.make("q", **ALL)
    ruled.publish(queue, b"1")
    died_ms = ruled.bench.now_ms
    reject(queue)
    ruled.bench.pass_time(90_000)
    dead = ruled.make("dead")
    ruled.bench.pass_time(100)
    ruled.bench.pass_time(0)
    letter = get(dead)
    deaths = headers_of(letter)["x-death"]
    assert isinstance(deaths, list)
    assert deaths[0]["time"].timestamp() == died_ms // 1000
    assert letter.message.enqueued_ms == died_ms + 90_100


def test_letters_in_circles_are_kept(
    ruled: RuledQueues, caplog: pytest.LogCaptureFixture
) -> None:
    """RabbitMQ drops none of them under any circumstances."""
    queue = ruled.make("q", **{**ALL, "dead_letter_routing_key": "q"})
    ruled.publish(queue, b"1", ttl_ms=10)
    ruled.bench.pass_time(0)
    ruled.bench.pass_time(10)
    assert (held(queue), queue.ready_count) == (1, 0)
    assert (
        "message kept: dead letters of queue 'q' in vhost '/' go in circles by way of "
        "queue 'q'" in caplog.messages
    )


def test_an_exchange_that_is_not_there_is_told_of_once_a_minute(
    ruled: RuledQueues, caplog: pytest.LogCaptureFixture
) -> None:
    queue = ruled.make("q", **{**ALL, "dead_letter_exchange": "gone"})
    ruled.publish(queue, b"1", b"2")
    reject(queue, 2)
    ruled.bench.pass_time(0)
    told = (
        "dead letters of queue 'q' in vhost '/' are kept there: there is no exchange "
        "'gone'"
    )
    assert caplog.messages == [told]
    ruled.bench.pass_time(int(TELL_PAUSE_MS))
    assert caplog.messages == [told, told]


def test_a_key_that_is_too_long_for_any_queue_keeps_it(ruled: RuledQueues) -> None:
    queue = ruled.make("q", **{**ALL, "dead_letter_routing_key": "k" * 256})
    ruled.publish(queue, b"1")
    reject(queue)
    assert held(queue) == 1


def test_the_tries_grow_rarer_and_a_change_is_seen_at_once(ruled: RuledQueues) -> None:
    dead = ruled.make("dead", max_length=0, overflow="reject-publish")
    queue = ruled.make("q", **ALL)
    ruled.publish(queue, b"1")
    reject(queue)
    now_ms = ruled.bench.now_ms
    pauses: list[int] = []
    due_ms = ruled.bench.pass_time(0)
    while len(pauses) < 9:
        pauses.append(due_ms - ruled.bench.now_ms)
        due_ms = ruled.bench.pass_time(pauses[-1])
    assert pauses[-2:] == [PAUSE_MAX_MS, PAUSE_MAX_MS]
    assert pauses == sorted(pauses)
    assert ruled.bench.now_ms - now_ms > PAUSE_MAX_MS
    ruled.bench.pass_time(int(PAUSE_MIN_MS))
    change(dead)
    ruled.topology.dead_letters.look_again()
    ruled.bench.pass_time(0)
    assert (held(queue), bodies_of(dead)) == (0, [b"1"])


# -- what they count for ------------------------------------------------------


def test_they_count_for_the_length_of_their_queue(ruled: RuledQueues) -> None:
    queue = ruled.make("q", **ALL, max_length=2, max_length_bytes=10)
    ruled.publish(queue, b"1")
    reject(queue)
    ruled.publish(queue, b"2", b"3")
    assert bodies_of(queue) == [b"2"]
    ruled.publish(queue, b"0123456789", b"012345678")
    assert bodies_of(queue) == [b"012345678"]


def test_purging_leaves_them_and_deleting_does_not(ruled: RuledQueues) -> None:
    queue = ruled.make("q", **ALL)
    ruled.publish(queue, b"1", b"2")
    reject(queue)
    assert queue.purge() == 1
    assert held(queue) == 1
    assert ruled.topology.dead_letters.waiting
    ruled.topology.delete_queue_now(queue)
    assert held(queue) == 0
    assert not ruled.topology.dead_letters.waiting
    assert ruled.bench.broker.pager.use.unacked == 0
    dead = ruled.make("dead")
    ruled.bench.pass_time(int(PAUSE_MAX_MS))
    assert dead.ready_count == 0


def test_they_are_counted_by_reason_and_when_they_arrive(ruled: RuledQueues) -> None:
    queue = ruled.make("q", **ALL)
    ruled.publish(queue, b"1", b"2")
    reject(queue, 2)
    letters = ruled.topology.dead_letters
    assert (letters.held_counts, letters.arrived_count) == ({"rejected": 2}, 0)
    ruled.make("dead")
    ruled.bench.pass_time(0)
    ruled.bench.pass_time(int(PAUSE_MIN_MS))
    assert (letters.held_counts, letters.arrived_count) == ({"rejected": 2}, 2)
    assert letters.counts == {}


# -- when it is in force ------------------------------------------------------


@pytest.mark.parametrize(
    "other",
    [
        {"overflow": "drop-head"},
        {"dead_letter_strategy": "at-most-once"},
        {"queue_type": "classic"},
        {"dead_letter_exchange": None},
    ],
)
def test_it_takes_effect_with_all_that_it_needs_only(
    ruled: RuledQueues, other: dict[str, object], caplog: pytest.LogCaptureFixture
) -> None:
    queue = ruled.make("q", **{**ALL, **other})
    ruled.publish(queue, b"1")
    reject(queue)
    assert (held(queue), queue.ready_count) == (0, 0)
    is_told = "are sent at-most-once: at-least-once needs" in caplog.text
    assert is_told == ("overflow" in other or "dead_letter_exchange" in other)


def test_what_is_held_is_sent_at_most_once_if_that_is_the_rule_now(
    ruled: RuledQueues,
) -> None:
    dead = ruled.make("dead", max_length=1, overflow="reject-publish")
    queue = ruled.make("q", **{**ALL, "dead_letter_routing_key": "nobody"})
    ruled.publish(queue, b"1", b"2")
    reject(queue, 2)
    change(queue, **{**ALL, "overflow": "drop-head"})
    ruled.bench.pass_time(0)
    ruled.bench.pass_time(int(PAUSE_MIN_MS))
    assert (held(queue), queue.ready_count) == (0, 0)
    assert bodies_of(dead) == [b"1"]


def test_a_mark_tells_reason_and_time() -> None:
    for reason in ("rejected", "expired", "delivery_limit", "maxlen"):
        mark = mark_of(HeldLetter(1, 7, reason, 1_700_000_000_123, 0))
        assert mark < 0
        assert reason_and_time(int(mark)) == (reason, 1_700_000_000_123)
