"""Layout of one record, and how it is read back.

A record is one fact about messages. All numbers are big-endian.

    0  length   u32   of the whole record; 0 is invalid
    4  type     u8    message, settle, delivered, returned
    5  version  u8
    6  flags    u8    1: a reader that does not know the type may skip the record
                      2: (message) a body follows the content
    7  -        u8    0
    8  batch    u32   low half of its batch's number
    12 payload
    .. checksum u32   CRC-32 of all before it, seeded (see batch.py)

    message    enqueued i64, expires i64, envelope size u32, content size u32,
               destinations u32, destinations (queue u32, seq u64, lane u16) ...,
               envelope, content, body
    settle     queue u32, ranges
    delivered  queue u32, lane u16, upper seq u64, ranges that are excepted
    returned   queue u32, seq u64, delivery count u32, not before i64
    ranges     count u32, (first u64, last u64) ...

The checksum stands at the end so that the part before the content is built once
and summed in one call. The batch is what a record that was found by its offset
alone is checked with. A message costs 44 bytes and 14 for each destination.

This module does not know files or batches, nor what envelope, content and body
are.
"""

import struct
from typing import Final, final

from librt.strings import (
    BytesWriter,
    read_i16_be,
    read_i32_be,
    read_i64_be,
    write_i16_be,
    write_i32_be,
    write_i64_be,
)
from mypy_extensions import i16, i32, i64

from store.errors import RecordUnknown
from store.seq_ranges import Ranges

MESSAGE: Final = 1
SETTLE: Final = 2
DELIVERED: Final = 3
RETURNED: Final = 4

VERSION: Final = 1
MAY_BE_SKIPPED: Final = 1
HAS_BODY: Final = 2

HEADER_SIZE: Final = 12
CHECKSUM_SIZE: Final = 4
SIZE_MIN: Final = HEADER_SIZE + CHECKSUM_SIZE
DESTINATION_SIZE: Final = 14
MESSAGE_OVERHEAD: Final = HEADER_SIZE + 28 + CHECKSUM_SIZE
# What stands before a message's destinations, behind the header; and each of them.
_FIXED: Final = struct.Struct(">qqIII")
_DESTINATION: Final = struct.Struct(">IqH")
QUEUE_ID_MAX: Final = 0xFFFFFFFF

# What a queue id, lane or count is read with: librt reads signed numbers.
_U32: Final = 0xFFFFFFFF
_U16: Final = 0xFFFF


def signed32(number: i64) -> i32:
    """Return the signed number with the same 32 bits."""
    return i32(number - ((number & 0x80000000) << 1))


def signed16(number: i64) -> i16:
    """Return the signed number with the same 16 bits."""
    return i16(number - ((number & 0x8000) << 1))


def read_u32(data: bytes, offset: i64) -> i64:
    """Return the unsigned 32-bit number at an offset."""
    return i64(read_i32_be(data, offset)) & _U32


def _write_header(out: BytesWriter, batch: i64, size: i64, kind: i64) -> None:
    write_i32_be(out, signed32(size))
    out.append(kind)
    out.append(VERSION)
    write_i16_be(out, 0)
    write_i32_be(out, signed32(batch & _U32))


def _write_ranges(out: BytesWriter, ranges: Ranges) -> None:
    write_i32_be(out, i32(len(ranges.firsts)))
    for i in range(len(ranges.firsts)):
        write_i64_be(out, ranges.firsts[i])
        write_i64_be(out, ranges.lasts[i])


def write_message_header(
    out: BytesWriter,
    batch: i64,
    enqueued_ms: i64,
    expires_ms: i64,
    envelope: bytes,
    content: bytes,
    body: bytes | None,
    destination_count: i64,
) -> None:
    """Write all of a message record before its destinations."""
    size: i64 = MESSAGE_OVERHEAD + destination_count * DESTINATION_SIZE
    size += len(envelope) + len(content)
    flags: i16 = 0
    if body is not None:
        size += len(body)
        flags = HAS_BODY << 8
    write_i32_be(out, signed32(size))
    write_i16_be(out, (MESSAGE << 8) | VERSION)
    write_i16_be(out, flags)
    write_i32_be(out, signed32(batch & _U32))
    write_i64_be(out, enqueued_ms)
    write_i64_be(out, expires_ms)
    write_i32_be(out, i32(len(envelope)))
    write_i32_be(out, i32(len(content)))
    write_i32_be(out, i32(destination_count))


