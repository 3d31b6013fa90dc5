"""The store's face: what is durable when, what is elided, what a full disk does."""

import errno

import pytest

from store.options import StoreOptions
from store.syncer import SyncResult
from tests.support.memory_filesystem import Fault, MemoryFileSystem
from tests.support.store_driver import LOG, StoreDriver


def opened(capacity: int = 1 << 40) -> StoreDriver:
    driver = StoreDriver(MemoryFileSystem(capacity))
    driver.open()
    return driver


def segments(driver: StoreDriver) -> list[str]:
    names = driver.filesystem.list_directory(LOG)
    return sorted(name for name in names if name.endswith(".seg"))


def size_written(driver: StoreDriver) -> int:
    flight = driver.begin()
    assert flight is not None
    driver.finish()
    return int(flight.step.write.length)


def finished(driver: StoreDriver) -> SyncResult[str]:
    result = driver.finish()
    assert result is not None
    return result


# -- waiting, begun, written


def test_a_synced_message_survives_a_power_cut() -> None:
    driver = opened()
    key = driver.append(1, body=b"body")
    driver.sync()
    driver.filesystem.power_cut(False)
    opened_again = driver.reopen()
    assert opened_again.queues[1].count == 1
    assert driver.live(1) == [key]


def test_with_early_confirms_a_write_is_enough_and_a_power_cut_may_take_it() -> None:
    options = StoreOptions(segment_size=4096, confirms_early=True)
    driver = StoreDriver(MemoryFileSystem(), options)
    driver.open()
    driver.append(1)
    driver.store.wait("waiter", 1, 1)
    driver.filesystem.calls.clear()
    step = driver.store.begin(False, 0)
    assert step is not None
    step.run()
    result = driver.store.complete(step)
    assert [(one.first, one.last) for one in result.durable] == [(1, 1)]
    assert "sync" not in driver.filesystem.calls
    # Nothing is done on the strength of it: the index hears of it with the sync.
    assert driver.store.index.queue(1).live_count == 0
    assert driver.store.has_work
    driver.filesystem.power_cut(False)
    assert driver.reopen().queues[1].count == 0


def test_with_early_confirms_who_waits_for_nothing_is_told_by_a_write() -> None:
    options = StoreOptions(segment_size=4096, confirms_early=True)
    driver = StoreDriver(MemoryFileSystem(), options)
    driver.open()
    driver.store.wait("waiter", 1, 1)
    step = driver.store.begin(False, 0)
    assert step is not None
    step.run()
    assert len(driver.store.complete(step).durable) == 1


def test_an_idle_store_begins_nothing() -> None:
    driver = opened()
    assert not driver.store.has_work
    assert not driver.store.is_wanted
    assert driver.begin() is None


def test_who_waits_with_nothing_to_write_is_told_without_a_sync() -> None:
    driver = opened()
    driver.filesystem.calls.clear()
    driver.wait()
    assert driver.store.is_wanted
    assert driver.store.has_work
    driver.sync()
    assert driver.confirmed == [(1, 2)]
    assert driver.filesystem.calls == []


def test_a_wait_is_answered_by_a_sync_and_not_by_a_write() -> None:
    driver = opened()
    driver.append(1)
    driver.wait()
    driver.begin(False)
    driver.finish()
    assert driver.confirmed == []
    assert driver.store.is_wanted
    driver.begin(True)
    driver.finish()
    assert driver.confirmed == [(1, 1)]


def test_a_sync_covers_all_batches_written_before_it() -> None:
    driver = opened()
    driver.append(1)
    driver.begin(False)
    driver.append(2)
    driver.begin(False)
    driver.finish()
    driver.finish()
    assert driver.store.has_work
    driver.wait()
    driver.begin(True)
    driver.finish()
    driver.filesystem.power_cut(False)
    assert driver.reopen().queues[2].count == 1
    assert not driver.store.has_work


def test_a_write_that_nobody_waits_for_is_synced_at_the_tick() -> None:
    driver = opened()
    driver.append(1)
    driver.begin(False)
    driver.finish()
    assert driver.begin(False) is None
    assert driver.store.has_work
    driver.filesystem.calls.clear()
    driver.tick()
    assert driver.filesystem.calls == ["sync"]


def test_bytes_are_counted_while_they_wait_and_while_they_are_in_flight() -> None:
    driver = opened()
    driver.append(1, size=1000)
    assert driver.store.bytes_waiting > 1000
    assert driver.store.bytes_in_flight == 0
    driver.begin()
    assert driver.store.bytes_waiting == 0
    assert driver.store.bytes_in_flight > 1000
    driver.finish()
    assert driver.store.bytes_in_flight == 0


# -- elision


def test_a_message_settled_before_it_is_written_leaves_no_trace() -> None:
    driver = opened()
    key = driver.append(1)
    driver.deliver(1)
    driver.settle(key)
    assert driver.store.has_work
    assert driver.begin() is None
    assert not driver.store.has_work


