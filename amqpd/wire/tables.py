"""Field tables: walking them, decoding them, encoding them, in RabbitMQ's dialect.

    table    { short string key, value } ...           length prefix left to the caller
    value    one type octet and then
             t b B         1 octet        s u      2      I i f    4
             l L d T       8              D        1 + 4  V        0
             S x A F       a 32-bit length and that many octets; an array holds values,
                           a table holds a table

A walk only proves that everything is there and ends where it should, because most
tables are forwarded and never looked at: no object is made. `decode_table` proves the
same while it decodes, so bytes that were not walked may be given to it.

RabbitMQ reads `s` as a 16-bit number (the specification says short string), `L` as
`l`, and the first of two equal keys wins. Text that is not UTF-8 is not an error in a
table: it decodes to bytes, and in a key to surrogate escapes. Who reads or writes the
table does not matter here, and neither do the keys.
"""

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Final

from librt.strings import (
    BytesWriter,
    read_f32_be,
    read_f64_be,
    read_i16_be,
    read_i32_be,
    read_i64_be,
    write_f64_be,
    write_i32_be,
    write_i64_be,
)
from mypy_extensions import i32, i64, u8

from amqpd.wire.errors import SyntaxMalformed

Table = dict[str, object]

#: Tables and arrays inside one another; the peer chooses, the stack is ours.
DEPTH_MAX: Final = 64

# Type octets.
_ARRAY: Final = 0x41  # A
_BYTE: Final = 0x62  # b
_UNSIGNED_BYTE: Final = 0x42  # B
_DOUBLE: Final = 0x64  # d
_DECIMAL: Final = 0x44  # D
_FLOAT: Final = 0x66  # f
_TABLE: Final = 0x46  # F
_UNSIGNED_INT: Final = 0x69  # i
_INT: Final = 0x49  # I
_LONG: Final = 0x6C  # l
_LONG_TOO: Final = 0x4C  # L
_SHORT: Final = 0x73  # s
_LONG_STRING: Final = 0x53  # S
_BOOL: Final = 0x74  # t
_TIMESTAMP: Final = 0x54  # T
_UNSIGNED_SHORT: Final = 0x75  # u
_VOID: Final = 0x56  # V
_BINARY: Final = 0x78  # x

#: What RabbitMQ calls the types in its error texts.
TYPE_NAMES: Final[dict[int, str]] = {
    _ARRAY: "array",
    _BYTE: "byte",
    _UNSIGNED_BYTE: "unsignedbyte",
    _DOUBLE: "double",
    _DECIMAL: "decimal",
    _FLOAT: "float",
    _TABLE: "table",
    _UNSIGNED_INT: "unsignedint",
    _INT: "signedint",
    _LONG: "long",
    _LONG_TOO: "long",
    _SHORT: "short",
    _LONG_STRING: "longstr",
    _BOOL: "bool",
    _TIMESTAMP: "timestamp",
    _UNSIGNED_SHORT: "unsignedshort",
    _VOID: "void",
    _BINARY: "binary",
}

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
# The last second that a datetime can show, 9999-12-31T23:59:59Z.
_SECONDS_MAX: Final = 253402300799


# -- walking


def walk_table(data: bytes, start: i64, end: i64, depth: i64) -> None:
    """Prove that data[start:end] is the content of a table.

    `depth` is the number of tables and arrays around it, 0 for none.

    Raises:
        SyntaxMalformed: something is cut off, of unknown type, too deep, or the last
            entry does not end where the table does.
    """
    _check_depth(depth)
    position = start
    while position < end:
        position += i64(data[position]) + 1
        position = skip_value(data, position, end, depth)


def skip_value(data: bytes, start: i64, end: i64, depth: i64) -> i64:
    """Prove that a value of a table or array starts here; return where it ends.

    `depth` is that of the table or array which the value is in.

    Raises:
        SyntaxMalformed: as for `walk_table`.
    """
    if start >= end:
        raise SyntaxMalformed("table ends before a value")
    kind = i64(data[start])
    position = start + 1
    if kind in (_LONG_STRING, _BINARY):
        position = _content_end(data, position, end)
    elif kind == _TABLE:
        content = position + 4
        position = _content_end(data, position, end)
        walk_table(data, content, position, depth + 1)
    elif kind == _ARRAY:
        content = position + 4
        position = _content_end(data, position, end)
        _walk_array(data, content, position, depth + 1)
    else:
        position += _fixed_size(kind)
    if position > end:
        raise SyntaxMalformed("table ends inside a value")
    return position


def _walk_array(data: bytes, start: i64, end: i64, depth: i64) -> None:
    _check_depth(depth)
    position = start
    while position < end:
        position = skip_value(data, position, end, depth)


