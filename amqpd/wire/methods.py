"""Methods: pamqp behind one door.

    +----------+-----------+----------------------------------------------+
    | class id | method id | fields: short strings, bits, numbers, tables |
    +----------+-----------+----------------------------------------------+

pamqp knows which methods there are and which fields they have; its classes are what the
rest of the broker handles. The bytes are read and written here: pamqp reads past the
end of a field that is cut off, leaves what is too much, refuses names that RabbitMQ
allows, and decodes tables in its own dialect. Here every octet of a payload is
accounted for, or the method is refused.

What comes out of `decode_method`:

    short string    str, always valid UTF-8
    long string     str, with surrogate escapes for what is no UTF-8 (SASL responses)
    longlong        int with sign, as `i64` sees the same bits: a huge delivery tag is
                    negative, and no such tag exists either way
    table           decoded; the raw bytes of `arguments` are in `Decoded` too

Names are cleaned of CR and LF where RabbitMQ does it: in what declares, deletes, binds
and unbinds, but not in what consumes, gets or purges. It does not know which methods a
client may send, or when.
"""

from typing import ClassVar, Final, final

from librt.strings import BytesWriter, read_i64_be, write_i32_be
from mypy_extensions import i32, i64, mypyc_attr, u8
from pamqp import commands
from pamqp.base import Frame

from amqpd.wire.errors import FrameMalformed, MethodUnknown, SyntaxMalformed
from amqpd.wire.frames import method_frame, read_u16, read_u32
from amqpd.wire.tables import Table, decode_table, encode_table


@final
@mypyc_attr(native_class=False)
class AccessRequest(Frame):
    """access.request: realms are long gone, but old clients still ask."""

    # The order of the fields on the wire.
    __slots__: ClassVar[list[str]] = [  # noqa: RUF023
        "realm",
        "exclusive",
        "passive",
        "active",
        "write",
        "read",
    ]
    frame_id: ClassVar[int] = 10
    index: ClassVar[int] = 0x001E000A
    name: ClassVar[str] = "Access.Request"
    synchronous: ClassVar[bool] = True
    valid_responses: ClassVar[list[str]] = ["Access.RequestOk"]

    _realm = "shortstr"
    _exclusive = "bit"
    _passive = "bit"
    _active = "bit"
    _write = "bit"
    _read = "bit"

    # Set by `decode_method` only.
    realm: str
    exclusive: bool
    passive: bool
    active: bool
    write: bool
    read: bool


@final
@mypyc_attr(native_class=False)
class AccessRequestOk(Frame):
    """access.request-ok: RabbitMQ hands everybody ticket 1."""

    __slots__: ClassVar[list[str]] = ["ticket"]
    frame_id: ClassVar[int] = 11
    index: ClassVar[int] = 0x001E000B
    name: ClassVar[str] = "Access.RequestOk"
    synchronous: ClassVar[bool] = False

    _ticket = "short"

    def __init__(self, ticket: int = 1) -> None:
        self.ticket = ticket


@final
class _Layout:
    """One method's class and its fields in order, each with its wire type."""

    def __init__(self, kind: type[Frame]) -> None:
        self.kind = kind
        self.index: int = kind.index
        #: As RabbitMQ writes it, for texts.
        self.name = kind.name.lower()
        self.fields = [(name, kind.amqp_type(name)) for name in kind.attributes()]


def _layouts() -> dict[int, _Layout]:
    kinds: list[type[Frame]] = [AccessRequest, AccessRequestOk]
    kinds.extend(commands.INDEX_MAPPING.values())
    return {kind.index: _Layout(kind) for kind in kinds}


_LAYOUTS: Final = _layouts()

#: The fields that RabbitMQ cleans of CR and LF.
_CLEANED: Final[dict[int, tuple[str, ...]]] = {
    commands.Exchange.Declare.index: ("exchange",),
    commands.Exchange.Delete.index: ("exchange",),
    commands.Exchange.Bind.index: ("destination", "source"),
    commands.Exchange.Unbind.index: ("destination", "source"),
    commands.Queue.Declare.index: ("queue",),
    commands.Queue.Delete.index: ("queue",),
    commands.Queue.Bind.index: ("queue", "exchange"),
    commands.Queue.Unbind.index: ("queue", "exchange"),
}

_SHORT_STRING_SIZE_MAX: Final = 255

_NUMBER_SIZES: Final = {"octet": 1, "short": 2, "long": 4, "longlong": 8}


@final
class Decoded:
    """A method and, if it has an argument table, that table's bytes without length."""

    def __init__(self, method: Frame, raw_arguments: bytes) -> None:
        self.method = method
        self.raw_arguments = raw_arguments


