"""Acks of many messages at once: what is counted, and what the log still has."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from amqpd.broker.queues.delivery import Reference
from amqpd.broker.queues.queue import Queue
from tests.support.connection_pair import Bench
from tests.support.deliveries import message_of, persistent_message


@pytest.fixture
def bench(fast_path: Path) -> Iterator[Bench]:
    bench = Bench(fast_path)
    bench.connect().declare("q", durable=True)
    bench.sync()
    yield bench
    bench.close()


@pytest.fixture
def queue(bench: Bench) -> Queue:
    return bench.broker.vhosts["/"].queues["q"]


def publish(queue: Queue, count: int) -> None:
    for _ in range(count):
        queue.publish(persistent_message())


def take(queue: Queue, count: int) -> list[Reference]:
    references = [queue.get(False) for _ in range(count)]
    return [reference for reference in references if reference is not None]


def settle(queue: Queue, references: list[Reference]) -> None:
    queue.settle_run(references, 0, len(references))


def live(bench: Bench, queue: Queue) -> list[int]:
    """What the log still has of the messages up to 20."""
    bench.sync()
    return [seq for seq in range(1, 21) if queue.log.has(seq)]


def test_what_is_acked_together_is_no_longer_in_the_log(
    bench: Bench, queue: Queue
) -> None:
    publish(queue, 6)
    bench.sync()
    settle(queue, take(queue, 4))
    assert live(bench, queue) == [5, 6]
    assert (queue.ready_count, queue.unacked_count) == (2, 0)
    assert queue.log.use.unacked == 0


def test_of_a_list_only_the_part_that_is_meant_is_settled(
    bench: Bench, queue: Queue
) -> None:
    publish(queue, 6)
    bench.sync()
    queue.settle_run(take(queue, 6), 1, 3)
    assert live(bench, queue) == [1, 4, 5, 6]
    assert queue.unacked_count == 4
    assert queue.log.use.unacked == 4 * persistent_message().cost


def test_what_is_acked_together_need_not_lie_together(
    bench: Bench, queue: Queue
) -> None:
    publish(queue, 8)
    bench.sync()
    references = take(queue, 8)
    settle(queue, [references[at] for at in (6, 1, 2, 4, 0)])
    assert live(bench, queue) == [4, 6, 8]


def test_some_of_what_is_acked_together_may_wait_for_the_log_or_be_in_none(
    bench: Bench, queue: Queue
) -> None:
    publish(queue, 2)
    bench.sync()
    queue.publish(message_of())
    publish(queue, 3)
    references = take(queue, 6)
    settle(queue, references[:5])
    assert bench.store.statistics.elided == 2
    assert live(bench, queue) == [6]
    assert queue.unacked_count == 1


def test_the_oldest_unacked_is_found_after_an_ack_of_many(
    bench: Bench, queue: Queue
) -> None:
    publish(queue, 3)
    bench.sync()
    references = take(queue, 3)
    settle(queue, references[:2])
    assert queue.oldest_unacked_age(0) == 0
    settle(queue, references[2:])
    assert queue.oldest_unacked_age(0) == -1


def test_acking_many_of_a_queue_that_is_gone_changes_nothing(
    bench: Bench, queue: Queue
) -> None:
    publish(queue, 3)
    bench.sync()
    references = take(queue, 3)
    bench.broker.vhosts["/"].delete_queue_now(queue)
    settle(queue, references)
    assert queue.unacked_count == 0
    assert queue.log.use.unacked == 0
