"""A throw-away broker for other people's tests.

    with amqpd_server() as url:              amqp://guest:guest@127.0.0.1:40721/
        connection = pika.BlockingConnection(pika.URLParameters(url))

    with AmqpdServer(data_dir=path) as server:
        server.kill()                        as a crash would
        server.start()                       same port, same data

The broker is a process of its own, on a free port, with an empty data directory that
is removed afterwards. It is started as `python -I -m amqpd serve`: -I keeps the
current directory and PYTHONPATH out of it, so a project may have a `store/` or a
`routing.py` of its own. When this file does not lie in site-packages (a source tree,
an editable installation), -I would not find it, so its directory is put first by
hand: the broker that runs is always the one this module came with.

It imports the standard library only, and nothing of the broker. The fixtures that
pytest finds by itself are in `amqpd.pytest_plugin`.
"""

from __future__ import annotations

import json
import os
import re
import select
import shutil
import signal
import socket
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Final, Self

_ROOT: Final = str(Path(__file__).resolve().parent.parent)
_FROM_ROOT: Final = (
    "import sys; sys.path.insert(0, sys.argv.pop(1));"
    " from amqpd.cli.server import main; sys.exit(main())"
)
_LOG_TAIL_SIZE: Final = 4000


class ServerFailed(Exception):
    """The broker did not start or did not stop; the text ends with its log.

    `exit_code` is what the process ended with, None if it had to be killed.
    """

    def __init__(self, text: str, exit_code: int | None) -> None:
        super().__init__(text)
        self.exit_code = exit_code


class HeldPort:
    """A free port of this machine that no other process comes upon until `close`.

    A socket is bound to it and never listens. The system gives the port to nobody who
    asks for any, and lets the broker listen on it, which names it (SO_REUSEADDR, set
    here and by asyncio).
    """

    def __init__(self) -> None:
        """Take one that is free now."""
        self._socket = socket.socket()
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._socket.bind(("127.0.0.1", 0))
        self.number = int(self._socket.getsockname()[1])

    def close(self) -> None:
        """Let it go."""
        self._socket.close()


