"""What a call from one room into the next costs, by how the caller knows the callee.

    python -m tests.bench.boundaries [--count 2000000]

Prints nanoseconds per call, compiled (mypyc and a C compiler are needed for that) and
as ordinary Python, less the loop around it. The table in which a port on the data
plane is chosen to be a trait or a native base comes from here.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from types import ModuleType
from typing import Final

SOURCE: Final = Path(__file__).with_name("crossings.py")
#: Shown, and the function of `crossings` that is timed.
WAYS: Final = {
    "method of a final class": "time_final_class",
    "method of a native base": "time_native_base",
    "method of an inherited trait": "time_trait",
    "method of a protocol": "time_protocol",
    "native object made and read": "time_native_object",
    "named tuple made and read": "time_named_tuple",
    "member of an enum compared": "time_enum",
}
REPEATS: Final = 3


def main() -> None:
    """Time every way on both builds and print a line for each."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.boundaries")
    parser.add_argument("--count", type=int, default=2_000_000)
    count = parser.parse_args().count
    with tempfile.TemporaryDirectory() as directory:
        pure = _timed(_module_at(SOURCE), count // 10)
        built = _compile(Path(directory))
        compiled = _timed(_module_at(built), count) if built else {}
    print(f"{'nanoseconds per call':30} compiled   pure")
    for way, ns in pure.items():
        fast = f"{compiled[way]:8.1f}" if compiled else "       -"
        print(f"{way:30} {fast} {ns:6.1f}")


def _timed(crossings: ModuleType, count: int) -> dict[str, float]:
    loop = min(crossings.time_nothing(count) for _ in range(REPEATS))
    counter, red = crossings.Counter(), crossings.Colour.RED
    found: dict[str, float] = {}
    for way, name in WAYS.items():
        function = getattr(crossings, name)
        target = {"time_enum": [red], "time_native_object": [], "time_named_tuple": []}
        arguments = target.get(name, [counter])
        taken = min(function(*arguments, count) for _ in range(REPEATS))
        found[way] = (taken - loop) / count
    return found


def _compile(directory: Path) -> Path | None:
    """Compile a copy of `crossings`; return the extension, or None without mypyc."""
    if importlib.util.find_spec("mypyc") is None or shutil.which("cc") is None:
        print("mypyc or a C compiler is missing: only ordinary Python is timed")
        return None
    shutil.copy(SOURCE, directory)
    command = [sys.executable, "-m", "mypyc", SOURCE.name]
    environment = os.environ | {"MYPYC_OPT_LEVEL": "3"}
    subprocess.run(
        command, cwd=directory, env=environment, check=True, capture_output=True
    )
    return next(directory.glob("crossings.*.so"))


def _module_at(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("crossings", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


if __name__ == "__main__":
    main()
