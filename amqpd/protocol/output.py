"""What is on its way to one client, and which connections have something to write.

Everything that is sent within a loop turn is pasted into one `BytesWriter` and leaves
in one write. Writers are lent by `OutputQueue` and go back after the write, so an idle
connection holds no buffer. Contents of some size are not copied: they leave as pieces
between what is pasted. A large body does not enter the writer: it stands in
line as itself, shared with whoever else gets it, and is cut into frames a slice a turn.

    chunks   [octets] [large body: 3 MiB of 64 sent] [octets]   then the writer

Two marks bound it (HOTPATH section 7): from `CONSUMERS_MARK` on the connection's
consumers get nothing, from `READING_MARK` on its socket is not read. A client whose
kernel has taken all that was written before is sent three times as much in one go: the
more a write is, the fewer are the times that the client has to be woken for it. That is
a *burst*. None is sent while memory is nearly short, or by TLS, which keeps as much
memory as its largest write took.
"""

from collections import deque
from typing import Final, final

from librt.strings import BytesWriter
from mypy_extensions import i64, trait

from amqpd.broker.queues.delivery import Consumer
from amqpd.wire.frames import BODY, FRAME_END, OVERHEAD, write_head

CONSUMERS_MARK: Final[i64] = 262144
# That of a client that keeps up.
BURST_MARK: Final[i64] = 786432
READING_MARK: Final[i64] = 4 * 1024 * 1024
SLICE_SIZE: Final[i64] = 262144

# A writer keeps the memory that it once needed, so few are kept.
SPARE_WRITERS_MAX: Final = 4
SPARE_SIZE_MAX: Final[i64] = 1024 * 1024

# A content from this size on is not pasted: that it is not copied is worth more than
# the two pieces that it makes.
PIECE_SIZE_MIN: Final[i64] = 4096

# Consumers that are offered room at a time: each of them may well take all there is,
# and to look at a thousand after every write is half of the work of a drain.
WOKEN_MAX: Final = 64


@trait
class Answerer:
    """Who has answers (publisher confirms) that go out with the next write."""

    def write_answers(self) -> None:
        """Write them now."""
        raise NotImplementedError


@final
class OutputQueue:
    """The outputs that have something to write this turn, and spare writers."""

    def __init__(self) -> None:
        # Whether an output has just been filled to its mark: it is time to write, or
        # what comes next could not be passed on and had to wait in its queue.
        self.is_full = False
        # Whether anybody is sent bursts.
        self.has_bursts = True
        self._dirty: list[Output] = []
        self._spare: list[BytesWriter] = []

    def add(self, output: "Output") -> None:
        """The output has something to write; called once until it is taken."""
        self._dirty.append(output)

    def has_work(self) -> bool:
        """Whether anything is to be written."""
        return bool(self._dirty)

    def take_dirty(self) -> "list[Output]":
        """All outputs that have something to write; each may be added again."""
        dirty = self._dirty
        self._dirty = []
        self.is_full = False
        for output in dirty:
            output.is_dirty = False
        return dirty

    def put_off(self, outputs: "list[Output]") -> None:
        """These were taken and have not been written: they are first the next time."""
        late = [output for output in outputs if not output.is_dirty]
        for output in late:
            output.is_dirty = True
        self._dirty = late + self._dirty

    def lend(self) -> BytesWriter:
        """An empty writer."""
        return self._spare.pop() if self._spare else BytesWriter()

    def give_back(self, writer: BytesWriter, used: i64) -> None:
        """Return a writer that held `used` octets."""
        if used <= SPARE_SIZE_MAX and len(self._spare) < SPARE_WRITERS_MAX:
            writer.truncate(0)
            self._spare.append(writer)

    def drop_spare(self) -> None:
        """Keep no writer: nobody has anything to write for now."""
        self._spare.clear()


@final
class LargeBody:
    """A body that is being sent in slices; the octets are shared, not copied."""

    __slots__ = ("body", "channel", "offset")

    def __init__(self, channel: i64, body: bytes) -> None:
        self.channel: i64 = channel
        self.body = body
        self.offset: i64 = 0


