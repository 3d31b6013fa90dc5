"""Messages that came back and wait: how long, what counts, what becomes of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pamqp import commands
from pamqp.common import FieldTable

from amqpd.broker.delays.delayed_retry import HOT_COST_MAX, RETRY_MS
from amqpd.broker.queues.delivery import Reference
from amqpd.broker.queues.queue import Queue
from tests.support.connection_pair import Bench
from tests.support.content import PERSISTENT_PROPERTIES
from tests.support.deliveries import ConsumingChannel
from tests.support.little_memory import NOTHING, UnreadableDisk
from tests.support.ruled import RuledQueues, bodies_of, body_of, headers_of

RETRY = {"delayed_retry_type": "all", "delayed_retry_min": 100}


@pytest.fixture
def ruled(bench: Bench) -> RuledQueues:
    return RuledQueues(bench)


def get(queue: Queue) -> Reference:
    reference = queue.get(False)
    assert reference is not None
    return reference


def fail(queue: Queue) -> None:
    """Take the first message and let it fail."""
    queue.requeue(get(queue), True)


def charged(ruled: RuledQueues) -> int:
    """What is with consumers or waits, in memory that others have to make up for."""
    return int(ruled.bench.broker.pager.use.unacked)


def waiting(queue: Queue) -> int:
    assert queue.keeper is not None
    return queue.keeper.waiting_count()


# -- how long -----------------------------------------------------------------


def test_what_comes_back_waits_longer_each_time(ruled: RuledQueues) -> None:
    queue = ruled.make("q", **RETRY)
    ruled.publish(queue, b"1")
    for count in (1, 2, 3):
        fail(queue)
        ruled.bench.pass_time(0)
        assert (queue.ready_count, queue.unacked_count, waiting(queue)) == (0, 0, 1)
        ruled.bench.pass_time(100 * count - 1)
        assert queue.ready_count == 0
        ruled.bench.pass_time(1)
        assert (queue.ready_count, waiting(queue)) == (1, 0)
    reference = get(queue)
    assert reference.redelivered
    assert headers_of(reference) == {"x-delivery-count": 3}


def test_nothing_waits_longer_than_the_maximum(ruled: RuledQueues) -> None:
    queue = ruled.make("q", **RETRY, delayed_retry_max=150)
    ruled.publish(queue, b"1")
    fail(queue)
    ruled.bench.pass_time(0)
    ruled.bench.pass_time(100)
    fail(queue)
    ruled.bench.pass_time(0)
    ruled.bench.pass_time(149)
    assert queue.ready_count == 0
    ruled.bench.pass_time(1)
    assert queue.ready_count == 1


@pytest.mark.parametrize("arguments", [{}, {"delayed_retry_min": 100}])
def test_without_a_type_nothing_waits(
    ruled: RuledQueues, arguments: dict[str, object]
) -> None:
    queue = ruled.make("q", **arguments)
    ruled.publish(queue, b"1")
    fail(queue)
    assert queue.ready_count == 1
    assert headers_of(get(queue)) == {}


@pytest.mark.parametrize(
    ("kind", "failed_waits", "returned_waits"),
    [
        ("disabled", 0, 0),
        ("all", 1, 1),
        ("failed", 1, 0),
        ("returned", 0, 1),
    ],
)
def test_the_type_says_who_waits(
    ruled: RuledQueues, kind: str, failed_waits: int, returned_waits: int
) -> None:
    queue = ruled.make("q", delayed_retry_type=kind, delayed_retry_min=100)
    ruled.publish(queue, b"1")
    queue.requeue(get(queue), True)
    assert waiting(queue) == failed_waits
    queue.purge()
    ruled.publish(queue, b"2")
    queue.requeue(get(queue))
    assert waiting(queue) == returned_waits


# -- order, limits ------------------------------------------------------------


def test_what_waits_holds_up_nobody_and_comes_back_to_its_place(
    ruled: RuledQueues,
) -> None:
    queue = ruled.make("q", **RETRY)
    ruled.publish(queue, b"1", b"2", b"3")
    fail(queue)
    channel = ConsumingChannel()
    channel.subscribe(queue, "t", prefetch=1)
    queue.dispatch(10, 1000)
    assert channel.take() == [("t", b"2")]
    ruled.bench.pass_time(0)
    ruled.bench.pass_time(100)
    channel.consuming.ack(1, False)
    queue.dispatch(10, 1000)
    assert channel.take() == [("t", b"1")]


def test_a_consumer_gets_what_has_waited_without_being_asked(
    ruled: RuledQueues,
) -> None:
    queue = ruled.make("q", **RETRY)
    ruled.publish(queue, b"1")
    fail(queue)
    channel = ConsumingChannel()
    channel.subscribe(queue, "t")
    ruled.bench.pass_time(0)
    assert channel.take() == []
    ruled.bench.pass_time(100)
    assert channel.take() == [("t", b"1")]


def test_the_delivery_limit_ends_the_waiting(ruled: RuledQueues) -> None:
    dead = ruled.make("dead")
    queue = ruled.make(
        "q",
        **RETRY,
        delivery_limit=1,
        dead_letter_exchange="",
        dead_letter_routing_key="dead",
    )
    ruled.publish(queue, b"1")
    fail(queue)
    ruled.bench.pass_time(0)
    ruled.bench.pass_time(100)
    fail(queue)
    assert waiting(queue) == 0
    assert headers_of(get(dead))["x-first-death-reason"] == "delivery_limit"


def test_without_a_limit_it_goes_on_for_ever(ruled: RuledQueues) -> None:
    queue = ruled.make("q", delayed_retry_type="all", delayed_retry_min=0)
    ruled.publish(queue, b"1")
    for _ in range(100):
        fail(queue)
    assert bodies_of(queue) == [b"1"]


def test_what_waits_has_its_room_in_the_queue(ruled: RuledQueues) -> None:
    queue = ruled.make("q", **RETRY, max_length=2, overflow="reject-publish")
    ruled.publish(queue, b"1", b"2")
    fail(queue)
    ruled.publish(queue, b"refused")
    assert (queue.ready_count, waiting(queue)) == (1, 1)
    assert bodies_of(queue) == [b"2"]


def test_what_waits_may_be_too_much_for_what_is_ready(ruled: RuledQueues) -> None:
    queue = ruled.make("q", **RETRY, max_length=1)
    ruled.publish(queue, b"1")
    unacked = get(queue)
    ruled.publish(queue, b"2")
    queue.requeue(unacked)
    assert (queue.ready_count, waiting(queue)) == (0, 1)


def test_octets_of_what_waits_count(ruled: RuledQueues) -> None:
    queue = ruled.make("q", **RETRY, max_length_bytes=10)
    ruled.publish(queue, b"12345")
    fail(queue)
    ruled.publish(queue, b"67890")
    assert queue.ready_count == 1
    ruled.publish(queue, b"x")
    assert bodies_of(queue) == [b"x"]


def test_a_message_expires_while_it_waits(ruled: RuledQueues) -> None:
    dead = ruled.make("dead")
    queue = ruled.make(
        "q",
        delayed_retry_type="all",
        delayed_retry_min=10_000,
        dead_letter_exchange="",
        dead_letter_routing_key="dead",
    )
    ruled.publish(queue, b"1", ttl_ms=300)
    ruled.bench.pass_time(0)
    fail(queue)
    ruled.bench.pass_time(0)
    ruled.bench.pass_time(300)
    assert waiting(queue) == 0
    assert headers_of(get(dead))["x-first-death-reason"] == "expired"


def test_purge_takes_along_what_waits(ruled: RuledQueues) -> None:
    queue = ruled.make("q", **RETRY)
    ruled.publish(queue, b"1", b"2")
    fail(queue)
    assert queue.purge() == 2
    ruled.bench.pass_time(0)
    ruled.bench.pass_time(1000)
    assert (queue.ready_count, waiting(queue)) == (0, 0)


def test_a_deleted_queue_forgets_what_waits(ruled: RuledQueues) -> None:
    queue = ruled.make("q", **RETRY)
    ruled.publish(queue, b"1")
    fail(queue)
    assert queue.delete() == 1
    ruled.bench.pass_time(0)
    ruled.bench.pass_time(1000)
    assert queue.ready_count == 0


def test_levels_wait_each_for_itself_and_count_together(ruled: RuledQueues) -> None:
    queue = ruled.make("q", **RETRY, max_priority=3, max_length=2)
    for priority in (0, 3):
        properties = b"\x08\x00" + bytes([priority])
        queue.publish(ruled.message(b"%d" % priority, properties, key="q"))
    reference = get(queue)
    reference.queue.requeue(reference, True)
    assert (queue.ready_count, queue.unacked_count, waiting(queue)) == (1, 0, 1)
    channel = ConsumingChannel()
    channel.subscribe(queue, "t")
    ruled.bench.turn()
    assert channel.take() == [("t", b"0")]
    ruled.bench.pass_time(0)
    ruled.bench.pass_time(100)
    assert channel.take() == [("t", b"3")]
    assert queue.unacked_count == 2


def test_many_are_ready_again_in_several_turns(ruled: RuledQueues) -> None:
    queue = ruled.make("q", **RETRY)
    ruled.publish(queue, *[b"%d" % number for number in range(200)])
    for reference in [get(queue) for _ in range(200)]:
        queue.requeue(reference)
    ruled.bench.pass_time(0)
    ruled.bench.pass_time(100)
    assert 0 < queue.ready_count < 200
    for _ in range(4):
        ruled.bench.pass_time(1)
    assert bodies_of(queue) == [b"%d" % number for number in range(200)]


# -- the log ------------------------------------------------------------------


def durable(bench: Bench) -> Queue:
    """Declare the durable queue q, unless it is there."""
    topology = bench.broker.vhosts["/"].topology
    if "q" not in topology.queues:
        arguments: FieldTable = {
            "x-delayed-retry-type": "all",
            "x-delayed-retry-min": 1000,
        }
        declare = commands.Queue.Declare(0, "q", durable=True, arguments=arguments)
        bench.connect().call(1, declare, commands.Queue.DeclareOk)
    return topology.queues["q"]


def publish(bench: Bench, *bodies: bytes) -> None:
    """Publish persistent messages to the queue q."""
    ruled = RuledQueues(bench)
    for body in bodies:
        durable(bench).publish(ruled.message(body, PERSISTENT_PROPERTIES))


def reopened(bench: Bench, directory: Path) -> Bench:
    """The broker after a stop, at the same time."""
    now_ms = bench.now_ms
    bench.close()
    again = Bench(directory)
    again.now_ms = now_ms
    again.pass_time(0)
    return again


def test_a_restart_shortens_nothing(fast_path: Path) -> None:
    bench = Bench(fast_path)
    publish(bench, b"1", b"2", b"3")
    first, second = get(durable(bench)), get(durable(bench))
    second.queue.requeue(second)
    first.queue.requeue(first)
    bench = reopened(bench, fast_path)
    queue = durable(bench)
    bench.pass_time(999)
    assert bodies_of(queue) == [b"3"]
    assert waiting(queue) == 2
    bench.pass_time(1)
    reference = get(queue)
    assert reference.redelivered
    assert headers_of(reference) == {"x-delivery-count": 1}
    queue.requeue(reference)
    bench.pass_time(0)
    bench.pass_time(2000)
    assert bodies_of(queue) == [b"1", b"2"]
    bench.close()


def test_what_has_waited_long_enough_is_there_after_a_restart(
    fast_path: Path,
) -> None:
    bench = Bench(fast_path)
    publish(bench, b"1")
    fail(durable(bench))
    bench.now_ms += 1000
    bench = reopened(bench, fast_path)
    assert bodies_of(durable(bench)) == [b"1"]
    bench.close()


def test_a_consumer_is_not_given_too_early_what_waited_before_a_restart(
    fast_path: Path,
) -> None:
    bench = Bench(fast_path)
    publish(bench, b"1", b"2")
    fail(durable(bench))
    bench = reopened(bench, fast_path)
    channel = ConsumingChannel()
    channel.subscribe(durable(bench), "t", no_ack=True)
    bench.turn()
    assert channel.take() == [("t", b"2")]
    bench.pass_time(1000)
    assert channel.take() == [("t", b"1")]
    bench.close()


@pytest.fixture
def disk() -> UnreadableDisk:
    return UnreadableDisk()


@pytest.fixture
def little(fast_path: Path, disk: UnreadableDisk) -> Iterator[Bench]:
    bench = Bench(fast_path / "little", disk, budgets=NOTHING)
    yield bench
    bench.close()


#: So many of these wait in memory, and no more.
LARGE = bytes(100_000)
HOT_COUNT = int(HOT_COST_MAX) // (len(LARGE) + 500)


def let_many_wait(bench: Bench, count: int) -> Queue:
    """Let so many messages fail that only some of them stay in memory."""
    queue = durable(bench)
    publish(bench, *[b"%02d" % number + LARGE for number in range(count)])
    bench.sync()
    for reference in [get(queue) for _ in range(count)]:
        queue.requeue(reference)
    assert waiting(queue) == count
    bench.pass_time(0)
    return queue


def take_numbers(queue: Queue) -> list[int]:
    found = []
    while (reference := queue.get(True)) is not None:
        assert headers_of(reference) == {"x-delivery-count": 1}
        assert reference.redelivered
        found.append(int(body_of(reference.message)[:2]))
    return found


def test_of_many_that_wait_only_some_are_in_memory(little: Bench) -> None:
    count = HOT_COUNT + 10
    queue = let_many_wait(little, count)
    before = little.store.statistics.cold_loads
    little.pass_time(1000)
    little.pass_time(1)
    assert take_numbers(queue) == list(range(count))
    assert 10 <= little.store.statistics.cold_loads - before < 20


def test_what_is_ready_again_makes_room_in_memory(little: Bench) -> None:
    queue = let_many_wait(little, HOT_COUNT)
    before = little.store.statistics.cold_loads
    for _ in range(3):
        little.pass_time(10_000)
        for reference in [get(queue) for _ in range(HOT_COUNT)]:
            queue.requeue(reference)
        little.pass_time(0)
    assert little.store.statistics.cold_loads == before


def test_what_the_log_has_lost_is_passed_over(little: Bench, fast_path: Path) -> None:
    count = HOT_COUNT + 3
    queue = let_many_wait(little, count)
    last = b"%02d" % (count - 1)
    for path in (fast_path / "little" / "log").glob("*.seg"):
        octets = path.read_bytes()
        path.write_bytes(octets.replace(last + LARGE, b"xx" + LARGE))
    little.pass_time(1000)
    little.pass_time(1)
    assert take_numbers(queue) == list(range(count - 1))
    # It is settled: when that is on the disk, it is waited for no longer.
    little.sync()
    little.pass_time(int(RETRY_MS))
    assert waiting(queue) == 0


def test_what_cannot_be_read_waits_on(little: Bench, disk: UnreadableDisk) -> None:
    count = HOT_COUNT + 3
    queue = let_many_wait(little, count)
    disk.is_unreadable = True
    little.pass_time(1000)
    little.pass_time(1)
    assert (queue.ready_count, waiting(queue)) == (HOT_COUNT, 3)
    disk.is_unreadable = False
    little.pass_time(int(RETRY_MS))
    assert take_numbers(queue) == list(range(count))


def test_purge_takes_along_what_waits_on_the_disk(little: Bench) -> None:
    count = HOT_COUNT + 3
    queue = let_many_wait(little, count)
    assert queue.purge() == count
    little.sync()
    assert little.store.index.queues[int(queue.id)].live_count == 0
    little.pass_time(1000)
    assert queue.ready_count == 0


def test_what_waits_is_not_lost_when_others_leave_memory(little: Bench) -> None:
    queue = durable(little)
    publish(little, *[b"%02d" % number for number in range(6)])
    references = [get(queue) for _ in range(4)]
    # 0 and 3 are ready again while 1 and 2 wait.
    for index in (0, 3):
        queue.requeue(references[index])
    little.pass_time(0)
    little.pass_time(1000)
    for index in (1, 2):
        queue.requeue(references[index])
    little.sync()
    little.page_out()
    little.pass_time(0)
    little.pass_time(1000)
    little.sync()
    little.page_out()
    assert not queue.has_memory()
    found = [body[:2] for body in bodies_of(queue)]
    assert found == [b"%02d" % number for number in range(6)]


# -- memory -------------------------------------------------------------------


def test_what_waits_is_charged_until_it_is_ready(ruled: RuledQueues) -> None:
    queue = ruled.make("q", **RETRY)
    ruled.publish(queue, bytes(1000))
    reference = get(queue)
    cost = int(reference.message.cost)
    assert charged(ruled) == cost
    queue.requeue(reference, True)
    # It says now how often it came back.
    assert charged(ruled) == reference.message.cost >= cost
    ruled.bench.pass_time(0)
    ruled.bench.pass_time(100)
    assert (queue.ready_count, charged(ruled)) == (1, 0)


@pytest.mark.parametrize("is_deleted", [False, True])
def test_what_is_dropped_while_it_waits_is_charged_no_longer(
    ruled: RuledQueues, is_deleted: bool
) -> None:
    queue = ruled.make("q", **RETRY)
    ruled.publish(queue, bytes(1000))
    fail(queue)
    assert charged(ruled) > 1000
    if is_deleted:
        queue.delete()
    else:
        queue.purge()
    assert charged(ruled) == 0
