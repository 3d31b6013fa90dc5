"""Columns: what was asked for, of what there is."""

from typing import Any

import pytest

from amqpd.http.columns import chosen, columns_of

FACTS = {"name": "q", "stats": {"in": 1, "out": 2}, "list": [{"a": 1, "b": 2}, 5]}


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("name", {"name": "q"}),
        ("name,none", {"name": "q"}),
        ("stats", {"stats": FACTS["stats"]}),
        ("stats.in,name", {"stats": {"in": 1}, "name": "q"}),
        ("stats.in,stats", {"stats": FACTS["stats"]}),
        ("stats,stats.in", {"stats": FACTS["stats"]}),
        ("stats.in,stats.out", {"stats": FACTS["stats"]}),
        ("list.b", {"list": [{"b": 2}, 5]}),
        ("name.x", {"name": "q"}),
        ("", {}),
        ("..", {}),
    ],
)
def test_columns_choose_what_is_there(said: str, expected: Any) -> None:
    assert chosen(FACTS, columns_of({"columns": said})) == expected


def test_without_columns_it_is_everything() -> None:
    assert chosen(FACTS, columns_of({})) is FACTS
