"""A complete run without a passed test for a row fails; a part of one is silent."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conformance.row_index import INDEX, Row, missing_tests, rows_of

pytest_plugins = ["pytester"]

CONFTEST = """
from pathlib import Path
from tests.conformance.row_index import hold_against

def pytest_configure(config):
    hold_against(config, Path(__file__).with_name("index.toml"))
"""
SUITE = """
import pytest

@pytest.mark.parametrize("body", [b"", b"x"])
def test_a_message_arrives(body):
    assert IS_RIGHT

@pytest.mark.slow
def test_a_million_arrive():
    pass
"""
INI = """
[pytest]
markers =
    slow: slow
addopts = --import-mode=importlib
asyncio_default_fixture_loop_scope = function
"""
HEADING = "*rows without a passed test*"


def row(title: str, *tests: str) -> str:
    return f'[[row]]\nsection = "queues"\ntitle = "{title}"\ntests = {list(tests)}\n'


@pytest.fixture
def suite(pytester: pytest.Pytester) -> pytest.Pytester:
    """A small suite of the shape of ours; its index is one row about a missing test."""
    files = {
        "conftest.py": CONFTEST,
        "pytest.ini": INI,
        "tests/server/test_queues.py": SUITE.replace("IS_RIGHT", "True"),
        "interop/pika/test_pika.py": "def test_it_works():\n    pass\n",
        "index.toml": row("purging", "tests/server/test_queues.py::test_purging"),
    }
    for name, text in files.items():
        path = pytester.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return pytester


@pytest.mark.parametrize(
    "arguments",
    [("tests/server", "interop"), (".",), ("interop", "tests", "-m", "not slow")],
)
def test_a_complete_run_without_a_test_for_a_row_fails(
    suite: pytest.Pytester, arguments: tuple[str, ...]
) -> None:
    result = suite.runpytest_inprocess(*arguments)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(
        [HEADING, "queues: purging: nothing passed of *test_queues.py::test_purging"]
    )


@pytest.mark.parametrize(
    "arguments",
    [
        ("tests/server",),
        ("tests/server/test_queues.py", "interop"),
        (".", "-k", "arrives"),
        (".", "--deselect", "interop/pika/test_pika.py::test_it_works"),
        (".", "--ignore", "interop/pika"),
        (".", "--collect-only"),
    ],
)
def test_a_part_of_a_run_says_nothing(
    suite: pytest.Pytester, arguments: tuple[str, ...]
) -> None:
    result = suite.runpytest_inprocess(*arguments)
    assert result.ret == pytest.ExitCode.OK
    result.stdout.no_fnmatch_line(HEADING)


@pytest.mark.parametrize(
    "entry",
    [
        "interop/pika/test_pika.py",
        "tests/server/test_queues.py::test_a_message_arrives",
        "tests/server/test_queues.py::test_a_message_arrives[x]",
    ],
)
def test_an_index_whose_tests_passed_is_fine(
    suite: pytest.Pytester, entry: str
) -> None:
    (suite.path / "index.toml").write_text(row("it works", entry))
    result = suite.runpytest_inprocess("tests/server", "interop")
    assert result.ret == pytest.ExitCode.OK


@pytest.mark.parametrize(
    ("entry", "code"),
    [
        ("interop/pika/test_pika.py", pytest.ExitCode.OK),
        ("tests/server/test_none.py", pytest.ExitCode.TESTS_FAILED),
    ],
)
def test_a_run_in_two_processes_is_one_run(
    suite: pytest.Pytester, entry: str, code: pytest.ExitCode
) -> None:
    (suite.path / "index.toml").write_text(row("it works", entry))
    folders = ("tests/server", "interop")
    result = suite.runpytest_inprocess(*folders, "-n", "2")
    assert result.ret == code


def test_a_test_that_failed_shows_nothing(suite: pytest.Pytester) -> None:
    test = "tests/server/test_queues.py::test_a_message_arrives"
    (suite.path / "index.toml").write_text(row("arriving", test))
    path = suite.path / "tests/server/test_queues.py"
    path.write_text(SUITE.replace("IS_RIGHT", "False"))
    result = suite.runpytest_inprocess(".")
    result.stdout.fnmatch_lines([f"queues: arriving: nothing passed of {test}"])
    result = suite.runpytest_inprocess(".", "--exitfirst")
    result.stdout.no_fnmatch_line(HEADING)


def test_a_test_that_is_not_taken_down_shows_nothing(suite: pytest.Pytester) -> None:
    test = "interop/pika/test_pika.py::test_it_works"
    (suite.path / "index.toml").write_text(row("working", test))
    (suite.path / "interop/pika/test_pika.py").write_text(
        "import pytest\n\n"
        "@pytest.fixture\n"
        "def thing():\n"
        "    yield\n"
        "    raise OSError\n\n"
        "def test_it_works(thing):\n"
        "    pass\n"
    )
    result = suite.runpytest_inprocess(".")
    result.stdout.fnmatch_lines([f"queues: working: nothing passed of {test}"])


def test_every_entry_of_a_row_needs_a_test() -> None:
    rows = [Row("s", "t", ("a.py::test_a", "a.py::test_ab"))]
    assert missing_tests(rows, ["a.py::test_ab[1]"]) == [(rows[0], "a.py::test_a")]


@pytest.mark.parametrize(
    ("text", "message"),
    [(row("a"), "no tests: queues: a"), (row("a", "b") + row("a", "c"), "twice")],
)
def test_an_index_that_makes_no_sense_is_refused(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        rows_of(text)


def test_the_index_names_files_that_are_there() -> None:
    root = Path(__file__).parents[2]
    files = {
        entry.split("::")[0]
        for row in rows_of(INDEX.read_text())
        for entry in row.tests
    }
    assert {name for name in files if not (root / name).is_file()} == set()