def test_a_message_settled_in_one_queue_is_written_for_the_others() -> None:
    driver = opened()
    driver.append(1, 2, 3)
    driver.settle((2, 1))
    driver.sync()
    driver.filesystem.power_cut(False)
    queues = driver.reopen().queues
    assert [queues[queue_id].count for queue_id in (1, 2, 3)] == [1, 0, 1]


def test_a_message_without_a_time_of_its_own_goes_to_several_queues() -> None:
    driver = opened()
    driver.store.append(b"e", b"content", None, 5, 0, 1, 1, 0)
    driver.store.add_destination(2, 1, 0)
    driver.store.add_destination(3, 1, 0)
    assert driver.begin() is not None
    driver.finish()
    for queue_id in (1, 2, 3):
        (message,) = driver.read(queue_id, 1, 1)
        assert (message.content, message.expires_ms) == (b"content", 0)


def test_who_waits_is_counted_until_told() -> None:
    driver = opened()
    for _ in range(3):
        driver.append(1)
        driver.wait()
    assert driver.store.waiting_count == 3
    driver.begin()
    assert driver.store.waiting_count == 3
    driver.finish()
    assert driver.store.waiting_count == 0


def test_a_damaged_message_is_settled_once_it_is_in_quarantine() -> None:
    driver = opened()
    for _ in range(3):
        driver.append(1, body=b"a body of its own")
    driver.sync()
    (name,) = segments(driver)
    path = f"{LOG}/{name}"
    content = bytes(driver.filesystem.content(path))
    driver.filesystem.damage(path, content.index(b"2:xxx"))
    step = driver.store.begin_read(1, 1, 3, 5, 2000)
    step.run()
    result = driver.store.complete_read(step)
    assert [message.seq for message in result.messages] == [1, 3]
    assert [damaged.seq for damaged in result.damaged] == [2]
    driver.sync()
    index = driver.store.index.queues[1]
    assert [index.is_live(seq) for seq in (1, 2, 3)] == [True, False, True]


def test_a_message_settled_while_its_batch_is_in_flight_is_settled_by_a_record() -> (
    None
):
    driver = opened()
    key = driver.append(1)
    driver.begin()
    driver.settle(key)
    driver.finish()
    driver.sync()
    driver.filesystem.power_cut(False)
    assert driver.reopen().queues[1].count == 0


def test_settles_of_a_thousand_messages_are_one_record() -> None:
    driver = StoreDriver(MemoryFileSystem(), StoreOptions())
    driver.open()
    for _ in range(1000):
        driver.append(1)
    driver.sync()
    for key in driver.live(1):
        driver.settle(key)
    assert size_written(driver) < 200


def test_a_recovered_message_is_settled_by_number_zero() -> None:
    driver = opened()
    driver.append(1)
    driver.sync()
    driver.filesystem.power_cut(False)
    driver.reopen()
    driver.settle((1, 1))
    driver.sync()
    driver.filesystem.power_cut(False)
    assert driver.reopen().queues[1].count == 0


# -- ranges, delivery, return, forgotten queues


def test_a_range_settles_what_is_in_the_log_and_nothing_around_it() -> None:
    driver = opened()
    for _ in range(6):
        driver.append(1)
    driver.sync()
    driver.settle((1, 3))
    driver.append(1)
    driver.store.settle_range(1, 2, 5)
    driver.sync()
    driver.settle((1, 2))
    driver.filesystem.power_cut(False)
    for seq in (2, 4, 5):
        del driver.entries[1, seq]
    assert driver.reopened(1) == [1, 6, 7]


def test_what_was_delivered_and_returned_is_known_after_a_crash() -> None:
    driver = opened()
    driver.append(1)
    driver.append(1)
    driver.deliver(1)
    driver.give_back((1, 2), 3)
    driver.append(1)
    driver.sync()
    driver.filesystem.power_cut(False)
    queue = driver.reopen().queues[1]
    assert queue.delivered_upper == 2
    assert [(seq, one.delivery_count) for seq, one in queue.returned.items()] == [
        (2, 3)
    ]


def test_a_queue_that_is_deleted_and_declared_again_is_empty() -> None:
    driver = opened()
    driver.append(1)
    driver.append(1, 2)
    driver.sync()
    driver.append(1, 2)
    # Its row is gone; the same name has a new id.
    driver.forget(1)
    driver.queues.add(4)
    driver.sync()
    driver.append(4)
    driver.sync()
    driver.filesystem.power_cut(False)
    queues = driver.reopen().queues
    assert {q: queues[q].count for q in queues} == {2: 2, 3: 0, 4: 1}


def test_a_queue_deleted_while_its_batch_is_in_flight_holds_no_segment() -> None:
    driver = opened()
    for _ in range(8):
        driver.append(1, size=700)
    driver.settle((1, 1))
    driver.begin()
    driver.settle((1, 2))
    driver.forget(1)
    driver.finish()
    for _ in range(3):
        driver.append(2, size=3000)
        driver.settle((2, driver.next_seq[2] - 1))
        driver.append(2, size=2000)
        driver.sync()
        driver.look_after()
    assert "00000001.seg" not in segments(driver)


