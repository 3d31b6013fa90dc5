"""What a connection has parked under an alarm: publishes, raw and in order per channel.

While memory or disk is short nobody publishes; but the acks that would free some of it
often stand behind publishes in the same stream. So a connection that publishes is read
on, its publishes are put aside as they came, and what may go past them does:

    a channel says    publish  publish  ack  cancel  declare  ack  cancel  publish
    at once                             ack  cancel           ack
    parked, in order  publish  publish               declare       cancel  publish

Acks go past everything but what would change their meaning (tx.select; those of a
transaction wait), cancels past publishes only: what waits may be the consume that is
cancelled. What ends the channel, or is an error, lets what is parked run first.

Bounded per connection and for the broker, though one whole message always fits. Frames
are only looked at, and what is done with them is the connection's.
"""

from typing import Final, final

from librt.strings import read_i64_be
from mypy_extensions import i64

from amqpd.broker.alarms import Alarms
from amqpd.wire.frames import HEAD_SIZE, HEADER, METHOD, OVERHEAD

#: From here on the socket is not read. What all may park is the alarms' to say.
PARKED_SIZE_MAX: Final[i64] = 1024 * 1024

# What becomes of a frame: it is parked, it goes past what is parked, or it goes when
# all that is parked has run.
PARKED: Final[i64] = 0
PAST: Final[i64] = 1
BEHIND: Final[i64] = 2

# What the next frame of a channel has to be, if not a body of so many octets.
DUE_METHOD: Final[i64] = 0
DUE_HEADER: Final[i64] = -1

CHANNEL_OPEN: Final[i64] = 0x0014000A
CHANNEL_CLOSE: Final[i64] = 0x00140028
CHANNEL_CLOSE_OK: Final[i64] = 0x00140029
CANCEL: Final[i64] = 0x003C001E
PUBLISH: Final[i64] = 0x003C0028
ACK: Final[i64] = 0x003C0050
REJECT: Final[i64] = 0x003C005A
NACK: Final[i64] = 0x003C0078
SELECT: Final[i64] = 0x005A000A

HEADER_FRAME_SIZE_MIN: Final[i64] = 14 + OVERHEAD


@final
class ParkedChannel:
    """What one channel has parked."""

    __slots__ = ("due", "frames", "has_method", "has_select", "whole")

    def __init__(self) -> None:
        self.frames = bytearray()
        # So much of it is complete publishes and methods.
        self.whole: i64 = 0
        self.due: i64 = DUE_METHOD
        # Whether a method other than publish waits, or tx.select.
        self.has_method = False
        self.has_select = False


@final
class Parking:
    """What one connection has parked."""

    def __init__(self, alarms: Alarms, body_size_max: i64) -> None:
        self._alarms = alarms
        self._body_size_max: i64 = body_size_max
        self._size: i64 = 0
        # The part of it that is complete.
        self._whole_size: i64 = 0
        self._channels: dict[int, ParkedChannel] = {}

    @property
    def is_full(self) -> bool:
        """Whether the socket is not to be read."""
        if not self._whole_size:
            # If anything, a first message that is larger than may be: let it come in.
            return False
        return (
            self._size >= PARKED_SIZE_MAX
            or self._alarms.parked_size >= self._alarms.parked_max
        )

    def numbers(self) -> list[int]:
        """The channels that have something parked."""
        return list(self._channels)

    def offer(
        self,
        number: i64,
        frame_type: i64,
        method_id: i64,
        frame: bytes,
        is_transaction: bool,
    ) -> i64:
        """Park a frame, or say when it is to be processed instead."""
        parked = self._channels.get(number)
        if parked is None:
            if frame_type != METHOD or method_id != PUBLISH:
                return PAST
            parked = ParkedChannel()
            self._channels[number] = parked
        if frame_type == METHOD:
            verdict = _verdict_on_method(parked, method_id, is_transaction)
        else:
            verdict = self._verdict_on_content(parked, frame_type, frame)
        if verdict == PARKED:
            parked.frames += frame
            if parked.due == DUE_METHOD:
                self._whole_size += len(parked.frames) - parked.whole
                parked.whole = len(parked.frames)
            self._size += len(frame)
            self._alarms.parked_size += len(frame)
        return verdict

    def take(self, number: i64) -> bytes:
        """All that a channel has parked; a last message may not be complete."""
        parked = self._take(number)
        return bytes(parked.frames)

    def take_whole(self, number: i64) -> bytes:
        """What a channel has parked that is complete; the rest is dropped."""
        parked = self._take(number)
        return bytes(parked.frames[: parked.whole])

    def drop(self, number: i64) -> None:
        """The channel has closed."""
        if number in self._channels:
            self._take(number)

    def _take(self, number: i64) -> ParkedChannel:
        parked = self._channels.pop(number)
        self._size -= len(parked.frames)
        self._whole_size -= parked.whole
        self._alarms.parked_size -= len(parked.frames)
        return parked

    def _verdict_on_content(
        self, parked: ParkedChannel, frame_type: i64, frame: bytes
    ) -> i64:
        size: i64 = len(frame)
        if frame_type == HEADER:
            if parked.due != DUE_HEADER or size < HEADER_FRAME_SIZE_MIN:
                return BEHIND
            body_size = i64(read_i64_be(frame, HEAD_SIZE + 4))
            if body_size < 0 or body_size > self._body_size_max:
                return BEHIND
            parked.due = body_size
        else:
            if parked.due <= 0 or size - OVERHEAD > parked.due:
                return BEHIND
            parked.due -= size - OVERHEAD
        return PARKED


def _verdict_on_method(
    parked: ParkedChannel, method_id: i64, is_transaction: bool
) -> i64:
    if parked.due != DUE_METHOD:
        return BEHIND
    if method_id == PUBLISH:
        parked.due = DUE_HEADER
        return PARKED
    if method_id in (ACK, NACK, REJECT):
        if not is_transaction and not parked.has_select:
            return PAST
    elif method_id == CANCEL:
        if not parked.has_method:
            return PAST
    elif method_id in (CHANNEL_CLOSE, CHANNEL_CLOSE_OK, CHANNEL_OPEN):
        return BEHIND
    elif method_id == SELECT:
        parked.has_select = True
    parked.has_method = True
    return PARKED
