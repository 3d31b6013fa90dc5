"""A queue with priorities: which level is served, and that its levels are queues."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
from pamqp import commands
from pamqp.common import FieldTable

from amqpd.broker.errors import ResourceError
from amqpd.broker.queues.delivery import Reference
from amqpd.broker.queues.pager import MemoryBudgets
from amqpd.broker.queues.priority_queue import PriorityQueue
from amqpd.broker.queues.queue import Queue
from tests.support.connection_pair import Bench, ConnectionPair
from tests.support.content import publish
from tests.support.deliveries import (
    ConsumingChannel,
    message_of,
    message_with_priority,
)
from tests.support.fast_directory import fast_directory
from tests.support.little_memory import NO_COLD, NOTHING, UnreadableDisk

PRIORITY_MAX = 9
PERSISTENT_PRIORITY_5 = b"\x18\x00\x02\x05"


@pytest.fixture
def queue(bench: Bench) -> Queue:
    declare(bench.connect())
    return queue_of(bench)


@pytest.fixture
def disk() -> UnreadableDisk:
    return UnreadableDisk()


@pytest.fixture
def little(fast_path: Path, disk: UnreadableDisk) -> Iterator[Bench]:
    """A broker that has no memory for what the log has."""
    bench = Bench(fast_path / "little", disk, budgets=NO_COLD)
    declare(bench.connect())
    yield bench
    disk.is_unreadable = False
    bench.close()


def declare(pair: ConnectionPair, name: str = "q", priority_max: int = 9) -> None:
    declare = commands.Queue.Declare(
        queue=name, durable=True, arguments={"x-max-priority": priority_max}
    )
    pair.call(1, declare, commands.Queue.DeclareOk)


def queue_of(bench: Bench, name: str = "q") -> Queue:
    return bench.broker.vhosts["/"].queues[name]


def put(queue: Queue, *names: str) -> None:
    """Publish persistent messages; a name begins with the priority."""
    for name in names:
        body = name.encode().ljust(1500, b" ")
        queue.publish(message_with_priority(body, int(name[0]), True))


def name_of(reference: Reference) -> str:
    return reference.message.content[-1501:].split(b" ")[0].decode()


def get(queue: Queue) -> Reference:
    reference = queue.get(False)
    assert reference is not None
    return reference


def names(queue: Queue) -> list[str]:
    """Take everything by basic.get."""
    found = []
    while (reference := queue.get(True)) is not None:
        found.append(name_of(reference))
    return found


def delivered(channel: ConsumingChannel) -> list[str]:
    found = [body.split(b" ")[0].decode() for _, body in channel.take()]
    channel.output.wake_consumers()
    return found


def make_cold(bench: Bench) -> None:
    bench.sync()
    bench.page_out()


# -- order --------------------------------------------------------------------


def test_the_highest_comes_first_and_equals_in_their_order(queue: Queue) -> None:
    put(queue, "1a", "5a", "0a", "5b", "9a", "1b", "0b")
    assert queue.ready_count == 7
    assert names(queue) == ["9a", "5a", "5b", "1a", "1b", "0a", "0b"]


def test_more_than_the_highest_is_the_highest_and_nothing_is_nothing(
    bench: Bench,
) -> None:
    declare(bench.connect(), "low", 3)
    queue = queue_of(bench, "low")
    put(queue, "3a", "9a")
    queue.publish(message_of(b"none".ljust(1500)))
    put(queue, "0a", "4a", "2a")
    assert names(queue) == ["3a", "9a", "4a", "2a", "none", "0a"]


def test_the_highest_priority_of_all_is_255(bench: Bench) -> None:
    declare(bench.connect(), "all", 255)
    queue = queue_of(bench, "all")
    for priority in (254, 127, 255, 253):
        body = (b"%d" % priority).ljust(1500)
        queue.publish(message_with_priority(body, priority, True))
    assert names(queue) == ["255", "254", "253", "127"]


def test_what_comes_back_is_in_its_place_in_its_level(queue: Queue) -> None:
    put(queue, "5a", "5b", "1a", "1b", "5c")
    taken = {
        name_of(reference): reference for reference in [get(queue) for _ in "1234"]
    }
    assert list(taken) == ["5a", "5b", "5c", "1a"]
    assert (queue.ready_count, int(queue.unacked_count)) == (1, 4)
    for name in ("1a", "5c", "5a"):
        taken[name].queue.requeue(taken[name])
    assert (queue.ready_count, int(queue.unacked_count)) == (4, 1)
    put(queue, "5d")
    again = [get(queue) for _ in range(5)]
    assert [name_of(reference) for reference in again] == ["5a", "5c", "5d", "1a", "1b"]
    marks = [reference.redelivered for reference in again]
    assert marks == [True, True, False, True, False]


def test_what_is_settled_is_gone_at_every_level(queue: Queue) -> None:
    put(queue, "5a", "0a")
    for _ in range(2):
        reference = get(queue)
        reference.queue.settle(reference)
    assert (queue.ready_count, int(queue.unacked_count)) == (0, 0)


def test_purging_drops_what_is_ready_at_every_level(queue: Queue) -> None:
    put(queue, "5a", "5b", "9a", "0a")
    unacked = get(queue)
    assert queue.purge() == 3
    assert (queue.ready_count, int(queue.unacked_count)) == (0, 1)
    unacked.queue.requeue(unacked)
    assert names(queue) == ["9a"]


def test_levels_are_made_when_they_are_used(bench: Bench, queue: Queue) -> None:
    assert isinstance(queue, PriorityQueue)
    assert len(queue.ids()) == PRIORITY_MAX + 1
    assert queue.part(queue.id) is queue
    put(queue, "5a")
    level = queue.part(queue.id + 5)
    assert level.ready_count == 1
    assert level.id == queue.id + 5


# -- consumers ----------------------------------------------------------------


def test_a_consumer_gets_the_highest_first(bench: Bench, queue: Queue) -> None:
    channel = ConsumingChannel()
    put(queue, "0a", "5a", "9a", "0b", "5b")
    channel.subscribe(queue, "t")
    bench.dispatch()
    assert delivered(channel) == ["9a", "5a", "5b", "0a", "0b"]
    put(queue, "1a", "9b")
    bench.dispatch()
    assert delivered(channel) == ["9b", "1a"]
    assert (queue.ready_count, int(queue.unacked_count)) == (0, 7)


def test_a_full_consumer_gets_what_has_come_meanwhile_first(
    bench: Bench, queue: Queue
) -> None:
    channel = ConsumingChannel()
    channel.subscribe(queue, "t", prefetch=1)
    put(queue, "1a", "1b")
    bench.dispatch()
    assert delivered(channel) == ["1a"]
    put(queue, "9a", "0a")
    bench.dispatch()
    assert delivered(channel) == []
    order = []
    for tag in (1, 2, 3):
        channel.consuming.ack(tag, False)
        bench.dispatch()
        order += delivered(channel)
    assert order == ["9a", "1b", "0a"]


def test_consumers_take_turns_across_levels(bench: Bench, queue: Queue) -> None:
    channel = ConsumingChannel()
    channel.subscribe(queue, "a")
    channel.subscribe(queue, "b")
    put(queue, "0a", "1a", "2a", "3a")
    bench.dispatch()
    assert [tag for tag, _ in channel.take()] == ["a", "b", "a", "b"]


def test_what_a_consumer_gives_back_goes_to_the_other(
    bench: Bench, queue: Queue
) -> None:
    first, second = ConsumingChannel(), ConsumingChannel()
    first.subscribe(queue, "first")
    put(queue, "5a", "9a")
    bench.dispatch()
    assert delivered(first) == ["9a", "5a"]
    second.subscribe(queue, "second")
    first.consuming.cancel("first")
    for tag in (1, 2):
        first.consuming.finish([first.consuming.unacked.take(tag)], True)
    bench.dispatch()
    assert delivered(second) == ["9a", "5a"]


def test_what_comes_back_wakes_who_waits(bench: Bench, queue: Queue) -> None:
    put(queue, "5a")
    reference = get(queue)
    channel = ConsumingChannel()
    channel.subscribe(queue, "t")
    bench.dispatch()
    reference.queue.requeue(reference)
    bench.dispatch()
    assert delivered(channel) == ["5a"]


def test_without_acks_nothing_is_unacked(bench: Bench, queue: Queue) -> None:
    channel = ConsumingChannel()
    channel.subscribe(queue, "t", no_ack=True)
    put(queue, "5a", "0a")
    bench.dispatch()
    assert delivered(channel) == ["5a", "0a"]
    channel.consuming.cancel("t")
    put(queue, "5b", "0b")
    assert names(queue) == ["5b", "0b"]
    assert int(queue.unacked_count) == 0


def test_nobody_is_served_when_nothing_is_there(bench: Bench, queue: Queue) -> None:
    channel = ConsumingChannel()
    channel.subscribe(queue, "t")
    assert not bench.broker.dispatch.has_work()
    assert not queue.dispatch(256, 1 << 20)


def test_a_visit_is_bounded_at_a_higher_level_too(bench: Bench, queue: Queue) -> None:
    ConsumingChannel().subscribe(queue, "t")
    put(queue, *["5a"] * 5, "0a")
    assert queue.dispatch(3, 1 << 20)
    assert queue.ready_count == 3
    assert queue.dispatch(3, 1 << 20)
    assert queue.ready_count == 1
    assert not queue.dispatch(3, 1 << 20)
    assert queue.ready_count == 0


# -- memory -------------------------------------------------------------------


def test_nothing_overtakes_a_higher_level_that_is_on_the_disk(little: Bench) -> None:
    queue = queue_of(little)
    put(queue, *[f"5{number}" for number in range(30)])
    make_cold(little)
    assert not queue.part(queue.id + 5).has_memory()
    put(queue, "0a")
    channel = ConsumingChannel()
    channel.subscribe(queue, "t", no_ack=True)
    little.dispatch()
    assert delivered(channel) == []
    order = []
    while queue.ready_count:
        assert little.load() == 1 or little.broker.dispatch.has_work()
        little.dispatch()
        order += delivered(channel)
    assert order == [*(f"5{number}" for number in range(30)), "0a"]


def test_a_level_that_waits_for_the_disk_is_asked_for_when_it_is_next(
    little: Bench,
) -> None:
    queue = queue_of(little)
    put(queue, "5a", "5b", "3a", "3b")
    make_cold(little)
    put(queue, "9a", "0a")
    channel = ConsumingChannel()
    channel.subscribe(queue, "t", no_ack=True)
    order = []
    for _ in range(4):
        little.dispatch()
        order.append(delivered(channel))
        little.load()
    assert order == [["9a"], ["5a", "5b"], ["3a", "3b", "0a"], []]


def test_a_get_reads_the_highest_level_in_place(little: Bench) -> None:
    queue = queue_of(little)
    put(queue, "5a", "0a", "5b")
    make_cold(little)
    put(queue, "0b", "1a")
    assert names(queue) == ["5a", "5b", "1a", "0a", "0b"]


def test_a_get_of_a_level_that_cannot_be_read_is_an_error(
    little: Bench, disk: UnreadableDisk
) -> None:
    queue = queue_of(little)
    put(queue, "5a")
    make_cold(little)
    put(queue, "0a")
    disk.is_unreadable = True
    with pytest.raises(ResourceError, match="queue 'q' cannot be read"):
        queue.get(False)
    disk.is_unreadable = False
    assert names(queue) == ["5a", "0a"]


def test_a_level_whose_messages_are_lost_is_passed_over(
    little: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    queue = queue_of(little)
    put(queue, "5a", "5b", "0a")
    make_cold(little)
    little.store.settle_range(queue.id + 5, 1, 2)
    little.sync()
    with caplog.at_level(logging.ERROR):
        assert names(queue) == ["0a"]
    assert "queue 'q' in vhost '/': 2 messages are not in the log" in caplog.text


def test_nobody_waits_for_a_level_without_consumers(little: Bench) -> None:
    queue = queue_of(little)
    put(queue, "5a", "0a")
    make_cold(little)
    consumer = ConsumingChannel().subscribe(queue, "t")
    little.dispatch()
    level = queue.part(queue.id + 5)
    assert (level.is_wanting, level.is_draining) == (True, True)
    queue.remove_consumer(consumer)
    assert not level.is_draining
    assert little.load() == 0


def test_a_consumer_gets_what_a_get_has_read(little: Bench) -> None:
    queue = queue_of(little)
    put(queue, *[f"5{number}" for number in range(30)])
    make_cold(little)
    channel = ConsumingChannel()
    channel.subscribe(queue, "t", prefetch=2)
    little.dispatch()
    (load,) = little.broker.pager.begin_loads(0)
    assert name_of(get(queue)) == "50"
    little.dispatch()
    assert delivered(channel) == ["51", "52"]
    load.run()
    little.broker.pager.complete_load(load, 0)
    assert queue.ready_count == 27


def test_transient_messages_leave_memory_by_level(fast_path: Path) -> None:
    bench = Bench(fast_path / "none", budgets=NOTHING)
    pair = bench.connect()
    arguments: FieldTable = {"x-max-priority": 9}
    sent = commands.Queue.Declare(queue="t", arguments=arguments)
    pair.call(1, sent, commands.Queue.DeclareOk)
    pair.declare("other")
    queue, other = queue_of(bench, "t"), queue_of(bench, "other")
    for name in ("0a", "9a", "5a", "9b"):
        body = name.encode().ljust(1500, b" ")
        queue.publish(message_with_priority(body, int(name[0])))
        other.publish(message_of(body))
    bench.page_out()
    for level in (0, 5, 9):
        assert not queue.part(queue.id + level).has_memory()
    assert names(queue) == ["9a", "9b", "5a", "0a"]
    assert names(other) == ["0a", "9a", "5a", "9b"]
    bench.close()


# -- the log ------------------------------------------------------------------


def test_levels_come_back_after_a_restart() -> None:
    with fast_directory() as directory:
        bench = Bench(directory)
        declare(bench.connect())
        put(queue_of(bench), "0a", "9a", "5a", "5b", "9b")
        assert name_of(get(queue_of(bench))) == "9a"
        bench.close()
        bench = Bench(directory)
        queue = queue_of(bench)
        assert queue.ready_count == 5
        put(queue, "5c", "9c")
        first = get(queue)
        assert (name_of(first), first.redelivered) == ("9a", True)
        assert names(queue) == ["9b", "9c", "5a", "5b", "5c", "0a"]
        first.queue.settle(first)
        bench.close()
        bench = Bench(directory)
        assert queue_of(bench).ready_count == 0
        # Its level has had two that were written; 5c was gone before that.
        put(queue_of(bench), "5d")
        assert int(get(queue_of(bench)).seq) == 3
        bench.close()


def test_ids_of_levels_are_nobody_elses(bench: Bench) -> None:
    pair = bench.connect()
    declare(pair, "first", 255)
    pair.declare("second", durable=True)
    declare(pair, "third", 2)
    pair.declare("fourth", durable=True)
    ids = [
        number
        for name in ("first", "second", "third", "fourth")
        for number in queue_of(bench, name).ids()
    ]
    assert ids == list(range(1, 256 + 1 + 3 + 1 + 1))


def test_ids_of_transient_levels_are_nobody_elses(bench: Bench) -> None:
    pair = bench.connect()
    arguments: FieldTable = {"x-max-priority": 4}
    sent = commands.Queue.Declare(queue="t", arguments=arguments)
    pair.call(1, sent, commands.Queue.DeclareOk)
    pair.declare("other")
    assert queue_of(bench, "other").id not in queue_of(bench, "t").ids()


def test_with_a_highest_priority_of_0_it_is_a_queue_like_any(bench: Bench) -> None:
    declare(bench.connect(), "plain", 0)
    queue = queue_of(bench, "plain")
    assert not isinstance(queue, PriorityQueue)
    put(queue, "0a", "9a")
    assert names(queue) == ["0a", "9a"]


def test_a_deleted_queue_leaves_nothing_at_any_level(little: Bench) -> None:
    queue = queue_of(little)
    put(queue, "5a", "0a", "9a")
    make_cold(little)
    put(queue, "5b", "5c")
    unacked = [get(queue), get(queue)]
    pair = little.connect()
    pair.consume("q")
    little.broker.vhosts["/"].delete_queue_now(queue)
    assert [frame.method.name for frame in pair.take()] == ["Basic.Cancel"]
    unacked[0].queue.requeue(unacked[0])
    unacked[1].queue.settle(unacked[1])
    little.run_idle()
    assert (queue.ready_count, int(queue.unacked_count)) == (0, 0)
    declare(little.connect())
    assert queue_of(little).ids()[0] == queue.id + PRIORITY_MAX + 1
    assert queue_of(little).ready_count == 0
    use = little.broker.pager.use
    assert (use.stored, use.unstored) == (0, 0)


def test_the_count_of_a_deletion_is_of_all_levels(queue: Queue) -> None:
    put(queue, "5a", "0a", "9a")
    assert queue.delete() == 3


def test_what_the_disk_refuses_leaves_its_level(
    little: Bench, disk: UnreadableDisk
) -> None:
    pair = little.connect()
    queue = queue_of(little)
    put(queue, "0a", "5a")
    little.sync()
    pair.call(1, commands.Confirm.Select(), commands.Confirm.SelectOk)
    disk.is_full = True
    pair.send(publish("q", b"x", properties=PERSISTENT_PRIORITY_5))
    little.turn()
    little.sync()
    disk.is_full = False
    assert [frame.method.name for frame in pair.take()] == ["Basic.Nack"]
    assert names(queue) == ["5a", "0a"]


def test_a_window_that_comes_back_wakes_the_queue(fast_path: Path) -> None:
    bench = Bench(fast_path / "w", budgets=MemoryBudgets(0, 1 << 40))
    declare(bench.connect())
    queue = queue_of(bench)
    put(queue, "5a")
    make_cold(bench)
    channel = ConsumingChannel()
    channel.subscribe(queue, "t")
    bench.dispatch()
    (load,) = bench.broker.pager.begin_loads(0)
    load.run()
    assert not bench.broker.dispatch.has_work()
    bench.broker.pager.complete_load(load, 0)
    bench.dispatch()
    assert delivered(channel) == ["5a"]
    bench.close()
