"""A full disk: what is refused, what is carried, what is confirmed all the same."""

import errno

from store.syncer import SyncResult
from tests.support.memory_filesystem import Fault, MemoryFileSystem
from tests.support.store_driver import LOG, StoreDriver


def opened(capacity: int = 1 << 40) -> StoreDriver:
    driver = StoreDriver(MemoryFileSystem(capacity))
    driver.open()
    return driver


def finished(driver: StoreDriver) -> SyncResult[str]:
    result = driver.finish()
    assert result is not None
    return result


def full_disk() -> tuple[StoreDriver, SyncResult[str]]:
    """A store with two messages in queue 1 whose third was refused."""
    driver = opened()
    driver.append(1)
    driver.append(1)
    driver.sync()
    driver.filesystem.fault = Fault(1, errno.ENOSPC, "write", 50)
    driver.append(1)
    driver.wait()
    driver.begin()
    return driver, finished(driver)


def test_a_message_that_the_disk_refuses_is_nacked_and_lost() -> None:
    driver, result = full_disk()
    assert [(one.first, one.last) for one in result.refused] == [(2, 2)]
    assert result.lost == [(1, 3)]
    assert result.lost_numbers == [3]
    assert result.fatal is None
    assert result.disk_full
    assert driver.store.is_disk_full
    driver.filesystem.power_cut(True)
    assert driver.reopen().queues[1].count == 2


def test_settles_of_a_refused_batch_are_carried_into_the_next() -> None:
    driver = opened()
    driver.append(1)
    driver.append(1)
    driver.sync()
    driver.filesystem.fault = Fault(1, errno.EIO, "write", 50)
    driver.settle((1, 1))
    driver.append(2)
    driver.begin()
    driver.finish()
    driver.tick()
    driver.filesystem.power_cut(False)
    assert driver.reopened(1) == [2]


def test_new_messages_are_refused_until_the_reserve_is_back() -> None:
    driver, _ = full_disk()
    assert driver.filesystem.size(f"{LOG}/reserve") == 0
    driver.append(1)
    driver.wait()
    assert driver.store.has_work
    driver.begin()
    result = finished(driver)
    assert result.disk_full
    assert result.lost == [(1, 4)]
    assert [(one.first, one.last) for one in result.refused] == [(3, 3)]
    driver.now_ms += 200
    driver.begin()
    assert not finished(driver).disk_full
    driver.append(1)
    driver.sync()
    assert driver.confirmed[-1] == (4, 4)
    driver.filesystem.power_cut(False)
    assert driver.reopen().queues[1].count == 3


def test_settles_are_written_while_the_disk_is_full() -> None:
    driver, _ = full_disk()
    driver.settle((1, 1))
    driver.wait()
    driver.begin()
    result = finished(driver)
    # Whoever waits for facts alone is not refused.
    assert [(one.first, one.last) for one in result.durable] == [(3, 3)]
    driver.filesystem.power_cut(False)
    assert driver.reopened(1) == [2]


def test_the_disk_is_probed_once_in_a_while_only() -> None:
    driver, _ = full_disk()
    assert driver.begin() is None
    driver.now_ms += 99
    assert driver.begin() is None
    driver.now_ms += 1
    driver.filesystem.fault = Fault(1, errno.ENOSPC, "allocate")
    assert driver.begin() is not None
    assert finished(driver).disk_full
    assert driver.begin() is None


def test_a_message_that_was_acked_before_it_was_refused_is_not_lost() -> None:
    driver = opened()
    key = driver.append(1)
    driver.append(1)
    driver.filesystem.fault = Fault(1, errno.ENOSPC, "write")
    driver.begin()
    driver.settle(key)
    assert finished(driver).lost == [(1, 2)]


def test_a_refused_message_that_a_consumer_holds_is_settled_without_a_record() -> None:
    driver, _ = full_disk()
    driver.store.settle(3, 1, 3)
    assert driver.begin() is None
    driver.tick()
    driver.append(1)
    driver.sync()
    driver.filesystem.power_cut(False)
    assert driver.reopen().queues[1].count == 3


def test_a_message_refused_at_begin_and_acked_before_complete_is_not_lost() -> None:
    driver, _ = full_disk()
    key = driver.append(1)
    driver.wait()
    driver.begin()
    driver.settle(key)
    assert finished(driver).lost == []


def test_a_full_disk_refuses_what_was_appended_while_the_write_was_in_flight() -> None:
    driver = opened()
    driver.append(1)
    driver.filesystem.fault = Fault(1, errno.ENOSPC, "write")
    driver.begin()
    driver.append(2)
    driver.begin()
    driver.append(3)
    driver.wait()
    first = finished(driver)
    assert first.lost == [(1, 1), (3, 1)]
    # Nothing is begun before the steps in flight have come back.
    assert driver.begin() is None
    assert driver.store.close_step(0) is None
    assert finished(driver).lost == [(2, 1)]
    driver.tick()
    driver.append(3)
    driver.sync()
    driver.filesystem.power_cut(False)
    assert driver.reopen().queues[3].count == 1


