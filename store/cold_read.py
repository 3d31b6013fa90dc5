"""A cold read: messages that left memory are read back, a window at a time.

    plan     on the loop: which seqs of which segments are live (`cold_store.py`)
    run      on the reader thread: entries, blocks, records, and what they are made of;
             on the loop if all of that is in memory (`run_at_once`)
    take     back on the loop: the messages (`stored_message.py`)

A window ends where its count, its size or the number of blocks it touches does:
queues that drain together share blocks, and a window that is wider than the cache
would push out what the next queue needs. `next_seq` says how far it came.

What is wrong is treated by what it means. A read that fails is an error, and nothing
is lost by trying again. An index that is missing or does not lead to the messages is
made again. A record that is not what was written is put into quarantine, its message
reported, and everything else goes on.
"""

from typing import final

from mypy_extensions import i64, mypyc_attr

from store.cold_entries import Room, Selection, are_within
from store.cold_reader import ColdFile, ColdReader
from store.cold_records import ColdRecords, DamagedMessage
from store.dead_seqs import DeadSeqs
from store.filesystem import NotAtHand
from store.index import LiveSpan
from store.index_rebuild import IndexRebuild
from store.stored_message import Lookup, Seeds, StoredMessage


@final
@mypyc_attr(acyclic=True)
class PlannedSpan:
    """A stretch of a queue's seqs in one segment, and what the loop knows of it."""

    __slots__ = (
        "dead",
        "entries",
        "first",
        "first_number",
        "last",
        "limit",
        "number",
        "path",
    )

    def __init__(
        self, span: LiveSpan, first_number: i64, path: str, limit: i64
    ) -> None:
        self.first = span.first
        self.last = span.last
        self.dead: DeadSeqs | None = span.dead
        self.number = span.segment
        self.first_number = first_number
        self.path = path
        # How far the file is written.
        self.limit = limit
        # Only of a segment whose index file is not written yet.
        self.entries: bytes | None = None


