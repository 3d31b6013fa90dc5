"""Memory for messages: what goes, what stays, what must wait."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pamqp import commands

from amqpd.broker.queues.pager import (
    MIB,
    PAGING_BEHIND_SIZE,
    PAUSE_MS,
    REMAINS_UNITS,
    SLICE_UNITS,
    UNREAD_EACH,
    UNREAD_PART,
    UNREAD_VISITS_MAX,
    MemoryBudgets,
    Pager,
)
from amqpd.broker.queues.queue import Queue
from amqpd.broker.queues.queue_log import FIRST_TRANSIENT_ID, page_id
from tests.support.connection_pair import Bench
from tests.support.content import PERSISTENT_PROPERTIES, publish
from tests.support.deliveries import ConsumingChannel, message_of, persistent_message
from tests.support.little_memory import (
    BODY,
    NO_COLD,
    NOTHING,
    PLENTY,
    Open,
    UnreadableDisk,
    fill,
    is_nothing_used,
    opening,
    queue_of,
    seqs,
    take,
    used,
)

ROOM = 1_000_000
HALF_FULL = 270


@pytest.fixture
def disk() -> UnreadableDisk:
    return UnreadableDisk()


@pytest.fixture
def open_bench(fast_path: Path, disk: UnreadableDisk) -> Iterator[Open]:
    with opening(fast_path, disk) as open_with:
        yield open_with


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
    count = int(SLICE_UNITS) + 100
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
    ConsumingChannel().subscribe(queue, "t", prefetch=1)
    fill(queue, 40)
    pager = bench.broker.pager
    pager.turn(1000)
    assert (pager.is_over, pager.has_work, pager.is_waiting) == (True, False, True)
    before = used(bench)[0]
    bench.sync()
    pager.turn(1000 + int(PAUSE_MS) - 1)
    assert used(bench)[0] == before
    pager.turn(1000 + int(PAUSE_MS))
    assert used(bench)[0] < before


def test_what_nobody_consumes_goes_when_it_is_written_though_there_is_room(
    open_bench: Open,
) -> None:
    bench = open_bench(MemoryBudgets(ROOM, PLENTY))
    queue = queue_of(bench)
    fill(queue, HALF_FULL)
    before = used(bench)[0]
    bench.page_out()
    assert used(bench)[0] == before < ROOM
    bench.sync()
    bench.page_out()
    assert used(bench)[0] <= ROOM // UNREAD_PART + UNREAD_EACH
    assert seqs(queue) == list(range(1, HALF_FULL + 1))


def test_what_somebody_consumes_stays_while_there_is_room(open_bench: Open) -> None:
    bench = open_bench(MemoryBudgets(ROOM, PLENTY))
    queue = queue_of(bench)
    ConsumingChannel().subscribe(queue, "t", prefetch=1)
    fill(queue, HALF_FULL)
    before = used(bench)[0]
    bench.sync()
    bench.page_out()
    assert used(bench)[0] == before


def test_what_the_last_consumer_left_goes_with_what_is_written_next(
    open_bench: Open,
) -> None:
    bench = open_bench(MemoryBudgets(ROOM, PLENTY))
    queue = queue_of(bench)
    ConsumingChannel().subscribe(queue, "t", prefetch=1)
    fill(queue, HALF_FULL)
    bench.sync()
    bench.page_out()
    queue.remove_consumer(queue.consumers[0])
    fill(queue, 1)
    bench.sync()
    bench.page_out()
    assert used(bench)[0] <= ROOM // UNREAD_PART + UNREAD_EACH


def test_what_waits_for_memory_in_no_log_stays_while_there_is_room(
    open_bench: Open,
) -> None:
    bench = open_bench(MemoryBudgets(ROOM, PLENTY))
    queue = queue_of(bench)
    fill(queue, 1, is_persistent=False)
    fill(queue, HALF_FULL)
    bench.sync()
    bench.page_out()
    assert used(bench)[1] > 0
    assert bench.paging.bytes_waiting == 0
    assert queue.ready_count == 1 + HALF_FULL


def test_of_many_queues_without_consumers_few_are_visited_at_a_time(
    open_bench: Open,
) -> None:
    bench = open_bench(MemoryBudgets(UNREAD_EACH * 800, PLENTY))
    channel = bench.connect()
    names = [f"unread{number}" for number in range(UNREAD_VISITS_MAX + 36)]
    for name in names:
        channel.declare(name, durable=True)
        fill(queue_of(bench, name), 68)
    bench.sync()
    bench.page_out()
    assert _empty_count(bench, names) == UNREAD_VISITS_MAX
    fill(queue_of(bench, names[-1]), 1)
    bench.sync()
    bench.page_out()
    assert _empty_count(bench, names) > UNREAD_VISITS_MAX


def _empty_count(bench: Bench, names: list[str]) -> int:
    return sum(not queue_of(bench, name).has_memory() for name in names)


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


def test_what_a_large_queue_held_when_it_was_deleted_goes_turn_by_turn(
    open_bench: Open,
) -> None:
    bench = open_bench(NOTHING)
    queue = queue_of(bench, "t")
    pager = bench.broker.pager
    bench.page_out()
    count = 2 * int(REMAINS_UNITS) + 1
    for _ in range(count):
        queue.publish(message_of(b""))
    cost = used(bench)[1] // count
    assert queue.delete() == count
    assert used(bench) == (0, count * cost)
    assert pager.has_work
    left = []
    while pager.has_work:
        pager.turn(bench.now_ms)
        left.append(used(bench)[1] // cost)
    assert left == [REMAINS_UNITS + 1, 1, 0]


@pytest.mark.parametrize("is_persistent", [True, False])
def test_what_a_small_queue_held_goes_when_it_is_deleted(
    open_bench: Open, is_persistent: bool
) -> None:
    bench = open_bench(MemoryBudgets(PLENTY, PLENTY))
    queue = queue_of(bench, "q" if is_persistent else "t")
    fill(queue, int(REMAINS_UNITS), is_persistent)
    queue.delete()
    assert is_nothing_used(bench)
    assert not bench.broker.pager.has_work


def test_while_a_deleted_queue_goes_what_is_too_much_goes_too(open_bench: Open) -> None:
    bench = open_bench(MemoryBudgets(ROOM, PLENTY))
    pager = bench.broker.pager
    queue = queue_of(bench)
    ConsumingChannel().subscribe(queue, "t", prefetch=1)
    fill(queue, 3 * HALF_FULL)
    bench.sync()
    gone = queue_of(bench, "t")
    for _ in range(2 * int(REMAINS_UNITS)):
        gone.publish(message_of(b""))
    gone.delete()
    assert pager.is_over
    pager.turn(bench.now_ms)
    assert not pager.is_over
    assert pager.has_work


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
    assert MIB < bench.paging.bytes_waiting < 2 * MIB
    bench.page_out()
    assert not queue.has_memory()
    assert seqs(queue) == list(range(1, 11))


def test_with_much_memory_more_may_be_on_its_way_to_the_paging_log(
    open_bench: Open,
) -> None:
    bench = open_bench(NOTHING)
    queue = queue_of(bench, "t")
    for _ in range(10):
        queue.publish(message_of(bytes(1024 * 1024)))
    bench.broker.pager.budgets.total = 256 * MIB
    # Consumers have that much.
    bench.broker.pager.use.unacked += 256 * MIB
    bench.broker.pager.turn(0)
    assert PAGING_BEHIND_SIZE < bench.paging.bytes_waiting < 2 * PAGING_BEHIND_SIZE


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


def test_a_queue_whose_window_holds_everything_lets_nothing_go(
    open_bench: Open,
) -> None:
    bench = open_bench(NO_COLD)
    queue = queue_of(bench)
    channel = ConsumingChannel()
    channel.subscribe(queue, "t", prefetch=1)
    fill(queue, 3)
    bench.sync()
    bench.page_out()
    assert bench.broker.pager.is_over
    bench.dispatch()
    assert len(channel.take()) == 1
    assert queue.page_out(100, True) == 0


def test_a_window_goes_to_the_paging_log_before_what_stands_behind_it(
    open_bench: Open, disk: UnreadableDisk
) -> None:
    bench = open_bench(NOTHING)
    queue = queue_of(bench, "t")
    channel = ConsumingChannel()
    consumer = channel.subscribe(queue, "t", prefetch=1)
    fill(queue, 30, is_persistent=False)
    disk.is_full = True
    # The first that goes is lost on the way, the paging log takes no more ...
    bench.paging.append(b"", b"x", None, 0, 0, 9, 1, 0)
    assert bench.write_pages()
    bench.broker.pager.turn(bench.now_ms)
    assert bench.paging.bytes_waiting == 0
    disk.is_full = False
    # ... until the disk has room again.
    bench.now_ms += 10_000
    bench.write_pages()
    bench.page_out()
    assert used(bench)[1] <= bench.broker.pager.window()
    queue.remove_consumer(consumer)
    bench.page_out()
    assert not queue.has_memory()
    assert seqs(queue) == list(range(1, 31))


def test_what_was_on_its_way_out_is_not_paged_twice(open_bench: Open) -> None:
    bench = open_bench(NOTHING)
    queue = queue_of(bench, "t")
    fill(queue, 12, is_persistent=False)
    pager = bench.broker.pager
    pager.turn(0)
    waiting = bench.paging.bytes_waiting
    assert [int(take(queue, no_ack=False).seq) for _ in range(2)] == [1, 2]
    pager.turn(100)
    assert bench.paging.bytes_waiting == waiting
    bench.page_out()
    assert used(bench) == (0, 0)
    assert seqs(queue) == list(range(3, 13))
