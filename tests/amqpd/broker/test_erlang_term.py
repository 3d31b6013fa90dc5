"""Values as RabbitMQ's texts show them."""

import pytest

from amqpd.broker.erlang_term import erlang_float, erlang_pairs, erlang_term


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("x", '<<"x">>'),
        ('a"b\\c', '<<"a\\"b\\\\c">>'),
        (1, "1"),
        (1.5, "1.5"),
        (60000.0, "6.0e4"),
        (True, "true"),
        (False, "false"),
        (None, "null"),
        ([1, "a"], '[1,<<"a">>]'),
        ({"b": 1, "a": [None]}, '[{<<"a">>,[null]},{<<"b">>,1}]'),
    ],
)
def test_a_value_is_shown_as_erlang_prints_it(value: object, shown: str) -> None:
    assert erlang_term(value) == shown


def test_pairs_are_in_the_order_of_their_keys() -> None:
    shown = '[{<<"bar">>,2},{<<"foo">>,1}]'
    assert erlang_pairs({"foo": 1, "bar": 2}) == shown


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0.0, "0.0"),
        (-1.0, "-1.0"),
        (0.001, "0.001"),
        (0.0001, "0.0001"),
        (0.00015, "1.5e-4"),
        (100.0, "100.0"),
        (1000.0, "1.0e3"),
        (12345.0, "12345.0"),
        (-1.5e300, "-1.5e300"),
        # Beyond 2^53 there is always an exponent.
        (9007199254740991.0, "9007199254740991.0"),
        (9007199254740993.0, "9.007199254740992e15"),
        (float("inf"), "inf"),
    ],
)
def test_a_number_is_as_short_as_it_can_be(value: float, shown: str) -> None:
    assert erlang_float(value) == shown