def decode_method(payload: bytes) -> Decoded:
    """Return the method that a method frame carries.

    Raises:
        FrameMalformed: there is no room for the two ids.
        MethodUnknown: AMQP 0-9-1 and RabbitMQ's extensions have no such method.
        SyntaxMalformed: a field or table is cut off or malformed, or bytes are left.
    """
    if len(payload) < 4:
        octets = ",".join([str(octet) for octet in payload])
        raise FrameMalformed(f"type 1, all octets = <<{octets}>>: unknown_frame")
    index = int(read_u32(payload, 0))
    layout = _LAYOUTS.get(index)
    if layout is None:
        raise MethodUnknown("unimplemented method")
    # Not initialised: every field is set below, and pamqp's __init__ checks defaults
    # and warns of methods it thinks nobody should use.
    method = layout.kind.__new__(layout.kind)
    reader = _FieldReader(payload, layout.name)
    for name, wire_type in layout.fields:
        setattr(method, name, reader.read(wire_type))
    reader.check_end()
    for name in _CLEANED.get(index, ()):
        setattr(method, name, _without_cr_lf(getattr(method, name)))
    return Decoded(method, reader.raw_arguments)


def encode_method(channel: int, method: Frame) -> bytes:
    """Return the whole frame that carries `method`; what is None is 0 or empty.

    Raises:
        ValueError: a short string is longer than 255 bytes.
    """
    out = BytesWriter()
    write_i32_be(out, i32(method.index))
    bits: i64 = 0
    bit: i64 = 1
    for name, wire_type in _LAYOUTS[method.index].fields:
        value: object = getattr(method, name)
        if wire_type == "bit":
            bits |= bit if value else 0
            bit <<= 1
            continue
        if bit > 1:
            out.append(u8(bits))
            bits, bit = 0, 1
        _write_field(out, wire_type, value)
    if bit > 1:
        out.append(u8(bits))
    return method_frame(channel, out.getvalue())


@final
class _FieldReader:
    """Takes fields off a payload, one after the other, never past its end."""

    def __init__(self, payload: bytes, method_name: str) -> None:
        self.raw_arguments = b""
        self._payload = payload
        self._method_name = method_name
        self._position: i64 = 4
        self._end: i64 = len(payload)
        # The octet of the bit field being read, and how many of it are taken.
        self._bits: i64 = 0
        self._bits_taken: i64 = 0

    def read(self, wire_type: str) -> object:
        """Return the next field."""
        if wire_type == "bit":
            return self._read_bit()
        self._bits_taken = 0
        if wire_type == "shortstr":
            return self._read_short_string()
        if wire_type == "short":
            return int(read_u16(self._payload, self._take(2)))
        if wire_type == "long":
            return int(read_u32(self._payload, self._take(4)))
        if wire_type == "longlong":
            return int(read_i64_be(self._payload, self._take(8)))
        if wire_type == "table":
            return self._read_table()
        if wire_type == "longstr":
            return self._take_sized().decode("utf-8", "surrogateescape")
        assert wire_type == "octet", wire_type
        return self._payload[self._take(1)]

    def check_end(self) -> None:
        """Refuse what is left."""
        if self._position < self._end:
            raise self._malformed(f"{self._end - self._position} bytes too many")

    def _read_bit(self) -> bool:
        # No method has more than eight bits in a row.
        if self._bits_taken == 0:
            self._bits = i64(self._payload[self._take(1)])
        is_set = (self._bits >> self._bits_taken) & 1 == 1
        self._bits_taken += 1
        return is_set

    def _read_short_string(self) -> str:
        size = i64(self._payload[self._take(1)])
        start = self._take(size)
        try:
            return self._payload[start : start + size].decode()
        except UnicodeDecodeError:
            raise SyntaxMalformed("Malformed UTF-8 in shortstr") from None

    def _read_table(self) -> Table:
        raw = self._take_sized()
        self.raw_arguments = raw
        return decode_table(raw)

    def _take_sized(self) -> bytes:
        size = read_u32(self._payload, self._take(4))
        start = self._take(size)
        return self._payload[start : start + size]

    def _take(self, size: i64) -> i64:
        """Return where the next `size` bytes begin, and go past them."""
        start = self._position
        if size > self._end - start:
            raise self._malformed("a field is cut off")
        self._position = start + size
        return start

    def _malformed(self, what: str) -> SyntaxMalformed:
        return SyntaxMalformed(f"cannot decode {self._method_name}: {what}")


def _write_field(out: BytesWriter, wire_type: str, value: object) -> None:
    if wire_type == "shortstr":
        _write_short_string(out, _text_bytes(value))
    elif wire_type == "longstr":
        _write_sized(out, _text_bytes(value))
    elif wire_type == "table":
        _write_sized(out, encode_table(value) if isinstance(value, dict) else b"")
    else:
        number = value if isinstance(value, int) else 0
        size = _NUMBER_SIZES[wire_type]
        out.write(number.to_bytes(size, "big", signed=number < 0))


def _write_short_string(out: BytesWriter, data: bytes) -> None:
    if len(data) > _SHORT_STRING_SIZE_MAX:
        raise ValueError(f"short string of {len(data)} bytes")
    out.append(u8(len(data)))
    out.write(data)


def _write_sized(out: BytesWriter, data: bytes) -> None:
    write_i32_be(out, i32(len(data)))
    out.write(data)


def _text_bytes(value: object) -> bytes:
    if isinstance(value, str):
        return value.encode("utf-8", "surrogateescape")
    return value if isinstance(value, bytes) else b""


def _without_cr_lf(name: str) -> str:
    return name.replace("\r", "").replace("\n", "")
