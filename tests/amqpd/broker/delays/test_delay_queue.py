"""The waiting room of a delayed exchange: what waits, in memory and on the disk."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from amqpd.broker.delays.delay_queue import READ_MAX, RELEASE_MAX, RETRY_MS
from amqpd.broker.delays.due_times import FRESH_MAX
from amqpd.broker.messages.message import Message
from amqpd.broker.queues.cold_load import ColdLoad
from amqpd.broker.queues.pager import IS_READ, WINDOW_MIN, MemoryBudgets
from amqpd.broker.timers import NEVER_MS
from amqpd.wire.properties import HAS_HEADERS, PERSISTENT
from tests.support.connection_pair import Bench
from tests.support.content import content_of, publish
from tests.support.delayed import DelayedExchange, delayed_properties
from tests.support.little_memory import NOTHING, PLENTY, UnreadableDisk, used

NO_COLD = MemoryBudgets(0, PLENTY)


@pytest.fixture
def disk() -> UnreadableDisk:
    return UnreadableDisk()


@pytest.fixture
def delayed(bench: Bench) -> DelayedExchange:
    return DelayedExchange(bench)


@pytest.fixture
def little(fast_path: Path, disk: UnreadableDisk) -> Iterator[DelayedExchange]:
    """Nothing stays in memory that is in a log, or can be put into one."""
    bench = Bench(fast_path / "little", disk, budgets=NOTHING)
    yield DelayedExchange(bench)
    bench.close()


def page_out(delayed: DelayedExchange) -> None:
    """Let everything leave memory."""
    delayed.bench.sync()
    delayed.bench.page_out()
    assert not delayed.room.has_memory()


def test_what_waits_is_not_among_what_nobody_consumes(
    delayed: DelayedExchange,
) -> None:
    delayed.publish(b"later", 5000)
    delayed.bench.sync()
    assert delayed.room.drop_unread(100) == IS_READ
    assert delayed.room.has_memory()


# -- time ---------------------------------------------------------------------


def test_a_message_comes_when_its_delay_is_over_and_not_before(
    delayed: DelayedExchange,
) -> None:
    delayed.publish(b"later", 5000)
    assert delayed.count == 1
    delayed.bench.pass_time(4999)
    assert delayed.bodies() == []
    delayed.bench.pass_time(1)
    assert delayed.bodies() == [b"later"]
    assert delayed.count == 0


def test_the_shortest_delay_is_the_first_to_be_over(delayed: DelayedExchange) -> None:
    for body, delay_ms in ((b"30", 30), (b"10", 10), (b"20", 20)):
        delayed.publish(body, delay_ms)
    delayed.bench.pass_time(0)
    due_ms = delayed.bench.pass_time(10)
    assert due_ms == delayed.bench.now_ms + 10
    assert delayed.bodies() == [b"10"]
    delayed.bench.pass_time(20)
    assert delayed.bodies() == [b"20", b"30"]


def test_messages_of_one_time_keep_their_order(delayed: DelayedExchange) -> None:
    for number in range(20):
        delayed.publish(b"%d" % number, 10, mode=1 + number % 2)
    delayed.bench.pass_time(10)
    assert delayed.bodies() == [b"%d" % number for number in range(20)]


@pytest.mark.parametrize("delay_ms", [0, -5000])
def test_no_delay_is_no_wait(delayed: DelayedExchange, delay_ms: int) -> None:
    delayed.publish(b"now", delay_ms)
    assert delayed.count == 0
    assert delayed.bodies() == [b"now"]


def test_many_that_are_due_at_once_take_several_turns(
    delayed: DelayedExchange,
) -> None:
    count = int(RELEASE_MAX) + 50
    for number in range(count):
        delayed.publish(b"%d" % number, 10, mode=1)
    due_ms = delayed.bench.pass_time(10)
    assert delayed.queue.ready_count == RELEASE_MAX
    assert due_ms == delayed.bench.now_ms + 1
    delayed.bench.pass_time(1)
    assert delayed.bodies() == [b"%d" % number for number in range(count)]


# -- the log ------------------------------------------------------------------


def reopened(delayed: DelayedExchange, fast_path: Path, seconds: int = 0) -> Bench:
    """The broker after a stop, some time later."""
    now_ms = delayed.bench.now_ms
    delayed.bench.close()
    bench = Bench(fast_path)
    bench.now_ms = now_ms + 1000 * seconds
    bench.pass_time(0)
    return bench


def waiting(bench: Bench) -> int:
    return bench.broker.vhosts["/"].topology.delayed_count("x")


def bodies(bench: Bench) -> list[bytes]:
    pair = bench.connect()
    pair.consume("q", no_ack=True)
    bench.turn()
    return pair.deliveries()


def test_what_waits_survives_a_restart_with_its_time(fast_path: Path) -> None:
    delayed = DelayedExchange(Bench(fast_path))
    for body, delay_ms in ((b"9", 9000), (b"5", 5000), (b"7", 7000)):
        delayed.publish(body, delay_ms)
    delayed.publish(b"transient", 5000, mode=1)
    bench = reopened(delayed, fast_path, seconds=1)
    assert waiting(bench) == 3
    bench.pass_time(3999)
    assert waiting(bench) == 3
    bench.pass_time(1)
    assert waiting(bench) == 2
    bench.pass_time(4000)
    assert bodies(bench) == [b"5", b"7", b"9"]
    bench.close()


def test_what_was_due_meanwhile_comes_after_the_restart(fast_path: Path) -> None:
    delayed = DelayedExchange(Bench(fast_path))
    delayed.publish(b"5", 5000)
    bench = reopened(delayed, fast_path, seconds=60)
    assert waiting(bench) == 0
    assert bodies(bench) == [b"5"]
    bench.close()


def test_what_went_on_does_not_come_again(fast_path: Path) -> None:
    delayed = DelayedExchange(Bench(fast_path))
    delayed.publish(b"5", 5000)
    delayed.bench.sync()
    delayed.bench.pass_time(5000)
    bench = reopened(delayed, fast_path)
    assert waiting(bench) == 0
    assert bodies(bench) == [b"5"]
    bench.close()


def test_a_restart_looks_at_more_than_one_window(fast_path: Path) -> None:
    delayed = DelayedExchange(Bench(fast_path))
    count = 2 * READ_MAX + 10
    for number in range(count):
        delayed.publish(b"%d" % number, 5000)
    bench = reopened(delayed, fast_path)
    assert waiting(bench) == count
    for _ in range(4):
        bench.pass_time(5000)
    assert waiting(bench) == 0
    assert bodies(bench) == [b"%d" % number for number in range(count)]
    bench.close()


def test_new_messages_come_while_old_ones_are_looked_for(fast_path: Path) -> None:
    delayed = DelayedExchange(Bench(fast_path))
    delayed.publish(b"old", 5000)
    now_ms = delayed.bench.now_ms
    delayed.bench.close()
    bench = Bench(fast_path)
    bench.now_ms = now_ms
    pair = bench.connect()
    pair.send(publish("k", b"new", "x", delayed_properties(4000)))
    bench.pass_time(5000)
    bench.turn()
    assert sorted(bodies(bench)) == [b"new", b"old"]
    bench.close()


def test_a_deleted_exchange_leaves_nothing_in_the_log(fast_path: Path) -> None:
    delayed = DelayedExchange(Bench(fast_path))
    delayed.publish(b"gone", 5000)
    room_id = int(delayed.room.id)
    delayed.bench.sync()
    delayed.delete()
    assert delayed.count == 0
    assert delayed.bench.pass_time(5000) > delayed.bench.now_ms
    assert delayed.bodies() == []
    assert room_id not in delayed.bench.store.index.queues
    bench = reopened(delayed, fast_path)
    assert waiting(bench) == 0
    assert "x" not in bench.broker.vhosts["/"].exchanges
    bench.close()


def test_an_exchange_that_comes_again_has_another_waiting_room(
    delayed: DelayedExchange,
) -> None:
    delayed.publish(b"gone", 5000)
    first = delayed.room
    delayed.delete()
    again = DelayedExchange(delayed.bench)
    assert again.room.id != first.id
    assert first.is_deleted
    again.publish(b"there", 5000)
    again.bench.pass_time(5000)
    assert again.bodies() == [b"there"]


def test_a_transaction_may_come_after_the_end_of_the_exchange(
    delayed: DelayedExchange,
) -> None:
    delayed.tx_select()
    room = delayed.room
    delayed.publish(b"gone", 5000)
    other = delayed.bench.connect()
    delayed.pair, committing = other, delayed.pair
    delayed.delete()
    delayed.pair = committing
    delayed.tx_commit()
    assert room.delayed_count == 0
    assert not room.has_memory()


# -- memory -------------------------------------------------------------------


def test_what_waits_leaves_memory_and_comes_in_time(little: DelayedExchange) -> None:
    for number in range(20):
        little.publish(b"%d" % number, 1000 * (20 - number) + 500)
    page_out(little)
    assert used(little.bench) == (0, 0)
    assert little.count == 20
    little.bench.pass_time(10_000)
    assert little.bodies() == [b"%d" % number for number in range(19, 10, -1)]
    little.bench.pass_time(10_500)
    assert little.bodies() == [b"%d" % number for number in range(10, -1, -1)]
    assert little.count == 0
    assert not little.bench.broker.pager.is_waiting


def test_transient_ones_leave_memory_by_the_paging_log(
    little: DelayedExchange,
) -> None:
    for number in range(20):
        little.publish(b"%d" % number, 100 + number % 2, mode=1 + number % 3 // 2)
    page_out(little)
    little.bench.pass_time(100)
    little.bench.pass_time(1)
    found = little.bodies()
    assert sorted(found) == sorted(b"%d" % number for number in range(20))
    assert found[:10] == [b"%d" % number for number in range(0, 20, 2)]


def test_what_only_memory_has_stays_while_there_is_enough_in_all(
    fast_path: Path,
) -> None:
    bench = Bench(fast_path / "b", budgets=NO_COLD)
    delayed = DelayedExchange(bench)
    delayed.publish(b"t", 100, mode=1)
    delayed.publish(b"p", 100)
    bench.sync()
    bench.page_out()
    stored, unstored = used(bench)
    assert stored == 0
    assert unstored > 0
    bench.pass_time(100)
    assert delayed.bodies() == [b"t", b"p"]
    bench.close()


def test_order_is_kept_between_memory_and_the_disk(little: DelayedExchange) -> None:
    for number in range(5):
        little.publish(b"cold %d" % number, 100)
    page_out(little)
    for number in range(5):
        little.publish(b"hot %d" % number, 100)
    little.bench.pass_time(100)
    expected = [b"cold %d" % number for number in range(5)]
    expected += [b"hot %d" % number for number in range(5)]
    assert little.bodies() == expected


def test_what_is_due_in_any_order_is_read_by_many(little: DelayedExchange) -> None:
    chance = random.Random(4)
    delays = list(range(1, 401))
    chance.shuffle(delays)
    for delay_ms in delays:
        little.publish(b"%d" % delay_ms, delay_ms)
    page_out(little)
    for _ in range(40):
        little.bench.pass_time(10)
    assert little.bodies() == [b"%d" % delay_ms for delay_ms in range(1, 401)]


def test_more_than_are_kept_fresh_leave_only_numbers(little: DelayedExchange) -> None:
    count = FRESH_MAX + 300
    room = little.room
    for number in range(count):
        little.publish(b"", 5000, mode=1 + number % 2)
    page_out(little)
    assert room.delayed_count == count
    for _ in range(2 + count // int(RELEASE_MAX)):
        little.bench.pass_time(5000)
    assert little.queue.ready_count == count


def test_lines_do_not_grow_with_what_came_and_went(delayed: DelayedExchange) -> None:
    for _ in range(40):
        for _ in range(20):
            delayed.publish(b"", 1)
        delayed.bench.pass_time(1)
    assert delayed.room.line_count < 400


def test_a_deleted_exchange_frees_memory(delayed: DelayedExchange) -> None:
    before = used(delayed.bench)
    delayed.publish(b"p", 5000)
    delayed.publish(b"t", 5000, mode=1)
    assert used(delayed.bench) > before
    delayed.delete()
    assert used(delayed.bench) == before


def test_windows_of_queues_are_as_before_when_nothing_is_read(
    little: DelayedExchange,
) -> None:
    pager = little.bench.broker.pager
    pager.budgets.cold = 4 * WINDOW_MIN
    before = pager.window()
    for _ in range(2):
        little.publish(b"", 100)
        page_out(little)
        little.bench.pass_time(100)
    assert len(little.bodies()) == 2
    assert not little.room.is_draining
    assert pager.window() == before


# -- disks that fail ----------------------------------------------------------


def test_what_cannot_be_read_is_tried_again(
    little: DelayedExchange, disk: UnreadableDisk
) -> None:
    little.publish(b"cold", 100)
    page_out(little)
    disk.is_unreadable = True
    little.bench.pass_time(100)
    assert little.bodies() == []
    assert little.count == 1
    little.publish(b"hot", 0)
    assert little.bodies() == [b"hot"]
    disk.is_unreadable = False
    little.bench.pass_time(1000)
    assert little.bodies() == [b"cold"]


def test_a_full_disk_makes_everything_wait(
    little: DelayedExchange, disk: UnreadableDisk
) -> None:
    little.publish(b"first", 100)
    little.bench.sync()
    disk.is_full = True
    little.publish(b"refused", 100)
    little.bench.sync()
    assert little.count == 1
    little.bench.pass_time(100)
    assert little.bodies() == []
    disk.is_full = False
    for _ in range(3):
        little.bench.pass_time(int(RETRY_MS))
        little.bench.sync()
    little.bench.pass_time(int(RETRY_MS))
    assert little.bodies() == [b"first"]
    assert little.count == 0


def test_a_move_that_the_disk_refuses_is_tried_again(
    little: DelayedExchange, disk: UnreadableDisk
) -> None:
    little.publish(b"first", 100)
    little.bench.sync()
    little.bench.pass_time(100)
    assert little.count == 0
    disk.is_full = True
    little.bench.sync()
    assert little.count == 1
    assert little.bodies() == []
    disk.is_full = False
    for _ in range(4):
        little.bench.pass_time(int(RETRY_MS))
        little.bench.sync()
    assert little.bodies() == [b"first"]


def begin_reading(delayed: DelayedExchange, milliseconds: int) -> list[ColdLoad]:
    """Let time pass; what is due is to be read, and is not yet."""
    bench = delayed.bench
    bench.now_ms += milliseconds
    bench.broker.timers.on_time(bench.now_ms)
    loads = bench.broker.pager.begin_loads(bench.now_ms)
    assert len(loads) == 1
    return loads


def end_reading(delayed: DelayedExchange, loads: list[ColdLoad]) -> None:
    for load in loads:
        load.run()
        delayed.bench.broker.pager.complete_load(load, delayed.bench.now_ms)


def test_a_disk_that_is_full_when_the_reading_ends_makes_all_of_it_wait(
    little: DelayedExchange, disk: UnreadableDisk
) -> None:
    little.publish(b"cold", 1000)
    page_out(little)
    little.publish(b"transient", 1000, mode=1)
    little.publish(b"refused", 1000)
    little.publish(b"later", 60_000, mode=1)
    loads = begin_reading(little, 1000)
    # The paging log takes them in order: the earlier one stays in memory now.
    little.bench.page_out()
    disk.is_full = True
    little.bench.sync()
    # What was in memory is out of it as long as it is read with the others.
    assert little.count == 3
    end_reading(little, loads)
    assert little.bodies() == []
    assert little.count == 3
    disk.is_full = False
    little.bench.page_out()
    for _ in range(4):
        little.bench.pass_time(int(RETRY_MS))
        little.bench.sync()
    assert sorted(little.bodies()) == [b"cold", b"transient"]
    little.bench.pass_time(60_000)
    assert little.bodies() == [b"later"]
    assert little.count == 0


def test_an_exchange_may_be_deleted_while_its_messages_are_read(
    little: DelayedExchange,
) -> None:
    little.publish(b"cold", 1000)
    page_out(little)
    room = little.room
    loads = begin_reading(little, 1000)
    little.delete()
    end_reading(little, loads)
    assert little.bodies() == []
    assert room.begin_load() is None
    assert room.on_due(little.bench.now_ms) == NEVER_MS


def useless(delayed: DelayedExchange, delay_ms: int) -> None:
    """Have a message wait that no client can send: its header is too long."""
    content = content_of(b"", delayed_properties(delay_ms))
    size = int.from_bytes(content[3:7]) + 1
    end = 7 + size - 1
    content = content[:3] + size.to_bytes(4) + content[7:end] + b"\0" + content[end:]
    now_ms = delayed.bench.now_ms
    facts = PERSISTENT | HAS_HEADERS
    delayed.room.publish(Message(b"\1x\1k\xce", content, None, facts, now_ms))


def test_what_is_read_with_a_message_of_no_use_is_not_forgotten(
    little: DelayedExchange, caplog: pytest.LogCaptureFixture
) -> None:
    useless(little, 1000)
    little.publish(b"cold", 1000)
    page_out(little)
    pager = little.bench.broker.pager
    end_reading(little, begin_reading(little, 1000))
    assert "messages that were read cannot be used, retrying" in caplog.text
    assert little.count == 2
    assert pager.begin_loads(little.bench.now_ms + RETRY_MS - 1) == []
    (load,) = pager.begin_loads(little.bench.now_ms + RETRY_MS)
    assert (load.first, load.last) == (1, 2)


def test_a_message_of_no_use_does_not_bring_others_twice_after_a_restart(
    fast_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    delayed = DelayedExchange(Bench(fast_path))
    delayed.publish(b"before", 1000)
    useless(delayed, 1000)
    delayed.publish(b"behind", 1000)
    bench = reopened(delayed, fast_path, seconds=60)
    assert "messages that were read cannot be used, retrying" in caplog.text
    bench.pass_time(int(RETRY_MS))
    bench.pass_time(int(RETRY_MS))
    assert bodies(bench) == [b"before", b"behind"]
    bench.close()


def damage(directory: Path, body: bytes) -> None:
    """Change a message in the log."""
    for path in (directory / "log").glob("*.seg"):
        octets = path.read_bytes()
        if body in octets:
            path.write_bytes(octets.replace(body, body.swapcase()))


def test_a_damaged_message_is_not_counted_after_a_restart(fast_path: Path) -> None:
    delayed = DelayedExchange(Bench(fast_path))
    delayed.publish(b"damaged", 5000)
    delayed.publish(b"whole", 5000)
    # With a checkpoint: the start looks at no message.
    store, now_ms = delayed.bench.store, delayed.bench.now_ms
    delayed.bench.sync()
    last = store.close_step(now_ms)
    assert last is not None
    last.run()
    store.complete(last)
    store.finish()
    delayed.bench.close()
    damage(fast_path, b"damaged")
    bench = Bench(fast_path)
    bench.now_ms = now_ms
    assert waiting(bench) == 2
    bench.pass_time(0)
    assert waiting(bench) == 1
    bench.pass_time(5000)
    assert waiting(bench) == 0
    assert bodies(bench) == [b"whole"]
    bench.close()


def test_a_damaged_message_is_not_counted_when_it_is_due(
    little: DelayedExchange, fast_path: Path
) -> None:
    little.publish(b"damaged", 1000)
    little.publish(b"whole", 1000)
    page_out(little)
    damage(fast_path / "little", b"damaged")
    little.bench.pass_time(1000)
    assert little.bodies() == [b"whole"]
    assert little.count == 0