def test_queues_that_come_and_go_leave_nothing_behind() -> None:
    driver = opened()
    for queue_id in range(100, 200):
        driver.store.forget_queue(queue_id)
        assert not driver.store._facts.forgotten


def test_queues_that_go_while_something_is_always_in_flight_are_not_all_known() -> None:
    driver = opened()
    driver.append(1)
    driver.begin()
    for queue_id in range(100, 200):
        driver.store.forget_queue(queue_id)
        driver.append(1)
        driver.begin()
        driver.finish()
    assert len(driver.store._facts.forgotten) <= 2
    driver.finish()
    assert not driver.store._facts.forgotten


def test_a_queue_that_goes_before_its_move_is_written_is_known_until_then() -> None:
    driver = opened()
    driver.append(1)
    driver.sync()
    driver.reopen()
    store = driver.store
    number = driver.entries[driver.append(2)].number
    store.settle_moved(0, 1, 1, number, "token")
    store.forget_queue(1)
    assert 1 in store._facts.forgotten
    driver.sync()
    assert not store._facts.forgotten


def test_an_ack_that_comes_after_its_queue_was_deleted_is_no_fact() -> None:
    driver = opened()
    key = driver.append(1)
    driver.sync()
    number = driver.entries[key].number
    driver.forget(1)
    driver.sync()
    driver.store.note_delivered(1, 0, key[1])
    driver.store.settle(number, *key)
    driver.append(2)
    driver.sync()
    driver.filesystem.power_cut(False)
    assert driver.reopen().queues[2].count == 1


# -- segments


def test_a_segment_that_nobody_needs_goes_when_two_checkpoints_know() -> None:
    driver = opened()
    for _ in range(5):
        driver.append(1, size=700)
        driver.sync()
    before = segments(driver)
    for key in driver.live(1)[:-1]:
        driver.settle(key)
    assert driver.begin(False) is not None
    driver.finish()
    driver.look_after()
    # Written, but no sync covers it.
    assert segments(driver) == before
    for _ in range(2):
        driver.append(2)
        driver.sync()
        driver.look_after()
    assert segments(driver)[:1] == before[-1:]
    driver.filesystem.power_cut(False)
    driver.reopen()


def test_an_empty_segment_behind_a_live_one_goes_too() -> None:
    driver = opened()
    driver.append(2)
    for _ in range(12):
        driver.append(1, size=700)
        driver.sync()
        for key in driver.live(1):
            driver.settle(key)
    driver.sync()
    for _ in range(3):
        driver.append(3)
        driver.sync()
        driver.look_after()
    # The first message, and what was written last.
    assert len(segments(driver)) <= 3
    driver.filesystem.power_cut(False)
    assert driver.reopen().queues[2].count == 1


def test_a_message_larger_than_a_segment_is_stored() -> None:
    driver = opened()
    driver.append(1, size=50_000, body=bytes(70_000))
    driver.append(1)
    driver.sync()
    driver.append(1)
    driver.sync()
    driver.filesystem.power_cut(False)
    assert driver.reopen().queues[1].count == 3


def test_a_thousand_interleaved_queues_come_back_in_order() -> None:
    queues = set(range(1, 1001))
    driver = StoreDriver(
        MemoryFileSystem(), StoreOptions(segment_size=1 << 18), queues, 1000
    )
    driver.open()
    for _ in range(3):
        for queue_id in queues:
            driver.append(queue_id)
        driver.sync()
    for queue_id in queues:
        driver.settle((queue_id, 1 + queue_id % 3))
    driver.sync()
    driver.filesystem.power_cut(False)
    found = driver.reopen().queues
    assert all(found[queue_id].count == 2 for queue_id in queues)


def test_a_clean_stop_leaves_nothing_to_copy() -> None:
    driver = opened()
    driver.append(1)
    driver.stop()
    driver.filesystem.power_cut(False)
    opened_again = driver.reopen()
    assert opened_again.report.copied_records == 0
    assert opened_again.queues[1].count == 1


def test_a_clean_stop_of_an_idle_store_is_possible() -> None:
    driver = opened()
    driver.stop()
    assert driver.reopen().report.segment_count == 1


# -- a failed sync


def test_after_a_failed_sync_nothing_is_confirmed_and_nothing_begun() -> None:
    driver = opened()
    driver.append(1)
    driver.wait()
    driver.filesystem.fault = Fault(1, errno.EIO, "sync")
    driver.begin()
    driver.append(2)
    driver.wait()
    result = finished(driver)
    assert result.fatal is not None
    assert [(one.first, one.last) for one in result.refused] == [(1, 2)] or [
        (one.first, one.last) for one in result.refused
    ] == [(1, 1), (2, 2)]
    assert result.durable == []
    driver.append(3)
    assert driver.begin() is None
    assert driver.store.close_step(0) is None


def test_a_queue_id_that_does_not_fit_is_our_mistake() -> None:
    driver = opened()
    with pytest.raises(AssertionError, match="32 bits"):
        driver.store.settle(0, 1 << 32, 1)