def _fixed_size(kind: i64) -> i64:
    """Return how many octets a value of this type has behind its type octet."""
    if kind in (_INT, _UNSIGNED_INT, _FLOAT):
        return 4
    if kind in (_LONG, _LONG_TOO, _DOUBLE, _TIMESTAMP):
        return 8
    if kind in (_BOOL, _BYTE, _UNSIGNED_BYTE):
        return 1
    if kind in (_SHORT, _UNSIGNED_SHORT):
        return 2
    if kind == _DECIMAL:
        return 5
    if kind == _VOID:
        return 0
    raise SyntaxMalformed(f"unknown table value type {int(kind):#04x}")


def _content_end(data: bytes, start: i64, end: i64) -> i64:
    """Return where the content ends whose 32-bit length is at `start`."""
    if end - start < 4:
        raise SyntaxMalformed("table ends inside a length")
    content_end = start + 4 + (i64(read_i32_be(data, start)) & 0xFFFFFFFF)
    if content_end > end:
        raise SyntaxMalformed("table value is longer than its table")
    return content_end


def _check_depth(depth: i64) -> None:
    if depth >= DEPTH_MAX:
        raise SyntaxMalformed(f"tables nest deeper than {DEPTH_MAX}")


# -- decoding


def decode_table(data: bytes) -> Table:
    """Return the table whose content is `data` (without its length).

    Raises:
        SyntaxMalformed: it is not a table.
    """
    end: i64 = len(data)
    walk_table(data, 0, end, 0)
    return decode_walked_table(data, 0, end)


def decode_walked_table(data: bytes, start: i64, end: i64) -> Table:
    """Return the table whose content is data[start:end] and has been walked."""
    table: Table = {}
    position = start
    while position < end:
        value = position + 1 + i64(data[position])
        key = data[position + 1 : value].decode("utf-8", "surrogateescape")
        position = _walked_end(data, value)
        if key not in table:
            table[key] = _decode_value(data, value)
    return table


def decode_among(data: bytes, start: i64, end: i64, names: dict[bytes, str]) -> Table:
    """Return of a walked table the entries whose keys are among `names`.

    `names` maps the octets of a key to the key. What has another key is not decoded.
    """
    table: Table = {}
    position = start
    while position < end:
        value = position + 1 + i64(data[position])
        key = names.get(data[position + 1 : value])
        if key is not None and key not in table:
            table[key] = _decode_value(data, value)
        position = _walked_end(data, value)
    return table


def decode_timestamp(data: bytes, start: i64) -> datetime | int:
    """Return the 64-bit seconds at `start` as a datetime, or as they are if too big."""
    seconds = int.from_bytes(data[start : start + 8], "big")
    if seconds > _SECONDS_MAX:
        return seconds
    return _EPOCH + timedelta(seconds=seconds)


def type_name_in(raw: bytes, key: str) -> str:
    """Return RabbitMQ's name for the type of a top-level key, for error texts.

    Raises:
        KeyError: the table, which has been walked, has no such key.
    """
    value = find_value(raw, 0, len(raw), key.encode("utf-8", "surrogateescape"))
    if value < 0:
        raise KeyError(key)
    return TYPE_NAMES[raw[value]]


def find_value(data: bytes, start: i64, end: i64, key: bytes) -> i64:
    """Return where the value of a key begins in a walked table, -1 for nowhere."""
    position = start
    while position < end:
        value = position + 1 + i64(data[position])
        if data[position + 1 : value] == key:
            return value
        position = _walked_end(data, value)
    return -1


def long_strings_at(data: bytes, start: i64) -> list[bytes] | None:
    """Return the long strings in the walked array at `start`, None if it is none.

    What else is in the array is passed over, as RabbitMQ does where it wants strings.
    """
    if i64(data[start]) != _ARRAY:
        return None
    strings: list[bytes] = []
    end = _walked_end(data, start)
    position = start + 5
    while position < end:
        after = _walked_end(data, position)
        if i64(data[position]) == _LONG_STRING:
            strings.append(data[position + 5 : after])
        position = after
    return strings


def _walked_end(data: bytes, start: i64) -> i64:
    """Return where the value at `start` ends, which has been walked."""
    kind = i64(data[start])
    if kind in (_LONG_STRING, _TABLE, _ARRAY, _BINARY):
        return start + 5 + (i64(read_i32_be(data, start + 1)) & 0xFFFFFFFF)
    return start + 1 + _fixed_size(kind)


def _decode_value(data: bytes, start: i64) -> object:
    """Return the value at `start`, which has been walked."""
    kind = i64(data[start])
    position = start + 1
    if kind == _LONG_STRING:
        return _decode_text(data[position + 4 : _walked_end(data, start)])
    if kind == _BOOL:
        return data[position] != 0
    if kind == _TABLE:
        return decode_walked_table(data, position + 4, _walked_end(data, start))
    if kind == _ARRAY:
        return _decode_array(data, position + 4, _walked_end(data, start))
    if kind == _BINARY:
        return bytearray(data[position + 4 : _walked_end(data, start)])
    if kind == _TIMESTAMP:
        return decode_timestamp(data, position)
    if kind == _DECIMAL:
        return Decimal(int(read_i32_be(data, position + 1))).scaleb(-data[position])
    if kind == _DOUBLE:
        return read_f64_be(data, position)
    if kind == _FLOAT:
        return read_f32_be(data, position)
    if kind == _VOID:
        return None
    return int(_integer(data, position, kind))