def test_who_waited_for_an_earlier_batch_is_confirmed_when_a_later_is_refused() -> None:
    driver = opened()
    driver.append(1)
    driver.wait()
    driver.begin(False)
    driver.append(2)
    driver.wait()
    driver.filesystem.fault = Fault(2, errno.ENOSPC, "write")
    driver.begin(True)
    driver.finish()
    result = finished(driver)
    assert [(one.first, one.last) for one in result.durable] == [(1, 1)]
    assert [(one.first, one.last) for one in result.refused] == [(2, 2)]
    driver.filesystem.power_cut(False)
    queues = driver.reopen().queues
    assert [queues[queue_id].count for queue_id in (1, 2)] == [1, 0]


def test_while_the_disk_is_full_one_step_is_in_flight_at_a_time() -> None:
    driver, _ = full_disk()
    driver.append(1)
    driver.wait()
    assert driver.begin(False) is not None
    driver.settle((1, 1))
    assert driver.begin() is None
    driver.finish()
    assert driver.begin() is not None


def test_a_message_refused_by_a_write_that_must_not_sync_is_told_at_once() -> None:
    driver, _ = full_disk()
    driver.append(1)
    driver.wait()
    driver.begin(False)
    result = finished(driver)
    assert [(one.first, one.last) for one in result.refused] == [(3, 3)]


def test_a_disk_that_is_really_full_keeps_confirmed_messages_and_takes_acks() -> None:
    driver = opened(capacity=40_000)
    while not driver.is_disk_full:
        driver.append(1, size=900)
        driver.sync()
    kept = driver.live(1)
    assert driver.refused
    for key in kept[: len(kept) // 2]:
        driver.settle(key)
    driver.sync()
    # The settles got through (the reserve made room) and emptied segments go.
    assert all(driver.entries[key].is_settled_durably for key in kept[: len(kept) // 2])
    driver.tick()
    driver.filesystem.power_cut(False)
    driver.reopen()


def test_a_sync_behind_a_refused_batch_is_refused_with_it() -> None:
    driver = opened()
    driver.append(1)
    driver.filesystem.fault = Fault(1, errno.ENOSPC, "write")
    driver.begin(False)
    driver.wait()
    driver.begin(True)
    first, second = finished(driver), finished(driver)
    assert first.lost == [(1, 1)]
    assert (first.refused, len(second.refused), second.durable) == ([], 1, [])


def test_a_full_disk_that_refuses_even_settles_carries_them_again() -> None:
    driver, _ = full_disk()
    driver.settle((1, 1))
    driver.append(2)
    driver.wait()
    driver.filesystem.fault = Fault(1, errno.ENOSPC, "write")
    driver.begin()
    result = finished(driver)
    assert result.lost == [(2, 1)]
    assert len(result.refused) == 1
    driver.sync()
    driver.filesystem.power_cut(False)
    assert driver.reopened(1) == [2]


def test_a_store_opened_on_a_full_disk_refuses_new_messages() -> None:
    driver = opened(capacity=9000)
    assert driver.is_disk_full
    driver.append(1)
    driver.wait()
    driver.begin()
    assert finished(driver).lost == [(1, 1)]


def test_a_refused_batch_deletes_no_segment_that_was_only_written() -> None:
    driver = opened()
    for _ in range(3):
        driver.append(1, size=3000)
        driver.begin(False)
        driver.finish()
    driver.filesystem.fault = Fault(1, errno.ENOSPC, "write")
    driver.append(1)
    driver.begin()
    driver.finish()
    for _ in range(3):
        driver.tick()
    driver.filesystem.power_cut(False)
    assert driver.reopen().queues[1].count == 3


def test_a_move_whose_copy_the_disk_refuses_did_not_take_place() -> None:
    driver = opened()
    driver.append(1)
    driver.append(1)
    driver.sync()
    driver.filesystem.fault = Fault(1, errno.ENOSPC, "write", 50)
    driver.append(2)
    driver.store.settle_moved(1, 1, 1, 3, "token")
    driver.begin()
    assert finished(driver).kept == ["token"]
    driver.tick()
    driver.filesystem.power_cut(False)
    assert driver.reopened(1) == [1, 2]


def test_a_move_of_what_was_never_written_needs_no_undoing() -> None:
    driver = opened()
    driver.append(1)
    driver.filesystem.fault = Fault(1, errno.ENOSPC, "write", 50)
    driver.append(2)
    driver.store.settle_moved(1, 1, 1, 2, "token")
    driver.begin()
    result = finished(driver)
    assert result.kept == []
    assert result.lost == [(2, 1)]


def test_a_move_that_waits_behind_a_refused_batch_did_not_take_place() -> None:
    driver = opened()
    driver.append(1)
    driver.append(1)
    driver.sync()
    driver.filesystem.fault = Fault(1, errno.ENOSPC, "write", 50)
    driver.append(2)
    driver.begin()
    driver.append(2)
    driver.store.settle_moved(1, 1, 1, 4, "token")
    result = finished(driver)
    assert result.kept == ["token"]
    assert sorted(result.lost) == [(2, 1), (2, 2)]
    driver.tick()
    driver.filesystem.power_cut(False)
    assert driver.reopened(1) == [1, 2]
