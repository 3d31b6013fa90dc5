"""The default exchange, as far as a router needs it."""

import pytest

from routing.binding import Binding, Target
from routing.default import DefaultTable
from routing.routable import Routable


def test_a_key_is_the_name_of_a_destination() -> None:
    target = Target()
    found: list[Target] = []
    DefaultTable({"é": target}).match(Routable(["é".encode(), b"other"]), found)
    assert found == [target]


def test_nothing_can_be_bound_or_unbound() -> None:
    table = DefaultTable({})
    binding = Binding("", "q", False, b"q", {}, b"")
    with pytest.raises(AssertionError):
        table.add(binding, Target())
    with pytest.raises(AssertionError):
        table.remove(binding)
