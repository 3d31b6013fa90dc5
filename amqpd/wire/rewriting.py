"""Contents whose properties the broker changes: written anew before they are kept.

A content is a header frame and, when the body is small, the body frame behind it
(`amqpd.broker.messages.message`). What is not changed is copied as it is, byte for
byte, and so is the body frame; only sizes are written again:

    head | class .. flags | properties | headers | properties | end | body frame
    ^ size of the payload                ^ size of the table

Whoever calls has walked the properties, and clears the facts that no longer hold.
"""

from typing import Final

from mypy_extensions import i64

from amqpd.wire.frames import HEAD_SIZE, read_u32
from amqpd.wire.properties import (
    expiration_place,
    flags_with_headers,
    flags_without_expiration,
    header_table_at,
    header_table_place,
)
from amqpd.wire.tables import skip_value

# Where the head of a frame has the size of the payload, and the payload the flags.
_SIZE_AT: Final = 3
_FLAGS_AT: Final = HEAD_SIZE + 12
_VALUES_AT: Final = HEAD_SIZE + 14


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


def header_entries(content: bytes, leave_out: frozenset[bytes]) -> bytes:
    """Return the entries of the header table but for some keys; empty for none."""
    start, end = header_table_place(content, HEAD_SIZE)
    if start == end:
        return b""
    entries: list[bytes] = []
    position = start + 4
    while position < end:
        value = position + 1 + i64(content[position])
        after = skip_value(content, value, end, 0)
        if content[position + 1 : value] not in leave_out:
            entries.append(content[position:after])
        position = after
    return b"".join(entries)


def with_header_entries(content: bytes, entries: bytes) -> bytes:
    """Return the content with a header table of these entries and no others."""
    start, end = header_table_place(content, HEAD_SIZE)
    table = len(entries).to_bytes(4, "big") + entries
    flags = flags_with_headers(content, HEAD_SIZE)
    return _replaced(content, start, end, table, flags)


def without_expiration(content: bytes) -> bytes:
    """Return the content without its expiration."""
    start, end = expiration_place(content, HEAD_SIZE)
    flags = flags_without_expiration(content, HEAD_SIZE)
    return _replaced(content, start, end, b"", flags)


def _replaced(content: bytes, start: i64, end: i64, value: bytes, flags: i64) -> bytes:
    """Return the content with other octets for the value of one property."""
    size = read_u32(content, _SIZE_AT) - (end - start) + len(value)
    return b"".join(
        [
            content[:_SIZE_AT],
            int(size).to_bytes(4, "big"),
            content[HEAD_SIZE:_FLAGS_AT],
            int(flags).to_bytes(2, "big"),
            content[_VALUES_AT:start],
            value,
            content[end:],
        ]
    )
