"""One destination a key, by weight; the properties are in tests/properties."""

import pytest

from routing.consistent_hash import ConsistentHashTable
from routing.errors import ArgumentsInvalid, BindingInvalid
from tests.support.routing import NamedTable, Sent

KEYS = [f"key {number}".encode() for number in range(5_000)]


def table(**weights: int) -> NamedTable:
    made = NamedTable(ConsistentHashTable({}))
    for name, weight in weights.items():
        made.add(name, str(weight).encode())
    return made


def placed(made: NamedTable) -> list[str]:
    found = [made.match(key) for key in KEYS]
    assert all(len(names) == 1 for names in found)
    return [names[0] for names in found]


def test_where_keys_go_is_the_same_for_ever() -> None:
    # A change here moves messages of everybody who upgrades.
    made = table(a=1, b=1, c=2)
    assert "".join(placed(made)[:20]) == "cccaacbcccbccbcbacaa"


def test_a_destination_gets_keys_by_its_weight() -> None:
    found = placed(table(a=1, b=3))
    assert 0.22 < found.count("a") / len(found) < 0.28


def test_only_the_first_key_counts() -> None:
    made = table(a=1, b=1, c=1)
    assert all(
        made.match(key, b"cc") == made.match(key) == made.match(key, b"other")
        for key in KEYS[:50]
    )


def test_a_second_binding_waits_until_the_first_is_gone() -> None:
    made = table(b=1)
    first = made.add("a", b"1")
    second = made.add("a", b"9")
    assert 0.45 < placed(made).count("a") / len(KEYS) < 0.55
    made.table.remove(first)
    assert 0.87 < placed(made).count("a") / len(KEYS) < 0.93
    made.table.remove(second)
    assert placed(made).count("a") == 0


def test_a_second_binding_that_goes_changes_nothing() -> None:
    made = table(a=1, b=1)
    before = placed(made)
    made.table.remove(made.add("a", b"9"))
    assert placed(made) == before


def test_a_queue_and_an_exchange_of_one_name_are_two_places() -> None:
    made = NamedTable(ConsistentHashTable({}))
    made.targets = {}
    made.add("a", b"1")
    queue = made.targets.pop("a")
    made.add("a", b"1", to_exchange=True)
    made.targets["queue a"] = queue
    assert {made.match(key)[0] for key in KEYS[:100]} == {"a", "queue a"}


def test_without_bindings_nothing_is_found() -> None:
    assert table().match(b"k") == []


@pytest.mark.parametrize(
    ("key", "text"),
    [
        (b"abc", 'The binding key must be an integer: <<"abc">>'),
        (b"", "The binding key must be an integer: <<>>"),
        (b"1.5", 'The binding key must be an integer: <<"1.5">>'),
        (b" 1", 'The binding key must be an integer: <<" 1">>'),
        (b"0", "The binding key must be greater than 0"),
        (b"-1", "The binding key must be greater than 0"),
    ],
)
def test_a_key_that_is_no_weight_is_refused(key: bytes, text: str) -> None:
    made = table(a=1)
    with pytest.raises(BindingInvalid) as caught:
        made.add("b", key)
    assert str(caught.value) == text
    assert set(placed(made)) == {"a"}


def test_a_sign_and_zeros_before_the_number_do_not_matter() -> None:
    made = table(a=1)
    made.add("b", b"+01")
    assert placed(made) == placed(table(a=1, b=1))


def test_a_header_may_decide_instead_of_the_key() -> None:
    made = NamedTable(ConsistentHashTable({"hash-header": "id"}))
    assert made.table.asks_message
    for name in "abc":
        made.add(name, b"1")

    def place(key: bytes, value: object) -> str:
        (found,) = made.route(Sent(key, headers={"id": value}))
        return found

    values = [str(number) for number in range(300)]
    assert {place(b"k", value) for value in values} == {"a", "b", "c"}
    assert all(place(b"k", value) == place(b"other", value) for value in values)
    numbers = list(range(300))
    assert {place(b"k", number) for number in numbers} == {"a", "b", "c"}


def test_messages_without_the_header_go_together() -> None:
    made = NamedTable(ConsistentHashTable({"hash-header": "id"}))
    for name in "abc":
        made.add(name, b"1")
    assert len({made.route(Sent(key))[0] for key in KEYS[:50]}) == 1


@pytest.mark.parametrize("name", ["correlation_id", "message_id", "timestamp"])
def test_a_property_may_decide_instead_of_the_key(name: str) -> None:
    made = NamedTable(ConsistentHashTable({"hash-property": name}))
    assert made.table.asks_message
    for destination in "abc":
        made.add(destination, b"1")
    found = [
        (
            made.route(Sent(b"1", properties={name: value}))[0],
            made.route(Sent(b"2", properties={name: value}))[0],
        )
        for value in KEYS[:200]
    ]
    assert {first for first, _ in found} == {"a", "b", "c"}
    assert all(first == second for first, second in found)
    assert len({made.route(Sent(key))[0] for key in KEYS[:50]}) == 1


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (
            {"hash-header": "h", "hash-property": "message_id"},
            "hash-header and hash-property are mutually exclusive",
        ),
        ({"hash-property": "app_id"}, "Unsupported property: app_id"),
        (
            {"hash-header": 5},
            "Invalid argument 5, 'hash-header' must be a string",
        ),
    ],
)
def test_arguments_that_make_no_sense_are_refused(
    arguments: dict[str, object], text: str
) -> None:
    with pytest.raises(ArgumentsInvalid) as caught:
        ConsistentHashTable(arguments)
    assert str(caught.value) == text
