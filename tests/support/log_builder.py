"""Sealed segments with their indexes, made without a store, and read back.

A log is built segment by segment, as a store would leave it; `read` follows the index
to the files like a cold read does, and returns what the queues hold.
"""

from dataclasses import dataclass, field
from typing import Final

from librt.strings import BytesWriter

from store.batch import BatchWriter, is_sound
from store.index import Index
from store.record import CHECKSUM_SIZE, Message, read_record, read_u32
from store.segment import HEADER_SIZE, header_of, name_of
from store.segment_index import (
    ENTRY_SIZE,
    SegmentIndex,
    find_run,
    index_path,
    read_header,
    read_seq,
    write_entry,
)
from store.segment_index import HEADER_SIZE as INDEX_HEADER_SIZE
from store.seq_ranges import ranges_of
from tests.support.memory_filesystem import MemoryFileSystem

UUID: Final = b"0123456789abcdef"
LOG: Final = "/data/log"


@dataclass
class Put:
    """One message: its queues and seqs, and what it says."""

    destinations: list[tuple[int, int]]
    content: bytes
    body: bytes | None = None
    lane: int = 0


@dataclass
class LogBuilder:
    """A log of sealed segments and its index."""

    filesystem: MemoryFileSystem = field(default_factory=MemoryFileSystem)
    index: Index = field(default_factory=Index)
    next_number: int = 1
    next_batch: int = 1
    # What each queue holds, by seq.
    model: dict[int, dict[int, bytes]] = field(default_factory=dict)

    def segment(self, *batches: list[Put]) -> int:
        """Write a segment of these batches, durably; return its number."""
        number = self.next_number
        self.next_number += 1
        path = f"{LOG}/{name_of(number, number)}"
        chunks = [header_of(number, number, UUID)]
        index = SegmentIndex(number, number)
        offset = HEADER_SIZE
        for puts in batches:
            writer = BatchWriter(number, self.next_batch, number, offset)
            self.next_batch += 1
            for put in puts:
                self._put(writer, index, offset, put)
            chunks += writer.finish()
            offset += int(writer.size)
        self._write(path, chunks)
        self._write(index_path(path), index.chunks(UUID))
        self.filesystem.sync_directory(LOG)
        self.index.adopt_segment(number, number, offset)
        self._tell(index, number)
        self.index.applied_segment = number
        self.index.applied_offset = offset
        self.index.applied_batch = self.next_batch - 1
        return number

    def _put(
        self, writer: BatchWriter, index: SegmentIndex, offset: int, put: Put
    ) -> None:
        before = writer.position
        writer.begin_message(
            5, 7, b"envelope", put.content, put.body, len(put.destinations)
        )
        for queue_id, seq in put.destinations:
            writer.destination(queue_id, seq, put.lane)
        writer.end_message(b"envelope", put.content, put.body)
        size = writer.position - before
        for queue_id, seq in put.destinations:
            out = BytesWriter()
            write_entry(out, seq, offset + before, size)
            index.share(queue_id).add(seq, seq, 1, size, out.getvalue())
            self.model.setdefault(queue_id, {})[seq] = put.content + (put.body or b"")

    def _write(self, path: str, chunks: list[bytes]) -> None:
        descriptor = self.filesystem.create(path)
        self.filesystem.write(descriptor, chunks, 0)
        self.filesystem.sync(descriptor)
        self.filesystem.close(descriptor)

    def _tell(self, index: SegmentIndex, number: int) -> None:
        state = self.index.segment(number)
        for share in index.shares():
            entries = bytes(share.entries)
            seqs = {
                read_seq(entries, at, share.first)
                for at in range(0, len(entries), ENTRY_SIZE)
            }
            missing = [
                seq
                for seq in range(int(share.first), int(share.last) + 1)
                if seq not in seqs
            ]
            self.index.queue(share.queue_id).add(
                state,
                share.first,
                share.last,
                share.count,
                share.size,
                ranges_of(missing) if missing else None,
            )

    def settle(self, queue_id: int, *seqs: int) -> None:
        """Messages are done with, durably."""
        self.index.queue(queue_id).settle(ranges_of(list(seqs)))
        for seq in seqs:
            del self.model[queue_id][seq]

    def forget(self, queue_id: int) -> None:
        """A queue is gone."""
        self.index.forget_queue(queue_id)
        del self.model[queue_id]

    def read(self) -> dict[int, dict[int, bytes]]:
        """Return what the files say that the queues hold, by seq."""
        found: dict[int, dict[int, bytes]] = {}
        for queue_id in self.index.queues:
            messages: dict[int, bytes] = {}
            queue = self.index.queue(queue_id)
            for seq in range(1, queue.upper_seq + 1):
                if queue.is_live(seq):
                    messages[seq] = self._read(queue_id, seq)
            assert len(messages) == queue.live_count
            found[queue_id] = messages
        return found

    def _read(self, queue_id: int, seq: int) -> bytes:
        (span,) = self.index.queue(queue_id).spans(seq, seq, 1)
        state = self.index.segments[int(span.segment)]
        path = f"{LOG}/{name_of(int(state.first_number), int(state.number))}"
        index = bytes(self.filesystem.content(index_path(path)))
        header = read_header(index, state.first_number, state.number, UUID)
        assert header is not None
        directory = index[INDEX_HEADER_SIZE:][: header.directory_size]
        run = find_run(directory, header.run_count, queue_id)
        assert run is not None
        entries = index[run.entries_at : run.entries_at + run.count * ENTRY_SIZE]
        assert run.are_entries(entries)
        for at in range(0, len(entries), ENTRY_SIZE):
            if read_seq(entries, at, run.first) == seq:
                offset = read_u32(entries, at + 4)
                size = read_u32(entries, at + 8)
                return self._content(path, int(offset), int(size), span.segment, seq)
        raise AssertionError(f"{seq} of queue {queue_id} is not in {path}")

    def _content(
        self, path: str, offset: int, size: int, number: int, seq: int
    ) -> bytes:
        data = bytes(self.filesystem.content(path))
        assert is_sound(data, offset, size, number)
        message = read_record(data[: offset + size], offset)
        assert isinstance(message, Message)
        assert seq in [one.seq for one in message.destinations]
        assert message.envelope == b"envelope"
        assert (message.enqueued_ms, message.expires_ms) == (5, 7)
        assert size > CHECKSUM_SIZE
        return message.content + (message.body or b"")

    def names(self) -> list[str]:
        """Return the names of the files in the log, in order."""
        return sorted(self.filesystem.list_directory(LOG))
