"""Messages that left memory, as the loop sees them.

    step = cold.begin(...)        what is live, and where it lies if only memory knows
    step.run()                    on the reader thread; many are run together, in the
                                  order of the log (`shared_read.py`)
    result = cold.complete(step)  the messages; what is damaged; or why it failed

There are two readers, since each belongs to one thread: that of the reader thread, and
a small one for a single message that is read in place on the loop. A file must stay as
long as a read is in flight that was planned while it was needed; then `forget` lets its
descriptors be closed, by the next step or by one of its own (`begin_forgetting`).

It does not know queues or what messages are.
"""

from typing import Final, final

from mypy_extensions import i64

from store.cold_cache import BLOCK_SIZE
from store.cold_deadlines import DeadlineRead
from store.cold_entries import Room
from store.cold_read import ColdRead, PlannedSpan
from store.cold_reader import ColdReader
from store.cold_records import DamagedMessage
from store.filesystem import FileSystem
from store.index import Index, LiveSpan, SegmentState
from store.segment import name_of
from store.segment_index import ENTRY_SIZE, QueueShare, SegmentIndex
from store.seq_ranges import Ranges
from store.statistics import StoreStatistics
from store.stored_message import Seeds, StoredMessage

# No window takes more, whatever is asked for: what is done for each message without a
# system call in between must end soon.
COUNT_MAX: Final = 4096
SPANS_MAX: Final = 64
# Of what is read alone, a window ends where three quarters of the cache do: the rest is
# for others.
BLOCKS_MAX: Final = 64
_BLOCKS_MIN: Final = 4
_PATHS_MAX: Final = 256

_MIB: Final = 1024 * 1024
_CACHE_SIZE: Final = 8 * _MIB
_NO_LIMIT: Final = 1 << 62

_IN_PLACE_BLOCKS_SIZE: Final = 4 * _MIB
_IN_PLACE_INDEX_SIZE: Final = 3 * _MIB
_IN_PLACE_DESCRIPTORS: Final = 16


@final
class ReadResult:
    """What a cold read found.

    `messages` and `damaged` are all that is live from the first seq asked for to
    `next_seq - 1`, also what was settled a moment ago and not yet durably; `is_end`
    says that there is nothing behind, up to the last seq asked for. With an `error`
    nothing was read, and it may be tried again.
    """

    __slots__ = ("damaged", "error", "is_end", "messages", "next_seq")

    def __init__(
        self,
        messages: list[StoredMessage],
        next_seq: i64,
        is_end: bool,
        damaged: list[DamagedMessage],
        error: Exception | None,
    ) -> None:
        self.messages = messages
        self.next_seq = next_seq
        self.is_end = is_end
        self.damaged = damaged
        self.error = error

    @property
    def damaged_seqs(self) -> list[int]:
        """Return which messages are damaged."""
        return [int(damaged.seq) for damaged in self.damaged]


