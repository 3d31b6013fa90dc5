"""A binding chosen by the hash of the keys."""

from itertools import permutations

from routing.modulus_hash import ModulusHashTable
from tests.support.routing import NamedTable

KEYS = [str(number).encode() for number in range(3_000)]


def test_every_key_has_one_place_and_all_places_get_some() -> None:
    table = NamedTable(ModulusHashTable({}))
    for name in "abc":
        table.add(name)
    found = [table.match(key) for key in KEYS]
    assert [table.match(key) for key in KEYS] == found
    for name in "abc":
        assert 900 < found.count([name]) < 1_100


def test_the_order_of_binding_does_not_matter() -> None:
    answers = set()
    for names in permutations("abc"):
        table = NamedTable(ModulusHashTable({}))
        for name in names:
            table.add(name)
        answers.add(tuple(table.match(key)[0] for key in KEYS[:50]))
    assert len(answers) == 1


def test_all_keys_of_a_message_take_part() -> None:
    table = NamedTable(ModulusHashTable({}))
    for name in "abcdefgh":
        table.add(name)
    places = {table.match(b"k", key)[0] for key in KEYS[:100]}
    assert places == set("abcdefgh")


def test_a_queue_bound_twice_has_two_places_and_loses_one() -> None:
    table = NamedTable(ModulusHashTable({}))
    first = table.add("a", b"1")
    table.add("a", b"2")
    table.add("b", b"3")
    twice = [table.match(key) for key in KEYS].count(["a"])
    assert 1_850 < twice < 2_150
    table.table.remove(first)
    once = [table.match(key) for key in KEYS].count(["a"])
    assert 1_350 < once < 1_650


def test_without_bindings_nothing_is_found() -> None:
    table = NamedTable(ModulusHashTable({}))
    table.table.remove(table.add("a"))
    assert table.match(b"k") == []