@final
class Output:
    """The octets on their way to one client."""

    def __init__(self, queue: OutputQueue) -> None:
        self.frame_max: i64 = 131072
        self.is_dirty = False
        # What the transport holds that the kernel has not taken; net keeps it true.
        self.in_transport: i64 = 0
        # Whatever net writes to. This room only carries it.
        self.sink: object = None
        self.is_closed = False
        # Whether this client is sent bursts.
        self.has_bursts = True
        # Octets given to the transport since the beginning.
        self.sent: i64 = 0
        self.queue = queue
        self._writer: BytesWriter | None = None
        # What stands before the writer: what was pasted, a content, what was pasted...
        self._pieces: list[bytes] = []
        self._pieces_size: i64 = 0
        # What the writer has held at most since it was lent.
        self._pasted_max: i64 = 0
        self._chunks: deque[object] = deque()
        self._chunks_size: i64 = 0
        self._answerers: list[Answerer] = []
        self._waiting: deque[Consumer] = deque()
        # Whether the room that there is was offered to consumers that waited for it.
        self._is_promised = False

    def writer(self) -> BytesWriter:
        """Where to write now. Do not keep it: it is another one next turn."""
        if not self.is_dirty:
            self.is_dirty = True
            self.queue.add(self)
        writer = self._writer
        if writer is None:
            writer = self.queue.lend()
            self._writer = writer
        return writer

    def insert(self, content: bytes) -> None:
        """Write a content of some size behind all that was written before."""
        writer = self.writer()
        pasted = writer.getvalue()
        self._pasted_max = max(self._pasted_max, len(pasted))
        writer.truncate(0)
        self._pieces.append(pasted)
        self._pieces.append(content)
        self._pieces_size += len(pasted) + len(content)

    def send_body(self, channel: i64, body: bytes) -> None:
        """Send a large body, in frames, behind all that was written before."""
        self.writer()
        self._close_writer()
        self._chunks.append(LargeBody(channel, body))
        self._chunks_size += len(body)

    def add_answerer(self, answerer: Answerer) -> None:
        """Ask for the answers with the next write; once until it is asked."""
        self.writer()
        self._answerers.append(answerer)

    def wait_for_room(self, consumer: Consumer) -> None:
        """Offer the consumer to its queue again when there is room."""
        if not consumer.is_waiting:
            consumer.is_waiting = True
            self._waiting.append(consumer)

    def size(self) -> i64:
        """Octets that the kernel has not taken yet."""
        writer = self._writer
        size = self._chunks_size + self._pieces_size + self.in_transport
        return size if writer is None else size + len(writer)

    def has_room(self) -> bool:
        """Whether consumers of this connection may get more."""
        size = self.size()
        if size < CONSUMERS_MARK:
            return True
        if self.in_transport or not (self.has_bursts and self.queue.has_bursts):
            return False
        return size < BURST_MARK

    def has_room_to_pass(self) -> bool:
        """Whether there is room that no consumer of this connection has waited for.

        What is passed on comes before dispatch: it would take all room each turn.
        """
        return not self._waiting and not self._is_promised and self.has_room()

    def note_passed(self) -> None:
        """Something was written that came in this turn: look whether that is enough."""
        if not self.has_room():
            self.queue.is_full = True

    def may_read(self) -> bool:
        """Whether the client reads fast enough to be listened to."""
        return self.size() < READING_MARK

    def take(self) -> list[bytes]:
        """What is to be written this turn, piece by piece; more may be left."""
        self._is_promised = False
        answerers = self._answerers
        if answerers:
            self._answerers = []
            # What they write leaves now: it is no reason for another write.
            was_dirty = self.is_dirty
            self.is_dirty = True
            for answerer in answerers:
                answerer.write_answers()
            self.is_dirty = was_dirty
        pieces = self._take_slice() if self._chunks else self._take_writer()
        for piece in pieces:
            self.sent += len(piece)
        return pieces

    def wake_consumers(self) -> None:
        """Offer those that have waited longest for room, if there is some.

        Should they leave any, the others are offered it next turn.
        """
        waiting = self._waiting
        if not waiting or not self.has_room():
            return
        self._is_promised = True
        for _ in range(min(len(waiting), WOKEN_MAX)):
            consumer = waiting.popleft()
            consumer.is_waiting = False
            consumer.queue.offer(consumer)
        if waiting and not self.is_dirty:
            self.is_dirty = True
            self.queue.add(self)

    def close(self) -> None:
        """Drop everything: the connection is gone."""
        self.is_closed = True
        self._chunks.clear()
        self._chunks_size = 0
        self._writer = None
        self._pieces.clear()
        self._pieces_size = 0
        self._answerers.clear()
        self._waiting.clear()

    def _take_writer(self) -> list[bytes]:
        writer = self._writer
        if writer is None:
            return []
        pieces = self._pieces
        data = writer.getvalue()
        self._writer = None
        self.queue.give_back(writer, max(self._pasted_max, len(data)))
        self._pasted_max = 0
        if not pieces:
            return [data] if data else []
        self._pieces = []
        self._pieces_size = 0
        if data:
            pieces.append(data)
        return pieces

    def _close_writer(self) -> None:
        """Put what was written in line, so that something can stand behind it."""
        for piece in self._take_writer():
            self._chunks.append(piece)
            self._chunks_size += len(piece)

    def _take_slice(self) -> list[bytes]:
        self._close_writer()
        out = self.queue.lend()
        chunks = self._chunks
        while chunks and len(out) < SLICE_SIZE:
            chunk = chunks[0]
            if isinstance(chunk, LargeBody):
                if not self._write_frames(out, chunk):
                    break
            else:
                assert isinstance(chunk, bytes)
                out.write(chunk)
                self._chunks_size -= len(chunk)
            chunks.popleft()
        if chunks and not self.is_dirty:
            self.is_dirty = True
            self.queue.add(self)
        data = out.getvalue()
        self.queue.give_back(out, len(data))
        return [data]

    def _write_frames(self, out: BytesWriter, large: LargeBody) -> bool:
        """Write frames of a body until the slice is full; return whether it is done."""
        body = large.body
        end: i64 = len(body)
        payload_max = self.frame_max - OVERHEAD
        while large.offset < end and len(out) < SLICE_SIZE:
            size = end - large.offset
            if size > payload_max:
                size = payload_max
            write_head(out, BODY, large.channel, size)
            out.write(body[large.offset : large.offset + size])
            out.append(FRAME_END)
            large.offset += size
            self._chunks_size -= size
        return large.offset == end
