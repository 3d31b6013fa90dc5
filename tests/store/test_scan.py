"""Scanning a segment: torn tails end it, damage is stepped over and reported."""

import pytest

from store import batch, record
from store.batch import BatchWriter
from store.checksum import crc32
from store.record import Settle, read_record
from store.scan import DurableClaim, SegmentScan, durable_claim
from store.segment import HEADER_SIZE, header_of
from store.seq_ranges import ranges_of

SEGMENT = 3


class Log:
    """Segment bytes; every record is a settle of a seq of its own."""

    def __init__(self) -> None:
        self.data = bytearray(header_of(SEGMENT, SEGMENT, b"u" * 16))
        self.starts: list[int] = []
        self.records: list[int] = []
        self._batch = 10

    def add(self, *seqs: int, durable: int | None = None) -> None:
        """Add a batch; all before it is durable unless said otherwise."""
        end = len(self.data)
        self._batch += 1
        writer = BatchWriter(
            SEGMENT, self._batch, SEGMENT, end if durable is None else durable
        )
        offset = end + batch.HEADER_SIZE
        for seq in seqs:
            writer.settle(1, ranges_of([seq]))
            self.records.append(offset)
            offset += 40
        self.starts.append(end)
        self.data += b"".join(writer.finish())

    def scan(self, durable_end: int | None = None) -> SegmentScan:
        end = len(self.data) if durable_end is None else durable_end
        scan = SegmentScan(bytes(self.data), SEGMENT, end)
        scan.run()
        return scan


def three_batches() -> Log:
    log = Log()
    log.add(1, 2, 3)
    log.add(4, 5)
    log.add(6)
    return log


def seqs(scan: SegmentScan) -> list[int]:
    found = []
    for offset in scan.records:
        one = read_record(scan.data, offset)
        assert isinstance(one, Settle)
        found += one.settled.firsts
    return found


def damages(scan: SegmentScan) -> list[tuple[int, int]]:
    return [(int(one.start), int(one.end)) for one in scan.damages]


def test_whole_batches_are_found_in_order() -> None:
    scan = three_batches().scan()
    assert seqs(scan) == [1, 2, 3, 4, 5, 6]
    assert scan.damages == []
    assert scan.batch_upper == 13
    assert scan.torn_size == 0
    assert not scan.is_ended


def test_allocated_zeros_are_no_torn_tail() -> None:
    log = three_batches()
    end = len(log.data)
    log.data += bytes(5000)
    scan = log.scan(end)
    assert seqs(scan) == [1, 2, 3, 4, 5, 6]
    assert (scan.torn_size, scan.damages) == (0, [])


@pytest.mark.parametrize("cut", range(1, 40 + batch.OVERHEAD))
def test_a_batch_cut_at_any_byte_is_a_torn_tail(cut: int) -> None:
    log = three_batches()
    del log.data[-cut:]
    log.data += bytes(500)
    scan = log.scan(log.starts[2])
    assert seqs(scan) == [1, 2, 3, 4, 5]
    assert scan.damages == []


@pytest.mark.parametrize("at", range(40 + batch.OVERHEAD))
def test_a_batch_with_any_byte_wrong_is_a_torn_tail(at: int) -> None:
    log = three_batches()
    log.data[log.starts[2] + at] ^= 0x55
    scan = log.scan(log.starts[2])
    assert seqs(scan) == [1, 2, 3, 4, 5]
    assert scan.damages == []
    assert scan.torn_size > 0


def test_what_follows_a_torn_batch_is_torn_with_it() -> None:
    log = three_batches()
    log.data[log.records[3] + 9] ^= 1
    scan = log.scan(log.starts[1])
    assert seqs(scan) == [1, 2, 3]
    assert scan.torn_size == len(log.data) - log.starts[1]


@pytest.mark.parametrize("at", range(40))
def test_a_durable_batch_loses_only_the_record_that_is_damaged(at: int) -> None:
    log = three_batches()
    bad = log.records[1]
    log.data[bad + at] ^= 0x40
    scan = log.scan()
    assert damages(scan)[0][0] == bad
    if at >= 4:
        assert damages(scan) == [(bad, bad + 40)]
        assert seqs(scan) == [1, 3, 4, 5, 6]
    else:
        # A length that leads nowhere: on at the next batch.
        assert seqs(scan) == [1, 4, 5, 6]


@pytest.mark.parametrize("at", range(batch.HEADER_SIZE))
def test_a_damaged_header_costs_no_record(at: int) -> None:
    log = three_batches()
    log.data[log.starts[1] + at] ^= 0x11
    scan = log.scan()
    assert seqs(scan) == [1, 2, 3, 4, 5, 6]
    start = log.starts[1]
    assert damages(scan) == [(start, start + batch.HEADER_SIZE)]


@pytest.mark.parametrize("at", range(batch.TRAILER_SIZE))
def test_a_damaged_trailer_costs_no_record(at: int) -> None:
    log = three_batches()
    end = log.starts[2]
    log.data[end - 1 - at] ^= 0x11
    scan = log.scan()
    assert seqs(scan) == [1, 2, 3, 4, 5, 6]
    assert damages(scan) == [(end - batch.TRAILER_SIZE, end)]


def test_a_header_and_its_first_record_damaged_lose_the_batch() -> None:
    log = three_batches()
    log.data[log.starts[1] + 20] ^= 0x11
    log.data[log.records[3] + 20] ^= 0x11
    scan = log.scan()
    assert seqs(scan) == [1, 2, 3, 6]
    assert damages(scan) == [(log.starts[1], log.starts[2])]


