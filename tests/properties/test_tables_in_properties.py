"""Content headers: arbitrary bytes, and valid ones with a few octets changed."""

from hypothesis import given
from hypothesis import strategies as st

from amqpd.wire import properties
from amqpd.wire.errors import SyntaxMalformed
from amqpd.wire.tables import decode_table, encode_table
from tests.properties.test_tables import tables

short_strings = st.binary(max_size=255).map(lambda text: bytes([len(text)]) + text)
octets = st.binary(min_size=1, max_size=1)
header_tables = tables.map(encode_table).map(
    lambda content: len(content).to_bytes(4, "big") + content
)

#: Flag, values, name in Properties.
FIELDS: list[tuple[int, st.SearchStrategy[bytes], str]] = [
    (0x8000, short_strings, "content_type"),
    (0x4000, short_strings, "content_encoding"),
    (0x2000, header_tables, "headers"),
    (0x1000, octets, "delivery_mode"),
    (0x0800, octets, "priority"),
    (0x0400, short_strings, "correlation_id"),
    (0x0200, short_strings, "reply_to"),
    (0x0100, short_strings, "expiration"),
    (0x0080, short_strings, "message_id"),
    (0x0040, st.binary(min_size=8, max_size=8), "timestamp"),
    (0x0020, short_strings, "type"),
    (0x0010, short_strings, "user_id"),
    (0x0008, short_strings, "app_id"),
    (0x0004, short_strings, "cluster_id"),
]


def joined(values: dict[int, bytes]) -> bytes:
    flags = sum(values).to_bytes(2, "big")
    return b"\x00\x3c" + bytes(10) + flags + b"".join(values.values())


payload_values = st.tuples(
    *(st.one_of(st.none(), value) for _, value, _ in FIELDS)
).map(
    lambda drawn: {
        flag: value
        for (flag, _, _), value in zip(FIELDS, drawn, strict=True)
        if value is not None
    }
)


def read_all(data: bytes) -> None:
    """Read what can be read; only a header of the wrong type may be refused."""
    properties.property_list(data, 0)
    for key in (b"CC", b"BCC"):
        try:
            properties.header_strings(data, 0, key)
        except properties.HeaderTypeUnacceptable as error:
            assert error.key == key.decode()  # noqa: PT017


@given(payload_values)
def test_any_set_of_properties_is_walked_and_read(values: dict[int, bytes]) -> None:
    data = joined(values)
    facts = properties.walk_properties(data, 0, len(data))
    found = properties.property_list(data, 0)
    assert bool(facts & properties.PERSISTENT) == (values.get(0x1000) == b"\x02")
    assert bool(facts & properties.HAS_HEADERS) == (0x2000 in values)
    assert bool(facts & properties.HAS_PRIORITY) == (0x0800 in values)
    assert facts >> properties.PRIORITY_SHIFT == values.get(0x0800, b"\x00")[0]
    for flag, _, name in FIELDS:
        value = getattr(found, name)
        assert (value is not None) == (flag in values)
        if isinstance(value, str):
            assert value.encode("utf-8", "surrogateescape") == values[flag][1:]
    if 0x2000 in values:
        assert found.headers == decode_table(values[0x2000][4:])


@given(payload_values, st.data())
def test_damaged_headers_are_refused_or_readable(
    values: dict[int, bytes], data: st.DataObject
) -> None:
    damaged = bytearray(joined(values))
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(12, len(damaged) - 1))
        damaged[place] = data.draw(st.integers(0, 255))
    payload = bytes(damaged[: data.draw(st.integers(12, len(damaged)))])
    try:
        properties.walk_properties(payload, 0, len(payload))
    except SyntaxMalformed:
        return
    read_all(payload)


@given(st.binary(max_size=80))
def test_any_bytes_are_refused_or_readable(payload: bytes) -> None:
    try:
        properties.walk_properties(payload, 0, len(payload))
    except SyntaxMalformed:
        return
    read_all(payload)
