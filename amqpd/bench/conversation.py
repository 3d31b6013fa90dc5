"""What a client hears on one connection: bytes in, frames out, methods kept.

The connection has one channel. Frames that lie whole in what was read are looked at
where they lie; methods that nobody is fast at are decoded and kept for the edge, which
takes them from `methods`. What is to be sent collects in `out`.

Producer and consumer are conversations too, and look at the frames they live on
before they come here.
"""

from librt.strings import BytesWriter
from mypy_extensions import i64
from pamqp.base import Frame

from amqpd.wire.errors import FrameMalformed
from amqpd.wire.frames import (
    FRAME_END,
    HEAD_SIZE,
    METHOD,
    OVERHEAD,
    PartialFrame,
    byte_at,
    check_head,
    read_u32,
)
from amqpd.wire.methods import decode_method, encode_method


class Conversation:
    """The client's half of a connection, without the socket."""

    def __init__(self, frame_max: i64) -> None:
        self.out = BytesWriter()
        self.methods: list[Frame] = []
        # Nanoseconds since the run began, of what is being received.
        self.now: i64 = 0
        self._frame_max = frame_max
        self._partial = PartialFrame()

    def receive_data(self, data: bytes, now: i64) -> None:
        """Look at what was read from the socket.

        Raises:
            WireError: that is not AMQP 0-9-1.
        """
        self.now = now
        position: i64 = 0
        if self._partial:
            position = self._partial.take_from(data)
            frame = self._partial.whole()
            if frame is None:
                return
            self._take(frame, 0, len(frame))
        end: i64 = len(data)
        while position < end:
            if end - position < HEAD_SIZE:
                break
            size = read_u32(data, position + 3) + OVERHEAD
            if size > end - position:
                break
            self._take(data, position, size)
            position += size
        if position < end:
            self._partial.start(data[position:], self._frame_max)

    def restart(self) -> None:
        """The connection was lost: another one begins."""
        self.out.truncate(0)
        self.methods = []
        self._partial = PartialFrame()

    def say(self, channel: int, method: Frame) -> None:
        """Write a method."""
        self.out.write(encode_method(channel, method))

    def take_output(self) -> bytes:
        """Return what is to be sent."""
        data = self.out.getvalue()
        self.out.truncate(0)
        return data

    def take_methods(self) -> list[Frame]:
        """Return what was said, in order."""
        methods = self.methods
        self.methods = []
        return methods

    def on_frame(self, kind: i64, data: bytes, start: i64, end: i64) -> None:
        """A frame has come: its payload is data[start:end]."""
        if kind == METHOD:
            self.methods.append(decode_method(data[start:end]).method)

    def _take(self, data: bytes, position: i64, size: i64) -> None:
        if byte_at(data, position + size - 1) != FRAME_END:
            check_head(data, position, self._frame_max)
            raise FrameMalformed("a frame does not end with 206")
        kind = byte_at(data, position)
        self.on_frame(kind, data, position + HEAD_SIZE, position + size - 1)
