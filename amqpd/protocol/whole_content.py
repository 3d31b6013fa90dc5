"""Whether the content of a publish lies whole behind it, in the form it is kept in.

    method | header | body        one read, one slice: kept and forwarded as it came

That is the common case and costs no copy but the slice. Everything else (a content that
is cut off, has several bodies, or is not acceptable) is taken frame by frame by
`publishing`, which finds out what is the matter.
"""

from typing import Final

from mypy_extensions import i64

from amqpd.protocol.publishing import HEADER_PAYLOAD_SIZE_MIN, check_header
from amqpd.wire.frames import (
    BODY,
    FRAME_END,
    FRAMED_BODY_SIZE_MAX,
    HEADER,
    OVERHEAD,
    byte_at,
    read_u16,
    read_u32,
)

HEADER_SIZE_MIN: Final[i64] = HEADER_PAYLOAD_SIZE_MIN + OVERHEAD


def content_end(
    data: bytes, header: i64, number: i64, size_max: i64, body_size_max: i64
) -> i64:
    """Where the content of channel `number` ends that begins at `header`.

    0: it is not all there, or not in the canonical form, or not acceptable.

    Raises:
        AmqpError, WireError: its header says so much that is wrong; see `check_header`.
    """
    end: i64 = len(data)
    if end - header < HEADER_SIZE_MIN:
        return 0
    body = header + read_u32(data, header + 3) + OVERHEAD
    if (
        body > end
        or body - header > size_max
        or body - header < HEADER_SIZE_MIN
        or byte_at(data, header) != HEADER
        or read_u16(data, header + 1) != number
        or byte_at(data, body - 1) != FRAME_END
    ):
        return 0
    size = check_header(data, header, body, body_size_max)
    if size == 0:
        return body
    stop = body + size + OVERHEAD
    if (
        size > FRAMED_BODY_SIZE_MAX
        or size > size_max
        or stop > end
        or byte_at(data, body) != BODY
        or read_u16(data, body + 1) != number
        or read_u32(data, body + 3) != size
        or byte_at(data, stop - 1) != FRAME_END
    ):
        return 0
    return stop
