"""How many instructions the core takes per message, and whether that has changed.

    python -m tests.bench.instructions             measure and compare
    python -m tests.bench.instructions --update    measure and make it the baseline

Instructions are counted by callgrind while `frame_script` runs in the compiled core.
Unlike seconds they are the same on a busy machine and on an idle one, so a change of
a few per cent is a change of the code. The count of a part is the difference between
N and 2N messages, divided by N: start-up, imports and the first messages are not in it.

The baseline is `instructions.json`, and a commit changes it on purpose. It has an entry
for each version of Python, with and without ISA-L for the checksums. How that was built
makes a difference of up to 5 %. Where things happen to lie in memory (the length of a
path is enough) makes up to 3 % for persistent messages, and 0.5 % for transient ones.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from amqpd import build_kind
from tests.bench.frame_script import PARTS

BASELINE: Final = Path(__file__).with_name("instructions.json")
ROOT: Final = Path(__file__).resolve().parents[2]
COUNT: Final = 1000
#: A change by more than this share, up or down, wants a new baseline. Persistent ones
#: go through the C library's memory functions, whose count varies with addresses.
CHANGES_MAX: Final = {"transient": 0.05, "persistent": 0.1}
#: The function of the C library that `frame_script.mark` calls.
MARK: Final = "getppid"

Counts = dict[str, float]


def obstacle() -> str | None:
    """Return why nothing can be counted here; None if it can."""
    if shutil.which("valgrind") is None:
        return "valgrind is not installed"
    if build_kind() != "compiled":
        return "this is the pure build"
    return None


def kind_of_python() -> str:
    """Return what a baseline depends on besides the code."""
    version = "{}.{}".format(*sys.version_info)
    kind = f"{platform.python_implementation()} {version} {platform.machine()}"
    return kind + (" isal" if find_spec("isal") is not None else "")


def measure() -> Counts:
    """Return the instructions per message of each part of the script."""
    with tempfile.TemporaryDirectory() as directory:
        out = Path(directory, "callgrind")
        callgrind = [
            *("valgrind", "--tool=callgrind", f"--callgrind-out-file={out}"),
            f"--dump-before={MARK}",
        ]
        script = [sys.executable, "-m", "tests.bench.frame_script", str(COUNT)]
        subprocess.run(
            [*callgrind, *script],
            cwd=ROOT,
            env=os.environ | {"PYTHONHASHSEED": "0"},
            check=True,
            capture_output=True,
        )
        # A dump has what was executed between two marks; number 1 is the start-up.
        dumps = [_total(Path(f"{out}.{2 + 2 * i}")) for i in range(2 * len(PARTS))]
    once, twice = dumps[::2], dumps[1::2]
    return {PARTS[i]: (twice[i] - once[i]) / COUNT for i in range(len(PARTS))}


def baseline() -> Counts | None:
    """Return what the parts took when the baseline was made, for this Python."""
    kinds: dict[str, Counts] = json.loads(BASELINE.read_text(encoding="utf-8"))
    return kinds.get(kind_of_python())


def comparison(measured: Counts, expected: Counts) -> dict[str, str]:
    """Return for each part what there is to say, with both numbers."""
    return {
        part: f"{part}: {count:,.0f} instructions per message, "
        f"baseline {expected[part]:,.0f} ({100 * (count / expected[part] - 1):+.1f} %)"
        for part, count in measured.items()
    }


def changed(measured: Counts, expected: Counts) -> list[str]:
    """Return what there is to say of the parts that changed too much."""
    lines = comparison(measured, expected)
    return [
        lines[part]
        for part, count in measured.items()
        if abs(count / expected[part] - 1) > CHANGES_MAX[part]
    ]


def update(measured: Counts) -> None:
    """Make this the baseline of this kind of Python."""
    kinds: dict[str, Counts] = {}
    if BASELINE.exists():
        kinds = json.loads(BASELINE.read_text(encoding="utf-8"))
    kinds[kind_of_python()] = {part: round(count) for part, count in measured.items()}
    text = json.dumps(kinds, indent=2, sort_keys=True)
    BASELINE.write_text(text + "\n", encoding="utf-8")


def _total(dump: Path) -> int:
    found = re.search(r"^totals: (\d+)", dump.read_text(encoding="utf-8"), re.MULTILINE)
    assert found is not None, f"{dump.name} has no totals"
    return int(found[1])


def main() -> int:
    """Do what the command line asks for; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.instructions")
    parser.add_argument("--update", action="store_true", help="make it the baseline")
    said = parser.parse_args()
    reason = obstacle()
    if reason is not None:
        print(f"instructions are not counted: {reason}")
        return 0
    measured = measure()
    if said.update:
        update(measured)
    expected = baseline()
    if expected is None:
        print(f"no baseline for {kind_of_python()}: {measured}")
        return 0
    print("\n".join(comparison(measured, expected).values()))
    return 1 if changed(measured, expected) else 0


if __name__ == "__main__":
    sys.exit(main())
