"""Headers exchanges: how arguments are compared with headers."""

from datetime import UTC, datetime
from decimal import Decimal

import pytest

from routing.errors import BindingInvalid, BindingTypeInvalid
from routing.headers import HeadersTable
from routing.routable import Routable
from tests.support.routing import NamedTable


def matches(arguments: dict[str, object], headers: dict[str, object]) -> bool:
    table = NamedTable(HeadersTable({}))
    table.add("q", arguments=arguments)
    return bool(table.match(b"", headers=headers))


@pytest.mark.parametrize(
    ("arguments", "headers"),
    [
        ({"a": 1, "b": 2}, {"a": 1, "b": 2, "c": 3}),
        ({"x-match": "all", "a": 1}, {"a": 1}),
        ({"x-match": "any", "a": 1, "b": 2}, {"b": 2}),
        ({"x-match": "any", "a": 1, "b": 2}, {"a": 1, "b": 2}),
        # Nothing left to compare.
        ({}, {}),
        ({"x-match": "all"}, {"a": 1}),
        ({"x-match": "all", "x-a": 1}, {}),
        # x- takes part in the variants that say so.
        ({"x-match": "all-with-x", "x-a": 1}, {"x-a": 1}),
        ({"x-match": "any-with-x", "x-a": 1, "b": 2}, {"x-a": 1}),
        ({"x-match": "any-with-x", "x-a": 1, "b": 2}, {"b": 2}),
        ({"x-a": 1, "b": 2}, {"b": 2}),
        # Void: must merely exist.
        ({"a": None}, {"a": 7}),
        ({"a": None}, {"a": None}),
        ({"a": None, "b": 1}, {"a": 7, "b": 1}),
        ({"b": 1, "a": None, "c": None}, {"a": 7, "b": 1, "c": "x"}),
        ({"x-match": "any", "a": None, "b": 1}, {"a": 7}),
    ],
)
def test_the_headers_match(
    arguments: dict[str, object], headers: dict[str, object]
) -> None:
    assert matches(arguments, headers)


@pytest.mark.parametrize(
    ("arguments", "headers"),
    [
        ({"a": 1, "b": 2}, {"a": 1}),
        ({"a": 1, "b": 2}, {"a": 1, "b": 3}),
        ({"a": 1}, {}),
        ({"x-match": "any", "a": 1, "b": 2}, {"a": 2, "b": 1}),
        ({"x-match": "any"}, {"a": 1}),
        ({"x-match": "any", "x-a": 1}, {"x-a": 1}),
        ({"x-match": "all-with-x", "x-a": 1}, {}),
        ({"a": None}, {"b": 7}),
        ({"a": 7}, {"a": None}),
        ({"a": None, "b": 1}, {"b": 1}),
    ],
)
def test_the_headers_do_not_match(
    arguments: dict[str, object], headers: dict[str, object]
) -> None:
    assert not matches(arguments, headers)


MOMENT = datetime(2026, 1, 2, tzinfo=UTC)
VALUES: list[object] = [
    "1",
    b"1",
    bytearray(b"1"),
    True,
    1,
    1.0,
    Decimal(1),
    Decimal("1.0"),
    MOMENT,
    ["1"],
    [1],
    [True],
    {"a": 1},
    {"a": True},
    None,
]


@pytest.mark.parametrize("left", range(len(VALUES) - 1))
@pytest.mark.parametrize("right", range(len(VALUES)))
def test_values_are_equal_only_within_their_type(left: int, right: int) -> None:
    arguments, headers = {"a": VALUES[left]}, {"a": VALUES[right]}
    assert matches(arguments, headers) == (left == right)
    # The same when it is not the value under which the binding waits.
    arguments, headers = {"": 0, **arguments}, {"": 0, **headers}
    assert matches(arguments, headers) == (left == right)


def test_the_answer_depends_on_the_headers_of_the_message() -> None:
    assert HeadersTable({}).asks_message
    assert HeadersTable({}).asks_only_headers


class Asked(Routable):
    """Keeps the names that it was asked for."""

    def __init__(self, table: dict[str, object]) -> None:
        super().__init__([b""])
        self.table = table
        self.names: list[dict[bytes, str]] = []

    def headers_among(self, names: dict[bytes, str]) -> dict[str, object]:
        self.names.append(dict(names))
        return {name: self.table[name] for name in names.values() if name in self.table}


def test_only_headers_that_a_binding_compares_are_asked_for() -> None:
    table = NamedTable(HeadersTable({}))
    first = table.add("q", arguments={"a": 1, "é": 2, "x-match": "all"})
    second = table.add("r", arguments={"a": 1, "x-b": 1})
    asked = Asked({"a": 1, "é": 2})
    assert table.route(asked) == ["q", "r"]
    table.table.remove(first)
    assert table.route(asked) == ["r"]
    table.table.remove(second)
    assert table.route(asked) == []
    assert asked.names == [{b"a": "a", "é".encode(): "é"}, {b"a": "a"}]


def test_headers_that_nobody_asked_for_do_no_harm() -> None:
    assert matches({"a": 1}, {"a": 1, "b": [object()]})


def test_tables_are_equal_in_any_order() -> None:
    assert matches({"a": {"b": 1, "c": 2}}, {"a": {"c": 2, "b": 1}})


def test_one_message_finds_every_binding_that_matches() -> None:
    table = NamedTable(HeadersTable({}))
    table.add("all", arguments={"format": "pdf", "type": "report"})
    table.add("any", arguments={"x-match": "any", "format": "pdf", "type": "log"})
    table.add("present", arguments={"format": None})
    table.add("other", arguments={"format": "zip"})
    found = table.match(b"", headers={"format": "pdf", "type": "report"})
    assert found == ["all", "any", "present"]


def test_a_removed_binding_matches_no_more_and_leaves_the_others() -> None:
    table = NamedTable(HeadersTable({}))
    added = {
        "everything": table.add("everything", arguments={}),
        "all": table.add("all", arguments={"a": 1, "b": 2}),
        "same": table.add("same", arguments={"x-match": "all", "a": 1, "b": 2}),
        "any": table.add("any", arguments={"x-match": "any", "a": 1, "b": None}),
        "present": table.add("present", arguments={"a": None}),
        "too": table.add("too", arguments={"x-match": "all", "a": None}),
    }
    headers: dict[str, object] = {"a": 1, "b": 2}
    for name in list(added):
        table.table.remove(added.pop(name))
        assert set(table.match(b"", headers=headers)) == set(added)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("some", 'value <<"some">>; expected all, any, all-with-x, or any-with-x'),
        (1, "type int (value 1); expected longstr"),
        (True, "type bool (value True); expected longstr"),
        (None, "type NoneType (value None); expected longstr"),
        (b"\xff", "type bytes (value b'\\xff'); expected longstr"),
    ],
)
def test_a_wrong_x_match_is_refused(value: object, text: str) -> None:
    table = NamedTable(HeadersTable({}))
    with pytest.raises(BindingInvalid) as caught:
        table.add("q", arguments={"x-match": value, "a": 1})
    assert str(caught.value) == f"Invalid x-match field {text}"
    assert table.match(b"", headers={"a": 1}) == []


def test_the_text_for_a_wrong_type_takes_the_name_of_the_wire_type() -> None:
    table = NamedTable(HeadersTable({}))
    with pytest.raises(BindingTypeInvalid) as caught:
        table.add("q", arguments={"x-match": 1})
    text = "Invalid x-match field type byte (value 1); expected longstr"
    assert caught.value.text("byte") == text
