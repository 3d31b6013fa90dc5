"""How differences are shown in a text, and found in it again."""

from __future__ import annotations

from tests.conformance.differences_list import BEGIN, END, as_list, shown_in

ROWS = [{"id": "local-random", "reason": "It came\nwith 4."}]
SHOWN = f"{BEGIN}\n- **Local random.** It came with 4.\n{END}"


def test_a_row_is_an_entry_of_a_list() -> None:
    assert as_list(ROWS) == SHOWN


def test_a_long_reason_is_wrapped() -> None:
    shown = as_list([{"id": "a", "reason": "word " * 40}])
    assert [line[:2] for line in shown.splitlines()[1:-1]] == ["- ", "  ", "  "]


def test_what_is_shown_is_found_between_the_marks() -> None:
    assert shown_in(f"# Readme\n\n{SHOWN}\n\nMore.") == SHOWN
    assert shown_in("# Readme") == ""