class AmqpdServer:
    """One broker process after the other, all with the same data and port."""

    def __init__(
        self,
        *,
        data_dir: str | os.PathLike[str] | None = None,
        port: int = 0,
        http: bool = False,
        config: str | None = None,
        definitions: Mapping[str, object] | None = None,
        env: Mapping[str, str] | None = None,
        args: Sequence[str] = (),
        command: Sequence[str] | None = None,
        timeout_s: float = 20.0,
    ) -> None:
        """Say how to start it; nothing happens before `start`.

        Args:
            data_dir: where it keeps its data; None is a temporary directory, which
                lives as long as this object is entered (or until `close`).
            port: 0 takes a free one, which is kept over restarts.
            http: whether it serves the management API, on a free port that is kept
                over restarts: see `http_port` and `http_url`.
            config: the text of a TOML configuration file.
            definitions: users, virtual hosts and more, as RabbitMQ exports them. As
                there, guest and "/" exist only if they are among them.
            env: added to the environment, from which AMQPD_* and RABBITMQ_* of the
                developer's own shell are taken out.
            args: more arguments of `amqpd serve`; /metrics is there if they have a
                `--prometheus-port`.
            command: what stands before `serve`; None is `amqpd_command()`.
            timeout_s: how long a start or a stop may take.
        """
        self._temporary = Path(tempfile.mkdtemp(prefix="amqpd-"))
        self.data_dir = Path(data_dir) if data_dir else self._temporary / "data"
        self._held: list[HeldPort] = []
        self.port = port or self._hold_port()
        #: Where the management API is; 0: nowhere.
        self.http_port = self._hold_port() if http else 0
        self._log_path = self._temporary / "log"
        self._process: subprocess.Popen[bytes] | None = None
        self._timeout_s = timeout_s
        self._command = [*(command or amqpd_command()), "serve"]
        self._command += ["--data-dir", str(self.data_dir), "--host", "127.0.0.1"]
        self._command += args
        self._env = _clean_environment()
        # Several may run at once, and it is not the broker's port they are known by.
        self._env["AMQPD_HTTP_PORT"] = str(self.http_port)
        self._env["AMQPD_PROMETHEUS_PORT"] = "0"
        # What is thrown away has no secrets; a good hash takes a tenth of a start.
        self._env["AMQPD_PASSWORD_HASHING"] = "sha256"
        if config is not None:
            path = self._temporary / "amqpd.toml"
            path.write_text(config, encoding="utf-8")
            self._command += ["--config", str(path)]
        if definitions is not None:
            path = self._temporary / "definitions.json"
            path.write_text(json.dumps(definitions), encoding="utf-8")
            self._env["AMQPD_LOAD_DEFINITIONS"] = str(path)
        self._env.update(env or {})

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            self.stop()
        finally:
            self.close()

    @property
    def url(self) -> str:
        """Where clients connect, as the user guest."""
        return f"amqp://guest:guest@127.0.0.1:{self.port}/"

    @property
    def http_url(self) -> str:
        """Where the management API is, as the user guest."""
        assert self.http_port, "it was not asked for: http=True"
        return f"http://guest:guest@127.0.0.1:{self.http_port}"

    @property
    def pid(self) -> int:
        """The process id of the running broker."""
        assert self._process is not None, "the broker is not running"
        return self._process.pid

    @property
    def is_running(self) -> bool:
        """Whether the process is there."""
        return self._process is not None and self._process.poll() is None

    @property
    def log(self) -> str:
        """What all processes so far wrote to standard error."""
        if not self._log_path.exists():
            return ""
        return self._log_path.read_text(encoding="utf-8", errors="replace")

    def start(self) -> None:
        """Start it and return when it accepts connections.

        Raises:
            ServerFailed: it ended or said nothing in time.
        """
        assert not self.is_running, "the broker runs already"
        with self._log_path.open("ab") as log:
            self._process = subprocess.Popen(
                [*self._command, "--port", str(self.port)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                env=self._env,
                cwd=self._temporary,
            )
        line = self._start_up_line()
        found = re.search(r"127\.0\.0\.1:(\d+)", line)
        if not line.startswith("Server startup complete") or found is None:
            code = self._exit_code_soon()
            self.kill()
            raise self._failed(f"amqpd did not start, it printed {line!r}", code)
        self.port = int(found[1])

    def stop(self) -> int:
        """Stop it as an operator does (SIGTERM) and return the exit code.

        Does nothing when it is not running.

        Raises:
            ServerFailed: it did not end in time; it is killed then.
        """
        if self._process is None:
            return 0
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(self._timeout_s)
        except subprocess.TimeoutExpired:
            self.kill()
            what = f"amqpd did not end within {self._timeout_s} s of SIGTERM"
            raise self._failed(what, None) from None
        return self._reap()

    def kill(self) -> None:
        """Stop it as a crash does (SIGKILL); does nothing when it is stopped."""
        if self._process is not None:
            self._process.kill()
            self._reap()

    def restart(self) -> None:
        """Stop it if it runs, and start it with the same data on the same port."""
        self.stop()
        self.start()

    def wait(self) -> int:
        """Wait until it ends by itself and return the exit code.

        Raises:
            ServerFailed: it did not end in time.
        """
        assert self._process is not None, "the broker is not running"
        try:
            self._process.wait(self._timeout_s)
        except subprocess.TimeoutExpired:
            what = f"amqpd still runs after {self._timeout_s} s"
            raise self._failed(what, None) from None
        return self._reap()

    def close(self) -> None:
        """Kill what still runs and remove the temporary directory."""
        self.kill()
        for port in self._held:
            port.close()
        shutil.rmtree(self._temporary, ignore_errors=True)

    def _hold_port(self) -> int:
        self._held.append(HeldPort())
        return self._held[-1].number

    def _reap(self) -> int:
        assert self._process is not None
        code = self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()
        self._process = None
        return code

    def _start_up_line(self) -> str:
        """Return the first line of standard output, or what there is of it."""
        assert self._process is not None
        assert self._process.stdout is not None
        descriptor = self._process.stdout.fileno()
        deadline = time.monotonic() + self._timeout_s
        line = b""
        while not line.endswith(b"\n"):
            left_s = deadline - time.monotonic()
            if left_s <= 0 or not select.select([descriptor], [], [], left_s)[0]:
                break
            data = os.read(descriptor, 4096)
            if not data:
                break
            line += data
        return line.decode(errors="replace").rstrip("\n")

    def _exit_code_soon(self) -> int | None:
        """Return what a process that has closed its output ends with."""
        assert self._process is not None
        try:
            return self._process.wait(1.0)
        except subprocess.TimeoutExpired:
            return None

    def _failed(self, what: str, exit_code: int | None) -> ServerFailed:
        tail = self.log[-_LOG_TAIL_SIZE:]
        return ServerFailed(f"{what}; the end of its log:\n{tail}", exit_code)


@contextmanager
def amqpd_server(
    *,
    data_dir: str | os.PathLike[str] | None = None,
    config: str | None = None,
    definitions: Mapping[str, object] | None = None,
    env: Mapping[str, str] | None = None,
    args: Sequence[str] = (),
) -> Iterator[str]:
    """Run a broker for the length of a `with` block and yield its URL.

    The arguments are those of AmqpdServer.
    """
    with AmqpdServer(
        data_dir=data_dir, config=config, definitions=definitions, env=env, args=args
    ) as server:
        yield server.url


def amqpd_command() -> list[str]:
    """Return what runs the `amqpd` of the place where this file lies, no other."""
    installed = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
    if _ROOT in {str(Path(path).resolve()) for path in installed}:
        return [sys.executable, "-I", "-m", "amqpd"]
    return [sys.executable, "-I", "-c", _FROM_ROOT, _ROOT]


def _clean_environment() -> dict[str, str]:
    return {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("AMQPD_", "RABBITMQ_"))
    }
