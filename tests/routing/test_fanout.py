"""Fanout exchanges."""

from routing.fanout import FanoutTable
from tests.support.routing import NamedTable


def test_everything_that_is_bound_matches() -> None:
    table = NamedTable(FanoutTable({}))
    table.add("a", b"k")
    table.add("b")
    assert table.match(b"anything") == ["a", "b"]


def test_a_target_stays_until_its_last_binding_goes() -> None:
    table = NamedTable(FanoutTable({}))
    first, second = table.add("a", b"1"), table.add("a", b"2")
    table.table.remove(first)
    assert table.match(b"") == ["a"]
    table.table.remove(second)
    assert table.match(b"") == []
