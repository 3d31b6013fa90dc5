"""From a directory to queues: what refuses a start, what is saved, what is removed."""

import errno
import random

import pytest

from store import batch
from store.checksum import crc32
from store.errors import (
    QueueIdUnknown,
    RecordUnknown,
    StoreDamaged,
    StoreError,
    StoreForeign,
    SyncFailed,
    VersionUnknown,
)
from store.message_store import MessageStore, Opened
from store.segment import HEADER_SIZE, header_of
from tests.support.memory_filesystem import Fault, MemoryFileSystem, PowerCut
from tests.support.store_driver import DIRECTORY, LOG, UUID, StoreDriver

FIRST = f"{LOG}/00000001.seg"


def crashed(count: int = 3) -> StoreDriver:
    """A store that died with `count` messages in queue 1, a batch each."""
    driver = StoreDriver(MemoryFileSystem())
    driver.open()
    for _ in range(count):
        driver.append(1)
        driver.sync()
    driver.filesystem.restart()
    driver.crash()
    return driver


def found(opened: Opened[str]) -> list[int]:
    return [int(one.seq) for one in opened.queues[1].messages]


def names(driver: StoreDriver) -> list[str]:
    return sorted(driver.filesystem.list_directory(LOG))


def snapshot(driver: StoreDriver) -> dict[str, bytes]:
    return {path: bytes(file.cache) for path, file in driver.filesystem._names.items()}


def put(driver: StoreDriver, path: str, data: bytes) -> None:
    descriptor = driver.filesystem.create(path)
    driver.filesystem.write(descriptor, [data], 0)
    driver.filesystem.sync(descriptor)
    driver.filesystem.close(descriptor)


def refused(driver: StoreDriver, error: type[StoreError], text: str) -> str:
    """The start is refused, names the repair and touches nothing."""
    before = snapshot(driver)
    with pytest.raises(error, match=text) as caught:
        driver.open()
    assert snapshot(driver) == before
    return str(caught.value)


# -- the tail


def test_the_tail_is_copied_to_a_new_segment_before_anything_is_served() -> None:
    driver = crashed()
    opened = driver.reopen()
    assert opened.report.copied_records == 3
    # The range says that the copy stands for segment 1, which is gone.
    assert names(driver) == ["00000001-00000002.seg", "00000003.seg", "reserve"]
    driver.filesystem.power_cut(False)
    assert found(driver.reopen()) == [1, 2, 3]


def test_a_copied_tail_is_not_copied_again() -> None:
    driver = crashed()
    driver.reopen()
    driver.filesystem.restart()
    assert driver.reopen().report.copied_records == 0
    assert names(driver) == ["00000001-00000002.seg", "00000003.seg", "reserve"]


def test_no_recovered_file_is_appended_to() -> None:
    driver = crashed()
    driver.reopen()
    copy = bytes(driver.filesystem.content(f"{LOG}/00000001-00000002.seg"))
    driver.append(1)
    driver.sync()
    assert bytes(driver.filesystem.content(f"{LOG}/00000001-00000002.seg")) == copy


def test_a_tail_of_which_nothing_is_whole_is_removed() -> None:
    driver = crashed(1)
    driver.filesystem.damage(FIRST, HEADER_SIZE + batch.HEADER_SIZE + 9)
    driver.entries.clear()
    opened = driver.reopen()
    assert opened.report.torn_size > 0
    assert opened.report.copied_records == 0
    assert names(driver) == ["00000001.seg", "reserve"]


def test_a_segment_that_nothing_was_written_to_is_used_again() -> None:
    driver = crashed(0)
    opened = driver.reopen()
    assert opened.report.segment_count == 0
    assert names(driver) == ["00000001.seg", "reserve"]


def test_a_segment_whose_first_header_is_torn_is_a_torn_tail() -> None:
    driver = crashed(1)
    driver.filesystem.damage(FIRST, HEADER_SIZE + 3)
    driver.entries.clear()
    opened = driver.reopen()
    assert opened.report.torn_size > 0
    assert found(opened) == []


def test_a_tail_is_copied_into_the_reserve_when_the_disk_is_full() -> None:
    driver = crashed()
    driver.filesystem.capacity = driver.filesystem.used() + 100
    assert found(driver.reopen()) == [1, 2, 3]
    assert driver.is_disk_full


def test_a_tail_that_cannot_be_copied_is_a_start_that_fails() -> None:
    driver = crashed()
    driver.filesystem.fault = Fault(1, errno.EIO, "write")
    with pytest.raises(StoreError, match="cannot recover"):
        driver.open()
    driver.filesystem.restart()
    assert found(driver.reopen()) == [1, 2, 3]


