"""A log written batch by batch, and what must be recovered from it.

A recovery is tested with logs that a broker would need hours or bad luck to write.
What is durable is also told to an index, as the store tells it, so that checkpoints
can be taken at any time; and to a model, a set of live seqs for each queue.
"""

from dataclasses import dataclass, field
from typing import Final

from store import batch
from store.batch import BatchWriter
from store.checkpoint import CheckpointBuilder, CheckpointHeader
from store.checkpoint_files import (
    KeptCheckpoints,
    checkpoint_name,
    write_checkpoint,
)
from store.checksum import crc32
from store.index import Index
from store.indexing import Indexer
from store.record import Message, Returned, read_record
from store.recovery import Recovered, Recovery
from store.scan import SegmentScan
from store.segment import HEADER_SIZE, header_of, name_of
from store.segment_index import SegmentIndex, index_path
from store.segment_set import Reserve
from store.seq_ranges import ranges_of
from tests.support.memory_filesystem import MemoryFileSystem

UUID: Final = b"0123456789abcdef"
DIRECTORY: Final = "/data"
LOG: Final = f"{DIRECTORY}/log"
# The first segment, and its first record.
FIRST: Final = f"{LOG}/00000001.seg"
FIRST_RECORD: Final = HEADER_SIZE + batch.HEADER_SIZE
KNOWN: Final = {1, 2, 3}
_ALL: Final = 1 << 40


class LogBatch:
    """A batch to be filled."""

    def __init__(self, writer: BatchWriter) -> None:
        self.writer = writer
        self.messages: list[tuple[int, int]] = []
        self.settled: list[tuple[int, int]] = []
        self.delivered: list[tuple[int, int]] = []
        self.returned: list[Returned] = []

    def message(self, *keys: tuple[int, int], size: int = 40) -> "LogBatch":
        """Add a message for some (queue, seq)."""
        content = b"%r" % (keys,) + b"x" * size
        self.writer.begin_message(5, 7, b"envelope", content, None, len(keys))
        for queue_id, seq in keys:
            self.writer.destination(queue_id, seq, 0)
        self.writer.end_message(b"envelope", content, None)
        self.messages += keys
        return self

    def settle(self, queue_id: int, *seqs: int) -> "LogBatch":
        self.writer.settle(queue_id, ranges_of(list(seqs)))
        self.settled += [(queue_id, seq) for seq in seqs]
        return self

    def deliver(self, queue_id: int, upper_seq: int) -> "LogBatch":
        self.writer.delivered(queue_id, 0, upper_seq)
        self.delivered.append((queue_id, upper_seq))
        return self

    def give_back(self, queue_id: int, seq: int, count: int) -> "LogBatch":
        self.writer.returned(queue_id, seq, count, 0)
        self.returned.append(Returned(queue_id, seq, count, 0))
        return self


