"""Topic exchanges."""

from routing.topic import TopicTable
from tests.support.routing import NamedTable


def test_every_key_of_a_message_is_matched() -> None:
    table = NamedTable(TopicTable({}))
    table.add("a", b"a.*")
    table.add("b", b"#.b")
    assert table.match(b"a.x", b"x.b") == ["a", "b"]


def test_a_removed_binding_matches_no_more() -> None:
    table = NamedTable(TopicTable({}))
    table.table.remove(table.add("a", b"a.*"))
    assert table.match(b"a.x") == []
