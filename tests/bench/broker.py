"""The broker that is measured: one that is started for it, or one that runs already.

A broker is started as a user starts it, by the installed command `amqpd serve`, on a
core of its own, with an empty data directory on a real disk. So what is measured is
whatever build that command runs; `Target.build` says which. One that is started here
can be killed, and started again on what it left (`Target.process`).
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Final

from tests.bench.machine import pinned

STOP_SECONDS_MAX: Final = 30.0
LOG_TAIL_LINES: Final = 20
BUSY_LINE: Final = re.compile(r"the loop was busy for ([\d.]+) ms at most")


class BrokerFailed(Exception):
    """The broker did not start, or died while it was measured."""


@dataclass(frozen=True)
class Target:
    """A running broker: where it is, and which processes it is made of."""

    name: str
    uri: str
    pids: tuple[int, ...]
    build: str
    #: What it was started as; None if somebody else did that.
    started_by: BrokerProcess | None = None

    @property
    def pid(self) -> int:
        """The one process that the broker is.

        Raises:
            BrokerFailed: nobody said which process it is.
        """
        if not self.pids:
            raise BrokerFailed(f"{self.name}: memory is measured only with a --pid")
        return self.pids[0]

    @property
    def process(self) -> BrokerProcess:
        """The process, to be stopped and started.

        Raises:
            BrokerFailed: it is not ours to stop.
        """
        if self.started_by is None:
            raise BrokerFailed(f"{self.name}: only a broker of our own is restarted")
        return self.started_by


@dataclass
class BrokerProcess:
    """`amqpd serve` on one data directory, as often as it is started."""

    command: str
    core: int | None
    #: Holds the data directory and the log of the process, and goes with it.
    directory: Path
    #: Added to the environment of the process.
    environment: Mapping[str, str] = field(default_factory=dict)
    #: Added to its command line: what is said last holds.
    flags: tuple[str, ...] = ()
    #: From the start of the process to the line that says where it listens.
    start_seconds: float = 0.0
    _running: subprocess.Popen[str] | None = None

    @property
    def data_directory(self) -> Path:
        """Where its messages are."""
        return self.directory / "data"

    def start(self) -> Target:
        """Start it and wait until it listens.

        Raises:
            BrokerFailed: it ended instead.
        """
        with (self.directory / "log").open("w+", encoding="utf-8") as log:
            started = time.perf_counter()
            process = self._start(log)
            self._running = process
            port = _port_of(process, log)
            self.start_seconds = time.perf_counter() - started
        uri = f"amqp://guest:guest@127.0.0.1:{port}/"
        return Target("amqpd", uri, (process.pid,), build_of(self.command), self)

    def kill(self) -> None:
        """End it as `kill -9` does."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """Let it end in order; one that does not is killed."""
        self._end(signal.SIGTERM)

    def loop_busy_ms(self) -> float | None:
        """Return how long its loop was busy in one go, as it said when it stopped.

        None if it was killed, or does not measure that.
        """
        said = (self.directory / "log").read_text(encoding="utf-8")
        found = BUSY_LINE.search(said)
        return float(found[1]) if found else None

    def _start(self, log: IO[str]) -> subprocess.Popen[str]:
        serve = [self.command, "serve", "--host", "127.0.0.1", "--port", "0"]
        serve += ["--http-port", "0", "--prometheus-port", "0"]
        with pinned(self.core):
            return subprocess.Popen(
                [*serve, "--data-dir", str(self.data_directory), *self.flags],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env=os.environ | dict(self.environment),
            )

    def _end(self, number: signal.Signals) -> None:
        process = self._running
        if process is None:
            return
        self._running = None
        process.send_signal(number)
        try:
            process.wait(STOP_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        assert process.stdout is not None
        process.stdout.close()


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
def started(
    command: str,
    core: int | None,
    parent: Path,
    environment: Mapping[str, str] | None = None,
    flags: tuple[str, ...] = (),
) -> Iterator[Target]:
    """Run a broker on one core with a new data directory below `parent`."""
    directory = Path(tempfile.mkdtemp(prefix="amqpd-bench-", dir=parent))
    process = BrokerProcess(command, core, directory, environment or {}, flags)
    try:
        yield process.start()
    finally:
        process.stop()
        shutil.rmtree(directory)


def _port_of(process: subprocess.Popen[str], log: IO[str]) -> int:
    assert process.stdout is not None
    line = process.stdout.readline()
    found = re.search(r"127\.0\.0\.1:(\d+)", line)
    if found is None:
        log.seek(0)
        tail = "".join(log.readlines()[-LOG_TAIL_LINES:])
        raise BrokerFailed(f"amqpd did not start, it said {line!r}\n{tail}")
    return int(found[1])
