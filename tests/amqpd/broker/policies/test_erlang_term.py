"""Values as RabbitMQ's texts show them."""

import pytest

from amqpd.broker.policies.erlang_term import erlang_pairs, erlang_term


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("x", '<<"x">>'),
        ('a"b\\c', '<<"a\\"b\\\\c">>'),
        (1, "1"),
        (1.5, "1.5"),
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
