"""A fanout that keeps the last messages."""

import pytest

from routing.errors import ArgumentsInvalid
from routing.recent_history import RecentHistoryTable
from routing.routable import Routable
from tests.support.routing import NamedTable, Sent


def table(**arguments: object) -> tuple[NamedTable, RecentHistoryTable]:
    history = RecentHistoryTable(
        {name.replace("_", "-"): value for name, value in arguments.items()}
    )
    return NamedTable(history), history


def test_every_binding_matches_every_message() -> None:
    made, history = table()
    first = made.add("a", b"1")
    made.add("b", b"2")
    assert made.match(b"any") == ["a", "b"]
    made.table.remove(first)
    assert made.match(b"any") == ["b"]
    assert history.asks_message


def test_the_last_messages_are_kept_oldest_first() -> None:
    made, history = table(x_recent_history_length=2)
    messages = [Sent(b"k") for _ in range(3)]
    for message in messages:
        made.route(message)
    assert history.history() == messages[1:]


def test_twenty_are_kept_when_nobody_says_how_many() -> None:
    made, history = table()
    for _ in range(30):
        made.match(b"k")
    assert len(history.history()) == 20


@pytest.mark.parametrize(
    ("value", "kept"), [(True, 0), (False, 1), (1, 1), ("true", 1)]
)
def test_a_message_says_that_it_is_not_to_be_kept(value: object, kept: int) -> None:
    made, history = table()
    made.add("a")
    message = Sent(b"k", headers={"x-recent-history-no-store": value})
    assert made.route(message) == ["a"]
    assert len(history.history()) == kept


def test_a_question_about_keys_leaves_no_trace() -> None:
    made, history = table()
    made.add("a")
    assert made.route(Routable([b"k"])) == ["a"]
    assert history.history() == []


@pytest.mark.parametrize(
    ("value", "shown"),
    [(0, "0"), (-1, "-1"), (True, "true"), ("20", '<<"20">>'), (1.5, "1.5")],
)
def test_a_length_that_is_none_is_refused(value: object, shown: str) -> None:
    with pytest.raises(ArgumentsInvalid) as caught:
        RecentHistoryTable({"x-recent-history-length": value})
    assert str(caught.value) == (
        f"Invalid argument {shown}, 'x-recent-history-length' must be a positive "
        "integer"
    )
