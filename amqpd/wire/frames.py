"""Frames: how a stream of bytes is cut, and how a frame is put together.

    octet    short     long      size octets   octet
    +------+---------+---------+-------------+-----+
    | type | channel |  size   |   payload   |0xCE |     AMQP 0-9-1, section 4.2.3
    +------+---------+---------+-------------+-----+

A frame that lies whole in one read is looked at where it lies. Only a frame that
is cut by the end of a read is collected, in `PartialFrame`, so what comes behind
it is never copied. This module does not know what a payload says.
"""

from typing import Final, final

from librt.strings import (
    BytesWriter,
    read_i16_be,
    read_i32_be,
    read_i64_le,
    write_i32_be,
)
from mypy_extensions import i32, i64, mypyc_attr

from amqpd.wire.errors import FrameMalformed

METHOD: Final = 1
HEADER: Final = 2
BODY: Final = 3
HEARTBEAT: Final = 8
FRAME_END: Final = 0xCE

HEAD_SIZE: Final = 7
OVERHEAD: Final = 8
# RabbitMQ's FRAME_SIZE_FUDGE: clients that forget that frame_max counts the
# eight octets around the payload are let through.
SIZE_FUDGE: Final = 8

# So much of a payload is shown in an error text.
SNIPPET_SIZE: Final = 16
UNKNOWN_FRAME: Final = "unknown_frame"

PROTOCOL_HEADER: Final = b"AMQP\x00\x00\x09\x01"
HEARTBEAT_FRAME: Final = b"\x08\x00\x00\x00\x00\x00\x00\xce"

# Bodies up to this size are kept with their frame and pasted into the output as
# one piece; larger ones are kept bare and framed for each consumer.
FRAMED_BODY_SIZE_MAX: Final = 65536

_IS_INTERPRETED: Final[bool] = __file__.endswith(".py")


def byte_at(data: bytes, offset: i64) -> i64:
    """The octet at `offset`."""
    return i64(data[offset])


def read_u16(data: bytes, offset: i64) -> i64:
    """The unsigned short at `offset`."""
    return i64(read_i16_be(data, offset)) & 0xFFFF


def read_u32(data: bytes, offset: i64) -> i64:
    """The unsigned long at `offset`."""
    return i64(read_i32_be(data, offset)) & 0xFFFFFFFF


def is_repeated(data: bytes, first: i64, second: i64, size: i64) -> bool:
    """Whether the same octets begin at both places, as many as `size` (8 or more).

    Eight at a time, since there is nothing to compare parts of bytes with that would
    not make them first: a third of the price of two slices. Interpreted it would be
    five times their price.
    """
    if _IS_INTERPRETED:
        return data[first : first + size] == data[second : second + size]
    at: i64 = 0
    while at + 8 < size:
        if read_i64_le(data, first + at) != read_i64_le(data, second + at):
            return False
        at += 8
    at = size - 8
    return i64(read_i64_le(data, first + at)) == i64(read_i64_le(data, second + at))


def write_head(out: BytesWriter, frame_type: i64, channel: i64, size: i64) -> None:
    """Write the seven octets before a payload."""
    out.append(frame_type)
    out.append(channel >> 8)
    out.append(channel & 0xFF)
    write_i32_be(out, i32(size))


def method_frame(channel: i64, payload: bytes) -> bytes:
    """A whole method frame."""
    out = BytesWriter()
    write_head(out, METHOD, channel, len(payload))
    out.write(payload)
    out.append(FRAME_END)
    return out.getvalue()


def check_head(data: bytes, offset: i64, size_max: i64) -> None:
    """Refuse a frame that is too large by its first seven octets.

    Raises:
        FrameMalformed: the payload is larger than `size_max`.
    """
    size = read_u32(data, offset + 3)
    if size > size_max:
        # RabbitMQ names the limit without the fudge.
        limit = size_max - SIZE_FUDGE
        detail = f"{{frame_too_large,{size},{limit}}}"
        raise FrameMalformed(described(byte_at(data, offset), b"", detail))


def described(frame_type: i64, payload: bytes, detail: str) -> str:
    """A frame and what is the matter with it, in RabbitMQ's words."""
    extent = "all" if len(payload) <= SNIPPET_SIZE else f"first {SNIPPET_SIZE}"
    shown = payload[:SNIPPET_SIZE]
    if shown and all(32 <= octet < 127 for octet in shown):
        octets = f'<<"{shown.decode()}">>'
    else:
        octets = "<<" + ",".join(str(octet) for octet in shown) + ">>"
    text = f"type {frame_type}, {extent} octets = {octets}"
    return f"{text}: {detail}" if detail else text


@final
@mypyc_attr(acyclic=True)
class PartialFrame:
    """The frame that the last read ended in the middle of."""

    __slots__ = ("_missing", "_parts", "_size_max")

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._missing: i64 = 0
        self._size_max: i64 = 0

    def __bool__(self) -> bool:
        return bool(self._parts)

    def start(self, rest: bytes, size_max: i64) -> None:
        """Keep `rest`, the beginning of a frame (not empty, not whole).

        Raises:
            FrameMalformed: its head is all there and not acceptable.
        """
        self._parts.append(rest)
        self._size_max = size_max
        self._count_missing(rest)

    def take_from(self, data: bytes) -> i64:
        """Take what is missing from the start of `data`; return how much that was.

        Raises:
            FrameMalformed: the head came together and is not acceptable.
        """
        taken: i64 = 0
        while self._missing and taken < len(data):
            count: i64 = len(data) - taken
            if count > self._missing:
                count = self._missing
            self._parts.append(data[taken : taken + count])
            taken += count
            self._missing -= count
            if not self._missing and self._only_head():
                self._parts = [b"".join(self._parts)]
                self._count_missing(self._parts[0])
        return taken

    def whole(self) -> bytes | None:
        """The frame, once nothing is missing any more; it leaves this object."""
        if self._missing or not self._parts:
            return None
        frame = b"".join(self._parts)
        self._parts = []
        return frame

    def _only_head(self) -> bool:
        size = 0
        for part in self._parts:
            size += len(part)
        return size == HEAD_SIZE

    def _count_missing(self, rest: bytes) -> None:
        have: i64 = len(rest)
        if have < HEAD_SIZE:
            self._missing = HEAD_SIZE - have
            return
        check_head(rest, 0, self._size_max)
        self._missing = read_u32(rest, 3) + OVERHEAD - have
