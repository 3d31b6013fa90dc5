"""Held dead letters that left memory, that a restart finds, and that a disk refuses."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from amqpd.broker.queues.queue_rules import QueueRules
from amqpd.broker.rules.held_letters import (
    DISK_PAUSE_MS,
    HOT_COST_MAX,
    PAUSE_MAX_MS,
    PAUSE_MIN_MS,
    WINDOW_COUNT,
)
from tests.support.held import ALL, get, held, held_size, numbers, reject
from tests.support.place import Place
from tests.support.ruled import bodies_of, headers_of

MANY = WINDOW_COUNT + 20


@pytest.fixture
def place(fast_path: Path) -> Iterator[Place]:
    place = Place(fast_path / "d")
    yield place
    place.bench.close()


def charged(place: Place) -> int:
    """What is with consumers or held, in memory that others have to make up for."""
    return int(place.bench.broker.pager.use.unacked)


def let_them_go(place: Place) -> list[bytes]:
    """Declare the queue that they wait for; return what comes."""
    dead = place.declare("dead")
    for _ in range(2):
        place.bench.pass_time(int(PAUSE_MIN_MS))
        place.bench.sync()
    return bodies_of(dead)


# -- in memory, or not --------------------------------------------------------


def test_of_many_the_first_stay_in_memory_only(place: Place) -> None:
    queue = place.declare("q", **ALL)
    place.publish(queue, *numbers(0, MANY))
    place.bench.sync()
    cost = get(queue).message.cost
    reject(queue, MANY - 1)
    assert held(queue) == MANY - 1
    assert cost * 20 < charged(place) <= cost * (WINDOW_COUNT + 2)
    assert let_them_go(place) == numbers(1, MANY - 1)
    assert charged(place) == cost


def test_what_the_log_has_not_written_leaves_memory_when_it_has(place: Place) -> None:
    queue = place.declare("q", **ALL)
    place.publish(queue, *numbers(0, MANY))
    cost = get(queue).message.cost
    reject(queue, MANY - 1)
    assert charged(place) > cost * (MANY - 2)
    place.bench.sync()
    place.bench.pass_time(0)
    place.bench.pass_time(int(PAUSE_MAX_MS))
    assert charged(place) <= cost * (WINDOW_COUNT + 2)
    assert let_them_go(place) == numbers(1, MANY - 1)


def test_large_ones_do_not_stay_in_memory_either(place: Place) -> None:
    queue = place.declare("q", **ALL)
    body = b"x" * (int(HOT_COST_MAX) // 4)
    place.publish(queue, *[body] * 8)
    place.bench.sync()
    reject(queue, 8)
    assert charged(place) <= HOT_COST_MAX
    assert held_size(queue) == 8 * len(body)
    assert len(let_them_go(place)) == 8
    assert (held(queue), charged(place)) == (0, 0)


def test_what_no_log_has_stays_in_memory_and_goes_as_well(place: Place) -> None:
    queue = place.declare("q", **ALL)
    place.publish(queue, *numbers(0, MANY), is_persistent=False)
    place.page_out(queue)
    reject(queue, MANY)
    assert let_them_go(place) == numbers(0, MANY)
    assert charged(place) == 0


def test_purging_spares_those_among_what_is_cold(place: Place) -> None:
    queue = place.declare("q", **ALL)
    for number in range(5):
        place.publish(queue, b"%d" % number, ttl_ms=500 if number % 2 else None)
    place.page_out(queue)
    place.bench.pass_time(0)
    place.bench.pass_time(1500)
    assert (held(queue), queue.ready_count) == (2, 3)
    assert queue.purge() == 3
    place.bench.sync()
    place.restart()
    queue = place.queue("q")
    assert (held(queue), queue.ready_count) == (2, 0)
    assert let_them_go(place) == [b"1", b"3"]


# -- after a restart ----------------------------------------------------------


def test_a_restart_finds_them_dead(place: Place) -> None:
    queue = place.declare("q", **ALL)
    place.publish(queue, b"1", b"2", b"3")
    place.publish(queue, b"4", ttl_ms=10)
    place.bench.pass_time(0)
    place.bench.pass_time(10)
    died_ms = place.bench.now_ms
    second = get(queue), get(queue)
    queue.reject(second[1])
    queue.reject(second[0])
    place.bench.sync()
    place.restart()
    queue = place.queue("q")
    assert (held(queue), queue.ready_count) == (3, 1)
    assert bodies_of(queue) == [b"3"]
    place.bench.now_ms += 60_000
    dead = place.declare("dead")
    place.bench.pass_time(int(PAUSE_MIN_MS))
    place.bench.pass_time(0)
    letters = [get(dead), get(dead), get(dead)]
    reasons = [headers_of(one)["x-first-death-reason"] for one in letters]
    assert sorted(map(str, reasons)) == ["expired", "rejected", "rejected"]
    for one in letters:
        deaths = headers_of(one)["x-death"]
        assert isinstance(deaths, list)
        assert deaths[0]["time"].timestamp() == died_ms // 1000
    assert (held(queue), held_size(queue)) == (0, 0)


@pytest.mark.parametrize("count", [1, MANY])
def test_each_is_somewhere_once_after_each_restart(place: Place, count: int) -> None:
    queue = place.declare("q", **ALL)
    place.publish(queue, *numbers(0, count))
    reject(queue, count)
    place.bench.sync()
    for _ in range(2):
        place.restart()
        place.bench.pass_time(int(PAUSE_MAX_MS))
        place.bench.sync()
    queue = place.queue("q")
    assert (held(queue), queue.ready_count) == (count, 0)
    place.publish(queue, b"new")
    assert let_them_go(place) == numbers(0, count)
    place.bench.sync()
    place.restart()
    assert bodies_of(place.queue("q")) == [b"new"]
    assert held(place.queue("q")) == 0


def test_what_a_restart_finds_goes_at_most_once_if_that_is_the_rule_now(
    place: Place,
) -> None:
    queue = place.declare("q", **ALL)
    place.publish(queue, b"1")
    reject(queue)
    place.bench.sync()
    place.restart()
    queue = place.queue("q")
    assert queue.keeper is not None
    queue.keeper.change_rules(QueueRules({}))
    place.bench.pass_time(0)
    assert (held(queue), queue.ready_count) == (0, 0)
    place.bench.sync()
    place.restart()
    assert (held(place.queue("q")), place.queue("q").ready_count) == (0, 0)


# -- a disk that fails --------------------------------------------------------


def test_a_disk_that_refuses_the_move_leaves_them_dead_and_in_order(
    place: Place,
) -> None:
    queue = place.declare("q", **ALL)
    place.publish(queue, b"1", b"2", b"3")
    place.bench.sync()
    reject(queue, 3)
    place.bench.sync()
    dead = place.declare("dead")
    place.disk.is_full = True
    place.bench.pass_time(0)
    place.bench.pass_time(int(PAUSE_MIN_MS))
    place.bench.sync()
    assert (held(queue), queue.ready_count, dead.ready_count) == (3, 0, 0)
    place.bench.pass_time(int(DISK_PAUSE_MS))
    assert dead.ready_count == 0
    place.disk.is_full = False
    for _ in range(3):
        place.bench.pass_time(10_000)
        place.bench.sync()
    assert bodies_of(dead) == [b"1", b"2", b"3"]
    assert (held(queue), charged(place)) == (0, 0)


def test_what_dies_while_the_disk_is_full_is_not_even_tried(place: Place) -> None:
    dead = place.declare("dead")
    queue = place.declare("q", **ALL)
    place.publish(queue, b"1", b"2")
    place.bench.sync()
    first, second = get(queue), get(queue)
    place.disk.is_full = True
    queue.reject(first)
    place.bench.sync()
    assert (held(queue), dead.ready_count) == (1, 0)
    queue.reject(second)
    assert (held(queue), dead.ready_count) == (2, 0)
    place.bench.pass_time(0)
    assert dead.ready_count == 0


def test_a_queue_that_is_gone_takes_nothing_back(place: Place) -> None:
    place.declare("dead")
    queue = place.declare("q", **ALL)
    place.publish(queue, b"1")
    place.bench.sync()
    place.disk.is_full = True
    reject(queue)
    queue.delete()
    place.bench.sync()
    assert held(queue) == 0


def test_what_cannot_be_read_now_waits(place: Place) -> None:
    place.declare("q", **ALL)
    place.publish(place.queue("q"), b"1")
    reject(place.queue("q"))
    place.bench.sync()
    place.restart()
    queue = place.queue("q")
    dead = place.declare("dead")
    place.disk.is_unreadable = True
    place.bench.pass_time(0)
    place.bench.pass_time(int(PAUSE_MIN_MS))
    assert (held(queue), dead.ready_count) == (1, 0)
    place.disk.is_unreadable = False
    place.bench.pass_time(int(PAUSE_MAX_MS))
    assert (held(queue), bodies_of(dead)) == (0, [b"1"])


def test_what_the_log_has_lost_is_not_waited_for(place: Place) -> None:
    place.declare("q", **ALL)
    place.publish(place.queue("q"), b"1", b"2")
    reject(place.queue("q"), 2)
    place.bench.sync()
    place.restart()
    queue = place.queue("q")
    place.bench.store.settle_range(queue.id, 1, 1)
    place.bench.sync()
    assert let_them_go(place) == [b"2"]
    assert (held(queue), held_size(queue)) == (0, 0)
