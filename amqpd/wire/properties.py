"""Content headers: walked once per published message, decoded only when asked.

    0        2        4            12       14
    class    weight   body size    flags    the values of the flagged properties
    u16      u16      u64          u16      in the order of their flags, highest first

Walking proves that every property is there in full and that the payload ends with the
last one; what is forwarded untouched cannot make a client choke. On the way the walk
notes what decides about the message's fate, as bits of one number, so that nothing is
made for a message without a header table. Keys of a header table are compared as the
octets they are, length octet included, eight at a time.

The other functions take a payload that has been walked. Class, weight and body size
are left to the caller, and so is what a property means.
"""

from datetime import datetime
from typing import Final, final

from librt.strings import BytesWriter, read_i16_be, read_i32_be, read_i64_be
from mypy_extensions import i64

from amqpd.wire.errors import SyntaxMalformed
from amqpd.wire.frames import HEAD_SIZE, HEADER, read_u16, read_u32, write_head
from amqpd.wire.tables import (
    TYPE_NAMES,
    Table,
    decode_timestamp,
    decode_walked_table,
    find_value,
    long_strings_at,
    skip_value,
)

#: Facts about a message, as bits of what `walk_properties` returns.
PERSISTENT: Final = 1
HAS_HEADERS: Final = 2
HAS_PRIORITY: Final = 4
HAS_EXPIRATION: Final = 8
#: The reply-to address is `DIRECT_REPLY_TO`; of any other nothing is noted.
ASKS_DIRECT_REPLY: Final = 16
HAS_USER_ID: Final = 32
HAS_CC: Final = 64
HAS_BCC: Final = 128
HAS_DELAY: Final = 256
HAS_DEDUPLICATION: Final = 512
HAS_STREAM_FILTER: Final = 1024
HAS_DEATH: Final = 2048
#: A delivery mode that is neither 1 nor 2.
HAS_UNKNOWN_MODE: Final = 4096
#: The priority itself: (facts >> PRIORITY_SHIFT) & 255.
PRIORITY_SHIFT: Final = 16

#: The reply-to address of who wants replies without a queue.
DIRECT_REPLY_TO: Final = b"amq.rabbitmq.reply-to"

#: Where the flags are, and the first value.
_FLAGS_AT: Final = 12
_VALUES_AT: Final = 14

# Flags, highest first: the order of the values.
_CONTENT_TYPE: Final = 0x8000
_CONTENT_ENCODING: Final = 0x4000
_HEADERS: Final = 0x2000
_DELIVERY_MODE: Final = 0x1000
_PRIORITY: Final = 0x0800
_CORRELATION_ID: Final = 0x0400
_REPLY_TO: Final = 0x0200
_EXPIRATION: Final = 0x0100
_MESSAGE_ID: Final = 0x0080
_TIMESTAMP: Final = 0x0040
_TYPE: Final = 0x0020
_USER_ID: Final = 0x0010
_APP_ID: Final = 0x0008
_CLUSTER_ID: Final = 0x0004
# More flags would follow, but basic has 14 properties: a client that takes this bit
# seriously would misread the rest. The bit above it means nothing and is relayed, as
# RabbitMQ does.
_CONTINUATION: Final = 0x0001
_BEHIND_PRIORITY: Final = 0x07FC

_NAMED: Final[dict[str, i64]] = {
    "correlation_id": _CORRELATION_ID,
    "message_id": _MESSAGE_ID,
    "timestamp": _TIMESTAMP,
}

_DELIVERY_MODE_TRANSIENT: Final = 1
_DELIVERY_MODE_PERSISTENT: Final = 2

# Header keys with their length octet in front, as big-endian numbers.
_KEY_CC: Final = 0x024343
_KEY_BCC: Final = 0x03424343
_KEY_DELAY: Final = 0x07782D64656C6179  # x-delay
_KEY_DEATH: Final = 0x07782D6465617468  # x-death
_KEY_DEDUPLICATION: Final = b"x-deduplication-header"
_KEY_STREAM_FILTER: Final = b"x-stream-filter-value"


class HeaderTypeUnacceptable(Exception):
    """A header that must be an array is something else (406 in RabbitMQ)."""

    def __init__(self, key: str, type_name: str) -> None:
        super().__init__(f'{{unacceptable_type_in_header,"{key}",{type_name}}}')
        self.key = key
        self.type_name = type_name


