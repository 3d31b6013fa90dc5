"""A message as it is read back: found in a block, checked, taken apart.

    block   [... | head, destinations | envelope | content | body | checksum | ...]

All of that is done where the block was read, message by message. The content and the
body are cut out of the block once, and what was cut out is what is checked: so there is
one copy of them, and the block need not stay. An envelope like the one before is that
one.

A record is checked for its checksum, for parts that fit its length, and for being
what it is looked up as: a message of this queue with this seq.
"""

from collections.abc import Callable
from typing import Final, final

from librt.strings import read_i16_be, read_i64_be
from mypy_extensions import i64, mypyc_attr

from store import record
from store.batch import seed_of
from store.checksum import crc32
from store.record import CHECKSUM_SIZE, DESTINATION_SIZE, read_u32

# What is wrong with a record that is not what was looked up.
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

# Below, one more copy is cheaper than to compute the checksum part by part.
_PARTED_FROM: Final = 512
_SEEDS_MAX: Final = 4096
_U16: Final = 0xFFFF


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

    def clear(self) -> None:
        """Keep none."""
        self._known.clear()


@final
class Lookup:
    """Records of one segment, looked up for one queue."""

    __slots__ = (
        "_checksum_of",
        "_envelope",
        "_queue_id",
        "_seeds",
        "_segment",
        "destination_count",
        "wrong",
    )

    def __init__(self, seeds: Seeds, segment: i64, queue_id: i64) -> None:
        # Found here faster than among the names of the module.
        self._checksum_of: Callable[[bytes, int], int] = crc32
        self._seeds = seeds
        self._segment = segment
        self._queue_id = queue_id
        # Of the message before.
        self._envelope = b""
        # Of the record that was looked at last: how many destinations it has, and what
        # is wrong with it if it is not what was looked up.
        self.destination_count: i64 = 1
        self.wrong: i64 = DAMAGED

    def find(
        self, data: bytes, start: i64, size: i64, seq: i64
    ) -> StoredMessage | None:
        """Return the message of a record; None: it is not what was written there."""
        self.wrong = DAMAGED
        if not is_head(data, start, size) or start + size > len(data):
            return None
        end = start + size - CHECKSUM_SIZE
        body_at = start + body_offset(data, start)
        content_at = body_at - read_u32(data, start + CONTENT_SIZE_AT)
        content = data[content_at:body_at]
        has_body = data[start + FLAGS_AT] & record.HAS_BODY != 0
        body = data[body_at:end] if has_body else None
        found = self.seed(data, start)
        if size < _PARTED_FROM:
            found = self._checksum_of(data[start:end], found)
        else:
            found = self._checksum_of(data[start:content_at], found)
            found = self._checksum_of(content, found)
            if body is not None:
                found = self._checksum_of(body, found)
        if found != read_u32(data, end):
            return None
        lane = self.lane_at(data, start, seq)
        if lane < 0:
            self.wrong = ANOTHER
            return None
        return self.message(data, start, seq, lane, content, body)

    def message(
        self,
        data: bytes,
        start: i64,
        seq: i64,
        lane: i64,
        content: bytes,
        body: bytes | None,
    ) -> StoredMessage:
        """Return the message of a sound record, whose large parts were cut out.

        Of the record, all that stands before the content must be in `data`.
        """
        at = start + envelope_offset(data, start)
        envelope = data[at : at + read_u32(data, start + ENVELOPE_SIZE_AT)]
        if envelope == self._envelope:
            envelope = self._envelope
        else:
            self._envelope = envelope
        return StoredMessage(
            seq,
            lane,
            envelope,
            content,
            body,
            read_i64_be(data, start + ENQUEUED_AT),
            read_i64_be(data, start + EXPIRES_AT),
        )

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
