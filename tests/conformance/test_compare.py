"""What `make conformance` finds in two records, and what it says of it."""

from __future__ import annotations

from typing import Any, Final

import pytest

from tests.conformance.compare import (
    NOT_EXPLAINED,
    Difference,
    differences,
    is_explained,
    table,
    without_user,
)

PASSED: Final[dict[str, Any]] = {"outcome": "passed", "rows": []}
FAILED: Final[dict[str, Any]] = {"outcome": "failed", "why": "got 503", "rows": []}
ROWS: Final[list[dict[str, Any]]] = [
    {"id": "first", "reason": "It came\nlater."},
    {"id": "second", "reason": "It is old.", "tests": ["a::lacks"]},
]


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("http://guest:guest@h:15672", "http://h:15672"),
        ("http://h:15672", "http://h:15672"),
        (None, None),
    ],
)
def test_tools_are_told_the_address_alone(url: str | None, shown: str | None) -> None:
    assert without_user(url) == shown


def test_what_passes_on_both_is_no_difference() -> None:
    assert differences({"a::b": PASSED}, {"a::b": PASSED}, ROWS) == []


def test_a_test_that_looked_up_a_row_is_explained_by_it() -> None:
    rows = [{"row": "first"}, {"row": "second", "ours": "406", "peer": "503"}]
    record = {"a::b": {"outcome": "passed", "rows": [*rows, {"row": "first"}]}}
    found = differences(record, record, ROWS)
    assert found == [
        Difference("a::b", "as the test says", "as the reason says", "It came\nlater."),
        Difference("a::b", "406", "503", "It is old."),
    ]
    assert is_explained(found)


def test_a_failure_on_the_peer_is_explained_by_the_row_that_names_it() -> None:
    found = differences({"a::lacks": PASSED}, {"a::lacks": FAILED}, ROWS)
    assert found == [Difference("a::lacks", "passed", "failed: got 503", "It is old.")]
    assert is_explained(found)


def test_a_failure_that_no_row_names_is_not_explained() -> None:
    looked_up = {"a::b": {**FAILED, "rows": [{"row": "first"}]}}
    found = differences({"a::b": PASSED}, looked_up, ROWS)
    assert [one.reason for one in found] == [NOT_EXPLAINED]
    assert not is_explained(found)


def test_a_failure_of_ours_is_never_explained() -> None:
    found = differences({"a::lacks": FAILED}, {"a::lacks": PASSED}, ROWS)
    found += differences({"a::lacks": FAILED}, {"a::lacks": FAILED}, ROWS)
    assert [one.reason for one in found] == [NOT_EXPLAINED] * 2


def test_a_test_that_ran_on_one_of_them_only_is_a_difference() -> None:
    found = differences({"a::b": PASSED}, {}, ROWS)
    assert found == [Difference("a::b", "passed", "not run", NOT_EXPLAINED)]


def test_tests_of_one_reason_are_told_together_and_the_unexplained_last() -> None:
    shown = table(
        [
            Difference("a::1", "passed", "failed", NOT_EXPLAINED),
            Difference("a::2", "x", "y", "It came\nlater."),
            Difference("a::3", "x", "y", "It came\nlater."),
        ]
    )
    assert [line.strip() for line in shown.splitlines()] == [
        "It came later.",
        "a::2",
        "ours: x",
        "peer: y",
        "a::3",
        "ours: x",
        "peer: y",
        "NOT EXPLAINED",
        "a::1",
        "ours: passed",
        "peer: failed",
    ]