def walk_properties(data: bytes, start: i64, end: i64) -> i64:
    """Prove that data[start:end] is the payload of a content header; return its facts.

    Raises:
        SyntaxMalformed: a property or the header table is cut off or malformed, or
            the payload goes on behind the last property.
    """
    position = start + _VALUES_AT
    if position > end:
        raise SyntaxMalformed("content header is cut off")
    flags = i64(read_i16_be(data, start + _FLAGS_AT)) & 0xFFFF
    if flags == _DELIVERY_MODE:
        # What most publishers send, and nothing else.
        if position + 1 != end:
            raise SyntaxMalformed("content header does not end with its properties")
        return _mode_facts(i64(data[position]))
    return _walk_values(data, position, end, flags)


def _walk_values(data: bytes, start: i64, end: i64, flags: i64) -> i64:
    if flags & _CONTINUATION:
        raise SyntaxMalformed("content header has more property flags than basic has")
    position = start
    facts: i64 = 0
    if flags & _CONTENT_TYPE:
        position = _skip_short_string(data, position, end)
    if flags & _CONTENT_ENCODING:
        position = _skip_short_string(data, position, end)
    if flags & _HEADERS:
        content = position + 4
        position = _table_end(data, position, end)
        facts = HAS_HEADERS | _walk_headers(data, content, position)
    if flags & _DELIVERY_MODE:
        _check_room(position, 1, end)
        facts |= _mode_facts(i64(data[position]))
        position += 1
    if flags & _PRIORITY:
        _check_room(position, 1, end)
        facts |= HAS_PRIORITY | i64(data[position]) << PRIORITY_SHIFT
        position += 1
    if flags & _BEHIND_PRIORITY:
        if flags & _CORRELATION_ID:
            position = _skip_short_string(data, position, end)
        if flags & _REPLY_TO:
            facts |= _reply_fact(data, position, end)
            position = _skip_short_string(data, position, end)
        facts |= _rest_facts(flags)
        position = _walk_rest(data, position, end, flags)
    if position != end:
        raise SyntaxMalformed("content header does not end with its properties")
    return facts


def _mode_facts(mode: i64) -> i64:
    if mode == _DELIVERY_MODE_PERSISTENT:
        return PERSISTENT
    return 0 if mode == _DELIVERY_MODE_TRANSIENT else HAS_UNKNOWN_MODE


def _reply_fact(data: bytes, start: i64, end: i64) -> i64:
    _check_room(start, 1, end)
    if i64(data[start]) != len(DIRECT_REPLY_TO):
        return 0
    address = data[start + 1 : start + 1 + len(DIRECT_REPLY_TO)]
    return ASKS_DIRECT_REPLY if address == DIRECT_REPLY_TO else 0


def _rest_facts(flags: i64) -> i64:
    facts: i64 = 0
    if flags & _EXPIRATION:
        facts |= HAS_EXPIRATION
    if flags & _USER_ID:
        facts |= HAS_USER_ID
    return facts


def _walk_rest(data: bytes, start: i64, end: i64, flags: i64) -> i64:
    """Walk what comes behind the reply-to address; return where it ends."""
    position = start
    if flags & _EXPIRATION:
        position = _skip_short_string(data, position, end)
    if flags & _MESSAGE_ID:
        position = _skip_short_string(data, position, end)
    if flags & _TIMESTAMP:
        _check_room(position, 8, end)
        position += 8
    if flags & _TYPE:
        position = _skip_short_string(data, position, end)
    if flags & _USER_ID:
        position = _skip_short_string(data, position, end)
    if flags & _APP_ID:
        position = _skip_short_string(data, position, end)
    if flags & _CLUSTER_ID:
        position = _skip_short_string(data, position, end)
    return position


def _check_room(position: i64, size: i64, end: i64) -> None:
    if end - position < size:
        raise SyntaxMalformed("content header ends inside a property")


def _skip_short_string(data: bytes, start: i64, end: i64) -> i64:
    # A string that ends behind the payload is found by whatever is checked next: room
    # for another property, or that the last one ends with the payload.
    _check_room(start, 1, end)
    return start + 1 + i64(data[start])


