"""A message as it is read back: found in a block, checked, taken apart.

The check is made where the block was read, message by message; what it leaves are
places (which block, from where, which seq, which lane), packed into bytes, that cross
to the loop as they are. There the message is taken apart: its envelope, content and
body are cut out of the block once, and an envelope like the one before is that one.

A record is checked for its checksum, for parts that fit its length, and for being
what it is looked up as: a message of this queue with this seq.
"""

from typing import Final, final

from librt.strings import (
    BytesWriter,
    read_i16_be,
    read_i64_be,
    write_i32_be,
    write_i64_be,
)
from mypy_extensions import i32, i64, mypyc_attr

from store import record
from store.batch import seed_of
from store.checksum import crc32
from store.record import CHECKSUM_SIZE, DESTINATION_SIZE, read_u32

# What `Lookup.lane_in` says of a record that is not what was looked up.
DAMAGED: Final = -1
ANOTHER: Final = -2

# Offsets in a message record.
TYPE_AT: Final = 4
VERSION_AT: Final = 5
FLAGS_AT: Final = 6
BATCH_AT: Final = 8
ENQUEUED_AT: Final = record.HEADER_SIZE
EXPIRES_AT: Final = ENQUEUED_AT + 8
ENVELOPE_SIZE_AT: Final = EXPIRES_AT + 8
CONTENT_SIZE_AT: Final = ENVELOPE_SIZE_AT + 4
COUNT_AT: Final = CONTENT_SIZE_AT + 4
DESTINATIONS_AT: Final = COUNT_AT + 4

# Below, a copy is cheaper than a view of the bytes.
_VIEWED_FROM: Final = 4096
_SEEDS_MAX: Final = 4096
_U16: Final = 0xFFFF

_PLACE_SIZE: Final = 20
# In a place: the message stands in the list of those that were taken apart already.
_APART: Final = -1


@final
@mypyc_attr(acyclic=True)
class StoredMessage:
    """A message of one queue that was read back."""

    __slots__ = (
        "body",
        "content",
        "enqueued_ms",
        "envelope",
        "expires_ms",
        "lane",
        "seq",
    )

    def __init__(
        self,
        seq: i64,
        lane: i64,
        envelope: bytes,
        content: bytes,
        body: bytes | None,
        enqueued_ms: i64,
        expires_ms: i64,
    ) -> None:
        self.seq = seq
        self.lane = lane
        self.envelope = envelope
        self.content = content
        self.body = body
        self.enqueued_ms = enqueued_ms
        self.expires_ms = expires_ms


@final
class Seeds:
    """What checksums start with, by segment and batch.

    It is asked for every record, mostly of a batch that was asked for before.
    """

    __slots__ = ("_key", "_known", "_seed")

    def __init__(self) -> None:
        self._key: i64 = -1
        self._seed: int = 0
        self._known: dict[int, int] = {}

    def of(self, segment: i64, batch: i64) -> int:
        """Return the seed of a batch, of which the low half of its number is given."""
        key = (segment << 32) | batch
        if key == self._key:
            return self._seed
        seed = self._known.get(key)
        if seed is None:
            if len(self._known) >= _SEEDS_MAX:
                self._known.clear()
            seed = seed_of(segment, batch)
            self._known[key] = seed
        self._key = key
        self._seed = seed
        return seed


@final
class Lookup:
    """Records of one segment, looked up for one queue."""

    __slots__ = ("_queue_id", "_seeds", "_segment", "destination_count")

    def __init__(self, seeds: Seeds, segment: i64, queue_id: i64) -> None:
        self._seeds = seeds
        self._segment = segment
        self._queue_id = queue_id
        # Of the record that was looked at last.
        self.destination_count: i64 = 1

    def lane_in(self, data: bytes, start: i64, size: i64, seq: i64) -> i64:
        """Return the lane of a message in a sound record; DAMAGED or ANOTHER if not."""
        if not is_head(data, start, size) or start + size > len(data):
            return DAMAGED
        end = start + size - CHECKSUM_SIZE
        seed = self.seed(data, start)
        if size < _VIEWED_FROM:
            found = crc32(data[start:end], seed)
        else:
            found = crc32(memoryview(data)[start:end], seed)
        if found != read_u32(data, end):
            return DAMAGED
        return self.lane_at(data, start, seq)

    def seed(self, data: bytes, start: i64) -> int:
        """Return what the checksum of the record starts with."""
        return self._seeds.of(self._segment, read_u32(data, start + BATCH_AT))

    def lane_at(self, data: bytes, start: i64, seq: i64) -> i64:
        """Return the lane in which a message goes to the queue with this seq."""
        self.destination_count = read_u32(data, start + COUNT_AT)
        at = start + DESTINATIONS_AT
        end = at + self.destination_count * DESTINATION_SIZE
        while at < end:
            is_queue = read_u32(data, at) == self._queue_id
            if is_queue and read_i64_be(data, at + 4) == seq:
                return i64(read_i16_be(data, at + 12)) & _U16
            at += DESTINATION_SIZE
        return ANOTHER


