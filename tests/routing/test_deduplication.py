"""Ids of messages: which are known, for how long, and what is no duplicate."""

from __future__ import annotations

import pytest
from mypy_extensions import i64

from routing.binding import BindingTable, Target
from routing.deduplication import (
    DeduplicatingTable,
    Ledger,
    SeenIds,
    check_deduplication,
)
from routing.errors import ArgumentsInvalid
from routing.fanout import FanoutTable
from routing.routable import Routable
from tests.support.routing import NamedTable

HEADER = "x-deduplication-header"
SIZE_REFUSED = (
    "Missing or invalid argument, 'x-cache-size' must be an integer greater than 0"
)


class Published(Routable):
    """A message as a client publishes it."""

    def __init__(self, table: dict[str, object], at_ms: int = 0) -> None:
        super().__init__([b"k"])
        self.is_message = True
        self.is_new = True
        self.table = table
        self.at_ms = at_ms

    def headers(self) -> dict[str, object]:
        return self.table

    def now_ms(self) -> i64:
        return self.at_ms


def identified(value: object, at_ms: int = 0, **more: object) -> Published:
    said = {key.replace("_", "-"): more[key] for key in more}
    return Published({HEADER: value, **said}, at_ms)


def seen_ids(**arguments: object) -> SeenIds:
    table = {f"x-{key.replace('_', '-')}": arguments[key] for key in arguments}
    return SeenIds(table, Ledger())


@pytest.mark.parametrize("value", ["a", 5, b"\xff", True, "x" * 1000, "\ud800" * 100])
def test_an_id_is_known_once_it_was_added(value: object) -> None:
    seen = seen_ids()
    assert not seen.has(identified(value))
    seen.add(identified(value))
    assert seen.has(identified(value))
    assert not seen.has(identified("another"))


def test_long_ids_that_begin_alike_are_not_the_same() -> None:
    seen = seen_ids()
    seen.add(identified("x" * 100))
    assert not seen.has(identified("x" * 101))


def test_who_has_no_id_is_never_known() -> None:
    seen = seen_ids()
    seen.add(Published({}))
    assert not seen.has(Published({}))


def test_the_header_may_be_another_one() -> None:
    seen = seen_ids(deduplication_header="id")
    seen.add(Published({"id": "a", HEADER: "b"}))
    assert seen.has(Published({"id": "a"}))
    assert not seen.has(Published({HEADER: "b"}))


@pytest.mark.parametrize(("size", "count"), [({}, 128), ({"cache_size": 2}, 2)])
def test_only_the_latest_are_known(size: dict[str, object], count: int) -> None:
    seen = seen_ids(**size)
    for number in range(count):
        seen.add(identified(number))
    # Coming again makes it the latest.
    seen.add(identified(0))
    seen.add(identified("new"))
    assert seen.has(identified(0))
    assert not seen.has(identified(1))
    assert seen.has(identified("new"))


def test_ids_are_known_for_a_time() -> None:
    seen = seen_ids(cache_ttl=100)
    seen.add(identified("a", at_ms=1000))
    assert seen.has(identified("a", at_ms=1099))
    assert not seen.has(identified("a", at_ms=1100))


def test_a_message_may_have_a_time_of_its_own() -> None:
    seen = seen_ids(cache_ttl=100)
    seen.add(identified("a", x_cache_ttl=200))
    seen.add(identified("b", x_cache_ttl="long"))
    assert seen.has(identified("a", at_ms=199))
    assert not seen.has(identified("a", at_ms=200))
    assert not seen.has(identified("b", at_ms=100))


# -- exchanges ------------------------------------------------------------------


def deduplicating(ledger: Ledger) -> NamedTable:
    inner: BindingTable = FanoutTable({})
    made = NamedTable(DeduplicatingTable({}, inner, ledger))
    made.add("a")
    return made


def test_a_duplicate_goes_nowhere() -> None:
    ledger = Ledger()
    made = deduplicating(ledger)
    first = identified("1")
    assert made.route(first) == ["a"]
    ledger.settle(first)
    assert made.route(identified("1")) == []
    assert made.route(identified("2")) == ["a"]


def test_what_was_not_taken_may_come_again() -> None:
    ledger = Ledger()
    made = deduplicating(ledger)
    refused = identified("1")
    made.route(refused)
    # Somebody else's message is taken.
    ledger.settle(identified("2"))
    assert made.route(identified("1")) == ["a"]
    ledger.settle(refused)
    assert made.route(identified("1")) == ["a"]


def test_every_exchange_on_the_way_remembers() -> None:
    ledger = Ledger()
    first, second = deduplicating(ledger), deduplicating(ledger)
    message = identified("1")
    first.route(message)
    second.route(message)
    ledger.settle(message)
    assert first.route(identified("1")) == []
    assert second.route(identified("1")) == []


def test_what_was_here_before_is_no_duplicate() -> None:
    ledger = Ledger()
    made = deduplicating(ledger)
    first = identified("1")
    made.route(first)
    ledger.settle(first)
    again = identified("1")
    again.is_new = False
    assert made.route(again) == ["a"]


def test_all_is_forgotten_when_something_was_lost() -> None:
    ledger = Ledger()
    made = deduplicating(ledger)
    first = identified("1")
    made.route(first)
    ledger.settle(first)
    ledger.forget_all()
    assert made.route(identified("1")) == ["a"]


def test_bindings_go() -> None:
    made = deduplicating(Ledger())
    binding = made.add("b")
    made.table.remove(binding)
    found: list[Target] = []
    made.table.match(Routable([b"k"]), found)
    assert len(found) == 1


@pytest.mark.parametrize(
    ("type_name", "arguments", "text"),
    [
        (
            "x-message-deduplication",
            {},
            SIZE_REFUSED,
        ),
        (
            "direct",
            {"x-cache-size": 0},
            SIZE_REFUSED,
        ),
        (
            "direct",
            {"x-cache-ttl": True},
            "Invalid argument, 'x-cache-ttl' must be an integer greater than 0",
        ),
    ],
)
def test_sizes_and_times_are_checked(
    type_name: str, arguments: dict[str, object], text: str
) -> None:
    with pytest.raises(ArgumentsInvalid) as caught:
        check_deduplication(type_name, arguments)
    assert str(caught.value) == text
