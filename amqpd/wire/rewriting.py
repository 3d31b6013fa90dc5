"""Contents whose properties the broker changes: written anew before they are kept.

A content is a header frame and, when the body is small, the body frame behind it
(`amqpd.broker.message`). What is not changed is copied as it is, byte for byte, and so
is the body frame; only sizes are written again:

    head | class .. flags | properties | headers | properties | end | body frame
    ^ size of the payload                ^ size of the table

Whoever calls has walked the properties, and clears the facts that no longer hold.
"""

from typing import Final

from mypy_extensions import i64

from amqpd.wire.frames import HEAD_SIZE, read_u32
from amqpd.wire.properties import header_table_at
from amqpd.wire.tables import skip_value

# Where the head of a frame has the size of the payload.
_SIZE_AT: Final = 3


def without_header(content: bytes, key: bytes) -> bytes:
    """Return the content without that key in its header table.

    A table that becomes empty stays, as in RabbitMQ.
    """
    table = header_table_at(content, HEAD_SIZE)
    if table < 0:
        return content
    size = read_u32(content, table)
    kept = _entries_without(content, table + 4, table + 4 + size, key)
    payload_size = read_u32(content, _SIZE_AT) - size + len(kept)
    return b"".join(
        [
            content[:_SIZE_AT],
            int(payload_size).to_bytes(4, "big"),
            content[HEAD_SIZE:table],
            len(kept).to_bytes(4, "big"),
            kept,
            content[table + 4 + size :],
        ]
    )


def _entries_without(data: bytes, start: i64, end: i64, key: bytes) -> bytes:
    entries: list[bytes] = []
    position = start
    while position < end:
        value = position + 1 + i64(data[position])
        after = skip_value(data, value, end, 0)
        if data[position + 1 : value] != key:
            entries.append(data[position:after])
        position = after
    return b"".join(entries)