def is_head(data: bytes, start: i64, size: i64) -> bool:
    """Say whether a message record of this size can begin there.

    Of the record, the part before the destinations must be in `data`.
    """
    if start + DESTINATIONS_AT > len(data) or size < record.MESSAGE_OVERHEAD:
        return False
    if read_u32(data, start) != size or data[start + TYPE_AT] != record.MESSAGE:
        return False
    body_at = body_offset(data, start)
    end = size - CHECKSUM_SIZE
    if body_at > end or data[start + VERSION_AT] != record.VERSION:
        return False
    return body_at == end or data[start + FLAGS_AT] & record.HAS_BODY != 0


def envelope_offset(data: bytes, start: i64) -> i64:
    """Return where the envelope begins, from the start of the record."""
    return DESTINATIONS_AT + read_u32(data, start + COUNT_AT) * DESTINATION_SIZE


def body_offset(data: bytes, start: i64) -> i64:
    """Return where the content ends, from the start of the record."""
    return (
        envelope_offset(data, start)
        + read_u32(data, start + ENVELOPE_SIZE_AT)
        + read_u32(data, start + CONTENT_SIZE_AT)
    )


def message_of(
    head: bytes, seq: i64, lane: i64, content: bytes, body: bytes | None
) -> StoredMessage:
    """Return the message of a record whose large parts were read on their own."""
    envelope_at = envelope_offset(head, 0)
    return StoredMessage(
        seq,
        lane,
        head[envelope_at : envelope_at + read_u32(head, ENVELOPE_SIZE_AT)],
        content,
        body,
        read_i64_be(head, ENQUEUED_AT),
        read_i64_be(head, EXPIRES_AT),
    )


@final
class Places:
    """Where the messages of a read are: what crosses from the reader to the loop."""

    __slots__ = ("_apart", "_blocks", "_out", "count")

    def __init__(self) -> None:
        self._blocks: list[bytes] = []
        self._apart: list[StoredMessage] = []
        self._out = BytesWriter()
        self.count: i64 = 0

    def add(self, data: bytes, start: i64, seq: i64, lane: i64) -> None:
        """Add a sound record that lies in `data`."""
        blocks = self._blocks
        if not blocks or blocks[-1] is not data:
            blocks.append(data)
        self._write(len(blocks) - 1, start, seq, lane)

    def add_apart(self, message: StoredMessage) -> None:
        """Add a message that was read in parts."""
        self._apart.append(message)
        self._write(_APART, len(self._apart) - 1, message.seq, message.lane)

    def _write(self, block: i64, start: i64, seq: i64, lane: i64) -> None:
        out = self._out
        write_i32_be(out, i32(block))
        write_i32_be(out, i32(start))
        write_i64_be(out, seq)
        write_i32_be(out, i32(lane))
        self.count += 1

    def messages(self) -> list[StoredMessage]:
        """Take the messages apart, in order."""
        places = self._out.getvalue()
        found: list[StoredMessage] = []
        envelope = b""
        at: i64 = 0
        while at < len(places):
            block = read_u32(places, at)
            start = read_u32(places, at + 4)
            if block == _APART & 0xFFFFFFFF:
                found.append(self._apart[start])
            else:
                message = _take_apart(
                    self._blocks[block],
                    start,
                    read_i64_be(places, at + 8),
                    read_u32(places, at + 16),
                    envelope,
                )
                envelope = message.envelope
                found.append(message)
            at += _PLACE_SIZE
        return found


def _take_apart(
    data: bytes, start: i64, seq: i64, lane: i64, envelope_before: bytes
) -> StoredMessage:
    envelope_at = start + envelope_offset(data, start)
    content_at = envelope_at + read_u32(data, start + ENVELOPE_SIZE_AT)
    body_at = content_at + read_u32(data, start + CONTENT_SIZE_AT)
    envelope = data[envelope_at:content_at]
    if envelope == envelope_before:
        envelope = envelope_before
    body: bytes | None = None
    if data[start + FLAGS_AT] & record.HAS_BODY:
        body = data[body_at : start + read_u32(data, start) - CHECKSUM_SIZE]
    return StoredMessage(
        seq,
        lane,
        envelope,
        data[content_at:body_at],
        body,
        read_i64_be(data, start + ENQUEUED_AT),
        read_i64_be(data, start + EXPIRES_AT),
    )
