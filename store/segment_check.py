"""Whether a segment and its index file are what was written, and say the same.

Every batch of the segment is read, and its index made again from what is sound. The
index file must say that, for queues that are there; which order it says it in, and
what it says of queues that are gone, does not matter.

It touches nothing, and knows one segment at a time.
"""

from typing import Final, final

from mypy_extensions import i64

from store import segment_index
from store.errors import RecordUnknown
from store.index import LiveSpan
from store.index_file import IndexFile
from store.indexing import Indexer
from store.log_files import SegmentFile
from store.log_survey import LogSurvey
from store.quarantine import damaged_part
from store.record import Delivered, Returned, Settle, read_u32
from store.scan import SegmentScan
from store.segment_index import QueueShare, SegmentIndex

_SOUND: Final = ""
# These two are as they may be after a power cut, and a broker makes them good.
MISSING: Final = "is missing"
TORN: Final = "is not what was written"

Facts = tuple[list[int], list[int], list[tuple[int, int]], list[tuple[int, int, int]]]


@final
class CheckedSegment:
    """What a check found."""

    __slots__ = ("file", "index", "index_fault", "is_damaged", "records", "scan")

    def __init__(self, file: SegmentFile, scan: SegmentScan) -> None:
        self.file = file
        self.scan = scan
        # Offsets of the records that can be used.
        self.records: list[int] = []
        self.index = SegmentIndex(file.first_number, file.number)
        # Whether the segment is not what was written.
        self.is_damaged = False
        # What is wrong with its index file; empty if nothing is.
        self.index_fault: str = _SOUND

    @property
    def is_index_missing(self) -> bool:
        """Say whether there is no index file."""
        return self.index_fault == MISSING

    @property
    def is_index_torn(self) -> bool:
        """Say whether the checksums of the index file are wrong."""
        return self.index_fault == TORN


@final
class SegmentCheck:
    """Checks the segments of a log, one call each."""

    __slots__ = ("_survey",)

    def __init__(self, survey: LogSurvey) -> None:
        self._survey = survey

    def run(self, file: SegmentFile) -> CheckedSegment:
        """Check a segment; the survey is told what is damaged; raises OSError."""
        reader = self._survey.reader
        scan = self._survey.scan(file)
        checked = CheckedSegment(file, scan)
        indexer = Indexer(checked.index)
        for offset in scan.records:
            if self._add(indexer, scan, offset):
                checked.records.append(offset)
        indexer.finish()
        for damage in reader.damages:
            self._survey.damaged(damage.what)
            checked.is_damaged = True
        self._survey.note_queues(checked.index)
        checked.index_fault = self._index_fault(file, checked.index)
        is_news = checked.index_fault not in (_SOUND, MISSING, TORN)
        if is_news and not checked.is_damaged:
            # Of a damaged segment it cannot say the same.
            self._survey.damaged(f"{file.index_path} {checked.index_fault}")
        return checked

    def _add(self, indexer: Indexer, scan: SegmentScan, offset: i64) -> bool:
        reader = self._survey.reader
        try:
            return reader.add_record(indexer, scan, offset, offset)
        except RecordUnknown as unknown:
            end = offset + read_u32(scan.data, offset)
            reader.damages.append(
                damaged_part(scan.segment, offset, scan.data[offset:end], f"{unknown}")
            )
            return False

    # -- the index file

    def _index_fault(self, file: SegmentFile, index: SegmentIndex) -> str:
        filesystem = self._survey.filesystem
        if not filesystem.exists(file.index_path):
            return MISSING
        written = b"".join(index.chunks(self._survey.store_uuid))
        if filesystem.read_file(file.index_path) == written:
            return _SOUND
        found = IndexFile(filesystem, file.index_path)
        try:
            if not found.read(file.first_number, file.number, self._survey.store_uuid):
                return TORN
            return self._difference(index, found)
        except RecordUnknown as unknown:
            return f"cannot be used: {unknown}"
        finally:
            found.close()

    def _difference(self, index: SegmentIndex, found: IndexFile) -> str:
        runs = {int(run.queue_id): run for run in found.runs()}
        told = _facts_in(index, found)
        queue_ids = {int(share.queue_id) for share in index.shares()}
        queue_ids.update(runs)
        for queue_id in sorted(queue_ids):
            share = index.share(queue_id)
            run = runs.get(queue_id)
            entries = b"" if run is None else found.entries(run)
            deadlines = b"" if run is None else found.deadlines(run)
            if entries is None or deadlines is None:
                return TORN
            if self._survey.is_known(queue_id) and (
                entries != bytes(share.entries)
                or deadlines != bytes(share.deadlines)
                or _facts_of(share) != _facts_of(told.share(queue_id))
            ):
                return f"does not say what its segment holds of queue {queue_id}"
        return _SOUND


def _facts_in(index: SegmentIndex, found: IndexFile) -> SegmentIndex:
    """Return the facts of an index file as a segment's."""
    told = SegmentIndex(index.first_number, index.number)
    for fact in found.facts():
        if isinstance(fact, Settle):
            told.share(fact.queue_id).settle(fact.settled)
        elif isinstance(fact, Delivered):
            told.share(fact.queue_id).delivered[fact.lane] = fact.upper_seq
        else:
            assert isinstance(fact, Returned), "a segment's facts are of three kinds"
            told.share(fact.queue_id).returned[fact.seq] = fact
    return told


def _facts_of(share: QueueShare) -> Facts:
    """Return what is said of a queue, to be compared."""
    settled = share.settled.take()
    share.settle(settled)
    returned = [
        (int(one.seq), int(one.delivery_count), int(one.not_before_ms))
        for one in share.returned.values()
    ]
    delivered = sorted(share.delivered.items())
    return settled.firsts, settled.lasts, delivered, sorted(returned)


def live_in(survey: LogSurvey, found: SegmentIndex) -> i64:
    """Return how many messages of a segment are live and in it."""
    count: i64 = 0
    for share in found.shares():
        queue = survey.index.queues.get(int(share.queue_id))
        if queue is not None and share.count > 0:
            for span in queue.spans(share.first, share.last, share.last):
                count += _live_entries(share, span)
    return count


def _live_entries(share: QueueShare, span: LiveSpan) -> i64:
    """Return how many messages of a span have an entry."""
    if share.count == share.last - share.first + 1:
        return span.live
    count: i64 = 0
    entries = bytes(share.entries)
    for at in range(0, len(entries), segment_index.ENTRY_SIZE):
        seq = segment_index.read_seq(entries, at, share.first)
        is_dead = span.dead is not None and seq in span.dead
        if span.first <= seq <= span.last and not is_dead:
            count += 1
    return count
