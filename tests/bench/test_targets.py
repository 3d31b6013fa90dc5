"""The table of targets as a whole."""

from __future__ import annotations

import string

from tests.bench.run import chosen, parser
from tests.bench.scenarios import SCENARIOS
from tests.bench.targets import TARGETS


def test_the_table_has_all_its_letters() -> None:
    letters = {scenario.letter for scenario in TARGETS.values()}
    assert letters == set(string.ascii_lowercase[:11])


def test_what_a_load_is_compared_with_is_in_the_table_before_it() -> None:
    before: list[str] = []
    for name, scenario in TARGETS.items():
        if scenario.nearest is not None:
            assert scenario.nearest.scenario in before
        before.append(name)


def test_every_row_asks_for_something() -> None:
    for scenario in TARGETS.values():
        assert scenario.limits or scenario.nearest


def test_nothing_named_is_the_whole_table() -> None:
    said = parser().parse_args([])
    assert chosen(said.scenarios, True) == list(TARGETS)


def test_a_letter_stands_for_its_rows_and_each_row_comes_once() -> None:
    said = parser().parse_args(["k", "transient", "a"])
    assert chosen(said.scenarios, True) == [
        "pure_transient",
        "pure_durable",
        "transient",
    ]


def test_without_the_pure_build_there_are_no_rows_of_it() -> None:
    assert "pure_transient" not in chosen(["all"], False)
    assert chosen(["all"], True) == list(SCENARIOS)
