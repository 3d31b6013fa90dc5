"""The face of the store: append, settle, sync, recover.

    append, settle, ...     on the loop, thousands of times a turn; memory only
    step = begin(...)       on the loop: what is still live becomes one batch
    step.run()              elsewhere, in the order of begin: system calls only
    result = complete(step) on the loop: who is durable, who is refused

A message is *waiting* (in `WaitingMessages`), *begun* (in the batch of a step) or
*written*. What is settled while it waits is never written; what is settled later
becomes a range in the next batch. The index, which says what segments are needed
for, is told of a batch only when a sync that covers it has returned; from then on
the bytes of its messages may leave memory and are read back by `begin_read`.

It knows neither queues nor messages: numbers, strings of bytes, and opaque tokens.
"""

from typing import Final, Generic, TypeVar, final

from mypy_extensions import i64

from store.batch import BatchWriter
from store.cold_read import ColdRead
from store.cold_store import ColdStore, ReadResult
from store.index import Index
from store.maintenance import Maintenance, MaintenanceStep
from store.queue_facts import FactsTable
from store.segment_index import SegmentIndex, index_path
from store.segment_set import LogWrite, SegmentSet
from store.seq_ranges import Ranges
from store.statistics import StoreStatistics
from store.sync_step import Batch, Move, lose, note_written, tell_lost, undo_moves
from store.sync_step import SyncStep as SyncStep  # a part of the face
from store.syncer import SyncResult, Waiters, divide
from store.waiting import WaitingMessage, WaitingMessages

T = TypeVar("T")

_BATCH_MAX: Final = (1 << 63) - 1