def test_a_tail_whose_copy_is_not_synced_is_a_start_that_fails() -> None:
    driver = crashed()
    driver.filesystem.fault = Fault(1, errno.EIO, "sync")
    with pytest.raises(SyncFailed):
        driver.open()


def test_an_unfinished_copy_is_removed() -> None:
    driver = crashed()
    put(driver, f"{LOG}/00000001-00000002.seg.tmp", b"half a copy")
    assert found(driver.reopen()) == [1, 2, 3]
    assert not any(name.endswith(".tmp") for name in names(driver))


def test_a_file_that_a_copy_stands_for_is_hidden_and_removed() -> None:
    driver = crashed()
    old = bytes(driver.filesystem.content(FIRST))
    driver.reopen()
    driver.settle((1, 1))
    driver.sync()
    # The removal of the old file was lost.
    put(driver, FIRST, old)
    driver.filesystem.restart()
    assert found(driver.reopen()) == [2, 3]
    assert "00000001.seg" not in names(driver)


def test_batch_numbers_go_on_after_a_restart() -> None:
    driver = crashed()
    driver.reopen()
    driver.append(1)
    driver.sync()
    data = bytes(driver.filesystem.content(f"{LOG}/00000003.seg"))
    header = batch.read_header(data, HEADER_SIZE, 3)
    assert header is not None
    assert header.batch == 5


# -- what refuses a start


def test_a_record_that_must_not_be_skipped_refuses_the_start() -> None:
    driver = crashed()
    data = driver.filesystem.content(FIRST)
    start = HEADER_SIZE + batch.HEADER_SIZE
    size = int.from_bytes(data[start : start + 4])
    data[start + 4] = 99
    end = start + size - 4
    checksum = crc32(bytes(data[start:end]), batch.seed_of(1, 1))
    data[end : end + 4] = checksum.to_bytes(4)
    text = refused(driver, RecordUnknown, "type 99")
    assert "amqpd store repair /data" in text


def test_a_record_that_may_be_skipped_is_skipped() -> None:
    driver = crashed()
    data = driver.filesystem.content(FIRST)
    start = HEADER_SIZE + batch.HEADER_SIZE
    size = int.from_bytes(data[start : start + 4])
    data[start + 4] = 99
    data[start + 6] |= 1
    end = start + size - 4
    checksum = crc32(bytes(data[start:end]), batch.seed_of(1, 1))
    data[end : end + 4] = checksum.to_bytes(4)
    del driver.entries[1, 1]
    assert found(driver.reopen()) == [2, 3]


def test_an_unknown_format_version_refuses_the_start() -> None:
    driver = crashed()
    data = driver.filesystem.content(FIRST)
    header = bytearray(header_of(1, 1, UUID))
    header[9] = 2
    header[60:] = crc32(bytes(header[:60])).to_bytes(4)
    data[:HEADER_SIZE] = header
    refused(driver, VersionUnknown, "format version 2")


@pytest.mark.parametrize("count", [0, 3])
def test_another_stores_segment_refuses_the_start(count: int) -> None:
    driver = crashed(count)
    driver.filesystem.content(FIRST)[:HEADER_SIZE] = header_of(1, 1, b"x" * 16)
    text = refused(driver, StoreForeign, "another store")
    assert "amqpd store repair /data" in text


def test_a_segment_under_a_wrong_name_refuses_the_start() -> None:
    driver = crashed()
    driver.filesystem.rename(FIRST, f"{LOG}/00000002.seg")
    refused(driver, StoreDamaged, "says that it is segment 1")


def test_a_missing_segment_refuses_the_start() -> None:
    driver = StoreDriver(MemoryFileSystem())
    driver.open()
    for _ in range(4):
        driver.append(1, size=3000)
        driver.sync()
    driver.filesystem.restart()
    driver.filesystem.remove(f"{LOG}/00000002.seg")
    text = refused(driver, StoreDamaged, "does not follow segment 1")
    assert "amqpd store repair /data" in text


def test_a_queue_id_that_was_never_given_out_refuses_the_start() -> None:
    """An old meta.db was restored beside a newer log."""
    driver = crashed()
    driver.queues, driver.highest_queue_id = set(), 0
    text = refused(driver, QueueIdUnknown, "queue id 1")
    assert "amqpd store repair /data" in text


def test_records_of_a_deleted_queue_are_garbage() -> None:
    driver = crashed()
    driver.queues = {2, 3}
    driver.entries.clear()
    opened = driver.reopen()
    assert sorted(opened.queues) == [2, 3]
    assert opened.report.garbage_count == 3


