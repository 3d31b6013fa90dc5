"""Carrying a merge out: the live records of neighbours copied into one new file.

    READING_INDEX   step: the `.idx` of the next file, or one made again from the file
    FINDING         loop: which of its records are live, and where they lie
    COPYING         step: 1 MiB of it at a time, while what was copied is written
                    loop: each record checked, dead destinations dropped, the rest
                    put into a batch
    PUBLISHING      step: sync, rename, sync of the directory, the new `.idx`
    PUBLISHED       the new file stands for all of the others
    ENDED           there is no new file: nothing was live any more, a call failed,
                    or a record was not what was written

The new file carries the number of the last of its range and batches of its own, from
1 on; it holds message records only, since every fact of the old files is older than
both checkpoints. What is settled while it is copied is garbage in it, no more: the
index decides, and is told of the new file only when that is durable. Until the old
files are gone a start that finds both uses the new one.

It does not know which files are merged, nor what becomes of the index.
"""

from enum import Enum
from typing import Final, final

from librt.strings import BytesWriter
from mypy_extensions import i64

from store.batch import BatchWriter, is_sound
from store.errors import StoreDamaged, VersionUnknown
from store.filesystem import FileSystem
from store.index import Index
from store.merge_source import IndexDamaged, LiveRecords
from store.merge_step import Extent, MergeFiles, MergeSource, MergeStep
from store.record import CHECKSUM_SIZE, Destination, Message, read_record
from store.segment import HEADER_SIZE, Segment
from store.segment_index import SegmentIndex, write_deadline, write_entry

# What one step reads: live records less than a gap apart are read with what lies
# between them.
_READ_SIZE: Final = 1024 * 1024
_GAP_MAX: Final = 16 * 1024
_EXTENTS_MAX: Final = 256
_RECORDS_MAX: Final = 2_000

# From this size on a batch is written; a batch is what was copied of one read.
_BATCH_SIZE: Final = 512 * 1024

# What a record costs in units: it is checked, parsed, and written again.
_RECORD_UNITS: Final = 10
_BYTES_A_UNIT: Final = 4096


class MergePhase(Enum):
    """What a merge is about to do, or waits for."""

    READING_INDEX = "reading index"
    FINDING = "finding"
    COPYING = "copying"
    PUBLISHING = "publishing"
    PUBLISHED = "published"
    ENDED = "ended"


