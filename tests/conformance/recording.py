"""A pytest plugin that runs what any broker can be asked, and writes down what it said.

    pytest -p tests.conformance.recording --record=FILE tests/server interop

Only tests that ask for a broker by its URL are run, with `--without-management` only
those of them that want no management API. FILE gets a JSON object: test ->
its outcome and the rows of `differences.toml` that it looked up, with what each made of
a statement. `tests/conformance/compare.py` reads two of these files.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import pytest

#: The fixtures that stand for a broker which a URL may name.
BROKERS: Final = frozenset({"broker", "amqp_url"})
#: The fixture that stands for its management API.
MANAGEMENT: Final = frozenset({"management_url"})
#: Under which name a test notes that it looked up a row.
LOOKED_UP: Final = "difference"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that names the file."""
    parser.addoption("--record", type=Path, required=True, help="where to write it")
    parser.addoption(
        "--without-management",
        action="store_true",
        help="leave out what needs the management API",
    )


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> None:
    """Leave out tests that start a broker of their own, or need what there is not."""
    unwanted = MANAGEMENT if config.getoption("--without-management") else frozenset()
    chosen: list[pytest.Item] = []
    others: list[pytest.Item] = []
    for item in items:
        names = set(getattr(item, "fixturenames", ()))
        is_chosen = names & BROKERS and not names & unwanted
        (chosen if is_chosen else others).append(item)
    items[:] = chosen
    config.hook.pytest_deselected(items=others)


def pytest_configure(config: pytest.Config) -> None:
    """Write down what comes."""
    config.pluginmanager.register(Recording(config.getoption("--record")))


class Recording:
    """What each test found."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._tests: dict[str, dict[str, Any]] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note the outcome, and the end of what it says when it failed."""
        if report.passed and report.when != "call":
            return
        entry = self._tests.setdefault(report.nodeid, {"outcome": "passed"})
        if report.failed:
            entry["outcome"] = "failed"
            entry.setdefault("why", _last_line(report))
        rows = [value for key, value in report.user_properties if key == LOOKED_UP]
        entry["rows"] = rows

    def pytest_sessionfinish(self) -> None:
        """Write the file."""
        self._path.write_text(json.dumps(self._tests, indent=1))


def _last_line(report: pytest.TestReport) -> str:
    crash = getattr(report.longrepr, "reprcrash", None)
    text = crash.message if crash is not None else str(report.longrepr)
    return str(text).strip().splitlines()[0]
