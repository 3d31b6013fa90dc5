"""Cold reads of many queues at once, in the order in which their messages lie.

Queues that filled together lie interleaved in the log: a window of one of them takes a
message here and there out of megabytes, and so does the window of the next. Read one
after the other, each message costs a look for its block, and blocks are read again when
the queues together are wider than any cache. So the windows of all who stand in line
are selected first, and the log is then read once:

    queue 7   seq 40 @ 64, 41 @ 700 k      stretch 0   7: 40   8: 91, 92   9: 17
    queue 8   seq 91 @ 128, 92 @ 300       stretch 2   7: 41
    queue 9   seq 17 @ 512

A *stretch* is what is wanted of one block's length of a segment, and is read by one
call. Where that is but little, each message is read by a call of its own.

Nothing is judged here. Whatever is not as it should be cuts the read short; one that
has found nothing then is run on its own, and treats it by what it means. `advance` is a
slice of less than a millisecond between two of which others may have the interpreter.
It does not know queues beyond their ids.
"""

from typing import Final, final

from librt.strings import BytesWriter, read_i64_be, write_i32_be, write_i64_be
from mypy_extensions import i32, i64, mypyc_attr

from store.cold_cache import BLOCK_BITS, BLOCK_SIZE
from store.cold_entries import OFFSET_AT, SIZE_AT, Selection
from store.cold_read import ColdRead, PlannedSpan
from store.cold_reader import ColdFile
from store.record import read_u32, signed32
from store.segment_index import ENTRY_SIZE, read_seq
from store.stored_message import Lookup

# Messages that are selected in one slice, and one more window.
_SELECTED_MAX: Final = 2_000

# A wanted record: whose it is u32, seq u64, offset u32, size u32.
_WANTED_SIZE: Final = 20


@final
@mypyc_attr(acyclic=True)
class Stretch:
    """What is wanted of one block's length of a segment."""

    __slots__ = ("data", "end", "out", "size", "start")

    def __init__(self, start: i64) -> None:
        self.start = start
        self.end = start
        # Bytes of the records.
        self.size: i64 = 0
        self.out = BytesWriter()
        # None: each record is read alone.
        self.data: bytes | None = None

    def add(self, share: i64, seq: i64, offset: i64, size: i64) -> None:
        """Want a record that begins in the block."""
        self.start = min(self.start, offset)
        self.end = max(self.end, offset + size)
        self.size += size
        out = self.out
        write_i32_be(out, i32(share))
        write_i64_be(out, seq)
        write_i32_be(out, signed32(offset))
        write_i32_be(out, i32(size))


@final
class SharedSegment:
    """What is wanted of one segment, by block."""

    __slots__ = ("file", "stretches")

    def __init__(self, file: ColdFile) -> None:
        self.file = file
        # One a block; None: nothing is wanted of it.
        self.stretches: list[Stretch | None] = []

    def stretch(self, offset: i64) -> Stretch:
        """Return the stretch of the block that a record begins in."""
        number = offset >> BLOCK_BITS
        stretches = self.stretches
        while number >= len(stretches):
            stretches.append(None)
        found = stretches[number]
        if found is None:
            found = Stretch(offset)
            stretches[number] = found
        return found


@final
class Share:
    """One read's part in one segment."""

    __slots__ = ("lookup", "read")

    def __init__(self, read: ColdRead, lookup: Lookup) -> None:
        self.read = read
        self.lookup = lookup