def _integer(data: bytes, start: i64, kind: i64) -> i64:
    if kind == _INT:
        return i64(read_i32_be(data, start))
    if kind in (_LONG, _LONG_TOO):
        return read_i64_be(data, start)
    if kind == _SHORT:
        return i64(read_i16_be(data, start))
    if kind == _UNSIGNED_INT:
        return i64(read_i32_be(data, start)) & 0xFFFFFFFF
    if kind == _UNSIGNED_SHORT:
        return i64(read_i16_be(data, start)) & 0xFFFF
    octet = i64(data[start])
    return octet - 256 if kind == _BYTE and octet > 127 else octet


def _decode_text(content: bytes) -> object:
    try:
        return content.decode()
    except UnicodeDecodeError:
        return content


def _decode_array(data: bytes, start: i64, end: i64) -> list[object]:
    values: list[object] = []
    position = start
    while position < end:
        values.append(_decode_value(data, position))
        position = _walked_end(data, position)
    return values


# -- encoding


def encode_table(table: Table) -> bytes:
    """Return the content of the table (without its length).

    bool t, int I or l, float d, str S, bytes and bytearray x, list and tuple A, dict F,
    None V, datetime T (without a zone it is taken as UTC), Decimal D.

    Raises:
        ValueError: a key is too long, or a value has no form in a field table.
    """
    return _encode_table(table, 0)


def _encode_table(table: Table, depth: i64) -> bytes:
    if depth >= DEPTH_MAX:
        raise ValueError(f"tables nest deeper than {DEPTH_MAX}")
    out = BytesWriter()
    for key, value in table.items():
        name = key.encode("utf-8", "surrogateescape")
        if len(name) > 255:
            raise ValueError(f"key is longer than 255 octets: {key!r}")
        out.append(u8(len(name)))
        out.write(name)
        _encode_value(out, value, depth)
    return out.getvalue()


def _encode_value(out: BytesWriter, value: object, depth: i64) -> None:
    if isinstance(value, str):
        _write_sized(out, _LONG_STRING, value.encode())
    elif isinstance(value, bool):
        out.append(u8(_BOOL))
        out.append(u8(1 if value else 0))
    elif isinstance(value, int):
        _encode_integer(out, value)
    elif isinstance(value, float):
        out.append(u8(_DOUBLE))
        write_f64_be(out, value)
    elif value is None:
        out.append(u8(_VOID))
    elif isinstance(value, bytes):
        _write_sized(out, _BINARY, value)
    elif isinstance(value, bytearray):
        _write_sized(out, _BINARY, bytes(value))
    elif isinstance(value, dict):
        _write_sized(out, _TABLE, _encode_table(value, depth + 1))
    elif isinstance(value, list | tuple):
        _write_sized(out, _ARRAY, _encode_array(list(value), depth + 1))
    elif isinstance(value, datetime):
        _encode_timestamp(out, value)
    elif isinstance(value, Decimal):
        _encode_decimal(out, value)
    else:
        raise ValueError(f"no field table type for {value!r}")


def _encode_array(values: list[object], depth: i64) -> bytes:
    if depth >= DEPTH_MAX:
        raise ValueError(f"tables nest deeper than {DEPTH_MAX}")
    out = BytesWriter()
    for value in values:
        _encode_value(out, value, depth)
    return out.getvalue()


def _encode_integer(out: BytesWriter, value: int) -> None:
    if -0x80000000 <= value <= 0x7FFFFFFF:
        out.append(u8(_INT))
        write_i32_be(out, i32(value))
    elif -0x8000000000000000 <= value <= 0x7FFFFFFFFFFFFFFF:
        out.append(u8(_LONG))
        write_i64_be(out, i64(value))
    else:
        raise ValueError(f"integer does not fit 64 bits: {value}")


def _encode_timestamp(out: BytesWriter, value: datetime) -> None:
    if value.tzinfo is None:
        value = value.replace(tzinfo=UTC)
    seconds = (value - _EPOCH) // timedelta(seconds=1)
    if seconds < 0:
        raise ValueError(f"timestamp before 1970: {value}")
    out.append(u8(_TIMESTAMP))
    write_i64_be(out, i64(seconds))


def _encode_decimal(out: BytesWriter, value: Decimal) -> None:
    sign, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int) or not -255 <= exponent <= 9:
        raise ValueError(f"no field table form for decimal {value}")
    unscaled = int(Decimal((sign, digits, max(exponent, 0))))
    if not -0x80000000 <= unscaled <= 0x7FFFFFFF:
        raise ValueError(f"decimal does not fit 32 bits: {value}")
    out.append(u8(_DECIMAL))
    out.append(u8(max(-exponent, 0)))
    write_i32_be(out, i32(unscaled))


def _write_sized(out: BytesWriter, kind: int, content: bytes) -> None:
    out.append(u8(kind))
    write_i32_be(out, i32(len(content)))
    out.write(content)