def _table_end(data: bytes, start: i64, end: i64) -> i64:
    _check_room(start, 4, end)
    size = i64(read_i32_be(data, start)) & 0xFFFFFFFF
    _check_room(start + 4, size, end)
    return start + 4 + size


def _walk_headers(data: bytes, start: i64, end: i64) -> i64:
    """Walk the content of the header table; return which keys of ours are in it."""
    facts: i64 = 0
    position = start
    while position < end:
        size = i64(data[position])
        value = position + 1 + size
        if value >= end:
            raise SyntaxMalformed("header table ends inside a key")
        # There is a type octet behind the key, so four octets can be read here.
        if size == 7:
            facts |= _fact_of_7(read_i64_be(data, position))
        elif size == 2:
            if i64(read_i32_be(data, position)) >> 8 == _KEY_CC:
                facts |= HAS_CC
        elif size == 3:
            if i64(read_i32_be(data, position)) == _KEY_BCC:
                facts |= HAS_BCC
        elif size == 22:
            if data[position + 1 : value] == _KEY_DEDUPLICATION:
                facts |= HAS_DEDUPLICATION
        elif size == 21 and data[position + 1 : value] == _KEY_STREAM_FILTER:
            facts |= HAS_STREAM_FILTER
        position = skip_value(data, value, end, 0)
    return facts


def _fact_of_7(key: i64) -> i64:
    if key == _KEY_DEATH:
        return HAS_DEATH
    return HAS_DELAY if key == _KEY_DELAY else 0


# -- reading what was walked


def delivery_mode(data: bytes, start: i64) -> int | None:
    """Return the delivery mode as it was sent; None if there is none."""
    return _octet(data, start, _DELIVERY_MODE)


def expiration(data: bytes, start: i64) -> bytes:
    """Return the expiration as it was sent; empty if there is none."""
    return _short_string(data, start, _EXPIRATION)


def with_reply_to(content: bytes, address: bytes) -> bytes:
    """Return a header frame, and what follows it, with another reply-to address.

    There must be one already, so no other octet of the properties changes.
    """
    position = _value_at(content, HEAD_SIZE, _REPLY_TO)
    old_size = i64(content[position])
    size = read_u32(content, 3) - old_size + len(address)
    out = BytesWriter()
    write_head(out, HEADER, read_u16(content, 1), size)
    out.write(content[HEAD_SIZE:position])
    out.append(len(address))
    out.write(address)
    out.write(content[position + 1 + old_size :])
    return out.getvalue()


def user_id(data: bytes, start: i64) -> bytes:
    """Return the user-id; empty if there is none."""
    return _short_string(data, start, _USER_ID)


def headers(data: bytes, start: i64) -> Table:
    """Return the header table; empty if there is none."""
    if not _flags(data, start) & _HEADERS:
        return {}
    position = _value_at(data, start, _HEADERS)
    return decode_walked_table(data, position + 4, _value_end(data, position, _HEADERS))


def header_table_at(data: bytes, start: i64) -> i64:
    """Return where the header table is, its size first; -1 if there is none."""
    if not _flags(data, start) & _HEADERS:
        return -1
    return _value_at(data, start, _HEADERS)


def named_text(data: bytes, start: i64, name: str) -> bytes | None:
    """Return message_id, correlation_id or timestamp as text; None without it."""
    flag = _NAMED[name]
    if not _flags(data, start) & flag:
        return None
    if flag != _TIMESTAMP:
        return _short_string(data, start, flag)
    value = read_i64_be(data, _value_at(data, start, flag))
    return str(int(value) & 0xFFFFFFFFFFFFFFFF).encode()


def header_strings(data: bytes, start: i64, key: bytes) -> list[bytes]:
    """Return the strings in an array of the header table (CC, BCC); empty for none.

    Raises:
        HeaderTypeUnacceptable: the header is not an array.
    """
    if not _flags(data, start) & _HEADERS:
        return []
    position = _value_at(data, start, _HEADERS)
    end = _value_end(data, position, _HEADERS)
    value = find_value(data, position + 4, end, key)
    if value < 0:
        return []
    strings = long_strings_at(data, value)
    if strings is None:
        name = key.decode("utf-8", "surrogateescape")
        raise HeaderTypeUnacceptable(name, TYPE_NAMES[data[value]])
    return strings


