"""Direct exchanges."""

from routing.direct import DirectTable
from tests.support.routing import NamedTable


def test_the_binding_key_must_equal_the_routing_key() -> None:
    table = NamedTable(DirectTable({}))
    table.add("a", b"k")
    table.add("b", b"k")
    table.add("c", b"other")
    assert table.match(b"k") == ["a", "b"]
    assert table.match(b"K") == []


def test_every_key_of_a_message_is_looked_up() -> None:
    table = NamedTable(DirectTable({}))
    table.add("a", b"1")
    table.add("b", b"2")
    assert table.match(b"1", b"3", b"2") == ["a", "b"]


def test_a_removed_binding_matches_no_more() -> None:
    table = NamedTable(DirectTable({}))
    first, second = table.add("a", b"k"), table.add("b", b"k")
    table.table.remove(first)
    assert table.match(b"k") == ["b"]
    table.table.remove(second)
    assert table.match(b"k") == []
    table.add("a", b"k")
    assert table.match(b"k") == ["a"]
