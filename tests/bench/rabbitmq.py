"""RabbitMQ as a peer: an instance of our own, made from an installation that is found.

No service of the system is touched. The instance has ports, a node name and an epmd of
its own, and a directory that holds its data, its log and its cookie, and goes with it.
It runs on its defaults, with no plugins and no configuration but its ports. It is
started by the script of the installation, not by the distribution's wrapper, which
would change the user: so it works as root and as anybody else.

Everything that it starts inherits the name of its directory in the environment; that
is how epmd, which leaves the family, is found and ended, too.
"""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tests.bench.broker import LOG_TAIL_LINES, BrokerFailed, Target
from tests.bench.generator import Generator, LoadFailed
from tests.bench.machine import pinned
from tests.bench.processes import end_marked, process_tree

SCRIPT: Final = "rabbitmq-server"
#: Where packages and archives put the scripts, as patterns below the root directory.
PLACES: Final = (
    "usr/lib/rabbitmq/lib/rabbitmq_server-*/sbin",
    "usr/local/lib/rabbitmq/lib/rabbitmq_server-*/sbin",
    "opt/rabbitmq*/sbin",
    "usr/local/rabbitmq*/sbin",
)
MARK: Final = "AMQPD_BENCH_PEER"
START_ATTEMPTS: Final = 60
STOP_SECONDS_MAX: Final = 30.0


def installed_script(root: Path = Path("/")) -> Path | None:
    """Return the newest `rabbitmq-server` that is installed here, or in PATH."""
    found = [
        folder / SCRIPT
        for place in PLACES
        for folder in root.glob(place)
        if (folder / SCRIPT).is_file()
    ]
    if found:
        return max(found, key=_version_of)
    in_path = shutil.which(SCRIPT) if root == Path("/") else None
    return Path(in_path) if in_path else None


@contextmanager
def rabbitmq(
    script: Path, generator: Generator, core: int | None, parent: Path
) -> Iterator[Target]:
    """Run RabbitMQ on one core with a new directory below `parent`.

    Raises:
        BrokerFailed: it did not start; the end of what it said is in the text.
    """
    directory = Path(tempfile.mkdtemp(prefix="amqpd-bench-peer-", dir=parent))
    port = _free_port()
    mark = f"{MARK}={directory}"
    with (directory / "log").open("w", encoding="utf-8") as log, pinned(core):
        process = subprocess.Popen(
            [str(script)],
            cwd=directory,
            env=environment(directory, port),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:
        yield _wait_started(process, port, generator, directory)
    finally:
        process.terminate()
        try:
            process.wait(STOP_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        # epmd stays behind, and waits for the next node.
        end_marked(mark, 0)
        shutil.rmtree(directory, ignore_errors=True)


def _wait_started(
    process: subprocess.Popen[bytes], port: int, generator: Generator, directory: Path
) -> Target:
    uri = f"amqp://guest:guest@127.0.0.1:{port}/"
    for _ in range(START_ATTEMPTS):
        try:
            who = generator.run(
                Target("RabbitMQ", uri, (), ""), "--mode", "wait", "--timeout", "2"
            )
        except LoadFailed:
            if process.poll() is not None:
                break
        else:
            name = f"{who['server']} {who['server_version']}"
            return Target(name, uri, process_tree(process.pid), name)
    lines = (directory / "log").read_text(encoding="utf-8").splitlines()
    tail = "\n".join(lines[-LOG_TAIL_LINES:])
    raise BrokerFailed(f"RabbitMQ did not start:\n{tail}")


def environment(directory: Path, port: int) -> dict[str, str]:
    """Write its configuration and return its environment: nothing outside is read."""
    files = {
        "rabbitmq.conf": f"listeners.tcp.1 = 127.0.0.1:{port}\n",
        "advanced.config": "[].\n",
        "enabled_plugins": "[].\n",
        "rabbitmq-env.conf": "",
    }
    for name, text in files.items():
        (directory / name).write_text(text, encoding="utf-8")
    inherited = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("RABBITMQ_", "ERL_"))
    }
    return inherited | {
        MARK: str(directory),
        "HOME": str(directory),
        "ERL_EPMD_ADDRESS": "127.0.0.1",
        "ERL_EPMD_PORT": str(_free_port()),
        "RABBITMQ_NODENAME": f"amqpd-bench-{os.getpid()}@localhost",
        "RABBITMQ_DIST_PORT": str(_free_port()),
        "RABBITMQ_CONF_ENV_FILE": str(directory / "rabbitmq-env.conf"),
        "RABBITMQ_CONFIG_FILE": str(directory / "rabbitmq.conf"),
        "RABBITMQ_ADVANCED_CONFIG_FILE": str(directory / "advanced.config"),
        "RABBITMQ_ENABLED_PLUGINS_FILE": str(directory / "enabled_plugins"),
        "RABBITMQ_MNESIA_BASE": str(directory / "data"),
        "RABBITMQ_LOG_BASE": str(directory / "logs"),
        "RABBITMQ_PID_FILE": str(directory / "pid"),
    }


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _version_of(script: Path) -> tuple[int, ...]:
    found = re.search(r"rabbitmq\D*((?:\d+\.)*\d+)/sbin", str(script))
    return tuple(map(int, found[1].split("."))) if found else ()
