"""Field tables as JSON, and back."""

from datetime import UTC, datetime
from decimal import Decimal

import pytest

from amqpd.http.errors import BadRequest
from amqpd.http.tables import arguments_in, as_json
from amqpd.wire.tables import decode_table


def test_every_value_has_a_form_in_json() -> None:
    table = {
        "text": "t",
        "octets": bytearray(b"o\xff"),
        "time": datetime(2026, 1, 1, tzinfo=UTC),
        "decimal": Decimal("1.5"),
        "list": [1, b"x", None, True],
        "table": {"a": (1,)},
        "infinite": float("inf"),
        "none": float("nan"),
        "float": 0.5,
    }
    assert as_json(table) == {
        "text": "t",
        "octets": "o\ufffd",
        "time": 1767225600,
        "decimal": 1.5,
        "list": [1, "x", None, True],
        "table": {"a": [1]},
        "infinite": "inf",
        "none": "nan",
        "float": 0.5,
    }


def test_arguments_are_taken_as_they_are_said() -> None:
    table = {"n": 1, "s": "a", "f": 1.5, "b": True, "l": [1, {"x": "y"}]}
    arguments = arguments_in({"arguments": table})
    assert arguments.table == table
    assert decode_table(arguments.raw) == table
    assert arguments_in({}).raw == b""
    assert arguments_in({"arguments": []}).raw == b""


@pytest.mark.parametrize(
    "value", [5, "a", [1], {"a": None}, {"a": [None]}, {"a": {"b": None}},
              {"a": 1 << 70}, {"k" * 256: 1}, {"a": "\ud800"}],
)  # fmt: skip
def test_what_no_table_can_have_is_refused(value: object) -> None:
    with pytest.raises(BadRequest):
        arguments_in({"arguments": value})
