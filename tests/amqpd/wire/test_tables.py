"""Field tables in RabbitMQ's dialect, octet by octet."""

from datetime import UTC, datetime
from decimal import Decimal

import pytest

from amqpd.wire.errors import SyntaxMalformed
from amqpd.wire.tables import (
    DEPTH_MAX,
    Table,
    decode_among,
    decode_table,
    encode_table,
    find_value,
    long_strings_at,
    type_name_in,
    walk_table,
)

#: One value of every type: RabbitMQ's name, octets, what it decodes to.
VALUES: list[tuple[str, bytes, object]] = [
    ("bool", b"t\x01", True),
    ("bool", b"t\x00", False),
    ("bool", b"t\x07", True),
    ("byte", b"b\xff", -1),
    ("byte", b"b\x7f", 127),
    ("unsignedbyte", b"B\xff", 255),
    ("short", b"s\xff\xfe", -2),
    ("unsignedshort", b"u\xff\xfe", 65534),
    ("signedint", b"I\xff\xff\xff\xfe", -2),
    ("unsignedint", b"i\xff\xff\xff\xfe", 4294967294),
    ("long", b"l\xff\xff\xff\xff\xff\xff\xff\xfe", -2),
    ("long", b"L\x00\x00\x00\x00\x00\x00\x00\x07", 7),
    ("float", b"f\x3f\xc0\x00\x00", 1.5),
    ("double", b"d\x3f\xf8\x00\x00\x00\x00\x00\x00", 1.5),
    ("decimal", b"D\x02\x00\x00\x01\x3a", Decimal("3.14")),
    ("decimal", b"D\x00\xff\xff\xff\xff", Decimal(-1)),
    ("longstr", b"S\x00\x00\x00\x03\xc3\xa9!", "é!"),
    ("longstr", b"S\x00\x00\x00\x02\xff\xfe", b"\xff\xfe"),
    ("binary", b"x\x00\x00\x00\x02hi", bytearray(b"hi")),
    ("array", b"A\x00\x00\x00\x05t\x01Vb\x02", [True, None, 2]),
    ("table", b"F\x00\x00\x00\x04\x01kt\x01", {"k": True}),
    ("void", b"V", None),
    ("timestamp", b"T" + bytes(7) + b"\x01", datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)),
    ("timestamp", b"T" + b"\xff" * 8, 0xFFFFFFFFFFFFFFFF),
]


def walk(data: bytes) -> None:
    walk_table(data, 0, len(data), 0)


def nested(kind: bytes, levels: int) -> bytes:
    """Return a table inside which `levels` more of this kind are nested."""
    key = b"\x01k" if kind == b"F" else b""
    content = b""
    for _ in range(levels):
        content = (key if content else b"") + content
        content = kind + len(content).to_bytes(4, "big") + content
    return b"\x01k" + content


@pytest.mark.parametrize(("name", "octets", "value"), VALUES)
def test_every_type_decodes(name: str, octets: bytes, value: object) -> None:
    raw = b"\x03key" + octets
    walk(raw)
    decoded = decode_table(raw)["key"]
    assert decoded == value
    assert type(decoded) is type(value)
    assert type_name_in(raw, "key") == name


@pytest.mark.parametrize(("name", "octets", "value"), VALUES)
def test_every_type_is_refused_when_cut_off(
    name: str, octets: bytes, value: object
) -> None:
    raw = b"\x03key" + octets
    for cut in range(1, len(raw)):
        with pytest.raises(SyntaxMalformed):
            walk(raw[:cut])
        with pytest.raises(SyntaxMalformed):
            decode_table(raw[:cut])


def test_a_value_may_not_reach_out_of_its_table() -> None:
    inner = b"\x01kI\x00\x00"
    raw = b"\x01aF" + len(inner).to_bytes(4, "big") + inner + b"\x00\x00\x01bt\x01"
    with pytest.raises(SyntaxMalformed, match="ends inside a value"):
        walk(raw)


def test_a_length_may_not_reach_out_of_its_table() -> None:
    with pytest.raises(SyntaxMalformed, match="longer than its table"):
        walk(b"\x01kS\xff\xff\xff\xffabc")


def test_an_unknown_type_is_named() -> None:
    with pytest.raises(SyntaxMalformed, match="0x5a"):
        walk(b"\x01kZ")


@pytest.mark.parametrize("kind", [b"A", b"F"])
def test_tables_nest_so_deep_and_no_deeper(kind: bytes) -> None:
    walk(nested(kind, DEPTH_MAX - 1))
    with pytest.raises(SyntaxMalformed, match="deeper than 64"):
        walk(nested(kind, DEPTH_MAX))


