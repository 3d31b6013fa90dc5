"""How old a queue's messages are, wherever they stand; what unacked ones take."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pamqp import commands

from amqpd.broker.queues.ages import NO_AGE
from amqpd.broker.queues.delivery import Reference
from amqpd.broker.queues.pager import MemoryBudgets
from amqpd.broker.queues.queue import Queue
from tests.support.connection_pair import Bench
from tests.support.content import PERSISTENT_PROPERTIES
from tests.support.deliveries import ConsumingChannel
from tests.support.little_memory import PLENTY
from tests.support.ruled import RuledQueues

NO_COLD = MemoryBudgets(0, PLENTY)


class Place:
    """A directory on which brokers are opened one after the other."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.bench = Bench(directory, budgets=NO_COLD)
        declare = commands.Queue.Declare(0, "q", durable=True)
        self.bench.connect().call(1, declare, commands.Queue.DeclareOk)

    def restart(self) -> Queue:
        now_ms = self.bench.now_ms
        self.bench.close()
        self.bench = Bench(self.directory, budgets=NO_COLD)
        self.bench.now_ms = now_ms
        return self.queue

    @property
    def queue(self) -> Queue:
        return self.bench.broker.vhosts["/"].queues["q"]

    def publish(self, *after_ms: int) -> None:
        """Publish a message after each of these times."""
        for milliseconds in after_ms:
            self.bench.pass_time(milliseconds)
            self.queue.publish(
                RuledQueues(self.bench).message(b"x", PERSISTENT_PROPERTIES)
            )

    def age(self) -> int:
        return int(self.queue.oldest_ready_age(self.bench.now_ms))


@pytest.fixture
def place(fast_path: Path) -> Iterator[Place]:
    place = Place(fast_path / "d")
    yield place
    place.bench.close()


def get(queue: Queue, no_ack: bool = False) -> Reference:
    reference = queue.get(no_ack)
    assert reference is not None
    return reference


def test_the_first_that_is_ready_is_the_oldest(place: Place) -> None:
    assert place.age() == NO_AGE
    place.publish(0, 100, 100)
    assert place.age() == 200
    get(place.queue, no_ack=True)
    assert place.age() == 100


def test_one_that_comes_back_is_as_old_as_it_was(place: Place) -> None:
    place.publish(0, 100)
    reference = get(place.queue)
    assert place.age() == 0
    place.queue.requeue(reference)
    assert place.age() == 100
    assert place.queue.oldest_unacked_age(place.bench.now_ms) == NO_AGE


def test_a_message_is_as_old_on_the_disk_as_in_memory(place: Place) -> None:
    place.publish(0, 100)
    place.bench.sync()
    place.bench.page_out()
    assert not place.queue.has_memory()
    before_ms = place.age()
    assert before_ms >= 100
    get(place.queue, no_ack=True)
    assert place.age() == before_ms - 100


def test_what_leaves_memory_behind_the_cold_ones_does_not_make_them_younger(
    place: Place,
) -> None:
    place.publish(0, 100)
    place.bench.sync()
    place.bench.page_out()
    before_ms = place.age()
    place.publish(100)
    place.bench.sync()
    place.bench.page_out()
    assert place.age() >= before_ms + 100


def test_after_a_restart_the_first_is_looked_at_when_somebody_asks(
    place: Place,
) -> None:
    place.publish(0, 100)
    place.restart()
    assert place.bench.load() == 0
    assert place.age() == NO_AGE
    assert place.age() == NO_AGE
    assert place.bench.load() == 1
    assert place.age() == 100
    assert not place.queue.has_memory()
    assert place.bench.load() == 0


def test_a_look_is_void_when_the_queue_was_purged_meanwhile(place: Place) -> None:
    place.publish(0)
    place.restart()
    place.age()
    pager = place.bench.broker.pager
    assert pager.is_waiting
    (look,) = pager.begin_loads(place.bench.now_ms)
    look.run()
    place.queue.purge()
    place.publish(100)
    pager.complete_load(look, place.bench.now_ms)
    assert place.age() == 0


def test_a_look_is_void_when_the_first_has_been_taken_meanwhile(place: Place) -> None:
    place.publish(0, 100)
    place.restart()
    place.age()
    pager = place.bench.broker.pager
    (look,) = pager.begin_loads(place.bench.now_ms)
    look.run()
    get(place.queue, no_ack=True)
    pager.complete_load(look, place.bench.now_ms)
    assert place.age() == 0