@final
class ColdRead:
    """One window: call `run` once, then hand it to `complete`."""

    __slots__ = (
        "_first_seq",
        "_lookup",
        "_seeds",
        "bytes_read",
        "damaged",
        "empties",
        "end_seq",
        "epoch",
        "error",
        "forgets",
        "is_cut",
        "is_sparse",
        "last_seq",
        "messages",
        "next_seq",
        "queue_id",
        "reader",
        "room",
        "spans",
    )

    def __init__(
        self,
        reader: ColdReader,
        seeds: Seeds,
        queue_id: i64,
        first_seq: i64,
        last_seq: i64,
        room: Room,
    ) -> None:
        self.reader = reader
        self._seeds = seeds
        self._lookup = Lookup(seeds, 0, queue_id)
        self.room = room
        self._first_seq = first_seq
        # Where the spans end, and with them what this read may know.
        self.end_seq: i64 = first_seq
        self.queue_id = queue_id
        self.last_seq = last_seq
        self.next_seq = first_seq
        self.spans: list[PlannedSpan] = []
        # Segments whose files are to be closed first, and whether nothing is to be
        # kept of what was read.
        self.forgets: list[int] = []
        self.empties = False
        self.messages: list[StoredMessage] = []
        self.damaged: list[DamagedMessage] = []
        self.error: Exception | None = None
        self.bytes_read: i64 = 0
        # Whether more of the same segments will be read later.
        self.is_sparse = False
        # Whether it was read with others and ended early (`shared_read.py`).
        self.is_cut = False
        # For whoever must know which reads are in flight.
        self.epoch: i64 = 0

    def plan(self, spans: list[PlannedSpan], end_seq: i64) -> None:
        """Read these spans; there is nothing else below `end_seq`."""
        self.spans = spans
        self.end_seq = end_seq

    def run(self) -> None:
        """Read; blocks, raises nothing."""
        self._run()

    def run_at_once(self) -> bool:
        """Read as far as all is in memory; False: not to the end, `run` goes on.

        Nobody else may use the reader meanwhile. Takes as long as it takes to copy and
        check the window, raises nothing.
        """
        if self.forgets:
            return False
        self.reader.may_wait = False
        is_at_end = self._run()
        self.reader.may_wait = True
        return is_at_end

    def _run(self) -> bool:
        reader = self.reader
        before = reader.bytes_read
        is_at_end = True
        try:
            self.forget_files()
            self._read_spans()
        except NotAtHand:
            is_at_end = False
        except Exception as exc:  # noqa: BLE001 - complete() tells, on the loop
            if self.next_seq == self._first_seq:
                self.error = exc
            # Else it is met again, by a read that begins with it.
        self.bytes_read += reader.bytes_read - before
        return is_at_end

    def forget_files(self) -> None:
        """Close files and empty caches, where that is to be done first."""
        for number in self.forgets:
            self.reader.forget(number)
        self.forgets = []
        if self.empties:
            self.empties = False
            self.reader.empty()
            self._seeds.clear()

    def lookup_in(self, segment: i64) -> Lookup:
        """Return how its records are looked up in a segment."""
        return Lookup(self._seeds, segment, self.queue_id)

    def cut(self, seq: i64) -> None:
        """Read with others, it goes no further than to this seq."""
        self.is_cut = True
        self.next_seq = seq

    def begin_anew(self) -> None:
        """Be as if nothing had been read; nothing was found."""
        self.is_cut = False
        self.next_seq = self._first_seq

    def _read_spans(self) -> None:
        for span in self.spans:
            file = self.reader.file(span.path, span.first_number, span.number)
            self._lookup = self.lookup_in(span.number)
            self.next_seq = max(self.next_seq, span.first)
            while self.next_seq <= span.last:
                if self.room.is_empty:
                    return
                self._read_span(span, file)
        self.next_seq = self.end_seq

    def _read_span(self, span: PlannedSpan, file: ColdFile) -> None:
        """Read as far as there is room, or until the entries turn out to be wrong."""
        entries = span.entries
        if entries is None:
            entries = self.reader.entries(file, self.queue_id)
        if entries is not None:
            selection = Selection(entries, self.room.copy())
            selection.run(self.next_seq, span.last, span.dead)
            is_sure = span.entries is not None or file.is_sure(self.queue_id)
            is_fit = is_sure or not selection.missing
            if is_fit and self._take(span, file, selection, is_sure):
                return
        self._compare(file, entries)

    def _compare(self, file: ColdFile, entries: bytes | None) -> None:
        """Make the index again; use it, unless it knows no better.

        Where a segment is damaged, an index that is not still leads to messages that
        no walk through the segment finds.
        """
        self.reader.expect_to_wait()
        index = IndexRebuild(self.reader, file).run()
        share = index.find(self.queue_id)
        found = b"" if share is None else bytes(share.entries)
        if entries is not None and are_within(found, entries):
            file.compared.add(int(self.queue_id))
        else:
            self.reader.adopt_index(file, index)
            self.reader.keep_entries(file, self.queue_id, found)

    def _take(
        self, span: PlannedSpan, file: ColdFile, selection: Selection, is_sure: bool
    ) -> bool:
        """Read what was selected; False if an entry leads astray that may be wrong."""
        failure: OSError | None = None
        try:
            self.reader.read_blocks(file, selection.wanted, span.limit)
        except OSError as exc:
            # What lies before it is taken all the same.
            failure = exc
        records = ColdRecords(
            self.reader,
            file,
            self._lookup,
            self.messages,
            self.damaged,
        )
        is_whole = False
        try:
            is_whole = records.take(selection, self.next_seq, is_sure)
        finally:
            self.next_seq = records.next_seq
            self.reader.release(selection.wanted, self.queue_id, records.size)
            if not is_whole:
                records.report_missing(selection)
                self.room.count -= records.count
                self.room.size -= records.size
        if is_whole:
            self.room = selection.room
            if self.next_seq > span.last and not self.is_sparse:
                self.reader.drop_entries(file, self.queue_id)
            return True
        if failure is not None and not records.is_astray:
            raise failure
        return False
