"""Records: what is written is read back, what is malformed is refused."""

import pytest
from librt.strings import BytesWriter

from store import record
from store.errors import RecordUnknown
from store.record import Delivered, Message, Returned, Settle, read_record
from store.seq_ranges import ranges_of

# Its low half is what a record carries.
BATCH = (3 << 32) + 17


def finished(out: BytesWriter) -> bytes:
    """Return a record with room for its checksum."""
    return out.getvalue() + bytes(record.CHECKSUM_SIZE)


def message(body: bytes | None = b"body", destinations: int = 2) -> bytes:
    out = BytesWriter()
    record.write_message_header(
        out, BATCH, 11, -1, b"env", b"content", body, destinations
    )
    for i in range(destinations):
        record.write_destination(out, 0xFFFFFFFE + i % 2, (1 << 40) + i, 255 + i)
    for part in (b"env", b"content", body or b""):
        out.write(part)
    return finished(out)


def read(data: bytes) -> record.Record:
    found = read_record(data, 0)
    assert found is not None
    return found


@pytest.mark.parametrize("body", [b"body", b"", None])
def test_a_message_is_read_as_written(body: bytes | None) -> None:
    found = read(message(body))
    assert isinstance(found, Message)
    assert (found.enqueued_ms, found.expires_ms) == (11, -1)
    assert (found.envelope, found.content) == (b"env", b"content")
    assert found.body == body
    assert [(d.queue_id, d.seq, d.lane) for d in found.destinations] == [
        (0xFFFFFFFE, 1 << 40, 255),
        (0xFFFFFFFF, (1 << 40) + 1, 256),
    ]


@pytest.mark.parametrize("count", [1, 2, 1000])
def test_a_message_costs_at_most_48_bytes_and_14_per_destination(count: int) -> None:
    size = len(message(b"body", count))
    assert size == len(b"envcontentbody") + 44 + 14 * count
    assert record.read_u32(message(b"body", count), 0) == size


def test_a_settle_is_read_as_written() -> None:
    out = BytesWriter()
    record.write_settle(out, BATCH, 7, ranges_of([1, 2, 9]))
    found = read(finished(out))
    assert isinstance(found, Settle)
    assert found.queue_id == 7
    assert (found.settled.firsts, found.settled.lasts) == ([1, 9], [2, 9])


def test_a_delivered_is_read_as_written() -> None:
    out = BytesWriter()
    record.write_delivered(out, BATCH, 7, 65535, 12)
    found = read(finished(out))
    assert isinstance(found, Delivered)
    assert (found.queue_id, found.lane, found.upper_seq) == (7, 65535, 12)
    assert found.excepted.firsts == []


def test_a_returned_is_read_as_written() -> None:
    out = BytesWriter()
    record.write_returned(out, BATCH, 7, 12, 0x80000001, -5)
    found = read(finished(out))
    assert isinstance(found, Returned)
    assert (found.queue_id, found.seq) == (7, 12)
    assert (found.delivery_count, found.not_before_ms) == (0x80000001, -5)


def test_an_unknown_record_that_may_be_skipped_is_skipped() -> None:
    data = bytearray(message())
    data[4] = 99
    data[6] |= record.MAY_BE_SKIPPED
    assert read_record(bytes(data), 0) is None


@pytest.mark.parametrize(("at", "value"), [(4, 99), (4, 0), (5, 2)])
def test_an_unknown_record_that_must_not_be_skipped_is_refused(
    at: int, value: int
) -> None:
    data = bytearray(message())
    data[at] = value
    with pytest.raises(RecordUnknown, match="must not skip"):
        read_record(bytes(data), 0)


def test_a_message_whose_parts_exceed_its_length_is_refused() -> None:
    data = bytearray(message())
    data[31] += 200
    with pytest.raises(ValueError, match="do not fit"):
        read_record(bytes(data), 0)


def test_a_message_without_a_body_must_end_with_its_content() -> None:
    data = bytearray(message(None))
    data[35] -= 1
    with pytest.raises(ValueError, match="do not fit"):
        read_record(bytes(data), 0)


def test_ranges_that_do_not_fill_their_record_are_refused() -> None:
    out = BytesWriter()
    record.write_settle(out, BATCH, 7, ranges_of([1]))
    data = bytearray(finished(out))
    data[19] = 2
    with pytest.raises(ValueError, match="ranges"):
        read_record(bytes(data), 0)


@pytest.mark.parametrize("kind", [1, 2, 3, 4])
@pytest.mark.parametrize("size", range(12, 40, 3))
def test_a_record_that_is_too_short_is_refused(kind: int, size: int) -> None:
    data = size.to_bytes(4) + bytes((kind, 1, 0, 0)) + bytes(size - 8)
    try:
        read_record(data, 0)
    except ValueError:
        return
    # What is long enough for its fields may well be valid.
    assert size >= 24