def test_a_walk_looks_at_its_part_of_the_bytes_only() -> None:
    raw = b"\xff\xff\x01kt\x01\xff"
    walk_table(raw, 2, 6, 0)
    with pytest.raises(SyntaxMalformed):
        walk_table(raw, 2, 5, 0)


def test_the_first_of_two_equal_keys_wins() -> None:
    raw = b"\x01kb\x01\x01kt\x01"
    assert decode_table(raw) == {"k": 1}
    assert type_name_in(raw, "k") == "byte"


def test_the_first_of_two_equal_keys_wins_among_names_too() -> None:
    data = b"\x01at\x01\x01bt\x01\x01at\x00"
    assert decode_among(data, 0, len(data), {b"a": "a"}) == {"a": True}


def test_a_key_that_is_not_utf8_survives() -> None:
    raw = b"\x02\xff\xfet\x01"
    table = decode_table(raw)
    assert encode_table(table) == raw
    assert type_name_in(raw, next(iter(table))) == "bool"


def test_the_type_of_a_missing_key_is_a_key_error() -> None:
    with pytest.raises(KeyError):
        type_name_in(b"\x01kt\x01", "other")


def test_a_value_is_found_by_its_key() -> None:
    raw = b"\xff\x01ab\x01\x02bbS\x00\x00\x00\x01x\x01ct\x01"
    assert find_value(raw, 1, len(raw), b"c") == raw.index(b"t\x01")
    assert find_value(raw, 1, len(raw), b"d") == -1


def test_only_the_strings_of_an_array_are_listed() -> None:
    raw = b"A\x00\x00\x00\x0eS\x00\x00\x00\x01ab\x01S\x00\x00\x00\x02bc"
    raw = raw[:4] + bytes([len(raw) - 5]) + raw[5:]
    assert long_strings_at(raw, 0) == [b"a", b"bc"]
    assert long_strings_at(b"S\x00\x00\x00\x01a", 0) is None


@pytest.mark.parametrize(
    ("value", "octets"),
    [
        (True, b"t\x01"),
        (False, b"t\x00"),
        (2**31 - 1, b"I\x7f\xff\xff\xff"),
        (-(2**31), b"I\x80\x00\x00\x00"),
        (2**31, b"l\x00\x00\x00\x00\x80\x00\x00\x00"),
        (-(2**63), b"l\x80" + bytes(7)),
        (1.5, b"d\x3f\xf8" + bytes(6)),
        ("é", b"S\x00\x00\x00\x02\xc3\xa9"),
        (b"hi", b"x\x00\x00\x00\x02hi"),
        (bytearray(b"hi"), b"x\x00\x00\x00\x02hi"),
        ([1, "a"], b"A\x00\x00\x00\x0bI\x00\x00\x00\x01S\x00\x00\x00\x01a"),
        ((True,), b"A\x00\x00\x00\x02t\x01"),
        ({"k": None}, b"F\x00\x00\x00\x03\x01kV"),
        (None, b"V"),
        (datetime(1970, 1, 1, 0, 0, 1, 999, tzinfo=UTC), b"T" + bytes(7) + b"\x01"),
        (datetime(1970, 1, 1, 0, 0, 1), b"T" + bytes(7) + b"\x01"),  # noqa: DTZ001
        (Decimal("-3.14"), b"D\x02\xff\xff\xfe\xc6"),
        (Decimal("3e2"), b"D\x00\x00\x00\x01\x2c"),
    ],
)
def test_every_value_encodes_to_its_type(value: object, octets: bytes) -> None:
    assert encode_table({"key": value}) == b"\x03key" + octets


def deep_value(levels: int, kind: type) -> object:
    value: object = 1
    for _ in range(levels):
        value = [value] if kind is list else {"k": value}
    return value


@pytest.mark.parametrize(
    "table",
    [
        {"k" * 256: 1},
        {"k": object()},
        {"k": 2**63},
        {"k": -(2**63) - 1},
        {"k": datetime(1969, 12, 31, tzinfo=UTC)},
        {"k": Decimal("NaN")},
        {"k": Decimal("Infinity")},
        {"k": Decimal("1e10")},
        {"k": Decimal("1e-256")},
        {"k": Decimal(2**31)},
        {"k": deep_value(DEPTH_MAX, list)},
        {"k": deep_value(DEPTH_MAX, dict)},
    ],
)
def test_what_has_no_form_in_a_table_is_a_value_error(table: Table) -> None:
    with pytest.raises(ValueError):
        encode_table(table)


@pytest.mark.parametrize("kind", [list, dict])
def test_the_deepest_table_that_encodes_decodes(kind: type) -> None:
    table = {"k": deep_value(DEPTH_MAX - 1, kind)}
    assert decode_table(encode_table(table)) == table
