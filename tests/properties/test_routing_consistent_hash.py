"""Consistent hashing: shares by weight, and nothing moves that need not move."""

from itertools import pairwise
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from routing.binding import Binding
from routing.consistent_hash import ConsistentHashTable
from tests.support.routing import NamedTable

KEYS = [f"order-{number}".encode() for number in range(400)]
names = st.text(st.sampled_from("abcdefgh-1"), min_size=1, max_size=6)
weights = st.integers(1, 9)
destinations = st.dictionaries(names, weights, min_size=1, max_size=8)


def table_of(weight_of: dict[str, int]) -> tuple[NamedTable, dict[str, Binding]]:
    table = NamedTable(ConsistentHashTable({}))
    bindings = {
        name: table.add(name, str(weight).encode())
        for name, weight in weight_of.items()
    }
    return table, bindings


def placed(table: NamedTable) -> dict[bytes, str]:
    found = {}
    for key in KEYS:
        (found[key],) = table.match(key)
    return found


@settings(deadline=None, max_examples=40)
@given(weight_of=destinations, order=st.randoms())
def test_the_order_of_bindings_does_not_matter(
    weight_of: dict[str, int], order: Random
) -> None:
    table, _ = table_of(weight_of)
    names_again = list(weight_of)
    order.shuffle(names_again)
    again, _ = table_of({name: weight_of[name] for name in names_again})
    assert placed(again) == placed(table)


@settings(deadline=None, max_examples=40)
@given(weight_of=destinations, new=names, weight=weights)
def test_a_newcomer_takes_keys_and_gives_them_back_to_those_who_had_them(
    weight_of: dict[str, int], new: str, weight: int
) -> None:
    weight_of.pop(new, None)
    if not weight_of:
        return
    table, _ = table_of(weight_of)
    before = placed(table)
    binding = table.add(new, str(weight).encode())
    after = placed(table)
    assert all(after[key] in (before[key], new) for key in KEYS)
    table.table.remove(binding)
    assert placed(table) == before


@settings(deadline=None, max_examples=40)
@given(weight_of=destinations, data=st.data())
def test_only_the_keys_of_the_one_that_goes_move(
    weight_of: dict[str, int], data: st.DataObject
) -> None:
    table, bindings = table_of(weight_of)
    before = placed(table)
    gone = data.draw(st.sampled_from(sorted(weight_of)))
    table.table.remove(bindings[gone])
    if len(weight_of) == 1:
        assert table.match(KEYS[0]) == []
        return
    after = placed(table)
    assert all(after[key] == before[key] for key in KEYS if before[key] != gone)
    assert gone not in after.values()


@settings(deadline=None, max_examples=15)
@given(weight_of=st.dictionaries(names, weights, min_size=2, max_size=6))
def test_everybody_gets_a_share_by_weight(weight_of: dict[str, int]) -> None:
    table, _ = table_of(weight_of)
    count = 4_000
    found = [table.match(b"%d" % number)[0] for number in range(count)]
    total = sum(weight_of.values())
    for name, weight in weight_of.items():
        share = weight / total
        # Five standard deviations of independent draws.
        tolerance = 5 * (share * (1 - share) * count) ** 0.5
        assert abs(found.count(name) - share * count) < tolerance


@settings(deadline=None, max_examples=15)
@given(name=names, others=st.dictionaries(names, weights, min_size=1, max_size=5))
def test_more_weight_never_means_fewer_keys(name: str, others: dict[str, int]) -> None:
    others.pop(name, None)
    shares = []
    for weight in (1, 2, 4, 1_000_000):
        table, _ = table_of({**others, name: weight})
        shares.append({key for key, place in placed(table).items() if place == name})
    assert all(fewer <= more for fewer, more in pairwise(shares))
