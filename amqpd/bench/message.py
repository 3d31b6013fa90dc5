"""One message as it is published over and over, and the stamp that makes it unique.

    method frame   header frame   body frame ...
    ---------- before ----------[stamp]-------- after --------

    stamp    0      2                8          10               16
             run    nanoseconds      producer   number           big endian
             15 bit since the start             from 0, for each producer and queue

Everything but the stamp is built once, so a message costs two copies and two numbers.
The number of the run is drawn at random: what does not bear it was published by
somebody else. A body that is larger than a frame has its stamp in the first one.
"""

from typing import Final, final

from librt.strings import BytesWriter, write_i16_be, write_i32_be, write_i64_be
from mypy_extensions import i16, i64
from pamqp import commands

from amqpd.wire.frames import (
    BODY,
    FRAME_END,
    HEADER,
    OVERHEAD,
    write_head,
)
from amqpd.wire.methods import encode_method
from amqpd.wire.tables import Table, encode_table

STAMP_SIZE: Final = 16
#: Numbers of runs and producers, and what is left for the time and the sequence.
RUN_MAX: Final = 0x7FFF
PRODUCER_MAX: Final = 0x7FFF
STAMP_SHIFT: Final[i64] = 48
STAMP_MASK: Final[i64] = (1 << 48) - 1

CHANNEL: Final = 1
_BASIC: Final = 60
_HEADERS: Final = 0x2000
_DELIVERY_MODE: Final = 0x1000
_PATTERN: Final = b"the quick brown fox jumps over the lazy dog, "


@final
class Message:
    """The octets of a publish, less the stamp."""

    def __init__(
        self,
        exchange: str,
        routing_key: str,
        headers: Table,
        persistent: bool,
        size: i64,
        frame_max: i64,
    ) -> None:
        body = body_after_stamp(size)
        publish = commands.Basic.Publish(exchange=exchange, routing_key=routing_key)
        out = BytesWriter()
        out.write(encode_method(CHANNEL, publish))
        _write_header(out, headers, persistent, size)
        room = frame_max - OVERHEAD
        first = min(size, room)
        write_head(out, BODY, CHANNEL, first)
        self.before = out.getvalue()
        self.after = _body_frames(body, first - STAMP_SIZE, room)
        self.size: i64 = len(self.before) + STAMP_SIZE + len(self.after)

    def write(
        self, out: BytesWriter, run_and_time: i64, sender_and_number: i64
    ) -> None:
        """Write one publish."""
        out.write(self.before)
        write_i64_be(out, run_and_time)
        write_i64_be(out, sender_and_number)
        out.write(self.after)


def body_after_stamp(size: i64) -> bytes:
    """What every body of that size has behind its stamp."""
    rest = int(size) - STAMP_SIZE
    return (_PATTERN * (rest // len(_PATTERN) + 1))[:rest]


def _write_header(
    out: BytesWriter, headers: Table, persistent: bool, size: i64
) -> None:
    values = BytesWriter()
    flags = _DELIVERY_MODE
    if headers:
        table = encode_table(headers)
        flags |= _HEADERS
        write_i32_be(values, len(table))
        values.write(table)
    values.append(2 if persistent else 1)
    # class, weight, size of the body, flags
    write_head(out, HEADER, CHANNEL, 14 + len(values))
    write_i16_be(out, _BASIC)
    write_i16_be(out, 0)
    write_i64_be(out, size)
    write_i16_be(out, i16(flags))
    out.write(values.getvalue())
    out.append(FRAME_END)


def _body_frames(body: bytes, first: i64, room: i64) -> bytes:
    """Cut what follows the stamp into frames; the head of the first is written."""
    out = BytesWriter()
    out.write(body[:first])
    out.append(FRAME_END)
    offset = first
    end: i64 = len(body)
    while offset < end:
        size = min(room, end - offset)
        write_head(out, BODY, CHANNEL, size)
        out.write(body[offset : offset + size])
        out.append(FRAME_END)
        offset += size
    return out.getvalue()
