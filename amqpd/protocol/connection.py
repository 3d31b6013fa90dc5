"""A connection, fed with bytes and pulled for bytes: no socket, no clock, no thread.

    receive_data(data) -> frames -> channels -> output.take()

Data is processed within a budget of work (HOTPATH section 1): what is left over waits
in `_backlog` for the next turn and the socket is not read meanwhile. A frame is
looked at where it lies. Once the connection is open, the frames of open channels are
dispatched in `_walk`; everything else (handshake, closing, channels that are held,
closed or closing) goes through `_take_frame`, one frame at a time.
"""

import logging
from collections import deque
from typing import Final, final

from librt.strings import read_i64_be
from mypy_extensions import i64
from pamqp import commands
from pamqp.base import Frame

from amqpd.broker.broker import Broker
from amqpd.broker.errors import (
    AmqpError,
    ChannelError,
    ChannelException,
    NotAllowed,
    NotImplementedHere,
    UnexpectedFrame,
)
from amqpd.broker.session import Session
from amqpd.protocol.channel import Channel
from amqpd.protocol.control import ConnectionOptions, Control
from amqpd.protocol.errors import close_method
from amqpd.protocol.frame_shape import check_names, check_shape, no_frame_end
from amqpd.protocol.lifecycle import State
from amqpd.protocol.output import Output
from amqpd.protocol.ports import ConnectionFace, PendingConnections
from amqpd.protocol.presence import Presence
from amqpd.protocol.publishing import (
    EXPECTED_METHOD,
    HEADER_PAYLOAD_SIZE_MIN,
    Publishing,
    check_header,
)
from amqpd.wire.errors import FrameMalformed, SyntaxMalformed, WireError
from amqpd.wire.frames import (
    BODY,
    FRAME_END,
    FRAMED_BODY_SIZE_MAX,
    HEAD_SIZE,
    HEADER,
    HEARTBEAT,
    METHOD,
    OVERHEAD,
    PROTOCOL_HEADER,
    SIZE_FUDGE,
    PartialFrame,
    byte_at,
    check_head,
    described,
    method_frame,
    read_u16,
    read_u32,
)
from amqpd.wire.methods import decode_method, encode_method
from amqpd.wire.properties import walk_properties

logger = logging.getLogger("amqpd.connection")

# One call processes at most so much: 1 a frame, 1 an enqueue, 1 a KiB.
UNITS_PER_TURN: Final[i64] = 2000
# What held channels keep before the socket is not read any more.
KEPT_SIZE_MAX: Final[i64] = 1024 * 1024

# Frame head and end, class, method, ticket, two empty names, flags.
PUBLISH_SIZE_MIN: Final[i64] = OVERHEAD + 9

BASIC_PUBLISH: Final[i64] = 0x003C0028
BASIC_ACK: Final[i64] = 0x003C0050
ACCESS_REQUEST: Final[i64] = 0x001E000A
CHANNEL_OPEN: Final[i64] = 0x0014000A
CHANNEL_CLOSE: Final[i64] = 0x00140028
CHANNEL_CLOSE_OK: Final[i64] = 0x00140029

# pamqp has no class access; the ticket is always 1, as RabbitMQ's.
ACCESS_REQUEST_OK: Final = b"\x00\x1e\x00\x0b\x00\x01"


@final
class Chunk:
    """Octets that are being processed, and how far."""

    __slots__ = ("data", "is_stream", "offset")

    def __init__(self, data: bytes, offset: i64, is_stream: bool) -> None:
        self.data = data
        self.offset: i64 = offset
        # From the socket, so it may end in the middle of a frame. False: frames that
        # a held channel kept.
        self.is_stream = is_stream