def test_nobody_looks_for_a_queue_that_is_gone(place: Place) -> None:
    place.publish(0)
    queue = place.restart()
    place.age()
    queue.delete()
    assert place.bench.load() == 0


def test_a_look_that_fails_is_repeated_by_who_asks_again(place: Place) -> None:
    place.publish(0)
    place.restart()
    place.age()
    pager = place.bench.broker.pager
    (look,) = pager.begin_loads(place.bench.now_ms)
    assert look.stored is not None
    look.stored.error = OSError(5, "not now")
    pager.complete_load(look, place.bench.now_ms)
    assert place.age() == NO_AGE
    assert place.bench.load() == 1
    assert place.age() == 0


def test_deliveries_and_gets_are_unacked_until_they_are_answered(place: Place) -> None:
    place.publish(0, 100, 100)
    channel = ConsumingChannel()
    channel.subscribe(place.queue, "t", prefetch=2)
    place.bench.dispatch()
    place.bench.pass_time(50)
    got = get(place.queue)
    place.bench.pass_time(50)
    now_ms = place.bench.now_ms
    assert place.queue.oldest_unacked_age(now_ms) == 300
    assert place.queue.oldest_delivery_age(now_ms) == 100
    channel.consuming.ack(2, multiple=True)
    assert place.queue.oldest_unacked_age(now_ms) == 100
    assert place.queue.oldest_delivery_age(now_ms) == 50
    place.queue.reject(got)
    assert place.queue.oldest_unacked_age(now_ms) == NO_AGE
    assert place.queue.oldest_delivery_age(now_ms) == NO_AGE


def test_what_needs_no_ack_is_never_unacked(place: Place) -> None:
    place.publish(0)
    channel = ConsumingChannel()
    channel.subscribe(place.queue, "t", no_ack=True)
    place.bench.dispatch()
    assert place.queue.oldest_unacked_age(place.bench.now_ms) == NO_AGE
    assert place.bench.broker.pager.use.unacked == 0


def test_times_in_queue_are_sampled_at_deliveries_and_gets(place: Place) -> None:
    place.publish(0, 0)
    place.bench.pass_time(300)
    get(place.queue)
    ConsumingChannel().subscribe(place.queue, "t", no_ack=True)
    place.bench.pass_time(100)
    assert place.queue.mean_time_in_queue_ms == 350


def test_ages_of_a_queue_with_priorities_are_the_highest_of_any_level(
    bench: Bench,
) -> None:
    ruled = RuledQueues(bench)
    queue = ruled.make("q", max_priority=9)
    for priority in (1, 5):
        properties = b"\x08\x00" + bytes([priority])
        queue.publish(ruled.message(b"x", properties))
        bench.pass_time(100)
    now_ms = bench.now_ms
    assert queue.oldest_ready_age(now_ms) == 200
    reference = get(queue)
    bench.pass_time(10)
    assert queue.oldest_unacked_age(bench.now_ms) == 110
    assert queue.oldest_delivery_age(bench.now_ms) == 10
    assert queue.mean_time_in_queue_ms == 100
    reference.queue.settle(reference)
    assert queue.oldest_unacked_age(bench.now_ms) == NO_AGE
    assert ruled.make("r", max_priority=1).mean_time_in_queue_ms == 0


@pytest.mark.parametrize("end", ["settle", "reject", "requeue", "delete"])
def test_unacked_messages_take_memory_until_they_are_answered(
    place: Place, end: str
) -> None:
    place.publish(0)
    use = place.bench.broker.pager.use
    before = int(use.total)
    reference = get(place.queue)
    assert (int(use.unacked), int(use.total)) == (before, before)
    queue = place.queue
    if end == "delete":
        queue.delete()
        assert use.unacked == before
        queue.settle(reference)
        assert queue.unacked_count == 0
    else:
        getattr(queue, end)(reference)
    assert use.unacked == 0
    assert use.total == (before if end == "requeue" else 0)


def test_unacked_messages_make_others_leave_memory(fast_path: Path) -> None:
    bench = Bench(fast_path / "d", budgets=MemoryBudgets(PLENTY, 8000))
    queue = RuledQueues(bench).make("q")
    ruled = RuledQueues(bench)
    queue.publish(ruled.message(bytes(5000)))
    get(queue)
    bench.page_out()
    queue.publish(ruled.message(bytes(2000)))
    bench.page_out()
    assert queue.has_memory()
    queue.publish(ruled.message(bytes(2000)))
    assert bench.broker.pager.is_over
    bench.page_out()
    assert not queue.has_memory()
    assert queue.ready_count == 2
    bench.close()
