"""What has come from a client's socket and is not processed yet, in pieces.

    reads   [........][.....]        then   chunks  [........ frame | frame | fra]
                                            partial                          [fra..

A read becomes a chunk, which is walked frame by frame, over several turns if need be.
Its end may be the beginning of a frame; the next read completes that. Frames that a
channel had to keep come back as a chunk on top: they are older than what lies below.
What a frame says is not known here.
"""

from collections import deque
from typing import final

from mypy_extensions import i64, mypyc_attr

from amqpd.wire.frames import PartialFrame


@final
@mypyc_attr(acyclic=True)
class Chunk:
    """Octets that are being processed, and how far."""

    __slots__ = ("data", "is_stream", "offset")

    def __init__(self, data: bytes, offset: i64, is_stream: bool) -> None:
        self.data = data
        self.offset: i64 = offset
        # From the socket, so it may end in the middle of a frame. False: frames that
        # a channel kept.
        self.is_stream = is_stream


@final
@mypyc_attr(acyclic=True)
class Intake:
    """The octets of one connection that wait to be processed."""

    __slots__ = ("_partial", "chunks", "is_held", "reads")

    def __init__(self) -> None:
        # What is being processed; the last one is on top.
        self.chunks: list[Chunk] = []
        self.reads: deque[bytes] = deque()
        # Whether what has come waits for something that is not here.
        self.is_held = False
        self._partial = PartialFrame()

    def has_work(self) -> bool:
        """Whether anything can go on that is more than the beginning of a frame."""
        return not (self.is_held or self.is_empty())

    def is_empty(self) -> bool:
        """Whether nothing waits that is more than the beginning of a frame."""
        return not (self.chunks or self.reads)

    def begin(self, data: bytes) -> None:
        """Make chunks of a read, with the frame that the one before ended in.

        Raises:
            FrameMalformed: the head of that frame is not acceptable.
        """
        taken: i64 = 0
        if self._partial:
            taken = self._partial.take_from(data)
        if taken < len(data):
            self.chunks.append(Chunk(data, taken, True))
        frame = self._partial.whole()
        if frame is not None:
            self.chunks.append(Chunk(frame, 0, True))

    def end(self, chunk: Chunk, pos: i64, size_max: i64) -> None:
        """The chunk on top is done; what is left is the beginning of a frame.

        Raises:
            FrameMalformed: its head is all there and not acceptable.
        """
        self.chunks.pop()
        if chunk.is_stream and pos < len(chunk.data):
            self._partial.start(chunk.data[pos:], size_max)

    def feed(self, frames: bytes) -> None:
        """Process whole frames before everything else."""
        self.chunks.append(Chunk(frames, 0, False))

    def drop(self) -> None:
        """Forget everything."""
        self.is_held = False
        self.chunks.clear()
        self.reads.clear()
        self._partial = PartialFrame()