@dataclass
class WrittenLog:
    """A log that is being written, and what must come of it."""

    filesystem: MemoryFileSystem = field(default_factory=MemoryFileSystem)
    known: set[int] = field(default_factory=lambda: set(KNOWN))
    highest: int = 9
    index: Index = field(default_factory=Index)
    # What is durable.
    live: dict[int, set[int]] = field(default_factory=dict)
    upper: dict[int, int] = field(default_factory=dict)
    delivered: dict[int, int] = field(default_factory=dict)
    returned: dict[tuple[int, int], int] = field(default_factory=dict)
    number: int = 1
    next_batch: int = 1
    end: int = HEADER_SIZE
    durable_segment: int = 1
    durable_offset: int = HEADER_SIZE
    kept: KeptCheckpoints = field(default_factory=KeptCheckpoints)
    allocation: int = 8192
    _descriptor: int = -1

    def __post_init__(self) -> None:
        self.filesystem.make_directory(LOG)
        self._open()

    @property
    def path(self) -> str:
        return self.path_of(self.number)

    def path_of(self, number: int, first: int = 0) -> str:
        return f"{LOG}/{name_of(first or number, number)}"

    def names(self) -> list[str]:
        return sorted(self.filesystem.list_directory(LOG))

    def _open(self) -> None:
        self._descriptor = self.filesystem.create(self.path)
        self.filesystem.allocate(self._descriptor, self.allocation)
        header = header_of(self.number, self.number, UUID)
        self.filesystem.write(self._descriptor, [header], 0)
        self.filesystem.sync(self._descriptor)
        self.filesystem.sync_directory(LOG)
        self.end = HEADER_SIZE

    def put(self, path: str, data: bytes) -> None:
        """Write a whole file, durably but for its name."""
        descriptor = self.filesystem.create(path)
        self.filesystem.write(descriptor, [data], 0)
        self.filesystem.sync(descriptor)
        self.filesystem.close(descriptor)

    # -- batches

    def begin(self) -> LogBatch:
        writer = BatchWriter(
            self.number, self.next_batch, self.durable_segment, self.durable_offset
        )
        self.next_batch += 1
        return LogBatch(writer)

    def write(self, batch: LogBatch, sync: bool = True) -> None:
        """Write a batch; one that is not synced is not told to anybody."""
        chunks = batch.writer.finish()
        self.filesystem.write(self._descriptor, chunks, self.end)
        self.end += batch.writer.size
        if sync:
            self.filesystem.sync(self._descriptor)
            self.durable_segment, self.durable_offset = self.number, self.end
            self._tell(batch)

    def _tell(self, batch: LogBatch) -> None:
        segment = self.index.segment(self.number)
        for queue_id, seq in batch.messages:
            self.index.queue(queue_id).add(segment, seq, seq, 1, 80, None)
            self.live.setdefault(queue_id, set()).add(seq)
            self.upper[queue_id] = seq
        for queue_id, seq in batch.settled:
            self.index.queue(queue_id).settle(ranges_of([seq]))
            self.live.setdefault(queue_id, set()).discard(seq)
        for queue_id, upper_seq in batch.delivered:
            self.index.queue(queue_id).note_delivered(0, upper_seq)
            self.delivered[queue_id] = max(upper_seq, self.delivered.get(queue_id, 0))
        for returned in batch.returned:
            self.index.queue(returned.queue_id).note_returned(returned)
            key = (int(returned.queue_id), int(returned.seq))
            self.returned[key] = int(returned.delivery_count)
        self.index.applied_segment = self.number
        self.index.applied_offset = self.end
        self.index.applied_batch = self.next_batch - 1

    def messages(self, queue_id: int, *seqs: int, size: int = 40) -> None:
        """Write a durable batch of messages."""
        batch = self.begin()
        for seq in seqs:
            batch.message((queue_id, seq), size=size)
        self.write(batch)

    def settle(self, queue_id: int, *seqs: int) -> None:
        """Write a durable batch that settles."""
        self.write(self.begin().settle(queue_id, *seqs))

    # -- files

    def cut(self) -> None:
        """End the segment's file where its last batch ends, durably."""
        self.filesystem.truncate(self._descriptor, self.end)
        self.filesystem.sync(self._descriptor)

    def seal(self, has_index: bool = True) -> None:
        """Go on with a new segment."""
        self.cut()
        if has_index:
            self.write_index(self.number)
        self.number += 1
        self._open()

    def write_index(self, number: int) -> None:
        data = bytes(self.filesystem.content(self.path_of(number)))
        scan = SegmentScan(data, number, len(data))
        scan.run()
        indexer = Indexer(SegmentIndex(number, number))
        for offset in scan.records:
            indexer.add(data, offset, offset)
        indexer.finish()
        chunks = indexer.index.chunks(UUID)
        self.put(index_path(self.path_of(number)), b"".join(chunks))

    def remove(self, number: int) -> None:
        """Remove a segment, as if nothing in it were needed."""
        path = self.path_of(number, int(self.index.segment(number).first_number))
        self.filesystem.remove(path)
        self.filesystem.remove(index_path(path))
        self.index.drop_segment(number)

    def remove_dead(self) -> int:
        """Remove what may go; return how many files went."""
        dead = [
            int(state.number)
            for state in self.index.segments.values()
            if state.references == 0 and state.number < self.kept.needed_segment
        ]
        for number in dead:
            self.remove(number)
        self.filesystem.sync_directory(LOG)
        return len(dead)

    # -- checkpoints and stops

    def begin_checkpoint(self, is_clean: bool = False) -> "CheckpointInWork":
        header = CheckpointHeader(
            self.kept.next_number,
            self.index.applied_segment,
            self.index.applied_offset,
            self.next_batch,
            is_clean,
        )
        return CheckpointInWork(self, header)

    def checkpoint(self) -> str:
        """Take a checkpoint; return its path."""
        return self.begin_checkpoint().finish()

    def end_log(self) -> int:
        """Write the marker of a clean stop; return where it is."""
        offset = self.end
        writer = BatchWriter(self.number, self.next_batch, self.number, offset)
        self.next_batch += 1
        self.filesystem.write(self._descriptor, writer.finish(), offset)
        self.end += int(writer.size)
        self.cut()
        return offset

    def stop(self) -> str:
        """Stop cleanly: marker, index, checkpoint; return the checkpoint's path."""
        offset = self.end_log()
        self.write_index(self.number)
        self.index.applied_segment = self.number
        self.index.applied_offset = offset
        return self.begin_checkpoint(is_clean=True).finish()

    # -- recovery

    def recover(self) -> Recovered:
        reserve = Reserve(self.filesystem, LOG, 4096)
        return Recovery(
            self.filesystem, DIRECTORY, UUID, self.known, self.highest, reserve
        ).run()

    def go_on(self, recovered: Recovered) -> None:
        """Write on behind what was recovered."""
        self.index = recovered.index
        self.number = recovered.next_number
        self.next_batch = recovered.next_batch
        self.kept = recovered.checkpoints
        self.durable_segment, self.durable_offset = self.number, HEADER_SIZE
        self._open()

    def check(self, recovered: Recovered) -> None:
        """Compare what was recovered with what is durable: counts and every seq."""
        assert sorted(recovered.queues) == sorted(self.known)
        for queue_id, queue in recovered.queues.items():
            live = self.live.get(queue_id, set())
            assert live_seqs(recovered, queue_id) == sorted(live)
            assert queue.count == len(live)
            assert queue.next_seq == self.upper.get(queue_id, 0) + 1
            assert queue.first_seq == min(live, default=queue.next_seq)
            assert queue.delivered_upper == self.delivered.get(queue_id, 0)
            assert {seq: one.delivery_count for seq, one in queue.returned.items()} == {
                seq: count
                for (one, seq), count in self.returned.items()
                if one == queue_id and seq in live
            }
        self._check_segments(recovered)

    def _check_segments(self, recovered: Recovered) -> None:
        """Every segment counts the references that lie in it, and its file has them."""
        total = sum(queue.count for queue in recovered.queues.values())
        states = recovered.index.segments
        assert sum(state.references for state in states.values()) == total
        for state in states.values():
            path = self.path_of(state.number, state.first_number)
            assert state.has_file
            assert state.file_size == self.filesystem.size(path)
            held = self._held(path, state.number)
            for queue_id, queue in recovered.index.queues.items():
                for span in queue.spans(0, _ALL, _ALL):
                    if span.segment == state.number:
                        seqs = range(span.first, span.last + 1)
                        live = {seq for seq in seqs if queue.is_live(seq)}
                        assert live <= held.get(queue_id, set())

    def _held(self, path: str, number: int) -> dict[int, set[int]]:
        data = self.filesystem.read_file(path)
        scan = SegmentScan(data, number, len(data))
        scan.run()
        found: dict[int, set[int]] = {}
        for offset in scan.records:
            one = read_record(data, offset)
            if isinstance(one, Message):
                for destination in one.destinations:
                    found.setdefault(destination.queue_id, set()).add(destination.seq)
        return found


