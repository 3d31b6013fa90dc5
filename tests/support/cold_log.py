"""A log on a file system in memory, written without a store, to be read back cold.

It writes batches as a store does and tells an `Index` what it wrote; `seal` leaves the
index of a segment beside it. What it appended it knows, to compare with.
"""

import errno
import os
from typing import Final

from librt.strings import BytesWriter

from store.batch import BatchWriter
from store.cold_deadlines import RunDeadlines
from store.cold_read import ColdRead
from store.cold_store import ColdStore, ReadResult
from store.dead_seqs import DeadSeqs
from store.index import Index
from store.segment import HEADER_SIZE, Segment, name_of
from store.segment_index import SegmentIndex, index_path, write_deadline, write_entry
from store.seq_ranges import Ranges
from store.statistics import StoreStatistics
from store.stored_message import StoredMessage
from tests.support.memory_filesystem import MemoryFileSystem

UUID: Final = b"0123456789abcdef"
LOG: Final = "/data/log"
QUARANTINE: Final = "/data/quarantine"
ENVELOPE: Final = b"exchange and key"
EXPIRES_MS: Final = 9


class ColdFileSystem(MemoryFileSystem):
    """Files in memory, some bytes of which cannot be read; it knows what is open."""

    def __init__(self) -> None:
        super().__init__()
        # Reads of this path that touch these offsets fail.
        self.bad_path = ""
        self.bad_offsets = range(0)
        # What lies at these offsets of any file has to be fetched from the disk.
        self.far_offsets = range(0)
        self._paths: dict[int, str] = {}

    def is_open(self, path: str) -> bool:
        return path in self._paths.values()

    def open_for_reading(self, path: str) -> int:
        descriptor = super().open_for_reading(path)
        self._paths[descriptor] = path
        return descriptor

    def close(self, descriptor: int) -> None:
        super().close(descriptor)
        self._paths.pop(descriptor, None)

    def read(self, descriptor: int, size: int, offset: int) -> bytes:
        bad = self.bad_offsets
        if self._paths.get(descriptor) == self.bad_path and (
            offset < bad.stop and bad.start < offset + size
        ):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return super().read(descriptor, size, offset)

    def is_at_hand(self, descriptor: int, size: int, offset: int) -> bool:
        far = self.far_offsets
        return not (offset < far.stop and far.start < offset + size)


class Written:
    """A message as it was appended."""

    def __init__(self, content: bytes, body: bytes | None, envelope: bytes) -> None:
        self.content = content
        self.body = body
        self.envelope = envelope


class Appended:
    """A message that the next batch is to hold, and its (queue, seq)s."""

    def __init__(self, message: Written, keys: list[tuple[int, int]]) -> None:
        self.message = message
        self.keys = keys


# Large enough for what a window may take at most.
CACHE_SIZE: Final = 32 * 1024 * 1024