def property_list(data: bytes, start: i64) -> "Properties":
    """Return all properties, decoded."""
    return Properties(data, start)


@final
class Properties:
    """The 14 properties of a message; None for those that it has not got.

    Texts that are not UTF-8 come with surrogate escapes.
    """

    def __init__(self, data: bytes, start: i64) -> None:
        self.content_type = _text(data, start, _CONTENT_TYPE)
        self.content_encoding = _text(data, start, _CONTENT_ENCODING)
        self.headers: Table | None = None
        self.delivery_mode = _octet(data, start, _DELIVERY_MODE)
        self.priority = _octet(data, start, _PRIORITY)
        self.correlation_id = _text(data, start, _CORRELATION_ID)
        self.reply_to = _text(data, start, _REPLY_TO)
        self.expiration = _text(data, start, _EXPIRATION)
        self.message_id = _text(data, start, _MESSAGE_ID)
        self.timestamp: datetime | int | None = None
        self.type = _text(data, start, _TYPE)
        self.user_id = _text(data, start, _USER_ID)
        self.app_id = _text(data, start, _APP_ID)
        self.cluster_id = _text(data, start, _CLUSTER_ID)
        if _flags(data, start) & _HEADERS:
            self.headers = headers(data, start)
        if _flags(data, start) & _TIMESTAMP:
            self.timestamp = decode_timestamp(data, _value_at(data, start, _TIMESTAMP))


def _flags(data: bytes, start: i64) -> i64:
    return i64(read_i16_be(data, start + _FLAGS_AT)) & 0xFFFF


def _value_at(data: bytes, start: i64, flag: i64) -> i64:
    """Return where the value of a flag is, or would be."""
    flags = _flags(data, start)
    position = start + _VALUES_AT
    bit: i64 = _CONTENT_TYPE
    while bit > flag:
        if flags & bit:
            position = _value_end(data, position, bit)
        bit >>= 1
    return position


def _value_end(data: bytes, position: i64, flag: i64) -> i64:
    if flag == _HEADERS:
        return position + 4 + (i64(read_i32_be(data, position)) & 0xFFFFFFFF)
    if flag in (_DELIVERY_MODE, _PRIORITY):
        return position + 1
    if flag == _TIMESTAMP:
        return position + 8
    return position + 1 + i64(data[position])


def _short_string(data: bytes, start: i64, flag: i64) -> bytes:
    if not _flags(data, start) & flag:
        return b""
    position = _value_at(data, start, flag)
    return data[position + 1 : _value_end(data, position, flag)]


def _text(data: bytes, start: i64, flag: i64) -> str | None:
    if not _flags(data, start) & flag:
        return None
    return _short_string(data, start, flag).decode("utf-8", "surrogateescape")


def _octet(data: bytes, start: i64, flag: i64) -> int | None:
    if not _flags(data, start) & flag:
        return None
    return data[_value_at(data, start, flag)]


def header_table_place(data: bytes, start: i64) -> tuple[i64, i64]:
    """Return where the header table begins and ends; an empty span if there is none."""
    position = _value_at(data, start, _HEADERS)
    if not _flags(data, start) & _HEADERS:
        return position, position
    return position, _value_end(data, position, _HEADERS)


def headers_place(data: bytes, start: i64) -> tuple[i64, i64]:
    """Return where the entries of the header table are; an empty span if none are."""
    position, end = header_table_place(data, start)
    return min(position + 4, end), end


def expiration_place(data: bytes, start: i64) -> tuple[i64, i64]:
    """Return where the expiration begins and ends; an empty span if there is none."""
    position = _value_at(data, start, _EXPIRATION)
    if not _flags(data, start) & _EXPIRATION:
        return position, position
    return position, _value_end(data, position, _EXPIRATION)


def flags_with_headers(data: bytes, start: i64) -> i64:
    """Return the property flags with that of the header table."""
    return _flags(data, start) | _HEADERS


def flags_without_expiration(data: bytes, start: i64) -> i64:
    """Return the property flags without that of the expiration."""
    return _flags(data, start) & ~_EXPIRATION