class CheckpointInWork:
    """A checkpoint that is being built while the log goes on."""

    def __init__(self, log: WrittenLog, header: CheckpointHeader) -> None:
        self._log = log
        self._header = header
        self._builder = CheckpointBuilder(log.index, UUID, header)

    def advance(self) -> bool:
        """Take one queue more."""
        return self._builder.advance(1)

    def finish(self) -> str:
        """Take the rest, write it, keep two; return its path."""
        while not self.advance():
            pass
        number = int(self._header.number)
        filesystem = self._log.filesystem
        write_checkpoint(filesystem, LOG, number, self._builder.chunks())
        for spare in self._log.kept.add(number, int(self._header.segment)):
            filesystem.remove(f"{LOG}/{checkpoint_name(spare)}")
        return f"{LOG}/{checkpoint_name(number)}"


def live_seqs(recovered: Recovered, queue_id: int) -> list[int]:
    """Return every live seq of a queue."""
    queue = recovered.index.queues.get(queue_id)
    if queue is None:
        return []
    return [seq for seq in range(1, int(queue.upper_seq) + 1) if queue.is_live(seq)]


def crashed(count: int = 3) -> WrittenLog:
    """A log that stopped with `count` messages in queue 1, a batch each."""
    log = WrittenLog()
    for seq in range(1, count + 1):
        log.messages(1, seq)
    return log


def long_log() -> WrittenLog:
    """Segments 1 to 4 with two checkpoints, at the beginning of 3 and of 4."""
    log = WrittenLog()
    for number in range(1, 5):
        log.messages(1, number * 10, number * 10 + 1)
        log.messages(2, number)
        if number > 2:
            log.checkpoint()
        if number < 4:
            log.seal()
    return log


def snapshot(filesystem: MemoryFileSystem) -> dict[str, bytes]:
    return {
        f"{LOG}/{name}": bytes(filesystem.content(f"{LOG}/{name}"))
        for name in filesystem.list_directory(LOG)
    }


def change_first_record(log: WrittenLog, at: int, value: int) -> None:
    """Change a byte of the first record and make its checksum right again."""
    data = log.filesystem.content(FIRST)
    size = int.from_bytes(data[FIRST_RECORD : FIRST_RECORD + 4])
    data[FIRST_RECORD + at] = value
    end = FIRST_RECORD + size - 4
    checksum = crc32(bytes(data[FIRST_RECORD:end]), batch.seed_of(1, 1))
    data[end : end + 4] = checksum.to_bytes(4)