def write_destination(out: BytesWriter, queue_id: i64, seq: i64, lane: i64) -> None:
    """Write one destination of the message record whose header was just written."""
    write_i32_be(out, signed32(queue_id))
    write_i64_be(out, seq)
    write_i16_be(out, signed16(lane))


def write_settle(out: BytesWriter, batch: i64, queue_id: i64, settled: Ranges) -> None:
    """Write a settle record without its checksum."""
    _write_header(out, batch, SIZE_MIN + 8 + 16 * len(settled.firsts), SETTLE)
    write_i32_be(out, signed32(queue_id))
    _write_ranges(out, settled)


def write_delivered(
    out: BytesWriter, batch: i64, queue_id: i64, lane: i64, upper_seq: i64
) -> None:
    """Write a delivered record (no exceptions) without its checksum."""
    _write_header(out, batch, SIZE_MIN + 18, DELIVERED)
    write_i32_be(out, signed32(queue_id))
    write_i16_be(out, signed16(lane))
    write_i64_be(out, upper_seq)
    write_i32_be(out, 0)


def write_returned(
    out: BytesWriter,
    batch: i64,
    queue_id: i64,
    seq: i64,
    delivery_count: i64,
    not_before_ms: i64,
) -> None:
    """Write a returned record without its checksum."""
    _write_header(out, batch, SIZE_MIN + 24, RETURNED)
    write_i32_be(out, signed32(queue_id))
    write_i64_be(out, seq)
    write_i32_be(out, signed32(delivery_count))
    write_i64_be(out, not_before_ms)


@final
class Destination:
    """One queue's hold on a message."""

    __slots__ = ("lane", "queue_id", "seq")

    def __init__(self, queue_id: i64, seq: i64, lane: i64) -> None:
        self.queue_id = queue_id
        self.seq = seq
        self.lane = lane


@final
class Message:
    """A message record."""

    __slots__ = (
        "body",
        "content",
        "destinations",
        "enqueued_ms",
        "envelope",
        "expires_ms",
    )

    def __init__(
        self,
        enqueued_ms: i64,
        expires_ms: i64,
        destinations: list[Destination],
        envelope: bytes,
        content: bytes,
        body: bytes | None,
    ) -> None:
        self.enqueued_ms = enqueued_ms
        self.expires_ms = expires_ms
        self.destinations = destinations
        self.envelope = envelope
        self.content = content
        self.body = body


@final
class Settle:
    """These seqs of a queue are done with."""

    __slots__ = ("queue_id", "settled")

    def __init__(self, queue_id: i64, settled: Ranges) -> None:
        self.queue_id = queue_id
        self.settled = settled


@final
class Delivered:
    """Every seq of a lane up to this one went to a consumer once, but for some."""

    __slots__ = ("excepted", "lane", "queue_id", "upper_seq")

    def __init__(
        self, queue_id: i64, lane: i64, upper_seq: i64, excepted: Ranges
    ) -> None:
        self.queue_id = queue_id
        self.lane = lane
        self.upper_seq = upper_seq
        self.excepted = excepted


@final
class Returned:
    """A message came back to its queue."""

    __slots__ = ("delivery_count", "not_before_ms", "queue_id", "seq")

    def __init__(
        self, queue_id: i64, seq: i64, delivery_count: i64, not_before_ms: i64
    ) -> None:
        self.queue_id = queue_id
        self.seq = seq
        self.delivery_count = delivery_count
        self.not_before_ms = not_before_ms


Record = Message | Settle | Delivered | Returned