@final
class Merge:
    """One merge: `advance` until it is published or ended."""

    __slots__ = (
        "_batch",
        "_copied_count",
        "_entry",
        "_extent_at",
        "_extents",
        "_files",
        "_has_record",
        "_index",
        "_index_data",
        "_is_index_made",
        "_live",
        "_offset",
        "_record_at",
        "_source_at",
        "_store_uuid",
        "_writer",
        "copied_size",
        "damaged_number",
        "first_number",
        "index_of_new",
        "number",
        "phase",
        "problem",
        "sources",
    )

    def __init__(
        self,
        filesystem: FileSystem,
        directory: str,
        store_uuid: bytes,
        index: Index,
        sources: list[MergeSource],
        syncs: bool = True,
    ) -> None:
        """Begin to merge neighbours, given oldest first.

        Without `syncs` the new file need not outlive a power cut.
        """
        self._store_uuid = store_uuid
        self._index = index
        self.sources = sources
        self.first_number: i64 = sources[0].first_number
        self.number: i64 = sources[-1].number
        target = Segment(
            filesystem, directory, store_uuid, self.first_number, self.number, syncs
        )
        self._files = MergeFiles(filesystem, store_uuid, target)
        self.phase = MergePhase.READING_INDEX
        self._source_at: i64 = 0
        # Whether the source's index file was no use.
        self._is_index_made = False
        self._index_data = b""
        self._live: LiveRecords | None = None
        self._has_record = False
        # References copied from this source.
        self._copied_count: i64 = 0
        # What was read and not copied yet.
        self._extents: list[Extent] = []
        self._extent_at: i64 = 0
        self._record_at: i64 = 0
        # Where the batch that is filled will lie.
        self._offset: i64 = HEADER_SIZE
        self._batch: i64 = 0
        self._writer = self._next_writer()
        self._entry = BytesWriter()
        self.index_of_new = SegmentIndex(self.first_number, self.number)
        self.copied_size: i64 = 0
        # Why there is no new file, and the segment that is to blame, if one is.
        self.problem = ""
        self.damaged_number: i64 = 0

    def _next_writer(self) -> BatchWriter:
        self._batch += 1
        # The file is durable as a whole before it has its name.
        return BatchWriter(self.number, self._batch, self.number, HEADER_SIZE)

    @property
    def file_size(self) -> i64:
        """Return the size of the new file."""
        return self._offset

    @property
    def is_name_uncertain(self) -> bool:
        """Say whether the new file, which failed, may yet be there after a crash."""
        return self._files.is_name_uncertain

    # -- on the loop

    def advance(self, units: i64) -> MergeStep | None:
        """Do about so many units of work; return a step to run, if one is due."""
        try:
            return self._advance(units)
        except StoreDamaged as exc:
            if isinstance(exc, IndexDamaged) and not self._is_index_made:
                self._is_index_made = True
                return self._index_step()
            return self._give_up(str(exc))

    def _advance(self, units: i64) -> MergeStep | None:
        if self.phase is MergePhase.READING_INDEX:
            return self._index_step()
        if self.phase is MergePhase.FINDING:
            units = self._find(units)
        if self.phase is MergePhase.COPYING:
            if len(self._extents) > 0:
                units = self._copy(units)
            if units > 0:
                return self._read_more()
        return None

    def abandon(self) -> MergeStep:
        """Return the step that leaves nothing of the new file."""
        self.phase = MergePhase.ENDED
        step = self._step()
        step.is_abandoned = True
        return step

    def _give_up(self, problem: str) -> MergeStep:
        self.problem = problem
        self.damaged_number = self.sources[self._source_at].number
        return self.abandon()

    def _step(self) -> MergeStep:
        return MergeStep(self._files, self.sources[self._source_at])

    def _index_step(self) -> MergeStep:
        step = self._step()
        step.reads_index = True
        step.makes_index = self._is_index_made
        return step

    def complete(self, step: MergeStep) -> None:
        """Take a step back that has run."""
        if step.is_abandoned:
            return
        if step.error is not None:
            self.phase = MergePhase.ENDED
            self.problem = str(step.error)
            if step.is_unreadable:
                self.damaged_number = step.source.number
        elif step.is_last:
            self.phase = MergePhase.PUBLISHED
        elif step.reads_index:
            self._index_data = step.index_data
            self._live = None
            self.phase = MergePhase.FINDING
        else:
            self._extents = step.extents
            self._extent_at = 0
            self._record_at = 0

    # -- finding

    def _find(self, units: i64) -> i64:
        live = self._live
        if live is None:
            source = self.sources[self._source_at]
            live = LiveRecords(
                source.first_number, source.number, self._store_uuid, self._index_data
            )
            self._live = live
            self._index_data = b""
        units = live.advance(self._index, units)
        if units > 0:
            if self._is_short(live.reference_count):
                raise live.damaged()
            self._copied_count = 0
            self._has_record = live.next()
            self.phase = MergePhase.COPYING
        return units

    def _is_short(self, count: i64) -> bool:
        """Say whether these cannot be all references to the source.

        Some may have died since they were counted, none can have come.
        """
        number = self.sources[self._source_at].number
        return count < self._index.segment(int(number)).references

    # -- copying

    def _read_more(self) -> MergeStep | None:
        """Return what is to be read, and written, next."""
        live = self._live
        assert live is not None, "found before it is copied"
        step = self._step()
        if self._has_record:
            self._take_extents(step, live)
            self._end_large_batch(step)
            return step
        if self._is_short(self._copied_count):
            number = self.sources[self._source_at].number
            raise StoreDamaged(f"records of segment {number} name the wrong queues")
        if self._source_at + 1 == len(self.sources):
            return self._publish(step)
        self._source_at += 1
        self._is_index_made = False
        self.phase = MergePhase.READING_INDEX
        step = self._index_step()
        self._end_large_batch(step)
        return step

    def _take_extents(self, step: MergeStep, live: LiveRecords) -> None:
        extent = Extent(live.offset)
        size: i64 = 0
        count: i64 = 0
        while self._has_record and count < _RECORDS_MAX:
            is_apart = live.offset > extent.end + _GAP_MAX
            reach = live.size
            if not is_apart:
                reach = live.offset + live.size - extent.end
            if count > 0 and size + reach > _READ_SIZE:
                break
            if is_apart:
                if len(step.extents) + 1 >= _EXTENTS_MAX:
                    break
                step.extents.append(extent)
                extent = Extent(live.offset)
            extent.add(live.offset, live.size)
            size += reach
            count += 1
            self._has_record = live.next()
        step.extents.append(extent)

    def _copy(self, units: i64) -> i64:
        """Copy what was read; return what is left of the units."""
        source = self.sources[self._source_at]
        while self._extent_at < len(self._extents):
            extent = self._extents[self._extent_at]
            while self._record_at < len(extent.offsets):
                if units <= 0:
                    return 0
                offset: i64 = extent.offsets[self._record_at]
                size: i64 = extent.sizes[self._record_at]
                self._copy_record(extent, offset, size, source.number)
                self._record_at += 1
                units -= _RECORD_UNITS + size // _BYTES_A_UNIT
            extent.data = b""
            self._extent_at += 1
            self._record_at = 0
        self._extents = []
        return units

    def _copy_record(self, extent: Extent, offset: i64, size: i64, number: i64) -> None:
        at = offset - extent.offset
        message = read_message(extent.data, at, size, number)
        if message is None:
            raise StoreDamaged(
                f"the record at offset {offset} of segment {number} is damaged"
            )
        alive = [one for one in message.destinations if self._is_live(one)]
        if len(alive) == 0:
            return
        writer = self._writer
        before = writer.position
        if len(alive) == len(message.destinations):
            writer.copy(extent.data[at : at + size - CHECKSUM_SIZE])
        else:
            write_message(writer, message, alive)
        written = writer.position - before
        self.copied_size += written
        self._copied_count += len(alive)
        for one in alive:
            write_entry(self._entry, one.seq, self._offset + before, written)
            share = self.index_of_new.share(one.queue_id)
            share.add(one.seq, one.seq, 1, written, self._entry.getvalue())
            self._entry.truncate(0)
            if message.expires_ms:
                write_deadline(self._entry, one.seq, message.expires_ms)
                share.deadlines += self._entry.getvalue()
                self._entry.truncate(0)

    def _is_live(self, destination: Destination) -> bool:
        queue = self._index.queues.get(int(destination.queue_id))
        return queue is not None and queue.is_live(destination.seq)

    def _end_large_batch(self, step: MergeStep) -> None:
        if self._writer.position >= _BATCH_SIZE:
            self._end_batch(step)

    def _end_batch(self, step: MergeStep) -> None:
        step.chunks = self._writer.finish()
        step.offset = self._offset
        self._offset += self._writer.size
        self._writer = self._next_writer()

    def _publish(self, step: MergeStep) -> MergeStep:
        if self.copied_size == 0:
            # All of it died meanwhile: the files go as they are.
            return self.abandon()
        if self._writer.record_count > 0:
            self._end_batch(step)
        step.is_last = True
        step.index_chunks = self.index_of_new.chunks(self._store_uuid)
        self.phase = MergePhase.PUBLISHING
        return step


def read_message(data: bytes, at: i64, size: i64, segment: i64) -> Message | None:
    """Return the message record in bytes of a segment; None if it is damaged."""
    if not is_sound(data, at, size, segment):
        return None
    try:
        found = read_record(data, at)
    except (ValueError, VersionUnknown):
        return None
    return found if isinstance(found, Message) else None


def write_message(
    writer: BatchWriter, message: Message, destinations: list[Destination]
) -> None:
    """Write a message for some of its destinations."""
    writer.begin_message(
        message.enqueued_ms,
        message.expires_ms,
        message.envelope,
        message.content,
        message.body,
        len(destinations),
    )
    for one in destinations:
        writer.destination(one.queue_id, one.seq, one.lane)
    writer.end_message(message.envelope, message.content, message.body)
