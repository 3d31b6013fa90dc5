"""What a frame must look like before anybody looks into it.

Rare cases: a frame of the common kind is checked where the connection walks over it.
"""

from typing import Final

from mypy_extensions import i64

from amqpd.wire.errors import FrameMalformed, FrameUnknown, SyntaxMalformed
from amqpd.wire.frames import (
    BODY,
    HEAD_SIZE,
    HEADER,
    HEARTBEAT,
    METHOD,
    OVERHEAD,
    UNKNOWN_FRAME,
    byte_at,
    described,
)

# A method has two ids, a content header class, weight and body size.
METHOD_SIZE_MIN: Final[i64] = 4
HEADER_SIZE_MIN: Final[i64] = 12


def check_names(raw: bytes) -> None:
    """Check that `raw` is two short strings and nothing else."""
    size: i64 = len(raw)
    key = byte_at(raw, 0) + 1
    if key >= size or key + 1 + byte_at(raw, key) != size:
        raise SyntaxMalformed("basic.publish: the names do not fill the frame")


def check_shape(frame_type: i64, frame: bytes) -> None:
    """Check that a frame is of a known type and long enough to be one."""
    size = len(frame) - OVERHEAD
    if (
        (frame_type == METHOD and size >= METHOD_SIZE_MIN)
        or (frame_type == HEADER and size >= HEADER_SIZE_MIN)
        or frame_type == BODY
        or (frame_type == HEARTBEAT and size == 0)
    ):
        return
    payload = frame[HEAD_SIZE:-1]
    raise FrameUnknown(described(frame_type, payload, UNKNOWN_FRAME))


def no_frame_end(data: bytes, pos: i64, after: i64) -> FrameMalformed:
    """The error for a frame whose last octet is not the frame end."""
    payload = data[pos + HEAD_SIZE : after - 1]
    detail = f"{{invalid_frame_end_marker,{byte_at(data, after - 1)}}}"
    return FrameMalformed(described(byte_at(data, pos), payload, detail))
