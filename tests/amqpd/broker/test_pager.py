"""Memory for messages: what goes, what comes back, what must wait, what is lost."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pamqp import commands

from amqpd.broker.delivery import Reference
from amqpd.broker.errors import ResourceError
from amqpd.broker.pager import (
    PAGING_BEHIND_SIZE,
    PAUSE_MS,
    RETRY_MS,
    TURN_UNITS,
    WINDOW_MAX,
    WINDOW_MIN,
    MemoryBudgets,
    PagedQueue,
    Pager,
)
from amqpd.broker.queue import FIRST_TRANSIENT_ID, Queue, page_id
from tests.support.connection_pair import Bench
from tests.support.content import PERSISTENT_PROPERTIES, publish
from tests.support.deliveries import ConsumingChannel, message_of, persistent_message
from tests.support.failing_disk import FailingDisk

PLENTY = 1 << 40
NOTHING = MemoryBudgets(0, 0)
NO_COLD = MemoryBudgets(0, PLENTY)
#: Some ten of these are a window.
BODY = bytes(1500)


class UnreadableDisk(FailingDisk):
    """A disk that can also refuse to read."""

    def __init__(self) -> None:
        super().__init__()
        self.is_unreadable = False

    def read(self, descriptor: int, size: int, offset: int) -> bytes:
        if self.is_unreadable:
            raise OSError(5, "input/output error")
        return super().read(descriptor, size, offset)


@pytest.fixture
def disk() -> UnreadableDisk:
    return UnreadableDisk()


Open = Callable[[MemoryBudgets], Bench]


@pytest.fixture
def open_bench(fast_path: Path, disk: UnreadableDisk) -> Iterator[Open]:
    """Open a broker with the durable queue q and the transient queue t."""
    benches: list[Bench] = []

    def open_with(budgets: MemoryBudgets) -> Bench:
        bench = Bench(fast_path / "d", disk, budgets=budgets)
        benches.append(bench)
        pair = bench.connect()
        pair.declare("q", durable=True)
        pair.declare("t")
        return bench

    yield open_with
    for bench in benches:
        bench.close()


def queue_of(bench: Bench, name: str = "q") -> Queue:
    return bench.broker.vhosts["/"].queues[name]


def fill(queue: Queue, count: int, is_persistent: bool = True) -> None:
    make = persistent_message if is_persistent else message_of
    for _ in range(count):
        queue.publish(make(BODY))


def cold_queue(bench: Bench, count: int = 30) -> Queue:
    """The durable queue with so many messages, none of them in memory."""
    queue = queue_of(bench)
    fill(queue, count)
    bench.sync()
    bench.page_out()
    assert not queue.has_memory()
    return queue


def take(queue: Queue, no_ack: bool = True) -> Reference:
    reference = queue.get(no_ack)
    assert reference is not None
    return reference


def seqs(queue: Queue) -> list[int]:
    """Take everything by basic.get."""
    found = []
    while (reference := queue.get(True)) is not None:
        found.append(int(reference.seq))
    return found


def used(bench: Bench) -> tuple[int, int]:
    use = bench.broker.pager.use
    return int(use.stored), int(use.unstored)


# -- letting go ---------------------------------------------------------------


def test_within_the_budgets_nothing_goes(open_bench: Open) -> None:
    bench = open_bench(MemoryBudgets(PLENTY, PLENTY))
    queue = queue_of(bench)
    fill(queue, 5)
    bench.sync()
    bench.page_out()
    assert not bench.broker.pager.is_over
    assert used(bench)[0] > 5 * len(BODY)
    assert queue.has_memory()


def test_what_is_written_goes_when_the_log_alone_has_too_much(open_bench: Open) -> None:
    bench = open_bench(NO_COLD)
    fill(queue_of(bench, "t"), 5, is_persistent=False)
    queue = queue_of(bench)
    fill(queue, 5)
    bench.page_out()
    assert queue.has_memory()
    bench.sync()
    bench.page_out()
    assert used(bench)[0] == 0
    assert used(bench)[1] > 5 * len(BODY)
    assert queue.ready_count == 5
    assert seqs(queue) == [1, 2, 3, 4, 5]


def test_transient_messages_go_by_the_paging_log_when_all_is_too_much(
    open_bench: Open,
) -> None:
    bench = open_bench(NOTHING)
    queue = queue_of(bench, "t")
    fill(queue, 30, is_persistent=False)
    bench.page_out()
    assert used(bench) == (0, 0)
    assert queue.ready_count == 30
    assert seqs(queue) == list(range(1, 31))
    assert bench.store.bytes_waiting == 0


def test_transient_messages_among_persistent_ones_do_not_keep_them_in_memory(
    open_bench: Open,
) -> None:
    bench = open_bench(NO_COLD)
    queue = queue_of(bench)
    for is_persistent in (False, True, False, False, True):
        fill(queue, 1, is_persistent)
    bench.sync()
    bench.page_out()
    assert used(bench) == (0, 0)
    assert seqs(queue) == [1, 2, 3, 4, 5]


def test_without_a_paging_log_transient_messages_stay(bench: Bench) -> None:
    pager = Pager(bench.store, None, NOTHING)
    dispatch = bench.broker.dispatch
    queue = Queue(1, "x", "/", False, False, None, {}, b"", dispatch, pager)
    fill(queue, 3, is_persistent=False)
    pager.turn(0)
    assert not pager.has_work
    assert pager.begin_paging(0) is None
    assert seqs(queue) == [1, 2, 3]
    queue.delete()


def test_a_turn_is_bounded(open_bench: Open) -> None:
    bench = open_bench(NO_COLD)
    queue = queue_of(bench)
    count = int(TURN_UNITS) + 100
    for _ in range(count):
        queue.publish(persistent_message())
    bench.sync()
    pager = bench.broker.pager
    pager.turn(0)
    assert pager.has_work
    assert queue.has_memory()
    pager.turn(0)
    assert not pager.has_work
    assert not queue.has_memory()


def test_queues_take_turns(open_bench: Open) -> None:
    bench = open_bench(MemoryBudgets(60 * 2000, PLENTY))
    pair = bench.connect()
    pair.declare("p", durable=True)
    for name in ("p", "q"):
        for _ in range(6000):
            queue_of(bench, name).publish(persistent_message())
    bench.sync()
    bench.broker.pager.turn(0)
    for name in ("p", "q"):
        assert queue_of(bench, name).ready_count == 6000
        seq = take(queue_of(bench, name)).seq
        assert seq == 1


def test_who_can_let_nothing_go_is_not_asked_at_once_again(open_bench: Open) -> None:
    bench = open_bench(NO_COLD)
    queue = queue_of(bench)
    fill(queue, 3)
    pager = bench.broker.pager
    pager.turn(1000)
    assert (pager.is_over, pager.has_work, pager.is_waiting) == (True, False, True)
    bench.sync()
    pager.turn(1000 + int(PAUSE_MS) - 1)
    assert queue.has_memory()
    pager.turn(1000 + int(PAUSE_MS))
    assert not queue.has_memory()
    assert not pager.is_waiting


def test_a_queue_with_consumers_keeps_a_window(open_bench: Open) -> None:
    bench = open_bench(NO_COLD)
    queue = queue_of(bench)
    ConsumingChannel().subscribe(queue, "t", prefetch=1)
    fill(queue, 40)
    bench.sync()
    bench.page_out()
    window = int(bench.broker.pager.window())
    assert 0 < used(bench)[0] <= window
    queue.remove_consumer(queue.consumers[0])
    bench.page_out()
    assert used(bench) == (0, 0)


def test_what_consumers_have_stays_and_finds_its_place_again(open_bench: Open) -> None:
    bench = open_bench(NO_COLD)
    queue = queue_of(bench)
    fill(queue, 6)
    unacked = [take(queue, no_ack=False) for _ in range(3)]
    bench.sync()
    bench.page_out()
    queue.requeue(unacked[1])
    bench.page_out()
    # Somebody has 1 and 3: what is cold must not stand around them.
    assert queue.has_memory()
    queue.requeue(unacked[0])
    queue.settle(unacked[2])
    bench.page_out()
    assert not queue.has_memory()
    found = [take(queue) for _ in range(5)]
    assert [int(reference.seq) for reference in found] == [1, 2, 4, 5, 6]
    assert [one.redelivered for one in found] == [True, True, False, False, False]


def test_what_came_back_stays_when_the_paging_log_is_past_it(open_bench: Open) -> None:
    bench = open_bench(NOTHING)
    queue = queue_of(bench, "t")
    fill(queue, 4, is_persistent=False)
    unacked = take(queue, no_ack=False)
    bench.page_out()
    queue.requeue(unacked)
    bench.page_out()
    bench.page_out()
    assert queue.has_memory()
    assert int(take(queue).seq) == 1
    bench.page_out()
    assert not queue.has_memory()
    assert seqs(queue) == [2, 3, 4]


def test_what_the_disk_refused_does_not_leave_memory_as_if_it_were_written(
    open_bench: Open, disk: UnreadableDisk
) -> None:
    bench = open_bench(NO_COLD)
    queue = queue_of(bench)
    fill(queue, 2)
    unacked = take(queue, no_ack=False)
    disk.is_full = True
    bench.sync()
    disk.is_full = False
    assert queue.ready_count == 0
    queue.requeue(unacked)
    bench.now_ms += 10_000
    bench.sync()
    fill(queue, 1)
    bench.sync()
    bench.page_out()
    bench.page_out()
    assert seqs(queue) == [1, 3]


def test_a_deleted_queue_is_not_asked(open_bench: Open) -> None:
    bench = open_bench(NO_COLD)
    queue = queue_of(bench)
    fill(queue, 3)
    bench.sync()
    bench.broker.vhosts["/"].delete_queue_now(queue)
    assert used(bench) == (0, 0)
    bench.page_out()
    assert not bench.broker.pager.is_over


def test_a_message_of_several_queues_is_shared_out_among_them(open_bench: Open) -> None:
    bench = open_bench(MemoryBudgets(PLENTY, PLENTY))
    pair = bench.connect()
    for name in ("q", "t"):
        sent = commands.Queue.Bind(queue=name, exchange="amq.fanout", routing_key="")
        pair.call(1, sent, commands.Queue.BindOk)
    before = sum(used(bench))
    pair.send(publish("", bytes(10_000), "amq.fanout", PERSISTENT_PROPERTIES))
    stored, unstored = used(bench)
    assert stored == unstored
    assert 10_000 < stored + unstored - before < 11_000
    for name in ("q", "t"):
        take(queue_of(bench, name))
    assert used(bench) == (0, 0)


# -- the paging log -----------------------------------------------------------


def test_the_paging_log_is_not_given_more_than_it_takes(open_bench: Open) -> None:
    bench = open_bench(NOTHING)
    queue = queue_of(bench, "t")
    for _ in range(10):
        queue.publish(message_of(bytes(1024 * 1024)))
    bench.broker.pager.turn(0)
    assert PAGING_BEHIND_SIZE < bench.paging.bytes_waiting < 2 * PAGING_BEHIND_SIZE
    bench.page_out()
    assert not queue.has_memory()
    assert seqs(queue) == list(range(1, 11))


def test_a_full_disk_keeps_transient_messages_in_memory(
    open_bench: Open, disk: UnreadableDisk, caplog: pytest.LogCaptureFixture
) -> None:
    bench = open_bench(NOTHING)
    queue = queue_of(bench, "t")
    fill(queue, 3, is_persistent=False)
    disk.is_full = True
    bench.page_out()
    assert "no room on the disk for 3 messages" in caplog.text
    fill(queue, 1, is_persistent=False)
    bench.page_out()
    disk.is_full = False
    assert queue.has_memory()
    assert used(bench)[1] > 4 * len(BODY)
    assert seqs(queue) == [1, 2, 3, 4]


def test_what_is_settled_leaves_the_paging_log(open_bench: Open) -> None:
    bench = open_bench(NOTHING)
    queue = queue_of(bench, "t")
    fill(queue, 30, is_persistent=False)
    bench.page_out()
    paged = bench.paging.index.queues[int(page_id(queue.id))]
    assert paged.live_count == 30
    unacked = take(queue, no_ack=False)
    queue.settle(unacked)
    bench.page_out()
    assert paged.live_count == 29
    assert queue.purge() == 29
    bench.page_out()
    assert paged.live_count == 0


def test_a_deleted_queue_leaves_the_paging_log(open_bench: Open) -> None:
    bench = open_bench(NOTHING)
    queue = queue_of(bench, "t")
    fill(queue, 3, is_persistent=False)
    bench.page_out()
    bench.broker.vhosts["/"].delete_queue_now(queue)
    assert int(page_id(queue.id)) not in bench.paging.index.queues


def test_queues_do_not_share_their_ids_in_the_paging_log() -> None:
    ids = [1, 77, int(FIRST_TRANSIENT_ID), int(FIRST_TRANSIENT_ID) + 77]
    assert len({int(page_id(one)) for one in ids}) == 4
    assert max(int(page_id(one)) for one in ids) < 1 << 32


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
    window = int(bench.broker.pager.window()) // (len(BODY) + 300)
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
    ConsumingChannel().subscribe(queue, "t", prefetch=1)
    bench.dispatch()
    (load,) = bench.broker.pager.begin_loads(0)
    load.run()
    assert int(take(queue).seq) == 1
    bench.broker.pager.complete_load(load, 0)
    assert seqs(queue) == list(range(2, 31))


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
    (segment,) = [
        path
        for path in (fast_path / "d" / "log").glob("*.seg")
        if b"\x3c\x00\x00" in path.read_bytes()
    ]
    octets = bytearray(segment.read_bytes())
    # The third body.
    at = -1
    for _ in range(3):
        at = octets.index(BODY, at + len(BODY) if at >= 0 else 0)
    octets[at + 700] ^= 1
    segment.write_bytes(octets)
    with caplog.at_level(logging.ERROR):
        assert seqs(queue) == [1, 2, 4, 5]
    assert "a message is lost" in caplog.text
    assert queue.ready_count == 0


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
