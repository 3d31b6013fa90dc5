"""Exchange types by name."""

import pytest

from routing.consistent_hash import ConsistentHashTable
from routing.deduplication import DeduplicatingTable, Ledger
from routing.delayed import DelayedTable
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
    assert isinstance(new_table(name, {}, Dice(0), Ledger()), table_class)


def test_a_delayed_exchange_is_one_of_another_type() -> None:
    assert is_exchange_type("x-delayed-message")
    table = new_table(
        "x-delayed-message", {"x-delayed-type": "topic"}, Dice(0), Ledger()
    )
    assert isinstance(table, DelayedTable)
    assert isinstance(table.inner, TopicTable)
    assert table.asks_message


@pytest.mark.parametrize("arguments", [{}, {"x-delayed-type": 1}])
def test_a_delayed_exchange_names_the_type_that_routes(
    arguments: dict[str, object],
) -> None:
    with pytest.raises(ArgumentsInvalid) as caught:
        check_arguments("x-delayed-message", arguments)
    text = "Invalid argument, 'x-delayed-type' must be an existing exchange type"
    assert str(caught.value) == text


def test_a_delayed_exchange_is_not_of_its_own_type() -> None:
    with pytest.raises(ArgumentsInvalid) as caught:
        check_arguments("x-delayed-message", {"x-delayed-type": "x-delayed-message"})
    assert str(caught.value) == (
        "Invalid argument, 'x-delayed-message' can't be used for 'x-delayed-type'"
    )


def test_the_type_that_routes_must_exist_and_work_with_the_arguments() -> None:
    with pytest.raises(UnknownExchangeType, match="unknown exchange type 'x-odd'"):
        check_arguments("x-delayed-message", {"x-delayed-type": "x-odd"})
    hashing = {"x-delayed-type": "x-consistent-hash", "hash-header": 1}
    with pytest.raises(ArgumentsInvalid, match="hash-header"):
        check_arguments("x-delayed-message", hashing)


def test_an_unknown_type_is_named() -> None:
    assert not is_exchange_type("x-odd")
    with pytest.raises(UnknownExchangeType, match="unknown exchange type 'x-odd'"):
        new_table("x-odd", {}, Dice(0), Ledger())


def test_a_way_may_be_remembered_unless_it_needs_more_than_keys() -> None:
    arguments: dict[str, object] = {"x-cache-size": 1}
    asking = [
        name
        for name in ALL_TYPES
        if new_table(name, arguments, Dice(0), Ledger()).asks_message
    ]
    assert asking == [
        "x-message-deduplication",
        "headers",
        "x-recent-history",
        "x-random",
        "x-local-random",
    ]


@pytest.mark.parametrize(
    ("name", "arguments", "inner_class"),
    [
        ("x-message-deduplication", {"x-cache-size": 5}, FanoutTable),
        ("topic", {"x-message-deduplication": True}, TopicTable),
        (
            "x-delayed-message",
            {"x-message-deduplication": True, "x-delayed-type": "direct"},
            DelayedTable,
        ),
        (
            "x-delayed-message",
            {"x-delayed-type": "x-message-deduplication", "x-cache-size": 5},
            DelayedTable,
        ),
    ],
)
def test_any_type_can_compare_ids(
    name: str, arguments: dict[str, object], inner_class: type[object]
) -> None:
    table = new_table(name, arguments, Dice(0), Ledger())
    assert isinstance(table, DeduplicatingTable)
    assert isinstance(table.inner, inner_class)


@pytest.mark.parametrize("value", [False, 1, "true"])
def test_no_type_compares_ids_unless_it_is_told_to(value: object) -> None:
    table = new_table("direct", {"x-message-deduplication": value}, Dice(0), Ledger())
    assert isinstance(table, DirectTable)


def test_arguments_are_checked_without_an_exchange() -> None:
    check_arguments("x-consistent-hash", {"hash-header": "id"})
    with pytest.raises(ArgumentsInvalid):
        check_arguments("x-consistent-hash", {"hash-header": 1})
    with pytest.raises(UnknownExchangeType):
        check_arguments("x-odd", {})
