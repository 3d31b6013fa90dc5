"""A connection, fed with bytes and pulled for bytes: no socket, no clock, no thread.

    receive_data(data) -> frames -> channels -> output.take()

Data is processed within a budget of work (HOTPATH section 1): what is left over waits
in `_backlog` for the next turn and the socket is not read meanwhile. A frame is
looked at where it lies. Once the connection is open, the frames of open channels are
dispatched in `_walk`; everything else (handshake, closing, channels that are held,
closed or closing) goes through `_take_frame`, one frame at a time.
"""

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
    UnexpectedFrame,
)
from amqpd.broker.vhosts.session import Session
from amqpd.protocol.channel import Channel
from amqpd.protocol.control import ConnectionOptions, Control
from amqpd.protocol.errors import close_method, log_closed_channel, log_unforeseen
from amqpd.protocol.frame_shape import check_shape, no_frame_end
from amqpd.protocol.intake import Chunk, Intake
from amqpd.protocol.lifecycle import State
from amqpd.protocol.output import Output
from amqpd.protocol.parking import BEHIND, PARKED, Parking
from amqpd.protocol.ports import ConnectionFace, PendingConnections
from amqpd.protocol.presence import Presence
from amqpd.protocol.publish_reader import PublishReader
from amqpd.protocol.publishing import EXPECTED_METHOD, Publishing
from amqpd.wire.errors import FrameMalformed
from amqpd.wire.frames import (
    FRAME_END,
    HEAD_SIZE,
    HEADER,
    HEARTBEAT,
    METHOD,
    OVERHEAD,
    PROTOCOL_HEADER,
    SIZE_FUDGE,
    byte_at,
    check_head,
    described,
    method_frame,
    read_u16,
    read_u32,
)
from amqpd.wire.methods import decode_method, encode_method

# One call processes at most so much: 1 a frame, 1 an enqueue, 1 a KiB.
UNITS_PER_TURN: Final[i64] = 2000
# What held channels keep before the socket is not read any more.
KEPT_SIZE_MAX: Final[i64] = 1024 * 1024

BASIC_PUBLISH: Final[i64] = 0x003C0028
BASIC_ACK: Final[i64] = 0x003C0050
# Two ids, a tag, a bit.
ACK_FRAME_SIZE: Final[i64] = OVERHEAD + 13
ACCESS_REQUEST: Final[i64] = 0x001E000A
CONNECTION_CLOSE: Final[i64] = 0x000A0032
CHANNEL_OPEN: Final[i64] = 0x0014000A
CHANNEL_CLOSE: Final[i64] = 0x00140028
CHANNEL_CLOSE_OK: Final[i64] = 0x00140029

