"""The rules of the house that are about text: sizes, names, prose, the quiet core.

It reads the source tree and imports nothing of it; what imports what is checked by
import-linter (pyproject.toml). A limit that must be exceeded is an entry below, with
its size, and may only shrink.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).resolve().parent.parent
PACKAGES: Final = ("amqpd", "store", "routing", "confirms")
CORE: Final = (
    "amqpd/wire",
    "amqpd/protocol",
    "amqpd/broker",
    "amqpd/auth",
    "store",
    "routing",
    "confirms",
)
FILE_LINES_MAX: Final = 600
FUNCTION_LINES_MAX: Final = 60
FORBIDDEN_NAMES: Final = (
    "util",
    "utils",
    "helper",
    "helpers",
    "common",
    "misc",
    "manager",
    "base",
    "mixin",
)
#: What reads the clock, the environment or chance; the core is told instead.
OUTSIDE_WORLD: Final = (
    ("time", "time"),
    ("time", "time_ns"),
    ("time", "monotonic"),
    ("time", "monotonic_ns"),
    ("time", "perf_counter"),
    ("time", "sleep"),
    ("datetime", "now"),
    ("datetime", "utcnow"),
    ("os", "environ"),
    ("os", "getenv"),
)


def python_files(*folders: str) -> list[Path]:
    found: list[Path] = []
    for folder in folders:
        found += sorted((ROOT / folder).rglob("*.py"))
    return found


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


SOURCE: Final = [*python_files(*PACKAGES), ROOT / "setup.py"]
TESTS: Final = python_files("tests", "interop")
CORE_FILES: Final = python_files(*CORE)

every_file = pytest.mark.parametrize("path", SOURCE + TESTS, ids=name_of)
every_source_file = pytest.mark.parametrize("path", SOURCE, ids=name_of)
every_core_file = pytest.mark.parametrize("path", CORE_FILES, ids=name_of)

Function = ast.FunctionDef | ast.AsyncFunctionDef


def functions(tree: ast.AST) -> Iterator[Function]:
    for node in ast.walk(tree):
        if isinstance(node, Function):
            yield node


def length_without_docstring(function: Function) -> int:
    first, last = function.body[0], function.body[-1]
    assert last.end_lineno is not None
    assert first.end_lineno is not None
    length = last.end_lineno - function.lineno + 1
    if ast.get_docstring(function, clean=False) is not None:
        length -= first.end_lineno - first.lineno + 1
    return length


def parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


@every_file
def test_a_file_is_short_enough_to_read(path: Path) -> None:
    count = len(path.read_text(encoding="utf-8").splitlines())
    assert count < FILE_LINES_MAX


@every_file
def test_a_function_fits_on_a_screen(path: Path) -> None:
    too_long = {
        function.name: length
        for function in functions(parse(path))
        if (length := length_without_docstring(function)) >= FUNCTION_LINES_MAX
    }
    assert too_long == {}


@every_file
def test_a_module_is_named_after_a_thing(path: Path) -> None:
    words = path.stem.strip("_").split("_")
    assert not set(words) & set(FORBIDDEN_NAMES)


@every_source_file
def test_a_module_opens_with_what_it_is_for(path: Path) -> None:
    assert ast.get_docstring(parse(path))


@every_source_file
def test_no_error_is_swallowed_whatever_it_is(path: Path) -> None:
    for node in ast.walk(parse(path)):
        if isinstance(node, ast.ExceptHandler):
            broad = node.type is None or (
                isinstance(node.type, ast.Name)
                and node.type.id in ("Exception", "BaseException")
            )
            silent = all(isinstance(line, ast.Pass) for line in node.body)
            assert not (broad and silent), f"line {node.lineno}"


@every_core_file
def test_the_core_has_no_coroutines(path: Path) -> None:
    waiting = (ast.AsyncFunctionDef, ast.Await, ast.AsyncFor, ast.AsyncWith)
    found = [node for node in ast.walk(parse(path)) if isinstance(node, waiting)]
    assert found == []


@every_core_file
def test_the_core_is_told_the_time_and_the_settings(path: Path) -> None:
    for node in ast.walk(parse(path)):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            assert (node.value.id, node.attr) not in OUTSIDE_WORLD, node.lineno
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                assert (node.module, alias.name) not in OUTSIDE_WORLD, node.lineno


def test_a_test_lies_where_the_module_lies_that_it_tests() -> None:
    astray = [
        name_of(path)
        for folder in PACKAGES
        for path in python_files(f"tests/{folder}")
        if path.name.startswith("test_") and not is_mirror(path)
    ]
    assert astray == []


def is_mirror(path: Path) -> bool:
    """Say whether the test is about a module (or package) in the same place.

    One module may have several files of tests: test_<module>_<aspect>.py.
    """
    mirrored = ROOT / path.relative_to(ROOT / "tests").parent
    words = path.stem.split("_")[1:]
    names = ["_".join(words[:count]) for count in range(1, len(words) + 1)]
    return any(
        (mirrored / f"{name}.py").exists() or (mirrored / name).is_dir()
        for name in names
    )


@pytest.mark.parametrize("path", TESTS, ids=name_of)
def test_no_test_is_skipped(path: Path) -> None:
    for node in ast.walk(parse(path)):
        if isinstance(node, ast.Attribute):
            written = ast.unparse(node)
            assert not written.startswith(
                ("pytest.skip", "pytest.mark.skip", "pytest.xfail", "pytest.mark.xfail")
            ), f"line {node.lineno}"