@final
class SharedRead:
    """Runs reads of one log together: call `advance` until it returns False."""

    __slots__ = (
        "_alone",
        "_count",
        "_line",
        "_reader",
        "_reads",
        "_segments",
        "_selected",
        "_shares",
    )

    def __init__(self, reads: list[ColdRead]) -> None:
        """Begin to run reads, at least one, that go through the same reader."""
        self._reader = reads[0].reader
        self._reads = reads
        self._selected: i64 = 0
        # Of what is done in one slice.
        self._count: i64 = 0
        self._segments: dict[int, SharedSegment] = {}
        self._shares: list[Share] = []
        # Stretches that are still to be read, the first one last.
        self._line: list[tuple[ColdFile, Stretch]] = []
        self._alone: list[ColdRead] = []

    def advance(self) -> bool:
        """Read some more; return whether there is more. Blocks, raises nothing."""
        if self._selected < len(self._reads):
            self._select_some()
            if self._selected >= len(self._reads):
                self._stand_in_line()
        elif self._line:
            file, stretch = self._line.pop()
            self._read(file, stretch)
            if not self._line:
                self._find_cut()
        else:
            self._alone.pop().run()
        return bool(self._line or self._alone) or self._selected < len(self._reads)

    # -- what is wanted

    def _select_some(self) -> None:
        self._count = 0
        while self._selected < len(self._reads) and self._count < _SELECTED_MAX:
            read = self._reads[self._selected]
            self._selected += 1
            self._count += 1
            try:
                read.forget_files()
                self._select(read)
            except Exception:  # noqa: BLE001 - on its own, the read says what it is
                read.cut(read.next_seq)

    def _select(self, read: ColdRead) -> None:
        """Find where a window lies; what it will have read is what it has by then."""
        room = read.room.copy()
        for span in read.spans:
            seq: i64 = max(read.next_seq, span.first)
            read.next_seq = seq
            if room.is_empty:
                return
            segment = self._segment(span)
            entries = span.entries
            if entries is None:
                entries = self._reader.entries(segment.file, read.queue_id)
            if entries is None:
                read.cut(seq)
                return
            selection = Selection(entries, room, False)
            selection.run(seq, span.last, span.dead)
            taken = selection.taken
            if selection.missing or not self._want(read, span, segment, taken, seq):
                read.cut(seq)
                return
            read.next_seq = selection.next_seq
            if read.next_seq <= span.last:
                return
            if not read.is_sparse:
                self._reader.drop_entries(segment.file, read.queue_id)
        read.next_seq = read.end_seq

    def _segment(self, span: PlannedSpan) -> SharedSegment:
        found = self._segments.get(span.number)
        if found is None:
            file = self._reader.file(span.path, span.first_number, span.number)
            found = SharedSegment(file)
            self._segments[span.number] = found
        return found

    def _want(
        self,
        read: ColdRead,
        span: PlannedSpan,
        segment: SharedSegment,
        taken: bytes,
        first: i64,
    ) -> bool:
        """Want what was selected; False, and nothing is, if a record is too large."""
        at: i64 = 0
        while at < len(taken):
            if read_u32(taken, at + SIZE_AT) > BLOCK_SIZE:
                return False
            at += ENTRY_SIZE
        share: i64 = len(self._shares)
        self._shares.append(Share(read, read.lookup_in(span.number)))
        self._count += len(taken) // ENTRY_SIZE
        at = 0
        while at < len(taken):
            offset = read_u32(taken, at + OFFSET_AT)
            segment.stretch(offset).add(
                share,
                read_seq(taken, at, first),
                offset,
                read_u32(taken, at + SIZE_AT),
            )
            at += ENTRY_SIZE
        return True

    def _stand_in_line(self) -> None:
        for number in sorted(self._segments, reverse=True):
            segment = self._segments[number]
            for stretch in reversed(segment.stretches):
                if stretch is not None:
                    self._line.append((segment.file, stretch))
        # What has been read of a stretch goes with it.
        self._segments = {}
        if not self._line:
            self._find_cut()

    # -- what is there

    def _read(self, file: ColdFile, stretch: Stretch) -> None:
        reader = self._reader
        before = reader.bytes_read
        try:
            stretch.data = reader.read_stretch(
                file, stretch.start, stretch.end, stretch.size
            )
        except Exception:  # noqa: BLE001 - on its own, each read says what it is
            # Then no record is found in it.
            stretch.data = b""
        wanted = stretch.out.getvalue()
        at: i64 = 0
        while at < len(wanted):
            share = self._shares[read_u32(wanted, at)]
            if not share.read.is_cut:
                seq = read_i64_be(wanted, at + 4)
                offset = read_u32(wanted, at + 12)
                size = read_u32(wanted, at + 16)
                if not self._take(share, file, stretch, seq, offset, size):
                    share.read.cut(seq)
            at += _WANTED_SIZE
        self._reads[0].bytes_read += reader.bytes_read - before

    def _take(
        self,
        share: Share,
        file: ColdFile,
        stretch: Stretch,
        seq: i64,
        offset: i64,
        size: i64,
    ) -> bool:
        """Take a record if it is what was written."""
        try:
            data = stretch.data
            start = offset - stretch.start
            if data is None:
                data = self._reader.read(file, size, offset)
                start = 0
            message = share.lookup.find(data, start, size, seq)
            if message is None:
                return False
            share.read.messages.append(message)
        except Exception:  # noqa: BLE001 - on its own, the read says what it is
            return False
        return True

    def _find_cut(self) -> None:
        """Who was cut before the first message is run alone."""
        for read in self._reads:
            if read.is_cut and not read.messages:
                read.begin_anew()
                self._alone.append(read)