# pamqp has no class access; the ticket is always 1, as RabbitMQ's.
ACCESS_REQUEST_OK: Final = b"\x00\x1e\x00\x0b\x00\x01"


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
        self._publishes = PublishReader(options.body_size_max)
        self._pending = pending
        self._session: Session | None = None
        # The largest payload that a frame may have.
        self._size_max: i64 = output.frame_max + SIZE_FUDGE - OVERHEAD
        self._is_open = False
        self._is_released = False
        self._greeting = b""
        self._intake = Intake()
        self._kept_size: i64 = 0
        self._alarms = broker.alarms
        # While an alarm is on, what has been published since.
        self._parking: Parking | None = None
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
        self._intake.reads.append(data)
        if not self._intake.chunks:
            self.advance(now_ms)

    def has_backlog(self) -> bool:
        """Whether there is something to process that `advance` has not come to."""
        return self._intake.has_work()

    def may_read(self) -> bool:
        """Whether the socket may be read."""
        return (
            self._intake.is_empty()
            and self._kept_size < KEPT_SIZE_MAX
            and (self._parking is None or not self._parking.is_full)
            and self.output.may_read()
        )

    def advance(self, now_ms: i64) -> None:
        """Process what has come, within one turn's budget."""
        self._units = UNITS_PER_TURN
        self._now_ms = now_ms
        if self._session is not None:
            self._session.refresh_routes()
        if self._alarms.is_on and self._parking is None and not self._is_released:
            self._begin_parking()
        intake = self._intake
        while self._units > 0 and intake.has_work():
            try:
                if intake.chunks:
                    self._walk(intake.chunks[-1])
                else:
                    self._begin_read(intake.reads.popleft())
            except Exception as error:  # noqa: BLE001 - it is logged there
                self._on_error(error)
        self._hand_over()
        if self.has_backlog():
            self._pending.add(self)

    def _hand_over(self) -> None:
        """Give the numbers that wait for the disk to the log."""
        for publishing in self._touched:
            publishing.hand_over_waiting()
        self._touched.clear()

    def _on_error(self, error: Exception) -> None:
        """Close what the error says; one that nobody foresaw is ours and is logged."""
        if isinstance(error, ChannelException):
            self._close_channel(self._channel_number, error)
            return
        if isinstance(error, FrameMalformed):
            # What cannot be taken apart names no method.
            self._method_id = 0
        log_unforeseen(error, self.name)
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
                    self.release()
                    return
        self._intake.begin(data)

    def _walk(self, chunk: Chunk) -> None:
        """Process frame after frame until the budget or the chunk is used up."""
        data = chunk.data
        pos = chunk.offset
        number: i64 = -1
        channel: Channel | None = None
        while self._units > 0:
            after = self._frame_end(chunk, pos)
            if after == 0:
                return
            size = after - pos - OVERHEAD
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
                    self._publish(channel, chunk, pos)
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
            if number == -1 and not self._is_on_top(chunk):
                return
            pos = chunk.offset

    def _frame_end(self, chunk: Chunk, pos: i64) -> i64:
        """Go behind the frame at `pos`; 0: it is not all there, the chunk is done."""
        data = chunk.data
        end: i64 = len(data)
        if end - pos < OVERHEAD:
            self._intake.end(chunk, pos, self._size_max)
            return 0
        size = read_u32(data, pos + 3)
        if size > self._size_max:
            check_head(data, pos, self._size_max)
        after = pos + size + OVERHEAD
        if after > end:
            self._intake.end(chunk, pos, self._size_max)
            return 0
        if byte_at(data, after - 1) != FRAME_END:
            raise no_frame_end(data, pos, after)
        chunk.offset = after
        self._units -= 1 + (size >> 10)
        return after

    def _is_on_top(self, chunk: Chunk) -> bool:
        intake = self._intake
        return intake.has_work() and intake.chunks[-1] is chunk

    def _publish(self, channel: Channel, chunk: Chunk, pos: i64) -> None:
        """Take a basic.publish, and those behind it that say the same."""
        publishes = self._publishes
        outputs = self.output.queue
        self._units -= publishes.take(channel, chunk, pos, self._size_max, self._now_ms)
        while self._units > 0 and not outputs.is_full:
            after = publishes.repeated_end(chunk.data, chunk.offset)
            if after == 0:
                return
            chunk.offset = after
            self._units -= 1 + publishes.take_content(
                channel, chunk, self._size_max, self._now_ms
            )
        if outputs.is_full:
            # The rest would have to go by the queue: it is time to write.
            self._units = 0

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
        elif channel.is_guarded:
            self._take_guarded(channel, frame_type, frame)
        else:
            self._take_now(channel, frame_type, frame)

    def _take_content(self, channel: Channel, frame_type: i64, frame: bytes) -> None:
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
        if self._method_id == CONNECTION_CLOSE:
            self._end_parking()
        self.control.take_method(frame[HEAD_SIZE:-1], self._method_id, self._now_ms)
        self._intake.is_held = self.control.is_waiting
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
            self.release()
            # The socket is closed by the next write, even if there is nothing to say.
            self.output.writer()

    def _take_unopened(self, frame_type: i64) -> None:
        number = self._channel_number
        if frame_type != METHOD:
            raise UnexpectedFrame(EXPECTED_METHOD)
        if self._method_id != CHANNEL_OPEN:
            raise ChannelError("expected 'channel.open'")
        self._method_id = 0
        self.control.handshake.check_channels(len(self.channels))
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
        if self._parking is not None:
            channel.guard()
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

    # -- while an alarm is on -------------------------------------------------

    def _begin_parking(self) -> None:
        """From here on every frame of a channel is looked at by `_take_guarded`."""
        self._parking = Parking(self._alarms, self._body_size_max)
        self._alarms.wait(self)
        for channel in self.channels.values():
            channel.guard()

    def _take_guarded(self, channel: Channel, frame_type: i64, frame: bytes) -> None:
        """Park a publish and what has to wait behind it; process the rest."""
        parking = self._parking
        assert parking is not None
        number = channel.number
        if not channel.publishing.is_receiving:
            verdict = parking.offer(
                number,
                frame_type,
                self._method_id,
                frame,
                channel.publishing.transaction is not None,
            )
            if verdict == PARKED:
                self.control.block()
                return
            if verdict == BEHIND:
                self._run_parked(channel, parking.take(number))
                self._take_frame(self.channels.get(number), frame_type, frame)
                return
        self._take_now(channel, frame_type, frame)

    def _take_now(self, channel: Channel, frame_type: i64, frame: bytes) -> None:
        """Process a frame of an open channel that nothing keeps waiting."""
        if frame_type != METHOD:
            self._take_content(channel, frame_type, frame)
            return
        if channel.publishing.is_receiving:
            self._method_id = BASIC_PUBLISH
            channel.publishing.refuse_method()
        if self._method_id == BASIC_ACK and len(frame) == ACK_FRAME_SIZE:
            channel.consuming.ack(i64(read_i64_be(frame, 11)), byte_at(frame, 19) != 0)
        else:
            self._take_method(channel, frame[HEAD_SIZE:-1])

    def on_alarms_over(self) -> None:
        """Publishers go on, with what they have parked first."""
        parking = self._parking
        assert parking is not None
        self._parking = None
        for channel in self.channels.values():
            channel.unguard()
        for number in parking.numbers():
            self._intake.feed(parking.take(number))
        if self._intake.has_work():
            self._pending.add(self)
        self.control.unblock()

    def _end_parking(self) -> None:
        """The connection ends: what is parked and complete is published now."""
        parking = self._parking
        if parking is None:
            return
        self._alarms.forget(self)
        self._parking = None
        for channel in self.channels.values():
            # Nothing is passed on to consumers that end with the connection.
            channel.consuming.hold()
        for number in parking.numbers():
            try:
                self._run_parked(self.channels[number], parking.take_whole(number))
            except Exception as error:  # noqa: BLE001 - it is logged there
                # The connection ends anyway.
                log_unforeseen(error, self.name)
        self._hand_over()

    def _run_parked(self, channel: Channel, frames: bytes) -> None:
        """Process what a channel has parked at once, since the channel ends.

        That takes no longer than what may be parked: a megabyte, or a message.
        """
        channel.unguard()
        outer, number, method_id = self._intake, self._channel_number, self._method_id
        self._intake = Intake()
        self._intake.feed(frames)
        try:
            while self._intake.chunks:
                self._units = UNITS_PER_TURN
                try:
                    self._walk(self._intake.chunks[-1])
                except ChannelException as error:
                    self._close_channel(self._channel_number, error)
        finally:
            self._intake = outer
        self._channel_number, self._method_id = number, method_id

    # -- what channels ask for ------------------------------------------------

    def resume_channel(self, number: i64) -> None:
        """The channel is not held any more: feed it the frames that were kept."""
        channel = self.channels.get(number)
        if channel is None or not channel.kept:
            return
        self._kept_size -= channel.kept_size
        self._intake.feed(channel.take_kept())
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

    def on_secret_checked(self, is_right: bool) -> None:
        """Go on with what has come since the password did."""
        self._now_ms = self._broker.timers.now_ms
        try:
            self.control.end_wait(is_right, self._now_ms)
        except AmqpError as error:
            self._fail(error)
        self._intake.is_held = False
        self._pending.add(self)

    def on_renewed(self) -> None:
        """The user may be permitted less than before."""
        for channel in self.channels.values():
            channel.cancel_forbidden()

    # -- the end --------------------------------------------------------------

    def close(self, error: AmqpError, now_ms: i64) -> None:
        """The broker ends the connection and says why."""
        self._now_ms = now_ms
        self._method_id = 0
        self._fail(error)

    def lose_socket(self, reason: str) -> None:
        """The socket is gone: clean up as if the client had closed everything."""
        self._intake.drop()
        self._end_parking()
        self.control.lose_socket(reason)
        self.output.close()
        self.release()
        # Nothing refers in a circle any more: no collector has to find it.
        self._session = None
        self.control.forget_connection()

    def on_time(self, now_ms: i64) -> None:
        """Do what is due; called every now and then."""
        self.control.on_time(now_ms, self.bytes_in, self.output.sent)
        if self.control.is_closed:
            self.release()

    def release(self) -> None:
        """Close all channels and give back what the connection owned; once."""
        self._intake.drop()
        if self._is_released:
            return
        self._end_parking()
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
        if self._parking is not None:
            self._parking.drop(number)
        # What is settled is answered: nobody can ask for it again.
        channel.publishing.write_answers()
        channel.close()
        channel.is_closing = True
        channel.is_ready = False
        class_id, method_id = divmod(int(self._method_id), 65536)
        method = (class_id, method_id)
        log_closed_channel(error, self.name, int(number), method)
        self._send(number, close_method(error, class_id, method_id)[1])

    def _fail(self, error: Exception) -> None:
        class_id, method_id = divmod(int(self._method_id), 65536)
        self._intake.drop()
        self._end_parking()
        self.control.fail(error, class_id, method_id, self._now_ms)
        self._is_open = False
        self.release()

    def _send(self, number: i64, method: Frame) -> None:
        self.output.writer().write(encode_method(int(number), method))
