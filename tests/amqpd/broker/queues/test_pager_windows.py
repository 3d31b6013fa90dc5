"""Messages that left memory come back: windows, gets, what is late, what is lost."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from amqpd.broker.errors import ResourceError
from amqpd.broker.queues.pager import (
    LOADS_MAX,
    RETRY_MS,
    TOGETHER_SIZE_MIN,
    WINDOW_MAX,
    WINDOW_MIN,
    MemoryBudgets,
    PagedQueue,
    Pager,
)
from amqpd.broker.queues.queue import Queue
from amqpd.protocol.output import CONSUMERS_MARK
from tests.support.connection_pair import Bench
from tests.support.deliveries import ConsumingChannel, persistent_message
from tests.support.little_memory import (
    BODY,
    NO_COLD,
    NOTHING,
    PLENTY,
    Open,
    UnreadableDisk,
    cold_queue,
    fill,
    opening,
    queue_of,
    seqs,
    take,
    used,
)


@pytest.fixture
def disk() -> UnreadableDisk:
    return UnreadableDisk()


@pytest.fixture
def open_bench(fast_path: Path, disk: UnreadableDisk) -> Iterator[Open]:
    with opening(fast_path, disk) as open_with:
        yield open_with


def damage_third_body(log: Path) -> None:
    (segment,) = [
        path for path in log.glob("*.seg") if b"\x3c\x00\x00" in path.read_bytes()
    ]
    octets = bytearray(segment.read_bytes())
    at = -1
    for _ in range(3):
        at = octets.index(BODY, at + len(BODY) if at >= 0 else 0)
    octets[at + 700] ^= 1
    segment.write_bytes(octets)


# -- getting back -------------------------------------------------------------


def test_a_consumer_gets_window_after_window(open_bench: Open) -> None:
    bench = open_bench(NO_COLD)
    queue = cold_queue(bench, 100)
    channel = ConsumingChannel()
    channel.subscribe(queue, "t", no_ack=True)
    bench.dispatch()
    assert channel.take() == []
    loads = 0
    while queue.ready_count:
        loads += bench.load()
        bench.dispatch()
        channel.take()
        channel.output.wake_consumers()
    assert 3 < loads < 40


def test_the_next_window_is_asked_for_before_the_last_is_empty(
    open_bench: Open,
) -> None:
    bench = open_bench(NO_COLD)
    queue = cold_queue(bench, 100)
    channel = ConsumingChannel()
    consumer = channel.subscribe(queue, "t", prefetch=1)
    bench.dispatch()
    assert bench.load() == 1
    window = int(bench.broker.pager.window()) // (len(BODY) + 350)
    for taken in range(1, window):
        bench.dispatch()
        channel.consuming.ack(taken, False)
        if queue.is_wanting:
            break
    assert window // 3 < taken < window
    assert consumer.in_ring


def test_nobody_waits_for_a_window_without_consumers(open_bench: Open) -> None:
    bench = open_bench(NO_COLD)
    queue = cold_queue(bench)
    channel = ConsumingChannel()
    consumer = channel.subscribe(queue, "t")
    bench.dispatch()
    assert queue.is_wanting
    queue.remove_consumer(consumer)
    assert bench.load() == 0
    assert not queue.is_draining


@pytest.mark.parametrize("is_deleted", [True, False])
def test_a_window_that_comes_too_late_is_dropped(
    open_bench: Open, is_deleted: bool
) -> None:
    bench = open_bench(NO_COLD)
    queue = cold_queue(bench)
    bench.connect().consume("q")
    bench.dispatch()
    pager = bench.broker.pager
    (load,) = pager.begin_loads(0)
    load.run()
    if is_deleted:
        bench.broker.vhosts["/"].delete_queue_now(queue)
    else:
        assert queue.purge() == 30
    pager.complete_load(load, 0)
    assert queue.ready_count == 0
    assert used(bench) == (0, 0)


def test_a_get_does_not_wait_for_the_window_that_is_on_its_way(
    open_bench: Open,
) -> None:
    bench = open_bench(NO_COLD)
    queue = cold_queue(bench)
    channel = ConsumingChannel()
    channel.subscribe(queue, "t", prefetch=1)
    bench.dispatch()
    (load,) = bench.broker.pager.begin_loads(0)
    load.run()
    assert int(take(queue).seq) == 1
    # The consumer does not wait for what will be dropped.
    bench.dispatch()
    assert len(channel.take()) == 1
    bench.broker.pager.complete_load(load, 0)
    assert seqs(queue) == list(range(3, 31))


def test_a_consumer_whose_window_a_get_has_spoiled_gets_another(
    open_bench: Open, disk: UnreadableDisk
) -> None:
    bench = open_bench(NO_COLD)
    queue = cold_queue(bench)
    channel = ConsumingChannel()
    channel.subscribe(queue, "t", prefetch=1)
    bench.dispatch()
    (load,) = bench.broker.pager.begin_loads(0)
    load.run()
    disk.is_unreadable = True
    with pytest.raises(ResourceError):
        queue.get(True)
    disk.is_unreadable = False
    bench.broker.pager.complete_load(load, 0)
    bench.turn()
    assert len(channel.take()) == 1


def test_what_nobody_can_read_is_tried_again_later(
    open_bench: Open, disk: UnreadableDisk, caplog: pytest.LogCaptureFixture
) -> None:
    bench = open_bench(NO_COLD)
    queue = cold_queue(bench)
    channel = ConsumingChannel()
    channel.subscribe(queue, "t")
    disk.is_unreadable = True
    bench.dispatch()
    assert bench.load() == 1
    assert "messages cannot be read" in caplog.text
    disk.is_unreadable = False
    fill(queue, 1)
    bench.dispatch()
    assert bench.load() == 0
    assert bench.broker.pager.is_waiting
    bench.now_ms += int(RETRY_MS)
    assert bench.load() == 1
    bench.dispatch()
    assert channel.take() != []


def test_a_get_that_cannot_be_read_is_an_error(
    open_bench: Open, disk: UnreadableDisk
) -> None:
    bench = open_bench(NO_COLD)
    queue = cold_queue(bench)
    disk.is_unreadable = True
    with pytest.raises(ResourceError, match="queue 'q' cannot be read"):
        queue.get(False)
    disk.is_unreadable = False
    assert int(take(queue).seq) == 1


def test_a_damaged_message_is_told_and_the_others_are_delivered(
    open_bench: Open, fast_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    bench = open_bench(NO_COLD)
    queue = cold_queue(bench, 5)
    damage_third_body(fast_path / "d" / "log")
    with caplog.at_level(logging.ERROR):
        assert seqs(queue) == [1, 2, 4, 5]
    assert "a message is lost" in caplog.text
    assert queue.ready_count == 0


def test_a_damaged_message_is_lost_once_although_two_find_it(
    open_bench: Open, fast_path: Path
) -> None:
    bench = open_bench(NO_COLD)
    fill(queue_of(bench), 3)
    bench.sync()
    for _ in range(2):
        take(queue_of(bench))
    bench.close()
    bench = open_bench(NO_COLD)
    damage_third_body(fast_path / "d" / "log")
    queue = queue_of(bench)
    assert queue.ready_count == 1
    ConsumingChannel().subscribe(queue, "t", no_ack=True)
    bench.dispatch()
    queue.oldest_ready_age(bench.now_ms)
    look, load = bench.broker.pager.begin_loads(bench.now_ms)
    assert look.is_look
    for step in (load, look):
        step.run()
        bench.broker.pager.complete_load(step, bench.now_ms)
    assert queue.ready_count == 0
    assert not queue.ready.cold_count


def test_a_damaged_message_that_cannot_be_saved_stays_in_the_log(
    open_bench: Open, fast_path: Path, disk: UnreadableDisk
) -> None:
    bench = open_bench(NO_COLD)
    queue = cold_queue(bench, 3)
    damage_third_body(fast_path / "d" / "log")
    (fast_path / "d" / "quarantine").write_bytes(b"no directory")
    assert seqs(queue) == [1, 2]
    assert queue.ready_count == 0
    bench.sync()
    index = bench.store.index.queues[int(queue.id)]
    assert [index.is_live(seq) for seq in (1, 2, 3)] == [False, False, True]


def test_what_cannot_be_used_is_told_and_tried_again_and_keeps_nobody_else(
    open_bench: Open, caplog: pytest.LogCaptureFixture
) -> None:
    bench = open_bench(NO_COLD)
    bench.connect().declare("p", durable=True)
    broken, sound = queue_of(bench), queue_of(bench, "p")
    # No message that a client can send: a record of no use.
    message = persistent_message()
    message.content = message.content[:9] + bytes(10)
    broken.publish(message)
    fill(sound, 1)
    bench.sync()
    bench.page_out()
    channel = ConsumingChannel()
    for queue in (broken, sound):
        channel.subscribe(queue, queue.name, no_ack=True)
    bench.dispatch()
    assert bench.load() == 2
    bench.dispatch()
    assert len(channel.take()) == 1
    assert "messages that were read cannot be used, retrying" in caplog.text
    assert broken.ready_count == 1
    pager = bench.broker.pager
    assert pager.begin_loads(bench.now_ms + RETRY_MS - 1) == []
    assert len(pager.begin_loads(bench.now_ms + RETRY_MS)) == 1


def cold_line(bench: Bench, count: int, body: bytes = BODY) -> None:
    """Let so many queues with a cold message stand in line for their windows."""
    pair = bench.connect()
    channel = ConsumingChannel()
    for at in range(count):
        pair.declare(f"q{at}", durable=True)
        queue_of(bench, f"q{at}").publish(persistent_message(body))
    bench.sync()
    bench.page_out()
    for at in range(count):
        channel.subscribe(queue_of(bench, f"q{at}"), f"t{at}", no_ack=True)
    bench.dispatch()


def test_all_who_stand_in_line_are_read_together_and_others_wait_for_them(
    open_bench: Open,
) -> None:
    bench = open_bench(NO_COLD)
    pager = bench.broker.pager
    cold_line(bench, LOADS_MAX + 3)
    loads = pager.begin_loads(0)
    assert len(loads) == LOADS_MAX + 3
    assert len({int(load.window) for load in loads}) == 1
    late = cold_queue(bench)
    ConsumingChannel().subscribe(late, "t")
    bench.dispatch()
    assert pager.begin_loads(0) == []
    for load in loads[:4]:
        load.run()
        pager.complete_load(load, 0)
    assert len(pager.begin_loads(0)) == 1


def test_no_more_is_read_at_a_time_than_memory_has_room_for(
    open_bench: Open,
) -> None:
    bench = open_bench(NO_COLD)
    pager = bench.broker.pager
    cold_line(bench, 7, bytes(int(TOGETHER_SIZE_MIN) // 3))
    taken = []
    for _ in range(3):
        loads = pager.begin_loads(0)
        taken.append(len(loads))
        for load in loads:
            load.run()
            pager.complete_load(load, 0)
    assert taken == [3, 3, 1]


def test_while_memory_has_no_room_for_more_nothing_else_is_read(
    open_bench: Open,
) -> None:
    bench = open_bench(NO_COLD)
    pager = bench.broker.pager
    cold_line(bench, 5, bytes(int(TOGETHER_SIZE_MIN) // 3))
    loads = pager.begin_loads(0)
    assert len(loads) == 3
    assert pager.begin_loads(0) == []
    for load in loads:
        load.run()
        pager.complete_load(load, 0)
    assert len(pager.begin_loads(0)) == 2


def test_no_window_is_read_while_all_consumers_wait_for_their_connections(
    open_bench: Open,
) -> None:
    bench = open_bench(NO_COLD)
    queue = cold_queue(bench)
    channel = ConsumingChannel()
    channel.subscribe(queue, "t")
    bench.dispatch()
    assert queue.is_wanting
    channel.output.in_transport = CONSUMERS_MARK
    assert bench.load() == 0
    assert not queue.is_wanting
    channel.output.in_transport = 0
    channel.output.wake_consumers()
    bench.dispatch()
    assert bench.load() == 1


def test_the_more_was_read_back_and_waits_the_smaller_is_a_window(
    open_bench: Open,
) -> None:
    bench = open_bench(NO_COLD)
    names = [f"q{at}" for at in range(5)]
    for name in names:
        bench.connect().declare(name, durable=True)
        fill(queue_of(bench, name), 20)
    bench.sync()
    bench.page_out()
    pager = bench.broker.pager
    pager.budgets = MemoryBudgets(WINDOW_MAX * 20, PLENTY)
    sizes = []
    for name in names:
        ConsumingChannel().subscribe(queue_of(bench, name), "t", prefetch=1)
        bench.dispatch()
        (load,) = pager.begin_loads(0)
        sizes.append(int(load.window))
        pager.use.loaded += WINDOW_MAX * 3 // 2
    assert sizes[0] == WINDOW_MAX
    # What is on the way counts as well.
    assert WINDOW_MAX * 15 // 16 - 1 <= sizes[1] < WINDOW_MAX
    assert sizes[1] > sizes[2] > sizes[3] > sizes[4] >= WINDOW_MIN
    pager.use.loaded = 0


def test_windows_share_half_the_budget_within_bounds(bench: Bench) -> None:
    pager = Pager(bench.store, None, MemoryBudgets(WINDOW_MAX * 8, PLENTY))
    assert pager.window() == WINDOW_MAX
    dispatch = bench.broker.dispatch
    queues = [
        Queue(at, "x", "/", False, False, None, {}, b"", dispatch, pager)
        for at in range(1000)
    ]
    for queue in queues[:8]:
        pager.want(queue)
    assert pager.window() == WINDOW_MAX // 2
    for queue in queues[8:]:
        pager.want(queue)
    assert pager.window() == WINDOW_MIN
    for queue in queues:
        pager.end_draining(queue)
        pager.end_draining(queue)
    assert pager.window() == WINDOW_MAX


def test_what_a_queue_does_is_its_own_to_say() -> None:
    queue = PagedQueue(1)
    unsaid = (
        lambda: queue.page_out(1, True),
        queue.has_memory,
        queue.begin_load,
    )
    for call in unsaid:
        with pytest.raises(NotImplementedError):
            call()


def test_messages_that_no_log_has_any_more_are_told_and_not_waited_for(
    open_bench: Open, caplog: pytest.LogCaptureFixture
) -> None:
    bench = open_bench(NO_COLD)
    queue = cold_queue(bench, 3)
    bench.store.settle_range(queue.id, 1, 3)
    bench.sync()
    assert queue.get(True) is None
    assert "queue 'q' in vhost '/': 3 messages are not in the log" in caplog.text
    assert queue.ready_count == 0
    fill(queue, 1)
    assert int(take(queue).seq) == 4


def test_a_window_is_not_read_for_a_queue_that_is_gone(open_bench: Open) -> None:
    bench = open_bench(NO_COLD)
    queue = cold_queue(bench)
    bench.connect().consume("q")
    bench.dispatch()
    assert queue.is_wanting
    bench.broker.vhosts["/"].delete_queue_now(queue)
    assert bench.load() == 0


def test_a_window_waits_for_a_consumer_that_has_no_room(open_bench: Open) -> None:
    bench = open_bench(NO_COLD)
    queue = cold_queue(bench)
    channel = ConsumingChannel()
    consumer = channel.subscribe(queue, "t", prefetch=1)
    bench.dispatch()
    (load,) = bench.broker.pager.begin_loads(0)
    load.run()
    queue._ring.remove(consumer)
    bench.broker.pager.complete_load(load, 0)
    assert not queue.is_dirty
    queue.offer(consumer)
    bench.dispatch()
    assert len(channel.take()) == 1


def test_while_queues_are_drained_less_may_stay_behind_their_windows(
    open_bench: Open,
) -> None:
    budget = 4_000_000
    bench = open_bench(MemoryBudgets(budget, PLENTY))
    queue = queue_of(bench)
    fill(queue, 2600)
    bench.sync()
    bench.page_out()
    fill(queue, 2000)
    assert budget // 2 < used(bench)[0] <= budget
    bench.connect().consume("q")
    bench.dispatch()
    assert queue.is_draining
    bench.sync()
    bench.page_out()
    window = int(bench.broker.pager.window())
    assert used(bench)[0] <= budget // 4 + window * 3 // 2
    assert queue.ready_count == 4600


def test_a_consumer_does_not_wait_for_what_has_not_left_memory_yet(
    open_bench: Open,
) -> None:
    bench = open_bench(NOTHING)
    queue = queue_of(bench, "t")
    channel = ConsumingChannel()
    channel.subscribe(queue, "t", no_ack=True)
    fill(queue, 30, is_persistent=False)
    bench.broker.pager.turn(0)
    assert bench.paging.bytes_waiting > 0
    bench.dispatch()
    assert len(channel.take()) == 30