@final
class MessageStore(Generic[T]):
    """One append-only log and what of it is still needed."""

    __slots__ = (
        "_begun",
        "_facts",
        "_failed_batch",
        "_in_flight",
        "_is_disk_full",
        "_is_failed",
        "_is_index_planned",
        "_is_refusing",
        "_is_unsynced",
        "_is_volatile",
        "_moves",
        "_probe_ms",
        "_probe_pause_ms",
        "_refused",
        "_sealed",
        "_segment_index",
        "_segments",
        "_store_uuid",
        "_undone",
        "_undurable",
        "_waiters",
        "_waiting",
        "bytes_in_flight",
        "cold",
        "confirms_early",
        "index",
        "maintenance",
        "statistics",
        "written_base",
    )

    def __init__(
        self,
        segments: SegmentSet,
        index: Index,
        cold: ColdStore,
        maintenance: Maintenance,
        statistics: StoreStatistics,
        store_uuid: bytes,
        confirms_early: bool,
        is_volatile: bool,
        is_disk_full: bool,
        probe_pause_ms: i64,
        now_ms: i64,
    ) -> None:
        self._segments = segments
        self.cold = cold
        self.maintenance = maintenance
        self._store_uuid = store_uuid
        # Whether who waits is told when the page cache has it, before any sync.
        self.confirms_early = confirms_early
        # Whether the log does not outlive the process: then nothing is ever synced.
        self._is_volatile = is_volatile
        self.index = index
        self.statistics = statistics
        self._facts = FactsTable()
        for queue_id, queue in index.queues.items():
            if queue.upper_seq > 0:
                self._facts.adopt(queue_id, queue.upper_seq)
        # The index of the segment that is written, and those whose files are not yet.
        self._segment_index = SegmentIndex(
            segments.current.number, segments.current.number
        )
        self._sealed: list[SegmentIndex] = []
        self._is_index_planned = False
        # Append numbers below it are in the index: `begin_read` finds them.
        self.written_base: i64 = 1
        self._waiting = WaitingMessages(statistics)
        # Moves that are in no batch yet, and those of refused batches.
        self._moves: list[Move] = []
        self._undone: list[Move] = []
        self._waiters: Waiters[T] = Waiters()
        # Batches written (or being written) that no returned sync covers.
        self._undurable: list[Batch] = []
        self._in_flight: i64 = 0
        self._is_unsynced = False
        self._begun = Batch(0, segments.next_batch - 1, 0)
        self._failed_batch: i64 = 0
        self._is_refusing = False
        # Batches whose facts are carried once nothing is in flight any more.
        self._refused: list[Batch] = []
        self._is_failed = False
        self._is_disk_full = is_disk_full
        self._probe_ms: i64 = now_ms + probe_pause_ms
        self._probe_pause_ms = probe_pause_ms
        self.bytes_in_flight: i64 = 0

    # -- what happens to messages

    def append(
        self,
        envelope: bytes,
        content: bytes,
        body: bytes | None,
        enqueued_ms: i64,
        expires_ms: i64,
        queue_id: i64,
        seq: i64,
        lane: i64,
    ) -> i64:
        """Add a message with its first destination; return its append number."""
        return self._waiting.append(
            WaitingMessage(
                envelope, content, body, enqueued_ms, expires_ms, queue_id, seq, lane
            )
        )

    def add_destination(self, queue_id: i64, seq: i64, lane: i64) -> None:
        """Add one more destination to the message appended last."""
        self._waiting.add_destination(queue_id, seq, lane)

    def settle(self, number: i64, queue_id: i64, seq: i64) -> None:
        """A queue is done with a message (`number` 0: a recovered one)."""
        if number >= self._waiting.base:
            self._waiting.settle(number, queue_id)
        else:
            self._facts.touch(queue_id).settle(seq)

    @property
    def begun_base(self) -> i64:
        """Below which append number nothing waits any more."""
        return self._waiting.base

    def settle_written(self, queue_id: i64, first: i64, last: i64) -> None:
        """A queue is done with each of these messages, none of which waits."""
        self._facts.touch(queue_id).settle_all(first, last)

    def settle_moved(
        self, number: i64, queue_id: i64, seq: i64, copy_number: i64, token: object
    ) -> None:
        """A queue is done with a message, since another one stands for it now.

        That one was appended in this turn, so both are in one batch. If the disk
        refuses it the settle is void, and `token` comes back in `SyncResult.kept`.
        """
        self.settle(number, queue_id, seq)
        if number < self._waiting.base:
            self._moves.append(Move(copy_number, queue_id, seq, token))

    def note_delivered(self, queue_id: i64, lane: i64, upper_seq: i64) -> None:
        """Every seq of the lane up to this one was delivered once."""
        self._facts.touch(queue_id).note_delivered(lane, upper_seq)

    def note_returned(
        self, queue_id: i64, seq: i64, delivery_count: i64, not_before_ms: i64
    ) -> None:
        """A message came back to its queue."""
        self._facts.touch(queue_id).note_returned(seq, delivery_count, not_before_ms)

    def settle_range(self, queue_id: i64, first: i64, last: i64) -> None:
        """A queue is done with written messages; not every seq need be one."""
        self._facts.touch(queue_id).settle_range(first, last)

    def forget_queue(self, queue_id: i64) -> None:
        """A queue is gone, durably: nothing of it is needed any more."""
        self._waiting.elide_queue(queue_id)
        self._facts.forget(queue_id, self._begun.number + 1)
        self.index.forget_queue(queue_id)
        self._clear_forgotten()

    def wait(self, token: T, first: i64, last: i64) -> None:
        """Let `token` be told when everything so far is durable.

        To be called in the turn in which it was appended: what the disk refuses is
        told to those who wait by then.
        """
        self._waiters.add(token, first, last)

    # -- messages that left memory

    def begin_read(
        self,
        queue_id: i64,
        first_seq: i64,
        last_seq: i64,
        count_max: i64,
        size_max: i64,
        is_in_place: bool = False,
        ranges: Ranges | None = None,
    ) -> ColdRead:
        """Plan to read what is live between two seqs, at most so many and so much.

        `run` it on the reader thread; a read in place is run on the loop. With `ranges`
        nothing is read that is not in them.
        """
        step = self.cold.begin(
            queue_id,
            first_seq,
            last_seq,
            count_max,
            size_max,
            [*self._sealed, self._segment_index],
            is_in_place,
            ranges,
        )
        step.epoch = self.maintenance.read_begun()
        return step

    def complete_read(self, step: ColdRead) -> ReadResult:
        """Return the messages that a read found.

        What is damaged is settled: it is in quarantine, and no queue waits for it. If
        it could not be put there it keeps its segment, and the next start tells of it
        again; the queue goes on without it until then.
        """
        self.maintenance.read_ended(step.epoch)
        result = self.cold.complete(step)
        for damaged in result.damaged:
            if damaged.is_saved:
                self._facts.touch(step.queue_id).settle(damaged.seq)
        return result

    # -- looking after the log

    def begin_maintenance(self, now_ms: i64) -> MaintenanceStep | None:
        """Do a slice of work; return a step for the compactor, if none is out."""
        if self.maintenance.is_in_flight or self._is_failed:
            return None
        return self.maintenance.advance(now_ms)

    def complete_maintenance(self, step: MaintenanceStep) -> None:
        """Take a step back that has run."""
        self.maintenance.complete(step)
        for number in self.maintenance.take_removed():
            self.cold.forget(number)

    # -- what the ticker reads

    @property
    def is_wanted(self) -> bool:
        """Say whether somebody waits for a sync."""
        return not self._waiters.is_empty

    @property
    def waiting_count(self) -> i64:
        """Return how many numbers wait for a sync, or are in one."""
        return self._waiters.count

    @property
    def has_work(self) -> bool:
        """Say whether a step has anything to do."""
        return (
            len(self._waiting.messages) > 0
            or len(self._facts.touched) > 0
            or self._is_unsynced
            or self._is_disk_full
            or not self._waiters.is_empty
            or len(self._sealed) > 0
        )

    @property
    def bytes_waiting(self) -> i64:
        """Return about how much the waiting messages take in the log."""
        return self._waiting.bytes_waiting

    @property
    def is_disk_full(self) -> bool:
        """Say whether new messages are refused until the reserve is back."""
        return self._is_disk_full

    # -- steps

    def begin(self, sync: bool, now_ms: i64) -> SyncStep[T] | None:
        """Turn what is still live into one batch, and that into a step.

        None if there is nothing to do and nobody waits. Without `sync` the batch
        reaches the page cache only, and nobody is told before a later sync.
        """
        if self._is_failed or self._is_refusing:
            return None
        if self._is_disk_full and self._in_flight > 0:
            # One at a time: a later step must not confirm who waits for what an
            # earlier one refuses.
            return None
        refused = self._take_refused()
        writer = self._begin_batch()
        has_batch = writer is not None or refused is not None
        has_waiter = sync and self._is_unsynced
        if sync or self.confirms_early:
            has_waiter = has_waiter or not self._waiters.is_empty
        has_chore = self._is_probe_due(now_ms) or len(self._sealed) > 0
        if not (has_batch or has_waiter or has_chore):
            return None
        return self._plan(writer, refused, sync, now_ms)

    def close_step(self, now_ms: i64) -> SyncStep[T] | None:
        """Return the last step: everything written, synced, and the log ended.

        None after a failed sync, or while refused steps are in flight.
        """
        if self._is_failed or self._is_refusing:
            return None
        refused = self._take_refused()
        step = self._plan(self._begin_batch(), refused, True, now_ms)
        self._segments.plan_end(step.write)
        return step

    def finish(self) -> None:
        """Leave indexes and a checkpoint, so that the next start reads no segment.

        Blocks. To be called after the last step is complete, unless it failed; what
        the disk refuses costs the next start some time and nothing else.
        """
        maintenance = self.maintenance
        if maintenance.is_in_flight:
            # A disk that does not answer: the next start has more to read.
            return
        abandoned = maintenance.stop()
        if abandoned is not None:
            abandoned.run()
            maintenance.complete(abandoned)
        for index in (*self._sealed, self._segment_index):
            path = index_path(self._segments.path_of(index.number))
            self._segments.write_index(path, index.chunks(self._store_uuid))
        segments = self._segments
        last = maintenance.final_checkpoint_step(
            segments.current.number, segments.end, segments.next_batch
        )
        last.run()
        maintenance.complete(last)

    def close(self) -> None:
        """Close the files; nothing may be in flight."""
        self.cold.close()
        self._segments.close()

    def complete(self, step: SyncStep[T]) -> SyncResult[T]:
        """Return what came of a step that has run; steps complete in order."""
        write = step.write
        self._in_flight -= 1
        self.bytes_in_flight -= write.length
        self._segments.on_done(write)
        if write.index_path:
            self._is_index_planned = False
            if write.is_index_written:
                del self._sealed[0]
        result: SyncResult[T] = SyncResult()
        if write.fatal is not None:
            self._fail(step, write.fatal, result)
        elif write.error is not None:
            self._refuse(step, result)
        else:
            self._accept(step, result)
        self._clear_forgotten()
        self._waiters.note_told(result.durable)
        self._waiters.note_told(result.refused)
        result.disk_full = self._is_disk_full
        return result

    def _clear_forgotten(self) -> None:
        """Know no more of queues that are gone than batches under way need."""
        is_over = self._in_flight == 0 and not self._undurable and not self._moves
        self._facts.clear_forgotten(_BATCH_MAX if is_over else self.index.applied_batch)

    # -- how a step is made

    def _is_probe_due(self, now_ms: i64) -> bool:
        return self._is_disk_full and now_ms >= self._probe_ms

    def _take_refused(self) -> Batch | None:
        """Take the waiting messages out if the disk is full: only facts are written."""
        if not self._is_disk_full or self._waiting.bytes_waiting == 0:
            return None
        refused = self._take_lost()
        for move in refused.moves:
            self._facts.unsettle(move.queue_id, move.seq)
        return refused

    def _take_lost(self) -> Batch:
        """Take out all that waits: the disk has no room for it."""
        lost = Batch(0, 0, self._waiting.base)
        lost.messages = self._waiting.take()
        lost.moves = self._moves
        self._moves = []
        # Marked now: a settle that comes before it is told must not be written.
        lose(lost, self._facts)
        return lost

    def _begin_batch(self) -> BatchWriter | None:
        """Write everything that waits into a batch; None if nothing is left of it."""
        if self._waiting.bytes_waiting == 0:
            # What was moved was settled where it went as well.
            self._waiting.take()
            self._moves = []
            if not self._facts.has_any():
                return None
        writer = self._segments.begin_batch(
            self._waiting.bytes_waiting, not self._is_disk_full
        )
        batch = Batch(writer.segment, writer.number, self._waiting.base)
        start = self._segments.end
        batch.messages = self._waiting.take()
        batch.moves = self._moves
        self._moves = []
        before = writer.position
        for message in batch.messages:
            if message is not None:
                message.write(writer)
                after = writer.position
                note_written(message, self._facts, start + before, after - before)
                before = after
        batch.facts = self._facts.begin(writer)
        self._begun = batch
        self._is_unsynced = True
        return writer

    def _plan(
        self, writer: BatchWriter | None, refused: Batch | None, sync: bool, now_ms: i64
    ) -> SyncStep[T]:
        # Whoever waits for what is refused must be told so now, with it.
        sync = sync or refused is not None
        write = self._segments.plan(writer, sync and self._is_unsynced)
        step: SyncStep[T] = SyncStep(write, now_ms)
        step.refused = refused
        if writer is not None:
            step.batch = self._begun
        if sync:
            self._is_unsynced = False
        if sync or self.confirms_early:
            step.waiting = self._waiters.take()
        else:
            self._waiters.attach(self._begun.number)
        self._plan_index(write)
        if self._is_probe_due(now_ms):
            self._probe_ms = now_ms + self._probe_pause_ms
            write.allocates_reserve = True
        self._in_flight += 1
        self.bytes_in_flight += write.length
        return step

    def _plan_index(self, write: LogWrite) -> None:
        """Let a write leave an index beside the oldest segment that has none yet."""
        if self._sealed and not self._is_index_planned:
            self._is_index_planned = True
            sealed = self._sealed[0]
            write.index_path = index_path(self._segments.path_of(sealed.number))
            write.index_chunks = sealed.chunks(self._store_uuid)

    # -- what comes of a step

    def _accept(self, step: SyncStep[T], result: SyncResult[T]) -> None:
        write = step.write
        if step.batch is not None:
            self._note_batch(step.batch, write.end)
            self.statistics.bytes_written += write.length
        if write.sync:
            self._segments.on_durable(write)
            self.statistics.syncs += 1
        if write.sync or self._is_volatile:
            self._apply_undurable()
        if step.refused is None:
            result.durable = step.waiting
        else:
            divide(step.waiting, _BATCH_MAX, result)
            self._tell_refused(step.refused, result)
            self._refuse_waiting(_BATCH_MAX, result)
        if write.is_reserve_back:
            self._is_disk_full = False
            self._segments.allocation = self._segments.segment_size

    def _note_batch(self, batch: Batch, end: i64) -> None:
        """A batch is written: the index of its segment is told."""
        if batch.segment != self._segment_index.number:
            self._sealed.append(self._segment_index)
            self._segment_index = SegmentIndex(batch.segment, batch.segment)
        for facts in batch.facts:
            facts.note_in(self._segment_index)
        self.index.adopt_segment(batch.segment, batch.segment, end)
        batch.upper = batch.base + len(batch.messages)
        batch.end = end
        # The bytes of those that nobody else holds go now.
        batch.messages = []
        batch.moves = []
        self._undurable.append(batch)

    def _apply_undurable(self) -> None:
        for batch in self._undurable:
            for facts in batch.facts:
                if facts.queue_id not in self._facts.forgotten:
                    facts.apply(self.index, batch.segment)
            self.index.applied_segment = batch.segment
            self.index.applied_offset = batch.end
            self.index.applied_batch = batch.number
            self.written_base = batch.upper
        self._undurable = []

    def _refuse(self, step: SyncStep[T], result: SyncResult[T]) -> None:
        """Take back a step that the disk refused, and everything behind it."""
        if not self._is_refusing:
            assert step.batch is not None, "only a batch can be refused"
            self._is_refusing = True
            self._failed_batch = step.batch.number
            self._is_disk_full = True
            self._probe_ms = step.now_ms + self._probe_pause_ms
            # A full disk has no room for a whole segment's blocks.
            self._segments.allocation = 0
            # The cut was synced, and with it every batch before.
            self._apply_undurable()
        if step.batch is not None:
            lose(step.batch, self._facts)
            tell_lost(step.batch, self._facts, result)
            self._undone += undo_moves(step.batch, self._facts, result)
            self._refused.append(step.batch)
        if step.refused is not None:
            self._tell_refused(step.refused, result)
        divide(step.waiting, self._failed_batch, result)
        self._refuse_waiting(self._failed_batch, result)
        if self._in_flight == 0:
            self._carry()
            self._segments.on_refused()
            self._is_refusing = False
            self._is_unsynced = False

    def _refuse_waiting(self, failed_batch: i64, result: SyncResult[T]) -> None:
        """Refuse all that waits: somebody may wait for what was just lost."""
        lost = self._take_lost()
        tell_lost(lost, self._facts, result)
        for move in undo_moves(lost, self._facts, result):
            self._facts.unsettle(move.queue_id, move.seq)
        divide(self._waiters.take(), failed_batch, result)

    def _carry(self) -> None:
        """Put the facts of the refused batches before those that wait."""
        for batch in reversed(self._refused):
            self._facts.carry(batch.facts)
        self._refused = []
        for move in self._undone:
            self._facts.unsettle(move.queue_id, move.seq)
        self._undone = []

    def _tell_refused(self, refused: Batch, result: SyncResult[T]) -> None:
        """Tell what was not even tried, and whose moves did not take place."""
        tell_lost(refused, self._facts, result)
        undone = undo_moves(refused, self._facts, result)
        for move in refused.moves:
            if move not in undone and move.queue_id not in self._facts.forgotten:
                # The settle was taken back too early: the copy was settled since.
                self._facts.touch(move.queue_id).settle(move.seq)

    def _fail(
        self, step: SyncStep[T], reason: Exception, result: SyncResult[T]
    ) -> None:
        self._is_failed = True
        result.fatal = reason
        result.refused = step.waiting + self._waiters.take()
