"""Records in blocks, parts of blocks, across blocks and alone."""

import errno

import pytest

from store.cold_cache import BLOCK_SIZE
from store.cold_entries import Room, Selection
from store.cold_reader import ColdReader
from store.cold_records import ColdRecords, DamagedMessage
from store.stored_message import Lookup, Seeds, StoredMessage
from tests.support.cold_log import QUARANTINE, UUID, ColdLog, dead_of, seqs_of
from tests.support.memory_filesystem import Fault


class Taking:
    """What it takes to take the records of queue 1 in a segment."""

    def __init__(self, log: ColdLog, has_credit: bool = True) -> None:
        self.log = log
        self.reader = ColdReader(log.filesystem, UUID, QUARANTINE)
        self.file = self.reader.file(log.path(1), 1, 1)
        self.messages: list[StoredMessage] = []
        self.damaged: list[DamagedMessage] = []
        self.records = ColdRecords(
            self.reader,
            self.file,
            Lookup(Seeds(), 1, 1),
            self.messages,
            self.damaged,
        )
        while not has_credit and self.reader.bytes_read < 100 << 20:
            self.reader.read(self.file, BLOCK_SIZE, 0)
        share = log.unwritten[0].find(1)
        assert share is not None
        self.entries = bytes(share.entries)
        self.before = self.reader.bytes_read

    def run(self, first: int, last: int, *dead: int, is_sure: bool = True) -> bool:
        room = Room(1 << 40, 1 << 40, 1 << 40)
        selection = Selection(self.entries, room)
        selection.run(first, last, dead_of(first, *dead) if dead else None)
        self.reader.read_blocks(self.file, selection.wanted, 1 << 40)
        return self.records.take(selection, first, is_sure)

    def seqs(self) -> list[int]:
        self.log.check(1, self.messages)
        return seqs_of(self.messages)

    @property
    def bytes_read(self) -> int:
        return int(self.reader.bytes_read - self.before)


@pytest.fixture
def log() -> ColdLog:
    """Messages of queue 1, the fourth of which spans the first two blocks."""
    log = ColdLog()
    for i in range(10):
        log.append(1, content=bytes([i]) * 70_000)
    for _ in range(3):
        log.append(1)
    log.append(1, content=b"c" * 300_000, envelope=b"e" * 5000, body=b"")
    log.write()
    return log


def test_records_are_taken_from_blocks(log: ColdLog) -> None:
    taking = Taking(log)
    assert taking.run(1, 13)
    assert taking.seqs() == list(range(1, 14))
    assert taking.records.count == 13
    assert taking.records.next_seq == 14
    assert taking.records.size == sum(log.places[1, seq][2] for seq in range(1, 14))


def test_a_record_across_a_part_and_a_block_is_taken(log: ColdLog) -> None:
    taking = Taking(log, has_credit=False)
    # Of the first block little is wanted, of the second one more.
    assert taking.run(4, 6)
    assert taking.seqs() == [4, 5, 6]


def test_a_record_across_blocks_that_are_not_read_is_read_alone(log: ColdLog) -> None:
    taking = Taking(log, has_credit=False)
    assert taking.run(4, 4)
    assert taking.seqs() == [4]
    assert taking.bytes_read <= log.places[1, 4][2] + BLOCK_SIZE


def test_small_records_side_by_side_are_read_as_a_part(log: ColdLog) -> None:
    taking = Taking(log, has_credit=False)
    assert taking.run(11, 13)
    assert taking.seqs() == [11, 12, 13]
    assert taking.bytes_read == sum(log.places[1, seq][2] for seq in (11, 12, 13))


def test_records_far_apart_are_read_one_by_one(log: ColdLog) -> None:
    for _ in range(2):
        log.append(1)
        log.append(2, content=bytes(50_000))
    log.append(1)
    log.write()
    taking = Taking(log, has_credit=False)
    assert taking.run(15, 17)
    assert taking.seqs() == [15, 16, 17]
    assert taking.bytes_read == sum(log.places[1, seq][2] for seq in (15, 16, 17))


def test_a_large_record_with_a_long_envelope_is_read_in_parts(log: ColdLog) -> None:
    taking = Taking(log)
    assert taking.run(14, 14)
    assert taking.seqs() == [14]
    assert taking.bytes_read < 320_000


def test_a_large_record_of_another_queue_is_not_taken(log: ColdLog) -> None:
    taking = Taking(log)
    other = Taking(log)
    taking.records = ColdRecords(
        other.reader, other.file, Lookup(Seeds(), 1, 2), other.messages, other.damaged
    )
    assert not taking.run(14, 14, is_sure=False)
    assert taking.records.is_astray
    assert taking.run(14, 14)
    (damage,) = other.damaged
    assert "does not have message 14" in damage.report


def test_without_its_block_a_record_is_not_taken(log: ColdLog) -> None:
    taking = Taking(log)
    selection = Selection(taking.entries, Room(9, 1 << 40, 99))
    selection.run(2, 9, None)
    taking.reader.read_blocks(taking.file, selection.wanted[:1], 1 << 40)
    assert not taking.records.take(selection, 2, True)
    assert not taking.records.is_astray
    assert taking.records.next_seq == 4
    assert taking.seqs() == [2, 3]


def test_a_record_that_cannot_be_read_alone_is_where_it_goes_on(log: ColdLog) -> None:
    taking = Taking(log)
    log.filesystem.fault = Fault(4, errno.EIO, "read")
    with pytest.raises(OSError, match="Input/output"):
        taking.run(13, 14)
    assert taking.records.next_seq == 14
    assert taking.seqs() == [13]


def test_a_record_that_fails_leads_astray_unless_its_entry_is_sure(
    log: ColdLog,
) -> None:
    log.filesystem.damage(log.path(1), log.places[1, 12][1] + 30)
    taking = Taking(log)
    assert not taking.run(11, 13, is_sure=False)
    assert taking.records.is_astray
    assert taking.records.next_seq == 12
    assert taking.damaged == []
    assert taking.run(12, 13)
    assert taking.seqs() == [11, 13]
    assert [damage.seq for damage in taking.damaged] == [12]
