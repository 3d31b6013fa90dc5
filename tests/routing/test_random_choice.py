"""Exchanges that choose at random."""

from collections import Counter

import pytest

from routing.dice import Dice
from routing.errors import BindingInvalid
from routing.random_choice import RandomTable
from tests.support.routing import NamedTable


def table(local: bool = False) -> NamedTable:
    return NamedTable(RandomTable({}, Dice(1), local))


def counts(made: NamedTable, messages: int = 6_000) -> Counter[str]:
    found: Counter[str] = Counter()
    for _ in range(messages):
        destinations = made.match(b"any")
        assert len(destinations) == 1
        found.update(destinations)
    return found


def test_every_message_goes_to_one_of_them_and_none_is_preferred() -> None:
    made = table()
    for name in "abc":
        made.add(name)
    found = counts(made)
    assert sorted(found) == ["a", "b", "c"]
    assert all(1_850 < count < 2_150 for count in found.values())


def test_a_queue_bound_twice_gets_twice_as_much() -> None:
    made = table()
    made.add("a", b"1")
    made.add("a", b"2")
    made.add("b")
    assert 3_850 < counts(made)["a"] < 4_150


@pytest.mark.parametrize("removed", [0, 1, 2])
def test_what_is_unbound_gets_nothing(removed: int) -> None:
    made = table()
    bindings = [made.add(name) for name in "abc"]
    made.table.remove(bindings.pop(removed))
    assert set(counts(made, 200)) == {binding.destination for binding in bindings}
    for binding in bindings:
        made.table.remove(binding)
    assert made.match(b"any") == []


def test_the_local_one_takes_queues_without_a_key() -> None:
    made = table(local=True)
    made.add("a")
    assert made.match(b"any") == ["a"]
    with pytest.raises(BindingInvalid) as caught:
        made.add("b", b"k")
    assert str(caught.value) == "Non empty binding 'k' key not permitted"
    with pytest.raises(BindingInvalid) as caught:
        made.add("b", to_exchange=True)
    assert str(caught.value) == "Destination not found"
    assert made.match(b"any") == ["a"]