@final
class ColdStore:
    """Begins cold reads and takes them back; knows which files they need."""

    __slots__ = (
        "_blocks_max",
        "_forgets",
        "_in_place",
        "_in_place_seeds",
        "_index",
        "_is_to_empty",
        "_log",
        "_paths",
        "_reader",
        "_seeds",
        "_statistics",
        "_unread_deadlines",
    )

    def __init__(
        self,
        filesystem: FileSystem,
        log: str,
        quarantine: str,
        store_uuid: bytes,
        index: Index,
        statistics: StoreStatistics,
        cache_size: i64 = _CACHE_SIZE,
    ) -> None:
        self._log = log
        self._index = index
        self._statistics = statistics
        blocks = cache_size * 3 // (4 * BLOCK_SIZE)
        self._blocks_max: i64 = max(_BLOCKS_MIN, min(blocks, BLOCKS_MAX))
        self._reader = ColdReader(filesystem, store_uuid, quarantine, cache_size)
        self._in_place = ColdReader(
            filesystem,
            store_uuid,
            quarantine,
            _IN_PLACE_BLOCKS_SIZE,
            _IN_PLACE_INDEX_SIZE,
            _IN_PLACE_DESCRIPTORS,
            "get",
        )
        self._seeds = Seeds()
        self._in_place_seeds = Seeds()
        # Of segments, by first and last number: most plans are about the same ones.
        self._paths: dict[int, str] = {}
        # Segments whose files are to be closed by the reader.
        self._forgets: list[int] = []
        # Whether the reader is to keep nothing.
        self._is_to_empty = False
        # Segments that a start has found, the oldest last.
        self._unread_deadlines = sorted(index.segments, reverse=True)

    def begin(
        self,
        queue_id: i64,
        first_seq: i64,
        last_seq: i64,
        count_max: i64,
        size_max: i64,
        unwritten: list[SegmentIndex],
        is_in_place: bool,
        ranges: Ranges | None = None,
    ) -> ColdRead:
        """Plan to read what is live in a range of seqs, at most so much of it.

        `unwritten` are the segments whose index files are not on the disk yet. With
        `ranges`, which lie within, nothing else is read.
        """
        count: i64 = max(1, min(count_max, COUNT_MAX))
        step = ColdRead(
            self._in_place if is_in_place else self._reader,
            self._in_place_seeds if is_in_place else self._seeds,
            queue_id,
            first_seq,
            last_seq,
            Room(count, max(1, size_max), self._blocks_max),
        )
        queue = self._index.queues.get(int(queue_id))
        spans: list[LiveSpan] = []
        if queue is not None and ranges is None:
            spans = queue.spans(first_seq, last_seq, count + 1)
        elif queue is not None:
            assert ranges is not None
            step.is_sparse = True
            for first, last in zip(ranges.firsts, ranges.lasts, strict=True):
                if len(spans) <= SPANS_MAX:
                    spans += queue.spans(first, last, count + 1)
        self._plan(step, spans, count, unwritten)
        if not is_in_place:
            step.forgets = self._forgets
            self._forgets = []
        return step

    def _plan(
        self,
        step: ColdRead,
        spans: list[LiveSpan],
        count: i64,
        unwritten: list[SegmentIndex],
    ) -> None:
        planned: list[PlannedSpan] = []
        live: i64 = 0
        for span in spans:
            if live >= count or len(planned) == SPANS_MAX:
                # There is more than is read.
                step.plan(planned, planned[-1].last + 1)
                return
            live += span.live
            planned.append(self._plan_span(span, step.queue_id, count, unwritten))
        step.plan(planned, max(step.next_seq, step.last_seq + 1))

    def _plan_span(
        self, span: LiveSpan, queue_id: i64, count: i64, unwritten: list[SegmentIndex]
    ) -> PlannedSpan:
        segment = self._index.segment(int(span.segment))
        path = self._path(segment)
        planned = PlannedSpan(span, segment.first_number, path, _NO_LIMIT)
        for index in unwritten:
            if index.number == span.segment:
                share = index.find(int(queue_id))
                if share is not None:
                    planned.entries = _entries_of(share, span, count)
                planned.limit = segment.file_size
        return planned

    def _path(self, segment: SegmentState) -> str:
        key = (segment.first_number << 32) | segment.number
        path = self._paths.get(key)
        if path is None:
            if len(self._paths) >= _PATHS_MAX:
                self._paths.clear()
            path = f"{self._log}/{name_of(segment.first_number, segment.number)}"
            self._paths[key] = path
        return path

    def complete(self, step: ColdRead) -> ReadResult:
        """Return what a step found that has run."""
        self._statistics.cold_loads += 1
        self._statistics.cold_bytes += step.bytes_read
        return ReadResult(
            step.messages,
            step.next_seq,
            step.next_seq > step.last_seq,
            step.damaged,
            step.error,
        )

    # -- deadlines

    @property
    def has_deadlines(self) -> bool:
        """Whether there may be deadlines that nobody has read since the start."""
        return len(self._unread_deadlines) > 0

    def begin_deadlines(self) -> DeadlineRead | None:
        """Plan to read the deadlines of the next segment; None when all are read.

        One at a time. Merged files carry the number of their last segment, which is
        read after those that they stand for: so nothing is missed.
        """
        while self._unread_deadlines:
            segment = self._index.segments.get(self._unread_deadlines[-1])
            if segment is not None and segment.references > 0:
                path = f"{self._log}/{name_of(segment.first_number, segment.number)}"
                return DeadlineRead(
                    self._reader, path, segment.first_number, segment.number
                )
            self._unread_deadlines.pop()
        return None

    def complete_deadlines(self, step: DeadlineRead) -> None:
        """Take a step back that has run; one that failed is planned again."""
        if step.error is None:
            self._unread_deadlines.pop()

    # -- files that go

    def forget(self, number: int) -> None:
        """A segment's files are gone: do not keep them open."""
        self._in_place.forget(number)
        self._forgets.append(number)
        self._paths.clear()

    def empty_caches(self) -> None:
        """Nobody reads: keep nothing of what was read; the reader does so in a step."""
        self._in_place.empty()
        self._in_place_seeds.clear()
        self._is_to_empty = True

    def begin_forgetting(self) -> ColdRead | None:
        """Return a step for what is to be forgotten, if there is anything."""
        if not self._forgets and not self._is_to_empty:
            return None
        step = ColdRead(self._reader, self._seeds, 0, 0, -1, Room(0, 0, 0))
        step.forgets = self._forgets
        step.empties = self._is_to_empty
        self._forgets = []
        self._is_to_empty = False
        return step

    @property
    def cached_size(self) -> i64:
        """Return how many bytes are kept for reads to come."""
        return self._reader.cached_size + self._in_place.cached_size

    def close(self) -> None:
        """Close every file; nothing may be in flight."""
        self._reader.close()
        self._in_place.close()


def _entries_of(share: QueueShare, span: LiveSpan, count: i64) -> bytes:
    """Return the entries that a window of a span needs, and a few more.

    Without gaps an entry stands where its seq says; each gap moves those behind it to
    the front.
    """
    gaps = share.last - share.first + 1 - share.count
    begin: i64 = max(0, span.first - share.first - gaps)
    end: i64 = min(share.count, span.last - share.first + 1)
    if span.dead is None:
        end = min(end, span.first - share.first + count)
    return bytes(memoryview(share.entries)[begin * ENTRY_SIZE : end * ENTRY_SIZE])
