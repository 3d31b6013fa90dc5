"""The records of one span, found in blocks by their entries and checked.

    blocks     0 [..... 40 .. 41 ... 4]   1 [2 ........]
    messages   40, 41 from block 0; 42 from a joint of its own

A record that spans two blocks is joined from them; one larger than a block is read by
calls of its own, part by part, so that its content and body are never copied. A record
that fails its check is read once more past the cache before that is believed.
"""

from typing import Final, final

from mypy_extensions import i64

from store.checksum import crc32
from store.cold_cache import BLOCK_BITS, BLOCK_SIZE, WantedBlock
from store.cold_entries import OFFSET_AT, SIZE_AT, Selection
from store.cold_reader import ColdFile, ColdReader
from store.record import CHECKSUM_SIZE, HAS_BODY, read_u32
from store.segment_index import ENTRY_SIZE, read_seq
from store.stored_message import (
    CONTENT_SIZE_AT,
    DAMAGED,
    ENVELOPE_SIZE_AT,
    FLAGS_AT,
    Lookup,
    StoredMessage,
    body_offset,
    envelope_offset,
    is_head,
)

# Destinations and envelope of a large message are mostly within so many bytes.
_HEAD_SIZE: Final = 4096


@final
class DamagedMessage:
    """A message that is not what was written, or is not there."""

    __slots__ = ("is_saved", "report", "seq")

    def __init__(self, seq: i64, report: str, is_saved: bool) -> None:
        self.seq = seq
        self.report = report
        # Whether the log can do without it: what there is of it was saved aside.
        self.is_saved = is_saved


@final
class ColdRecords:
    """Takes what was selected of a span; not all of its blocks need be there."""

    __slots__ = (
        "_damaged",
        "_file",
        "_lookup",
        "_messages",
        "_reader",
        "count",
        "is_astray",
        "next_seq",
        "size",
    )

    def __init__(
        self,
        reader: ColdReader,
        file: ColdFile,
        lookup: Lookup,
        messages: list[StoredMessage],
        damaged: list[DamagedMessage],
    ) -> None:
        self._reader = reader
        self._file = file
        self._lookup = lookup
        self._messages = messages
        self._damaged = damaged
        # What was taken, and where it would go on.
        self.count: i64 = 0
        self.size: i64 = 0
        self.next_seq: i64 = 0
        # Whether an entry does not lead to its message.
        self.is_astray = False

    def take(self, selection: Selection, first: i64, is_sure: bool) -> bool:
        """Take the records; False if not all of them were.

        Either a block is not there, or an entry leads astray and is not `is_sure`.

        Raises:
            OSError: a record that is read on its own cannot be.
        """
        entries = selection.taken
        wanted = selection.wanted
        self.next_seq = first
        cursor: i64 = 0
        at: i64 = 0
        while at < len(entries):
            seq = read_seq(entries, at, first)
            offset = read_u32(entries, at + OFFSET_AT)
            size = read_u32(entries, at + SIZE_AT)
            self.next_seq = seq
            if size > BLOCK_SIZE:
                is_taken = self._take_large(seq, offset, size)
            else:
                while wanted[cursor].number < offset >> BLOCK_BITS:
                    cursor += 1
                last = cursor + ((offset + size - 1) >> BLOCK_BITS)
                if not wanted[last - (offset >> BLOCK_BITS)].is_read:
                    return False
                is_taken = self._take(seq, offset, size, wanted, cursor)
            if not is_taken and not self._take_again(seq, offset, size, is_sure):
                self.is_astray = True
                return False
            self.count += 1
            self.size += size
            at += ENTRY_SIZE
        self.next_seq = selection.next_seq
        self.report_missing(selection)
        return True

    def report_missing(self, selection: Selection) -> None:
        """Report those of the selection's missing messages that were passed."""
        for seq in selection.missing:
            if seq < self.next_seq:
                self._report_missing(seq)

    def _take(
        self, seq: i64, offset: i64, size: i64, wanted: list[WantedBlock], at: i64
    ) -> bool:
        """Take a record that begins in the block of an index."""
        data = wanted[at].data
        place = offset & (BLOCK_SIZE - 1)
        start = place - wanted[at].base
        rest = wanted[at + 1].data if place + size > BLOCK_SIZE else data
        if not data or not rest:
            # What is wanted of a block lies too far apart.
            data = self._reader.read(self._file, size, offset)
            start = 0
        elif place + size > BLOCK_SIZE:
            data = data[start:] + rest[: place + size - BLOCK_SIZE]
            start = 0
        message = self._lookup.find(data, start, size, seq)
        if message is None:
            return False
        wanted[at].sharers = self._lookup.destination_count
        self._messages.append(message)
        return True

    def _take_large(self, seq: i64, offset: i64, size: i64) -> bool:
        reader = self._reader
        head = reader.read(self._file, _HEAD_SIZE, offset)
        if not is_head(head, 0, size):
            return False
        content_at = envelope_offset(head, 0) + read_u32(head, ENVELOPE_SIZE_AT)
        if content_at > len(head):
            head = reader.read(self._file, content_at, offset)
        content_size = read_u32(head, CONTENT_SIZE_AT)
        content = reader.read(self._file, content_size, offset + content_at)
        body_at = body_offset(head, 0)
        end = size - CHECKSUM_SIZE
        body: bytes | None = None
        checksum = crc32(head[:content_at], self._lookup.seed(head, 0))
        checksum = crc32(content, checksum)
        if head[FLAGS_AT] & HAS_BODY:
            body = reader.read(self._file, end - body_at, offset + body_at)
            checksum = crc32(body, checksum)
        tail = reader.read(self._file, CHECKSUM_SIZE, offset + end)
        if len(tail) < CHECKSUM_SIZE or checksum != read_u32(tail, 0):
            return False
        lane = self._lookup.lane_at(head, 0, seq)
        if lane < 0:
            return False
        message = self._lookup.message(head, 0, seq, lane, content, body)
        self._messages.append(message)
        return True

    def _take_again(self, seq: i64, offset: i64, size: i64, is_sure: bool) -> bool:
        """Take a record that failed, past the cache; or believe it, if that is sure."""
        data = self._reader.read(self._file, size, offset)
        message = self._lookup.find(data, 0, size, seq)
        if message is not None:
            self._reader.drop_blocks(self._file, offset, size)
            self._messages.append(message)
            return True
        if not is_sure:
            return False
        if self._lookup.wrong == DAMAGED:
            report, is_saved = self._reader.put_aside(self._file, offset, data)
            self._damaged.append(DamagedMessage(seq, report, is_saved))
        else:
            self._report_missing(seq)
        return True

    def _report_missing(self, seq: i64) -> None:
        number = self._file.number
        report = f"segment {number} does not have message {seq} that it should have"
        self._damaged.append(DamagedMessage(seq, report, True))
