"""The broker that is measured: one that is started for it, or one that runs already.

A broker is started as a user starts it, by the installed command `amqpd serve`, on a
core of its own, with an empty data directory on a real disk. So what is measured is
whatever build that command runs; `Target.build` says which.
"""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

from tests.bench.machine import pinned

STOP_SECONDS_MAX: Final = 15.0
LOG_TAIL_LINES: Final = 20


class BrokerFailed(Exception):
    """The broker did not start, or died while it was measured."""


@dataclass(frozen=True)
class Target:
    """A running broker: where it is, and which processes it is made of."""

    name: str
    uri: str
    pids: tuple[int, ...]
    build: str

    @property
    def pid(self) -> int:
        """The one process that the broker is.

        Raises:
            BrokerFailed: nobody said which process it is.
        """
        if not self.pids:
            raise BrokerFailed(f"{self.name}: memory is measured only with a --pid")
        return self.pids[0]


def installed_command() -> str:
    """Return the `amqpd` that belongs to the running interpreter, or is in PATH."""
    beside = Path(sys.executable).with_name("amqpd")
    return str(beside) if beside.exists() else "amqpd"


def build_of(command: str) -> str:
    """Return what `amqpd --version` says."""
    said = subprocess.run(
        [command, "--version"], capture_output=True, text=True, check=True
    )
    return said.stdout.strip()


@contextmanager
def started(command: str, core: int | None, parent: Path) -> Iterator[Target]:
    """Run a broker on one core with a new data directory below `parent`."""
    directory = Path(tempfile.mkdtemp(prefix="amqpd-bench-", dir=parent))
    try:
        with (directory / "log").open("w+", encoding="utf-8") as log:
            process = _start(command, core, directory, log)
            try:
                port = _port_of(process, log)
                uri = f"amqp://guest:guest@127.0.0.1:{port}/"
                yield Target("amqpd", uri, (process.pid,), build_of(command))
            finally:
                _stop(process)
    finally:
        shutil.rmtree(directory)


def _start(
    command: str, core: int | None, directory: Path, log: IO[str]
) -> subprocess.Popen[str]:
    data_dir = str(directory / "data")
    serve = [command, "serve", "--host", "127.0.0.1", "--port", "0"]
    with pinned(core):
        return subprocess.Popen(
            [*serve, "--data-dir", data_dir],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )


def _port_of(process: subprocess.Popen[str], log: IO[str]) -> int:
    assert process.stdout is not None
    line = process.stdout.readline()
    found = re.search(r"127\.0\.0\.1:(\d+)", line)
    if found is None:
        log.seek(0)
        tail = "".join(log.readlines()[-LOG_TAIL_LINES:])
        raise BrokerFailed(f"amqpd did not start, it said {line!r}\n{tail}")
    return int(found[1])


def _stop(process: subprocess.Popen[str]) -> None:
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(STOP_SECONDS_MAX)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    assert process.stdout is not None
    process.stdout.close()