@final
class Connection(ConnectionFace):
    """One client's connection."""

    def __init__(
        self,
        broker: Broker,
        options: ConnectionOptions,
        output: Output,
        pending: PendingConnections,
        name: str,
        peer_is_loopback: bool,
        now_ms: i64,
    ) -> None:
        super().__init__()
        self.name = name
        self.output = output
        self.control = Control(
            broker, options, output, name, peer_is_loopback, self, now_ms
        )
        self.channels: dict[int, Channel] = {}
        self._broker = broker
        self._body_size_max: i64 = options.body_size_max
        self._pending = pending
        self._session: Session | None = None
        # The largest payload that a frame may have.
        self._size_max: i64 = output.frame_max + SIZE_FUDGE - OVERHEAD
        self._is_open = False
        self._is_released = False
        self._partial = PartialFrame()
        self._greeting = b""
        # What is being processed; the last one is on top.
        self._chunks: list[Chunk] = []
        self._incoming: deque[bytes] = deque()
        self._kept_size: i64 = 0
        self._touched: list[Publishing] = []
        self._units: i64 = 0
        self._now_ms: i64 = now_ms
        # The channel and the method that an error is about.
        self._channel_number: i64 = 0
        self._method_id: i64 = 0

    # -- bytes come in --------------------------------------------------------

    def receive_data(self, data: bytes, now_ms: i64) -> None:
        """Take what was read from the socket and process as much as one turn may."""
        self.bytes_in += len(data)
        if self._is_released and self.control.state is not State.AWAIT_CLOSE_OK:
            return
        self._incoming.append(data)
        if not self._chunks:
            self.advance(now_ms)

    def has_backlog(self) -> bool:
        """Whether there is something to process that `advance` has not come to."""
        return bool(self._chunks) or bool(self._incoming)

    def may_read(self) -> bool:
        """Whether the socket may be read."""
        return (
            not self._chunks
            and not self._incoming
            and self._kept_size < KEPT_SIZE_MAX
            and self.output.may_read()
        )

    def advance(self, now_ms: i64) -> None:
        """Process what has come, within one turn's budget."""
        self._units = UNITS_PER_TURN
        self._now_ms = now_ms
        if self._session is not None:
            self._session.refresh_routes()
        while self._units > 0 and self.has_backlog():
            try:
                if self._chunks:
                    self._walk(self._chunks[-1])
                else:
                    self._begin_read(self._incoming.popleft())
            except Exception as error:  # noqa: BLE001 - it is logged there
                self._on_error(error)
        for publishing in self._touched:
            publishing.hand_over_waiting()
        self._touched.clear()
        if self.has_backlog():
            self._pending.add(self)

    def _on_error(self, error: Exception) -> None:
        """Close what the error says; one that nobody foresaw is ours and is logged."""
        if isinstance(error, ChannelException):
            self._close_channel(self._channel_number, error)
            return
        if isinstance(error, FrameMalformed):
            # What cannot be taken apart names no method.
            self._method_id = 0
        elif not isinstance(error, (AmqpError, WireError)):
            logger.error(
                "connection %s: internal error",
                self.name,
                exc_info=error,
                extra={"connection": self.name},
            )
        self._fail(error)

    def _begin_read(self, data: bytes) -> None:
        """Begin with what one read of the socket brought."""
        if self.control.state is State.AWAIT_PROTOCOL_HEADER:
            self._greeting += data
            data = b""
            if len(self._greeting) >= len(PROTOCOL_HEADER):
                data = self._greeting[len(PROTOCOL_HEADER) :]
                self.control.take_protocol_header(
                    self._greeting[: len(PROTOCOL_HEADER)]
                )
                if self.control.is_closed:
                    self._drop_input()
                    self.release()
                    return
        taken: i64 = 0
        if self._partial:
            taken = self._partial.take_from(data)
        if taken < len(data):
            self._chunks.append(Chunk(data, taken, True))
        frame = self._partial.whole()
        if frame is not None:
            self._chunks.append(Chunk(frame, 0, True))

    def _walk(self, chunk: Chunk) -> None:
        """Process frame after frame until the budget or the chunk is used up."""
        data = chunk.data
        end: i64 = len(data)
        pos = chunk.offset
        number: i64 = -1
        channel: Channel | None = None
        while self._units > 0:
            if end - pos < OVERHEAD:
                self._end_chunk(chunk, pos)
                return
            size = read_u32(data, pos + 3)
            if size > self._size_max:
                check_head(data, pos, self._size_max)
            after = pos + size + OVERHEAD
            if after > end:
                self._end_chunk(chunk, pos)
                return
            if byte_at(data, after - 1) != FRAME_END:
                raise no_frame_end(data, pos, after)
            chunk.offset = after
            self._units -= 1 + (size >> 10)
            if read_u16(data, pos + 1) != number:
                number = read_u16(data, pos + 1)
                channel = self.channels.get(number)
                self._channel_number = number
            frame_type = byte_at(data, pos)
            if channel is None or not channel.is_ready or size < 4:
                self._take_frame(channel, frame_type, data[pos:after])
                number = -1
            elif frame_type == METHOD:
                method_id = read_u32(data, pos + HEAD_SIZE)
                if channel.publishing.is_receiving:
                    self._method_id = BASIC_PUBLISH
                    channel.publishing.refuse_method()
                self._method_id = method_id
                if method_id == BASIC_PUBLISH:
                    self._publish(channel, chunk, pos, after)
                elif method_id == BASIC_ACK and size == 13:
                    channel.consuming.ack(
                        i64(read_i64_be(data, pos + 11)), byte_at(data, pos + 19) != 0
                    )
                else:
                    self._take_method(channel, data[pos + HEAD_SIZE : after - 1])
                    number = -1
            else:
                self._take_frame(channel, frame_type, data[pos:after])
                number = -1
            if number == -1 and (not self._chunks or self._chunks[-1] is not chunk):
                return
            pos = chunk.offset

    def _end_chunk(self, chunk: Chunk, pos: i64) -> None:
        """What is left, if anything, is the beginning of a frame."""
        self._chunks.pop()
        if chunk.is_stream and pos < len(chunk.data):
            self._partial.start(chunk.data[pos:], self._size_max)

    def _publish(self, channel: Channel, chunk: Chunk, pos: i64, after: i64) -> None:
        """A basic.publish; if its whole content lies behind it, that too."""
        data = chunk.data
        if after - pos < PUBLISH_SIZE_MIN:
            raise SyntaxMalformed("basic.publish is too short")
        flags = byte_at(data, after - 2)
        if flags & 2:
            raise NotImplementedHere("immediate=true")
        raw = data[pos + 13 : after - 2]
        routes = channel.session.routes
        named = byte_at(data, pos + 13) != 0
        route = routes.by_name.get(raw) if named else routes.by_default.get(raw)
        if route is None or not route.is_current():
            check_names(raw)
            route = channel.session.find_route(raw)
        mandatory = flags & 1 != 0
        publishing = channel.publishing
        stop = self._content_end(data, after, channel.number)
        if stop == 0:
            publishing.begin(route, mandatory)
            return
        chunk.offset = stop
        header_end = after + read_u32(data, after + 3) + OVERHEAD
        facts = walk_properties(data, after + HEAD_SIZE, header_end - 1)
        enqueued = publishing.publish(
            route, mandatory, data[after:stop], None, facts, self._now_ms
        )
        self._units -= 2 + enqueued + ((stop - after) >> 10)

    def _content_end(self, data: bytes, header: i64, number: i64) -> i64:
        """Where the content ends that begins at `header`, if it is to be kept so.

        0: it is not all there, or not in the canonical form, or not acceptable. Then it
        is taken frame by frame, which finds out what is the matter.
        """
        end: i64 = len(data)
        if end - header < HEADER_PAYLOAD_SIZE_MIN + OVERHEAD:
            return 0
        body = header + read_u32(data, header + 3) + OVERHEAD
        if (
            body > end
            or body - header > self._size_max
            or body - header < HEADER_PAYLOAD_SIZE_MIN + OVERHEAD
            or byte_at(data, header) != HEADER
            or read_u16(data, header + 1) != number
            or byte_at(data, body - 1) != FRAME_END
        ):
            return 0
        size = check_header(data, header, body, self._body_size_max)
        if size == 0:
            return body
        stop = body + size + OVERHEAD
        if (
            size > FRAMED_BODY_SIZE_MAX
            or size > self._size_max
            or stop > end
            or byte_at(data, body) != BODY
            or read_u16(data, body + 1) != number
            or read_u32(data, body + 3) != size
            or byte_at(data, stop - 1) != FRAME_END
        ):
            return 0
        return stop

    # -- one frame at a time --------------------------------------------------

    def _take_frame(
        self, channel: Channel | None, frame_type: i64, frame: bytes
    ) -> None:
        """Take a frame that is not of the common kind."""
        number = self._channel_number
        self._method_id = 0
        check_shape(frame_type, frame)
        if frame_type == HEARTBEAT:
            if number:
                raise UnexpectedFrame(described(frame_type, b"", ""))
            return
        if frame_type == METHOD:
            self._method_id = read_u32(frame, HEAD_SIZE)
        if number == 0 or not self._is_open:
            self._take_control_frame(frame_type, frame)
        elif channel is None:
            self._take_unopened(frame_type)
        elif channel.is_closing:
            self._take_while_closing(channel, frame_type)
        elif channel.is_held:
            channel.keep(frame)
            self._kept_size += len(frame)
        else:
            # Content: the methods of a channel that is ready do not come here.
            if channel.publishing.is_receiving:
                self._method_id = BASIC_PUBLISH
            if frame_type == HEADER:
                channel.publishing.take_header(frame, self._now_ms)
            else:
                channel.publishing.take_body(frame, self._now_ms)

    def _take_control_frame(self, frame_type: i64, frame: bytes) -> None:
        if frame_type != METHOD or self._channel_number:
            if self.control.state is State.AWAIT_CLOSE_OK:
                return
            self._method_id = 0
            raise UnexpectedFrame(described(frame_type, frame[HEAD_SIZE:-1], ""))
        self.control.take_method(frame[HEAD_SIZE:-1], self._method_id, self._now_ms)
        session = self.control.session
        self._is_open = self.control.state is State.OPEN
        if self._is_open and self._session is None:
            assert session is not None
            self._session = session
            presence = Presence(
                self, self.control, session, self.output, self.channels, self._now_ms
            )
            self._broker.connections.add(presence, self)
        self._size_max = self.output.frame_max + SIZE_FUDGE - OVERHEAD
        if self.control.is_closed:
            self._drop_input()
            self.release()
            # The socket is closed by the next write, even if there is nothing to say.
            self.output.writer()

    def _take_unopened(self, frame_type: i64) -> None:
        number = self._channel_number
        if frame_type != METHOD:
            raise UnexpectedFrame(EXPECTED_METHOD)
        if self._method_id != CHANNEL_OPEN:
            raise ChannelError("expected 'channel.open'")
        # Who is refused a channel is not told by what method.
        self._method_id = 0
        channel_max = self.control.handshake.channel_max
        if channel_max and len(self.channels) >= channel_max:
            raise NotAllowed(
                f"number of channels opened ({channel_max}) has reached the "
                f"negotiated channel_max ({channel_max})"
            )
        session = self._session
        assert session is not None
        session.enter_channel()
        channel = Channel(
            number,
            session,
            self.output,
            self._broker.durability,
            self._body_size_max,
            self,
            self._touched,
        )
        self.channels[number] = channel
        channel.reply(commands.Channel.OpenOk())

    def _take_while_closing(self, channel: Channel, frame_type: i64) -> None:
        if frame_type != METHOD:
            return
        if self._method_id == CHANNEL_CLOSE:
            self._send(channel.number, commands.Channel.CloseOk())
        elif self._method_id == CHANNEL_CLOSE_OK:
            del self.channels[channel.number]
        elif self._method_id == CHANNEL_OPEN:
            raise ChannelError("second 'channel.open' seen")

    def _take_method(self, channel: Channel, payload: bytes) -> None:
        method_id = self._method_id
        if method_id == CHANNEL_OPEN:
            raise ChannelError("second 'channel.open' seen")
        if method_id == ACCESS_REQUEST:
            self.output.writer().write(method_frame(channel.number, ACCESS_REQUEST_OK))
            return
        decoded = decode_method(payload)
        if method_id == CHANNEL_CLOSE:
            channel.publishing.write_answers()
            channel.close()
            del self.channels[channel.number]
            self._send(channel.number, commands.Channel.CloseOk())
        else:
            channel.handle(int(method_id), decoded)

    # -- what channels ask for ------------------------------------------------

    def resume_channel(self, number: i64) -> None:
        """The channel is not held any more: feed it the frames that were kept."""
        channel = self.channels.get(number)
        if channel is None or not channel.kept:
            return
        self._kept_size -= channel.kept_size
        self._chunks.append(Chunk(channel.take_kept(), 0, False))
        self._pending.add(self)

    def fail_channel(self, number: i64, error: AmqpError, method_id: i64) -> None:
        """Close the channel or the connection, as the error about a method says."""
        self._method_id = method_id
        if isinstance(error, ChannelException):
            self._close_channel(number, error)
        else:
            self._channel_number = number
            self._fail(error)

    def can_be_cancelled(self) -> bool:
        """Whether the client understands basic.cancel from the server."""
        return self.control.handshake.capabilities.consumer_cancel_notify

    # -- the end --------------------------------------------------------------

    def close(self, error: AmqpError, now_ms: i64) -> None:
        """The broker ends the connection and says why."""
        self._now_ms = now_ms
        self._method_id = 0
        self._fail(error)

    def lose_socket(self, reason: str) -> None:
        """The socket is gone: clean up as if the client had closed everything."""
        self.control.lose_socket(reason)
        self._drop_input()
        self.output.close()
        self.release()
        # Nothing refers in a circle any more: no collector has to find it.
        self._session = None
        self.control.forget_connection()

    def on_time(self, now_ms: i64) -> None:
        """Do what is due; called every now and then."""
        self.control.on_time(now_ms, self.bytes_in, self.output.sent)
        if self.control.is_closed:
            self._drop_input()
            self.release()

    def release(self) -> None:
        """Close all channels and give back what the connection owned; once."""
        if self._is_released:
            return
        self._is_released = True
        self._is_open = False
        channels = list(self.channels.values())
        self.channels.clear()
        self._kept_size = 0
        for channel in channels:
            channel.close()
        self._broker.connections.remove(self)
        if self._session is not None:
            self._session.close()

    def _close_channel(self, number: i64, error: ChannelException) -> None:
        channel = self.channels[number]
        self._kept_size -= channel.kept_size
        # What is settled is answered: nobody can ask for it again.
        channel.publishing.write_answers()
        channel.close()
        channel.is_closing = True
        channel.is_ready = False
        class_id, method_id = divmod(int(self._method_id), 65536)
        logger.error(
            "connection %s, channel %d: %s - %s (class %d, method %d)",
            self.name,
            number,
            error.reply_name,
            error.text,
            class_id,
            method_id,
            extra={"connection": self.name, "channel": int(number)},
        )
        self._send(number, close_method(error, class_id, method_id)[1])

    def _fail(self, error: Exception) -> None:
        class_id, method_id = divmod(int(self._method_id), 65536)
        self._drop_input()
        self.control.fail(error, class_id, method_id, self._now_ms)
        self._is_open = False
        self.release()

    def _drop_input(self) -> None:
        self._chunks.clear()
        self._incoming.clear()
        self._partial = PartialFrame()

    def _send(self, number: i64, method: Frame) -> None:
        self.output.writer().write(encode_method(int(number), method))
