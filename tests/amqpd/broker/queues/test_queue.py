"""A queue: order, counts, consumers, and what the log is told."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from amqpd.broker.errors import AccessRefused
from amqpd.broker.queues.delivery import Reference
from amqpd.broker.queues.queue import Queue
from tests.support.connection_pair import Bench, ConnectionPair
from tests.support.content import PERSISTENT_PROPERTIES, publish
from tests.support.deliveries import ConsumingChannel, message_of, persistent_message

MANY = 1_000_000


@pytest.fixture
def queue(bench: Bench) -> Queue:
    dispatch, pager = bench.broker.dispatch, bench.broker.pager
    return Queue(1, "q", "/", False, False, None, {}, b"", dispatch, pager)


@pytest.fixture
def channel() -> ConsumingChannel:
    return ConsumingChannel()


def publish_bodies(queue: Queue, *bodies: bytes) -> None:
    for body in bodies:
        queue.publish(message_of(body))


def counts(queue: Queue) -> tuple[int, int]:
    return queue.ready_count, int(queue.unacked_count)


def get(queue: Queue, no_ack: bool = False) -> Reference:
    reference = queue.get(no_ack)
    assert reference is not None
    return reference


# -- order and counts ---------------------------------------------------------


def test_messages_are_numbered_densely_from_one(queue: Queue) -> None:
    publish_bodies(queue, b"a", b"b", b"c")
    assert [get(queue).seq for _ in range(3)] == [1, 2, 3]
    assert queue.get(False) is None


def test_what_is_taken_is_unacked_until_it_is_settled(queue: Queue) -> None:
    publish_bodies(queue, b"a", b"b")
    reference = get(queue)
    assert reference.consumer is None
    assert counts(queue) == (1, 1)
    queue.settle(reference)
    assert counts(queue) == (1, 0)


def test_what_is_taken_without_ack_is_gone(queue: Queue) -> None:
    publish_bodies(queue, b"a", b"b")
    get(queue, no_ack=True)
    assert counts(queue) == (1, 0)


def test_what_comes_back_is_first_again_and_marked(queue: Queue) -> None:
    publish_bodies(queue, b"a", b"b", b"c")
    first, second = get(queue), get(queue)
    assert not first.redelivered
    queue.requeue(second)
    queue.requeue(first)
    assert counts(queue) == (3, 0)
    again = [get(queue) for _ in range(3)]
    assert [reference.seq for reference in again] == [1, 2, 3]
    assert [reference.redelivered for reference in again] == [True, True, False]


def test_purging_drops_what_is_ready_and_nothing_else(queue: Queue) -> None:
    publish_bodies(queue, b"a", b"b", b"c")
    unacked = get(queue)
    assert queue.purge() == 2
    assert counts(queue) == (0, 1)
    queue.requeue(unacked)
    assert counts(queue) == (1, 0)
    assert queue.purge() == 1


def test_refused_messages_leave_unless_a_consumer_has_them(queue: Queue) -> None:
    publish_bodies(queue, b"a", b"b", b"c")
    unacked = get(queue)
    queue.drop_refused({1, 3})
    assert counts(queue) == (1, 1)
    queue.requeue(unacked)
    assert [get(queue).seq for _ in range(2)] == [1, 2]


# -- consumers ----------------------------------------------------------------


def test_a_consumer_gets_what_is_there_and_what_comes(
    bench: Bench, queue: Queue, channel: ConsumingChannel
) -> None:
    publish_bodies(queue, b"before")
    channel.subscribe(queue, "t")
    bench.dispatch()
    assert channel.take() == [("t", b"before")]
    publish_bodies(queue, b"after")
    bench.dispatch()
    assert channel.take() == [("t", b"after")]
    assert counts(queue) == (0, 2)


def test_a_consumer_without_acks_leaves_nothing_unacked(
    bench: Bench, queue: Queue, channel: ConsumingChannel
) -> None:
    channel.subscribe(queue, "t", no_ack=True)
    publish_bodies(queue, b"a", b"b")
    bench.dispatch()
    assert channel.take() == [("t", b"a"), ("t", b"b")]
    assert counts(queue) == (0, 0)


def test_a_run_is_bounded_by_messages(queue: Queue, channel: ConsumingChannel) -> None:
    channel.subscribe(queue, "t")
    publish_bodies(queue, *(b"%d" % at for at in range(5)))
    assert queue.dispatch(2, MANY)
    assert channel.take() == [("t", b"0"), ("t", b"1")]
    assert queue.dispatch(2, MANY)
    assert not queue.dispatch(2, MANY)
    assert channel.take() == [("t", b"2"), ("t", b"3"), ("t", b"4")]


def test_a_run_is_bounded_by_size(queue: Queue, channel: ConsumingChannel) -> None:
    channel.subscribe(queue, "t")
    publish_bodies(queue, *[bytes(1000)] * 5)
    size = int(message_of(bytes(1000)).size)
    assert queue.dispatch(100, size + 1)
    assert len(channel.take()) == 2
    assert queue.dispatch(100, size)
    assert len(channel.take()) == 1


@pytest.mark.parametrize("no_ack", [True, False])
def test_a_run_of_several_consumers_is_bounded_as_well(
    queue: Queue, channel: ConsumingChannel, no_ack: bool
) -> None:
    for tag in "ab":
        channel.subscribe(queue, tag, no_ack=no_ack)
    publish_bodies(queue, *(b"%d" % at for at in range(5)))
    assert queue.dispatch(3, MANY)
    assert channel.take() == [("a", b"0"), ("b", b"1"), ("a", b"2")]
    assert not queue.dispatch(3, MANY)
    # Whose turn it is has survived the end of the run.
    assert channel.take() == [("b", b"3"), ("a", b"4")]


def test_without_room_there_is_nothing_more_to_deliver(
    queue: Queue, channel: ConsumingChannel
) -> None:
    channel.subscribe(queue, "t", prefetch=2)
    publish_bodies(queue, b"a", b"b", b"c")
    assert not queue.dispatch(100, MANY)
    assert channel.take() == [("t", b"a"), ("t", b"b")]
    channel.consuming.ack(1, False)
    assert not queue.dispatch(100, MANY)
    assert channel.take() == [("t", b"c")]


def test_a_queue_is_marked_only_when_somebody_stands_in_line(
    bench: Bench, queue: Queue, channel: ConsumingChannel
) -> None:
    dispatch = bench.broker.dispatch
    publish_bodies(queue, b"a")
    assert not dispatch.has_work()
    queue.requeue(get(queue))
    assert not dispatch.has_work()
    consumer = channel.subscribe(queue, "t")
    assert dispatch.has_work()
    bench.dispatch()
    queue.requeue(channel.consuming.unacked.take(1))
    assert dispatch.has_work()
    assert consumer.in_ring


def test_offering_one_who_stands_in_line_or_is_cancelled_changes_nothing(
    bench: Bench, queue: Queue, channel: ConsumingChannel
) -> None:
    consumer = channel.subscribe(queue, "t")
    publish_bodies(queue, b"a")
    bench.broker.dispatch.visit_next()
    publish_bodies(queue, b"b")
    queue.offer(consumer)
    queue.remove_consumer(consumer)
    queue.offer(consumer)
    assert not consumer.in_ring
    bench.dispatch()
    assert channel.take() == [("t", b"a")]


def test_a_removed_consumer_keeps_what_it_has_and_gets_no_more(
    bench: Bench, queue: Queue, channel: ConsumingChannel
) -> None:
    consumer = channel.subscribe(queue, "t")
    publish_bodies(queue, b"a")
    bench.dispatch()
    queue.remove_consumer(consumer)
    publish_bodies(queue, b"b")
    bench.dispatch()
    assert channel.take() == [("t", b"a")]
    assert counts(queue) == (1, 1)
    assert (queue.consumer_count, consumer.is_cancelled) == (0, True)
    queue.remove_consumer(consumer)
    assert queue.consumer_count == 0


def test_an_exclusive_consumer_keeps_others_away(
    queue: Queue, channel: ConsumingChannel
) -> None:
    exclusive = channel.subscribe(queue, "t", exclusive=True)
    assert queue.has_exclusive_consumer
    with pytest.raises(AccessRefused, match="queue 'q' in vhost '/' in exclusive use"):
        channel.subscribe(queue, "u")
    queue.remove_consumer(exclusive)
    channel.subscribe(queue, "u")
    assert not queue.has_exclusive_consumer
    with pytest.raises(AccessRefused):
        channel.subscribe(queue, "v", exclusive=True)
    assert queue.consumer_count == 1


# -- the end ------------------------------------------------------------------


def test_a_deleted_queue_drops_everything_and_takes_nothing_back(
    bench: Bench, pair: ConnectionPair
) -> None:
    pair.declare("q")
    pair.consume("q")
    queue = bench.broker.vhosts["/"].queues["q"]
    publish_bodies(queue, b"a", b"b")
    bench.dispatch()
    assert len(pair.deliveries()) == 2
    publish_bodies(queue, b"c")
    assert queue.delete() == 1
    assert queue.is_deleted
    assert (counts(queue), queue.consumer_count) == ((0, 0), 0)
    unacked = pair.connection.channels[1].consuming.unacked.take_all()
    queue.settle(unacked[0])
    queue.requeue(unacked[1])
    bench.dispatch()
    assert counts(queue) == (0, 0)
    assert [frame.method.name for frame in pair.take()] == ["Basic.Cancel"]


# -- what the log is told -----------------------------------------------------


@pytest.fixture
def reopened(fast_path: Path) -> Iterator[Callable[[Bench], Queue]]:
    """Stop a broker without a farewell and find its durable queue q again."""
    benches: list[Bench] = []

    def reopen(bench: Bench) -> Queue:
        bench.sync()
        bench.store.close()
        bench.paging.close()
        again = Bench(fast_path / "d")
        benches.append(again)
        return again.broker.vhosts["/"].queues["q"]

    yield reopen
    for bench in benches:
        bench.close()


@pytest.fixture
def durable(fast_path: Path) -> Bench:
    """A broker with a durable queue q."""
    bench = Bench(fast_path / "d")
    bench.connect().declare("q", durable=True)
    return bench


def found_after_restart(queue: Queue) -> list[tuple[int, bool]]:
    """Place and mark of every message, in order."""
    found = []
    while reference := queue.get(False):
        found.append((int(reference.seq), reference.redelivered))
    return found


def queue_of(bench: Bench) -> Queue:
    return bench.broker.vhosts["/"].queues["q"]


Reopen = Callable[[Bench], Queue]


def test_persistent_messages_of_a_durable_queue_are_there_after_a_restart(
    durable: Bench, reopened: Reopen
) -> None:
    queue = queue_of(durable)
    queue.publish(persistent_message(b"1"))
    queue.publish(message_of(b"transient"))
    queue.publish(persistent_message(b"3"))
    assert found_after_restart(reopened(durable)) == [(1, False), (3, False)]


def test_a_queue_goes_on_with_its_numbers_after_a_restart(
    durable: Bench, reopened: Reopen
) -> None:
    queue_of(durable).publish(persistent_message())
    again = reopened(durable)
    again.publish(message_of())
    assert found_after_restart(again) == [(1, False), (2, False)]


@pytest.mark.parametrize("is_written", [True, False])
def test_what_was_settled_stays_settled(
    durable: Bench, reopened: Reopen, is_written: bool
) -> None:
    queue = queue_of(durable)
    for _ in range(4):
        queue.publish(persistent_message())
    if is_written:
        durable.sync()
    get(queue, no_ack=True)
    queue.settle(get(queue))
    assert found_after_restart(reopened(durable)) == [(3, False), (4, False)]


def test_what_was_delivered_without_acks_does_not_come_back(
    durable: Bench, reopened: Reopen
) -> None:
    queue = queue_of(durable)
    for _ in range(3):
        queue.publish(persistent_message())
    durable.sync()
    ConsumingChannel().subscribe(queue, "t", no_ack=True)
    queue.dispatch(2, MANY)
    assert found_after_restart(reopened(durable)) == [(3, False)]


def test_what_was_purged_stays_purged(durable: Bench, reopened: Reopen) -> None:
    queue = queue_of(durable)
    for _ in range(3):
        queue.publish(persistent_message())
    durable.sync()
    get(queue)
    queue.purge()
    assert found_after_restart(reopened(durable)) == [(1, True)]


def test_what_was_delivered_is_marked_after_a_restart(
    durable: Bench, reopened: Reopen
) -> None:
    queue = queue_of(durable)
    for _ in range(3):
        queue.publish(persistent_message())
    durable.sync()
    get(queue)
    get(queue)
    assert found_after_restart(reopened(durable)) == [
        (1, True),
        (2, True),
        (3, False),
    ]


def test_what_a_run_delivered_is_marked_whatever_its_last_message_is(
    durable: Bench, reopened: Reopen
) -> None:
    queue = queue_of(durable)
    queue.publish(persistent_message())
    queue.publish(message_of())
    queue.publish(persistent_message())
    durable.sync()
    ConsumingChannel().subscribe(queue, "t", prefetch=2)
    durable.dispatch()
    assert found_after_restart(reopened(durable)) == [(1, True), (3, False)]


def test_what_was_recovered_and_delivered_is_marked_after_the_next_restart(
    durable: Bench, reopened: Reopen, fast_path: Path
) -> None:
    queue_of(durable).publish(persistent_message())
    durable.sync()
    durable.store.close()
    durable.paging.close()
    again = Bench(fast_path / "d")
    get(queue_of(again))
    assert found_after_restart(reopened(again)) == [(1, True)]


def test_a_second_delivery_of_what_came_back_tells_the_log_nothing_new(
    durable: Bench, reopened: Reopen
) -> None:
    queue = queue_of(durable)
    queue.publish(persistent_message())
    durable.sync()
    queue.requeue(get(queue))
    durable.sync()
    get(queue)
    assert not durable.broker.durability.has_work
    assert found_after_restart(reopened(durable)) == [(1, True)]


def test_transient_messages_of_a_durable_queue_cost_the_log_nothing(
    durable: Bench,
) -> None:
    queue = queue_of(durable)
    queue.publish(message_of())
    queue.settle(get(queue))
    assert not durable.broker.durability.has_work
    durable.close()


def test_persistent_messages_of_a_transient_queue_cost_the_log_nothing(
    bench: Bench, queue: Queue
) -> None:
    bench.sync()
    queue.publish(persistent_message())
    queue.settle(get(queue))
    assert not bench.broker.durability.has_work
    assert bench.store.bytes_waiting == 0


def test_a_message_of_several_durable_queues_is_one_in_the_log(
    durable: Bench, reopened: Reopen
) -> None:
    pair = durable.connect()
    pair.declare("p", durable=True)
    shared = persistent_message(b"shared")
    before = durable.store.bytes_waiting
    queue_of(durable).publish(shared)
    once = durable.store.bytes_waiting - before
    durable.broker.vhosts["/"].queues["p"].publish(shared)
    twice = durable.store.bytes_waiting - before
    assert once < twice < once + len(shared.content)
    found = found_after_restart(reopened(durable))
    assert found == [(1, False)]


def test_a_deleted_durable_queue_does_not_come_back(fast_path: Path) -> None:
    bench = Bench(fast_path / "d")
    pair = bench.connect()
    pair.declare("q", durable=True)
    pair.send(publish("q", b"x", properties=PERSISTENT_PROPERTIES))
    bench.sync()
    queue = queue_of(bench)
    bench.broker.vhosts["/"].delete_queue_now(queue)
    bench.close()
    again = Bench(fast_path / "d")
    assert "q" not in again.broker.vhosts["/"].queues
    again.close()