def test_a_batch_number_that_jumps_is_read_from_a_damaged_header() -> None:
    log = Log()
    log.add(1)
    log._batch += 5
    log.add(2)
    log.add(3)
    log.data[log.starts[1]] ^= 0xFF
    assert seqs(log.scan()) == [1, 2, 3]


def test_damage_before_a_torn_tail_ends_where_the_log_was_durable() -> None:
    log = three_batches()
    log.add(7)
    end = log.starts[2]
    log.data[log.starts[1] + 20] ^= 0x11
    log.data[log.starts[2] + 20] ^= 0x11
    scan = log.scan(end)
    # Batch 3 is torn, and with it 4, whose header is valid.
    assert seqs(scan) == [1, 2, 3, 4, 5]
    assert damages(scan) == [(log.starts[1], log.starts[1] + batch.HEADER_SIZE)]
    assert scan.torn_size == len(log.data) - end


def test_the_last_bytes_damaged_are_reported() -> None:
    log = three_batches()
    log.data[log.starts[2] :] = b"\x77" * 20
    scan = log.scan()
    assert seqs(scan) == [1, 2, 3, 4, 5]
    assert damages(scan) == [(log.starts[2], log.starts[2] + 20)]


def test_a_magic_in_damaged_bytes_is_no_batch() -> None:
    log = three_batches()
    at = log.starts[1]
    log.data[at : at + 100] = (batch.MAGIC * 13)[:100]
    assert seqs(log.scan()) == [1, 2, 3, 6]


def test_an_older_batch_met_again_is_no_batch() -> None:
    log = three_batches()
    log.data += log.data[log.starts[0] : log.starts[1]]
    scan = log.scan()
    assert seqs(scan) == [1, 2, 3, 4, 5, 6]
    assert len(scan.damages) == 1


def test_a_durable_batch_that_is_cut_off_gives_its_whole_records() -> None:
    log = three_batches()
    del log.data[log.records[5] + 30 :]
    log.add(7)
    del log.data[log.starts[3] :]
    scan = log.scan()
    assert seqs(scan) == [1, 2, 3, 4, 5]
    assert len(scan.damages) >= 1


def test_a_record_count_that_is_wrong_makes_a_batch_not_whole() -> None:
    log = Log()
    log.add(1, 2)
    at = log.starts[0]
    fields = list(batch.HEADER.unpack_from(log.data, at))
    fields[-1] = 3
    header = batch.HEADER.pack(*fields)
    seed = batch.seed_of(SEGMENT, 11)
    log.data[at : at + batch.HEADER_SIZE] = header + crc32(header, seed).to_bytes(4)
    assert seqs(log.scan(at)) == []
    assert seqs(log.scan()) == [1, 2]


def test_two_bad_records_in_a_row_are_stepped_over() -> None:
    log = three_batches()
    log.data[log.records[0] + 9] ^= 1
    log.data[log.records[1] + 9] ^= 1
    scan = log.scan()
    assert seqs(scan) == [3, 4, 5, 6]
    assert len(scan.damages) == 2


def test_a_record_too_short_for_its_header_ends_a_damaged_batch() -> None:
    log = three_batches()
    at = log.records[2]
    log.data[at : at + 4] = (record.SIZE_MIN - 1).to_bytes(4)
    scan = log.scan()
    assert seqs(scan) == [1, 2, 4, 5, 6]


def test_the_marker_of_a_clean_stop_ends_the_log() -> None:
    log = three_batches()
    log.add()
    assert log.scan().is_ended


def test_an_empty_batch_that_does_not_know_is_no_marker() -> None:
    log = three_batches()
    log.add(durable=log.starts[1])
    assert not log.scan().is_ended


def test_anything_behind_a_marker_takes_it_back() -> None:
    log = three_batches()
    log.add()
    end = len(log.data)
    log.data += b"torn"
    assert not log.scan(end).is_ended
    assert not log.scan().is_ended


def claimed(data: bytes | bytearray) -> DurableClaim | None:
    return durable_claim(bytes(data), SEGMENT)


def test_the_last_header_says_how_far_the_log_is_durable() -> None:
    log = three_batches()
    claim = claimed(log.data)
    assert claim is not None
    assert (claim.segment, claim.offset) == (SEGMENT, log.starts[2])


def test_a_claim_is_found_behind_a_damaged_header() -> None:
    log = three_batches()
    log.data[log.starts[1] + 30] ^= 1
    claim = claimed(log.data)
    assert claim is not None
    assert claim.offset == log.starts[2]


def test_a_claim_of_an_older_batch_does_not_count() -> None:
    log = three_batches()
    log.data += log.data[log.starts[0] : log.starts[1]]
    claim = claimed(log.data)
    assert claim is not None
    assert claim.offset == log.starts[2]


def test_a_segment_without_a_valid_header_claims_nothing() -> None:
    log = Log()
    assert claimed(log.data + bytes(500)) is None
    log.add(1)
    log.data[log.starts[0] + 20] ^= 1
    assert claimed(log.data) is None
    assert len(log.data) > HEADER_SIZE


def test_the_last_record_of_a_batch_is_stepped_over() -> None:
    log = three_batches()
    log.data[log.records[2] + 9] ^= 1
    scan = log.scan()
    assert seqs(scan) == [1, 2, 4, 5, 6]
    assert damages(scan) == [(log.records[2], log.records[2] + 40)]


def test_a_length_that_leaves_no_room_for_another_record_is_not_trusted() -> None:
    log = three_batches()
    at = log.records[2]
    log.data[at : at + 4] = (30).to_bytes(4)
    scan = log.scan()
    assert seqs(scan) == [1, 2, 4, 5, 6]
    assert damages(scan) == [(at, at + 40)]
