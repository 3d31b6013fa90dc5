"""A Celery application, and its workers: processes as an operator starts them."""

from __future__ import annotations

import importlib.util
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import pytest

HERE: Final = Path(__file__).parent
MODULE: Final = "interop_celery_app"


class Worker:
    """One `celery worker` process."""

    def __init__(self, app: Any, name: str, log: Path) -> None:
        self._app = app
        self.name = f"{name}@localhost"
        self._log = log
        command = [sys.executable, "-m", "celery", "-A", MODULE, "worker"]
        command += ["--loglevel", "INFO", "--concurrency", "2", "-n", self.name]
        with log.open("wb") as output:
            self._process = subprocess.Popen(
                command,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**os.environ, "PYTHONPATH": str(HERE)},
                start_new_session=True,
            )

    def wait_until_ready(self) -> None:
        """Return when it answers a ping.

        Raises:
            AssertionError: it ended or did not answer in time.
        """
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline and self._process.poll() is None:
            if self._app.control.ping(destination=[self.name], timeout=0.5):
                return
        raise AssertionError(f"no worker: {self._log.read_text()[-3000:]}")

    def stop(self) -> None:
        """Stop it as an operator does; it finishes its running tasks."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            self._process.wait(20)

    def kill(self) -> None:
        """Kill it with its pool processes, as the kernel does when memory is short."""
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait(20)


@pytest.fixture(scope="session")
def tasks(amqp_url: str) -> Iterator[ModuleType]:
    """The application's module; its queue and exchanges are deleted in the end."""
    queue = f"interop-celery-{os.getpid()}"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AMQP_URL", amqp_url)
        patch.setenv("INTEROP_QUEUE", queue)
        module = load_application()
        yield module
    with module.app.connection_for_write() as connection:
        channel = connection.default_channel
        channel.queue_delete(queue)
        for name in (
            queue,
            f"{queue}-control.pidbox",
            f"reply.{queue}-control.pidbox",
            f"{queue}-event",
        ):
            channel.exchange_delete(name)
    module.app.close()


def load_application() -> ModuleType:
    """Import the application under the name by which the worker knows it."""
    path = HERE / f"{MODULE}.py"
    spec = importlib.util.spec_from_file_location(MODULE, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[MODULE] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def start_worker(
    tasks: ModuleType, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[[str], Worker]]:
    """Start workers; those that still run in the end are stopped."""
    workers: list[Worker] = []

    def start(name: str) -> Worker:
        log = tmp_path_factory.mktemp("celery") / f"{name}.log"
        workers.append(Worker(tasks.app, name, log))
        workers[-1].wait_until_ready()
        return workers[-1]

    yield start
    for worker in workers:
        worker.stop()


@pytest.fixture(scope="module")
def worker(start_worker: Callable[[str], Worker]) -> Iterator[Worker]:
    """A worker that all tests of a module share."""
    worker = start_worker("shared")
    yield worker
    worker.stop()