class ColdLog:
    """Writes segments and reads them back."""

    def __init__(self) -> None:
        self.filesystem = ColdFileSystem()
        self.index = Index()
        self.statistics = StoreStatistics()
        self.cold = self._opened()
        self.written: dict[tuple[int, int], Written] = {}
        # Where each message lies: segment, offset, size.
        self.places: dict[tuple[int, int], tuple[int, int, int]] = {}
        self.number = 0
        self.unwritten: list[SegmentIndex] = []
        self._batch = 0
        self._end = HEADER_SIZE
        self._next_seq: dict[int, int] = {}
        self._waiting: list[Appended] = []
        self.roll()

    # -- writing

    def roll(self, first_number: int | None = None, number: int | None = None) -> None:
        """Begin another segment; the one before keeps its index in memory."""
        self.number = self.number + 1 if number is None else number
        first = self.number if first_number is None else first_number
        self._segment = Segment(self.filesystem, LOG, UUID, first, self.number)
        self._segment.create(0)
        self._end = HEADER_SIZE
        self.unwritten.append(SegmentIndex(first, self.number))
        self.index.adopt_segment(first, self.number, HEADER_SIZE)

    def seal(self) -> None:
        """Leave all indexes beside their segments and begin another segment."""
        for index in self.unwritten:
            self.put_index(index.number, b"".join(index.chunks(UUID)))
        self.unwritten = []
        self.roll()

    def append(
        self,
        *queues: int,
        content: bytes = b"content",
        body: bytes | None = None,
        envelope: bytes = ENVELOPE,
    ) -> None:
        """Append a message to the next batch, with the next seq of each queue."""
        keys = []
        for queue_id in queues:
            seq = self._next_seq.get(queue_id, 1)
            self._next_seq[queue_id] = seq + 1
            keys.append((queue_id, seq))
        message = Written(content, body, envelope)
        self.written.update(dict.fromkeys(keys, message))
        self._waiting.append(Appended(message, keys))

    def skip(self, queue_id: int, count: int = 1) -> None:
        """Let seqs of a queue never be written."""
        self._next_seq[queue_id] = self._next_seq.get(queue_id, 1) + count

    def write(self) -> None:
        """Write what was appended as one batch, and tell the indexes."""
        self._batch += 1
        writer = BatchWriter(self.number, self._batch, self.number, self._end)
        entries: dict[int, list[tuple[int, int, int]]] = {}
        for appended in self._waiting:
            offset = self._end + writer.position
            message = appended.message
            parts = message.envelope, message.content, message.body
            writer.begin_message(7, EXPIRES_MS, *parts, len(appended.keys))
            for queue_id, seq in appended.keys:
                writer.destination(queue_id, seq, queue_id % 3)
            writer.end_message(*parts)
            size = self._end + writer.position - offset
            for queue_id, seq in appended.keys:
                entries.setdefault(queue_id, []).append((seq, offset, size))
                self.places[queue_id, seq] = (self.number, offset, size)
        self._waiting = []
        chunks = writer.finish()
        self._segment.write(chunks, self._end)
        self._segment.sync()
        self._end += writer.size
        for queue_id, rows in entries.items():
            self._tell(queue_id, rows)
        first = self.unwritten[-1].first_number
        self.index.adopt_segment(first, self.number, self._end)

    def _tell(self, queue_id: int, rows: list[tuple[int, int, int]]) -> None:
        out = BytesWriter()
        for row in rows:
            write_entry(out, *row)
        first, last, size = rows[0][0], rows[-1][0], sum(row[2] for row in rows)
        share = self.unwritten[-1].share(queue_id)
        share.add(first, last, len(rows), size, out.getvalue())
        deadlines = BytesWriter()
        for row in rows:
            write_deadline(deadlines, row[0], EXPIRES_MS)
        share.deadlines += deadlines.getvalue()
        seqs = {row[0] for row in rows}
        gaps = [seq for seq in range(first, last) if seq not in seqs]
        self.index.queue(queue_id).add(
            self.index.segment(self.number),
            first,
            last,
            len(rows),
            size,
            Ranges(gaps, gaps),
        )

    def settle(self, queue_id: int, *seqs: int) -> None:
        """Settle messages that were written."""
        ordered = sorted(seqs)
        self.index.queue(queue_id).settle(Ranges(ordered, ordered))

    # -- reading

    def begin(
        self,
        queue_id: int,
        first: int = 1,
        last: int = 1 << 40,
        count: int = 1 << 20,
        size: int = 1 << 40,
        is_in_place: bool = False,
        ranges: Ranges | None = None,
    ) -> ColdRead:
        return self.cold.begin(
            queue_id, first, last, count, size, self.unwritten, is_in_place, ranges
        )

    def read(
        self,
        queue_id: int,
        first: int = 1,
        last: int = 1 << 40,
        count: int = 1 << 20,
        size: int = 1 << 40,
        is_in_place: bool = False,
        ranges: Ranges | None = None,
    ) -> ReadResult:
        """Read one window."""
        step = self.begin(queue_id, first, last, count, size, is_in_place, ranges)
        step.run()
        return self.cold.complete(step)

    def read_all(self, queue_id: int, count: int = 1 << 20) -> list[StoredMessage]:
        """Read a queue to its end, window by window."""
        found: list[StoredMessage] = []
        next_seq, is_end = 1, False
        while not is_end:
            result = self.read(queue_id, next_seq, count=count)
            assert result.error is None
            assert result.next_seq > next_seq
            found += result.messages
            next_seq, is_end = result.next_seq, result.is_end
        return found

    def live(self, queue_id: int) -> list[int]:
        """Return the seqs of a queue that the index calls live."""
        queue = self.index.queue(queue_id)
        return [
            seq
            for owner, seq in self.written
            if owner == queue_id and queue.is_live(seq)
        ]

    def check(self, queue_id: int, messages: list[StoredMessage]) -> None:
        """Compare messages with what was appended, one by one."""
        for message in messages:
            written = self.written[queue_id, message.seq]
            assert message.content == written.content
            assert message.body == written.body
            assert message.envelope == written.envelope
            assert (message.enqueued_ms, message.expires_ms) == (7, 9)
            assert message.lane == queue_id % 3

    def read_deadlines(self) -> list[RunDeadlines]:
        """Read the deadlines that a start has found, all that are left."""
        found: list[RunDeadlines] = []
        while (step := self.cold.begin_deadlines()) is not None:
            step.run()
            assert step.error is None
            self.cold.complete_deadlines(step)
            found += step.runs
        return found

    def forget_caches(self) -> None:
        """Read everything from the disk again, as after a start."""
        self.cold = self._opened()

    def _opened(self) -> ColdStore:
        return ColdStore(
            self.filesystem,
            LOG,
            QUARANTINE,
            UUID,
            self.index,
            self.statistics,
            CACHE_SIZE,
        )

    def put_index(self, number: int, data: bytes) -> None:
        """Leave these bytes as the index of a segment, on the disk too."""
        descriptor = self.filesystem.create(index_path(self.path(number)))
        self.filesystem.write(descriptor, [data], 0)
        self.filesystem.sync(descriptor)
        self.filesystem.close(descriptor)
        self.filesystem.sync_directory(LOG)

    def path(self, number: int) -> str:
        """Return the name of a segment."""
        return f"{LOG}/{name_of(self.index.segment(number).first_number, number)}"


def dead_of(base: int, *seqs: int) -> DeadSeqs:
    """Return dead seqs."""
    dead = DeadSeqs(base, bytearray())
    for seq in seqs:
        dead.add(seq, seq)
    return dead


def seqs_of(messages: list[StoredMessage]) -> list[int]:
    """Return the seqs of messages, in order."""
    return [int(message.seq) for message in messages]
