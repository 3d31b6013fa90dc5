"""amqpload, the load generator: run on a core of its own, its result as a dictionary.

The generator is C, because a client in Python is the bottleneck at a few ten thousand
messages per second. `make build/amqpload` compiles it; if it is not there, this does.
"""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tests.bench.broker import Target
from tests.bench.machine import pinned

SOURCE: Final = Path(__file__).with_name("amqpload.c")
COMPILE: Final = ("-std=gnu11", "-O2", "-Wall", "-Wextra")

Result = dict[str, Any]


class LoadFailed(Exception):
    """The generator reports that messages or connections were lost, or nothing."""


@dataclass(frozen=True)
class Generator:
    """Where amqpload lies and on which core it runs."""

    path: Path
    core: int | None

    def run(self, target: Target, *arguments: str) -> Result:
        """Run it to its end and return what it measured.

        Raises:
            LoadFailed: it could not run, or a check of its own failed.
        """
        process = self.start(target, *arguments)
        return finish(process)

    def start(self, target: Target, *arguments: str) -> subprocess.Popen[str]:
        """Start it; `finish` waits for its result."""
        command = [str(self.path), "--uri", target.uri, *arguments]
        if target.pids:
            command += ["--pid", ",".join(map(str, target.pids))]
        with pinned(self.core):
            return subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
            )


def finish(process: subprocess.Popen[str]) -> Result:
    """Wait for a generator that was started and return what it measured.

    Raises:
        LoadFailed: it could not run, or a check of its own failed.
    """
    printed, complaint = process.communicate()
    if process.returncode:
        raise LoadFailed(f"{process.args!r}\n{complaint}{printed}")
    result: Result = json.loads(printed)
    return result


def compiled(directory: Path) -> Path:
    """Return amqpload, compiled into a directory unless it is there and current."""
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / "amqpload"
    if not path.exists() or path.stat().st_mtime < SOURCE.stat().st_mtime:
        compile_c(SOURCE, path)
    return path


def compile_c(source: Path, target: Path, *options: str) -> Path:
    """Compile a C file of this folder to `target` and return that."""
    command = ["cc", *COMPILE, *options, "-o", str(target), str(source)]
    subprocess.run(command, check=True)
    return target