def test_a_disk_that_cannot_be_read_refuses_the_start() -> None:
    driver = crashed()
    driver.filesystem.fault = Fault(1, errno.EIO, "read_file")
    with pytest.raises(StoreError, match="cannot recover"):
        driver.open()


# -- damage


def test_a_bad_record_is_saved_and_reported_and_the_rest_is_used() -> None:
    driver = crashed()
    start = HEADER_SIZE + batch.HEADER_SIZE
    driver.filesystem.damage(FIRST, start + 50)
    del driver.entries[1, 1]
    opened = driver.reopen()
    assert found(opened) == [2, 3]
    (line,) = opened.report.quarantined
    path = f"{DIRECTORY}/quarantine/00000001-{start:010d}.bin"
    assert path in line
    driver.filesystem.power_cut(False)
    assert len(driver.filesystem.read_file(path)) == 104


def test_damage_that_was_saved_is_reported_and_not_saved_again() -> None:
    driver = StoreDriver(MemoryFileSystem())
    driver.open()
    for _ in range(3):
        driver.append(1, size=3000)
        driver.sync()
    driver.filesystem.restart()
    driver.filesystem.damage(FIRST, 500)
    del driver.entries[1, 1]
    first = driver.reopen()
    driver.filesystem.restart()
    second = driver.reopen()
    assert len(first.report.quarantined) == 1
    assert second.report.quarantined == first.report.quarantined


def test_a_damaged_segment_header_costs_no_message() -> None:
    driver = crashed()
    driver.filesystem.damage(FIRST, 20)
    opened = driver.reopen()
    assert found(opened) == [1, 2, 3]
    assert "a segment's header" in opened.report.quarantined[0]


def test_a_record_that_contradicts_itself_is_saved() -> None:
    driver = crashed()
    data = driver.filesystem.content(FIRST)
    start = HEADER_SIZE + batch.HEADER_SIZE
    size = int.from_bytes(data[start : start + 4])
    data[start + 24] = 0xFF
    end = start + size - 4
    checksum = crc32(bytes(data[start:end]), batch.seed_of(1, 1))
    data[end : end + 4] = checksum.to_bytes(4)
    del driver.entries[1, 1]
    opened = driver.reopen()
    assert found(opened) == [2, 3]
    assert "contradicts itself" in opened.report.quarantined[0]


def test_any_byte_of_a_log_damaged_costs_at_most_what_it_is_in() -> None:
    """Every byte of three batches: no start fails, no other message is lost."""
    base = crashed()
    good = bytes(base.filesystem.content(FIRST))
    size = len(good.rstrip(b"\0"))
    for at in range(HEADER_SIZE, size):
        driver = StoreDriver(MemoryFileSystem())
        driver.filesystem.make_directory(LOG)
        data = bytearray(good)
        data[at] ^= 0x24
        put(driver, FIRST, bytes(data))
        opened: Opened[str] = MessageStore.open_store(
            DIRECTORY, driver.filesystem, driver.options, UUID, {1}, 9, 0
        )
        left = found(opened)
        report = opened.report
        assert len(left) >= 2
        assert sorted(left) == left
        if len(left) == 2:
            assert report.quarantined or report.torn_size


# -- a store that is not there yet


def test_an_empty_directory_is_an_empty_store() -> None:
    driver = StoreDriver(MemoryFileSystem())
    opened = driver.open()
    assert opened.report.segment_count == 0
    assert [queue.next_seq for queue in opened.queues.values()] == [1, 1, 1]
    assert names(driver) == ["00000001.seg", "reserve"]


def test_a_file_of_another_kind_in_the_log_is_left_alone() -> None:
    driver = crashed()
    put(driver, f"{LOG}/README", b"hello")
    driver.reopen()
    assert "README" in names(driver)


def test_the_old_tail_goes_only_when_the_name_of_its_copy_is_durable() -> None:
    """Killed between rename and directory sync, then the power goes."""
    for seed in range(40):
        for call in (1, 2):
            driver = crashed()
            driver.filesystem.fault = Fault(1, None, "sync_directory")
            with pytest.raises(PowerCut):
                driver.open()
            driver.filesystem.restart()
            assert "00000001-00000002.seg" in names(driver)
            driver.filesystem.fault = Fault(call, None, "sync_directory")
            with pytest.raises(PowerCut):
                driver.open()
            driver.filesystem.power_cut(random.Random(seed))
            assert found(driver.reopen()) == [1, 2, 3]
