"""The index of what must work, held against the tests that ran and passed.

`index.toml` has a row for each thing that the broker does, and the tests that show it.
A test that exists proves nothing: it may be deselected, be renamed or fail. So
`RowCheck`, a pytest plugin that `tests/conftest.py` brings in, collects what passed and
fails a complete run of `tests/server` and `interop` in which a row lacks a test. Of
several processes only the one that started the others looks:

    [[row]]
    section = "queues"
    title = "a full queue refuses"
    tests = ["tests/server/test_lengths_and_times.py::test_a_full_queue_refuses"]

An entry of `tests` is a test, whatever its parameters, a class or a whole file. Of
every entry a test must have passed. A run of a part of the tests says nothing about the
index; that failed tests fail a run is not its business either.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

INDEX: Final = Path(__file__).with_name("index.toml")
#: What a run must have been asked for, to be held against the index.
FOLDERS: Final = ("tests/server", "interop")
#: Tests that `make test` leaves out may be left out.
MAY_BE_MISSING: Final = "slow"


@dataclass(frozen=True)
class Row:
    """One thing that the broker does, and the tests that show it."""

    section: str
    title: str
    tests: tuple[str, ...]


def rows_of(text: str) -> list[Row]:
    """Return the rows of an index.

    Raises:
        ValueError: a row has no tests, or a title is there twice in a section.
    """
    rows: list[Row] = []
    seen: set[tuple[str, str]] = set()
    for entry in tomllib.loads(text)["row"]:
        row = Row(entry["section"], entry["title"], tuple(entry["tests"]))
        if not row.tests:
            raise ValueError(f"no tests: {row.section}: {row.title}")
        if (row.section, row.title) in seen:
            raise ValueError(f"twice: {row.section}: {row.title}")
        seen.add((row.section, row.title))
        rows.append(row)
    return rows


def missing_tests(rows: Iterable[Row], passed: Iterable[str]) -> list[tuple[Row, str]]:
    """Return the entries of which no test passed, with their rows."""
    # Whatever an entry may name, so that each is looked up and not searched for.
    names: set[str] = set()
    for node_id in passed:
        parts = node_id.split("[", 1)[0].split("::")
        names.add(node_id)
        names.update("::".join(parts[: count + 1]) for count in range(len(parts)))
    return [(row, entry) for row in rows for entry in row.tests if entry not in names]


class RowCheck:
    """Collects what passed; in the end of a complete run it fails or is silent."""

    def __init__(self, config: pytest.Config, index: Path) -> None:
        self._config = config
        self._index = index
        self._passed: set[str] = set()
        self._is_complete = _asks_for_everything(config)
        self._missing: list[tuple[Row, str]] = []

    def pytest_deselected(self, items: Sequence[pytest.Item]) -> None:
        """Note that somebody chose tests, unless he left the slow ones out."""
        if any(item.get_closest_marker(MAY_BE_MISSING) is None for item in items):
            self._is_complete = False

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note a test that passed: set up, called and taken down without an error."""
        if report.when == "call" and report.passed:
            self._passed.add(report.nodeid)
        elif report.failed:
            self._passed.discard(report.nodeid)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Fail the run when a row lacks a test that passed."""
        is_over = not (session.shouldstop or session.shouldfail)
        is_run = session.exitstatus in (
            pytest.ExitCode.OK,
            pytest.ExitCode.TESTS_FAILED,
        )
        if not (self._is_complete and is_over and is_run):
            return
        self._missing = missing_tests(rows_of(self._index.read_text()), self._passed)
        if self._missing:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(
        self, terminalreporter: pytest.TerminalReporter
    ) -> None:
        """Say which rows lack a test."""
        if self._missing:
            terminalreporter.section("rows without a passed test", red=True)
        for row, entry in self._missing:
            terminalreporter.line(
                f"{row.section}: {row.title}: nothing passed of {entry}"
            )


def hold_against(config: pytest.Config, index: Path) -> None:
    """Hold a run against an index; one of several processes has only a part of it."""
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(RowCheck(config, index), "amqpd-row-check")


def _asks_for_everything(config: pytest.Config) -> bool:
    """Say whether the command line names the folders, or what they are in, whole."""
    asked = {(config.invocation_params.dir / arg).resolve() for arg in config.args}
    wanted = [(config.rootpath / folder).resolve() for folder in FOLDERS]
    chosen = (
        *("ignore", "ignore_glob", "deselect", "keyword"),
        *("lf", "collectonly", "stepwise"),
    )
    return all(asked & {folder, *folder.parents} for folder in wanted) and not any(
        config.getoption(option, None) for option in chosen
    )
