"""What is found where two management APIs answer differently, and what is said."""

from __future__ import annotations

import json
import tomllib
from typing import Any, Final

from tests.conformance.compare import NOT_EXPLAINED
from tests.conformance.http_compare import (
    AS_USER,
    REQUESTS,
    TABLE,
    Lack,
    Shape,
    fields_in,
    lacks,
    shape_of,
    table,
)
from tests.support.http_client import Reply

ROWS: Final[list[dict[str, Any]]] = [
    {"fields": ["*_details"], "reason": "Rates\ncome later."},
    {"request": "GET /a", "fields": ["status", "x"], "reason": "It is old."},
]


def shape(*fields: str, status: int = 200) -> Shape:
    return Shape(status, frozenset(fields))


def test_fields_are_those_of_objects_and_of_items_of_lists() -> None:
    content = [{"a": 1}, {"b": {"c": [{"d": 1}]}, "arguments": {"x": 1}}]
    assert set(fields_in(content)) == {"a", "b", "b.c", "b.c.d", "arguments"}


def test_an_answer_without_content_has_a_status() -> None:
    assert shape_of(Reply(204, {}, b"")) == shape(status=204)
    body = json.dumps({"error": "x"}).encode()
    assert shape_of(Reply(404, {}, body)) == shape("error", status=404)


def test_what_only_the_peer_has_lacks_and_what_is_in_it_goes_without_saying() -> None:
    ours, peer = shape("a", "own"), shape("a", "b", "b.c", "b.c.d", "m_details")
    assert lacks({"GET /b": ours}, {"GET /b": peer}, ROWS) == [
        Lack("GET /b", "b", NOT_EXPLAINED),
        Lack("GET /b", "m_details", "Rates come later."),
    ]


def test_of_answers_with_another_status_no_fields_are_compared() -> None:
    ours, peer = shape("a", status=404), shape("b", status=500)
    what = "status 500, ours 404: GET "
    both = {"GET /a": peer, "GET /b": peer}
    assert lacks({"GET /a": ours, "GET /b": ours}, both, ROWS) == [
        Lack("GET /a", what + "/a", "It is old."),
        Lack("GET /b", what + "/b", NOT_EXPLAINED),
    ]


def test_a_reason_is_told_once_and_what_has_none_with_its_request() -> None:
    told = table(
        [
            Lack("GET /a", "y", NOT_EXPLAINED),
            Lack("GET /a", "x", "It is old."),
            Lack("GET /b", "x", "It is old."),
            Lack("GET /b", "z", "It is old."),
        ]
    )
    assert told == "It is old.\n    x, z\nNOT EXPLAINED: GET /a: y"


def test_each_request_is_made_once_and_each_row_is_complete() -> None:
    assert len(set(REQUESTS)) == len(REQUESTS)
    assert len(set(AS_USER)) == len(AS_USER)
    for row in tomllib.loads(TABLE.read_text())["lacks"]:
        assert set(row) - {"request"} == {"fields", "reason"}