def read_record(data: bytes, start: i64) -> Record | None:
    """Return the record at `start`, whose checksum was found right.

    None is a record that this version may skip.

    Raises:
        RecordUnknown: it may not be skipped.
        ValueError: its parts do not fit its length.
    """
    size = read_u32(data, start)
    kind: i64 = data[start + 4]
    flags: i64 = data[start + 6]
    if data[start + 5] != VERSION or not MESSAGE <= kind <= RETURNED:
        if flags & MAY_BE_SKIPPED:
            return None
        raise RecordUnknown(
            f"the log holds a record of type {kind} version {data[start + 5]}, "
            "which this version does not know and must not skip"
        )
    end = start + size - CHECKSUM_SIZE
    at = start + HEADER_SIZE
    if kind == MESSAGE:
        return _read_message(data, at, end, flags & HAS_BODY != 0)
    if kind == SETTLE:
        return Settle(_number32(data, at, end), _read_ranges(data, at + 4, end))
    if kind == DELIVERED:
        return Delivered(
            _number32(data, at, end),
            i64(read_i16_be(data, at + 4)) & _U16,
            _number64(data, at + 6, end),
            _read_ranges(data, at + 14, end),
        )
    return Returned(
        _number32(data, at, end),
        _number64(data, at + 4, end),
        _number32(data, at + 12, end),
        _number64(data, at + 16, end),
    )


def _number32(data: bytes, at: i64, end: i64) -> i64:
    if at + 4 > end:
        raise ValueError("a record is shorter than its fields")
    return read_u32(data, at)


def _number64(data: bytes, at: i64, end: i64) -> i64:
    if at + 8 > end:
        raise ValueError("a record is shorter than its fields")
    return read_i64_be(data, at)


def _read_ranges(data: bytes, at: i64, end: i64) -> Ranges:
    count = _number32(data, at, end)
    if at + 4 + count * 16 != end:
        raise ValueError("a record's ranges do not fit its length")
    firsts: list[int] = []
    lasts: list[int] = []
    at += 4
    while at < end:
        firsts.append(read_i64_be(data, at))
        lasts.append(read_i64_be(data, at + 8))
        at += 16
    return Ranges(firsts, lasts)


def read_destinations(data: bytes, start: i64) -> list[Destination]:
    """Return only the destinations of the message record at `start`.

    Raises:
        ValueError: its parts do not fit its length.
    """
    end = start + read_u32(data, start) - CHECKSUM_SIZE
    flags: i64 = data[start + 6]
    return _read_destinations(data, start + HEADER_SIZE, end, flags & HAS_BODY != 0)


def _read_destinations(
    data: bytes, at: i64, end: i64, has_body: bool
) -> list[Destination]:
    """Return a message's destinations; `at` is where its payload begins."""
    if at + _FIXED.size > end:
        raise ValueError("a record is shorter than its fields")
    # A start looks at every message of a segment: uncompiled, one call here takes a
    # fifth of the time of reading number by number.
    fields = _FIXED.unpack_from(data, at)
    envelope_size: i64 = fields[2]
    content_size: i64 = fields[3]
    count: i64 = fields[4]
    at += _FIXED.size
    body_at = at + count * DESTINATION_SIZE + envelope_size + content_size
    if body_at > end or (not has_body and body_at != end):
        raise ValueError("a message record's parts do not fit its length")
    destinations: list[Destination] = []
    while count > 0:
        queue_id, seq, lane = _DESTINATION.unpack_from(data, at)
        destinations.append(Destination(queue_id, seq, lane))
        at += DESTINATION_SIZE
        count -= 1
    return destinations


def _read_message(data: bytes, at: i64, end: i64, has_body: bool) -> Message:
    destinations = _read_destinations(data, at, end, has_body)
    envelope_at = at + _FIXED.size + len(destinations) * DESTINATION_SIZE
    content_at = envelope_at + read_u32(data, at + 16)
    body_at = content_at + read_u32(data, at + 20)
    return Message(
        read_i64_be(data, at),
        read_i64_be(data, at + 8),
        destinations,
        data[envelope_at:content_at],
        data[content_at:body_at],
        data[body_at:end] if has_body else None,
    )
