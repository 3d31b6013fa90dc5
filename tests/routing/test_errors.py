"""Values in RabbitMQ's texts."""

import pytest

from routing.errors import as_erlang


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (5, "5"),
        (True, "true"),
        (False, "false"),
        ("abc", '<<"abc">>'),
        (b"", "<<>>"),
        (b"1\x00\xff", "<<49,0,255>>"),
        (bytearray(b"x"), '<<"x">>'),
        ('a"b\\', '<<"a\\"b\\\\">>'),
        ("x\ny", '<<"x\\ny">>'),
        ("5é", '<<"5é">>'),
        ("\u0142", "<<197,130>>"),
        (None, "undefined"),
        (1.5, "1.5"),
    ],
)
def test_values_are_shown_as_erlang_terms(value: object, shown: str) -> None:
    assert as_erlang(value) == shown
