"""Field tables of any shape, and bytes that are none."""

from datetime import UTC, datetime
from decimal import Decimal

from hypothesis import example, given
from hypothesis import strategies as st

from amqpd.wire.errors import SyntaxMalformed
from amqpd.wire.tables import (
    Table,
    decode_among,
    decode_table,
    encode_table,
    walk_table,
)

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False),
    texts,
    st.binary(max_size=12),
    st.datetimes(min_value=datetime(1970, 1, 1), timezones=st.just(UTC)).map(  # noqa: DTZ001
        lambda moment: moment.replace(microsecond=0)
    ),
    st.builds(
        lambda unscaled, scale: Decimal(unscaled).scaleb(-scale),
        st.integers(-(2**31), 2**31 - 1),
        st.integers(0, 255),
    ),
)
values = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.dictionaries(texts, inner, max_size=4)
    ),
    max_leaves=12,
)
tables = st.dictionaries(texts, values, max_size=6)


def is_table(data: bytes) -> bool:
    try:
        walk_table(data, 0, len(data), 0)
    except SyntaxMalformed:
        return False
    return True


def decodes(data: bytes) -> bool:
    try:
        table = decode_table(data)
    except SyntaxMalformed:
        return False
    assert isinstance(table, dict)
    return True


@given(tables)
def test_what_is_encoded_decodes_to_itself(table: Table) -> None:
    assert decode_table(encode_table(table)) == table


@given(st.binary(max_size=60))
@example(b"\x00t\x01")
def test_walking_and_decoding_agree_about_any_bytes(data: bytes) -> None:
    assert is_table(data) == decodes(data)


@given(tables, st.data())
def test_walking_and_decoding_agree_about_damaged_tables(
    table: Table, data: st.DataObject
) -> None:
    octets = bytearray(encode_table({"k": 1, **table}))
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(0, len(octets) - 1))
        octets[place] = data.draw(st.integers(0, 255))
    damaged = bytes(octets[: data.draw(st.integers(0, len(octets)))])
    assert is_table(damaged) == decodes(damaged)


@given(tables, st.lists(texts, max_size=3), st.binary(max_size=5))
def test_what_is_decoded_among_names_is_that_part_of_the_table(
    table: Table, more: list[str], around: bytes
) -> None:
    names = dict.fromkeys([*list(table)[::2], *more])
    octets = encode_table(table)
    found = decode_among(
        around + octets + around,
        len(around),
        len(around) + len(octets),
        {name.encode(): name for name in names},
    )
    assert found == {name: value for name, value in table.items() if name in names}
