"""Exchange types by name."""

import pytest

from routing.consistent_hash import ConsistentHashTable
from routing.dice import Dice
from routing.direct import DirectTable
from routing.errors import ArgumentsInvalid, UnknownExchangeType
from routing.exchange_types import (
    EXCHANGE_TYPES,
    RANDOM_TYPES,
    check_arguments,
    is_exchange_type,
    new_table,
)
from routing.fanout import FanoutTable
from routing.headers import HeadersTable
from routing.modulus_hash import ModulusHashTable
from routing.random_choice import RandomTable
from routing.recent_history import RecentHistoryTable
from routing.topic import TopicTable

ALL_TYPES = [*EXCHANGE_TYPES, *RANDOM_TYPES]


@pytest.mark.parametrize(
    ("name", "table_class"),
    [
        ("direct", DirectTable),
        ("fanout", FanoutTable),
        ("headers", HeadersTable),
        ("topic", TopicTable),
        ("x-consistent-hash", ConsistentHashTable),
        ("x-modulus-hash", ModulusHashTable),
        ("x-recent-history", RecentHistoryTable),
        ("x-random", RandomTable),
        ("x-local-random", RandomTable),
    ],
)
def test_every_type_has_its_table(name: str, table_class: type[object]) -> None:
    assert is_exchange_type(name)
    assert isinstance(new_table(name, {}, Dice(0)), table_class)


def test_an_unknown_type_is_named() -> None:
    assert not is_exchange_type("x-odd")
    with pytest.raises(UnknownExchangeType, match="unknown exchange type 'x-odd'"):
        new_table("x-odd", {}, Dice(0))


def test_a_way_may_be_remembered_unless_it_needs_more_than_keys() -> None:
    asking = [name for name in ALL_TYPES if new_table(name, {}, Dice(0)).asks_message]
    assert asking == ["headers", "x-recent-history", "x-random", "x-local-random"]


def test_arguments_are_checked_without_an_exchange() -> None:
    check_arguments("x-consistent-hash", {"hash-header": "id"})
    with pytest.raises(ArgumentsInvalid):
        check_arguments("x-consistent-hash", {"hash-header": 1})
    with pytest.raises(UnknownExchangeType):
        check_arguments("x-odd", {})
