"""A Celery application, and its workers: processes as an operator starts them."""

from __future__ import annotations

import importlib.util
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import pytest

HERE: Final = Path(__file__).parent
MODULE: Final = "interop_celery_app"
DELAYED_MODULE: Final = "interop_delayed_app"


class Worker:
    """One `celery worker` process."""

    def __init__(
        self, application: ModuleType, name: str, queue: str, log: Path
    ) -> None:
        self._app: Any = application.app
        self.name = f"{name}@localhost"
        self._log = log
        command = [sys.executable, "-m", "celery", "-A", application.__name__, "worker"]
        command += ["--loglevel", "INFO", "--concurrency", "2", "-n", self.name]
        command += ["-Q", queue]
        with log.open("wb") as output:
            self._process = subprocess.Popen(
                command,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={
                    **os.environ,
                    "AMQP_URL": self._app.conf.broker_url,
                    "INTEROP_QUEUE": self._app.conf.task_default_queue,
                    "PYTHONPATH": str(HERE),
                },
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
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait(20)


@contextmanager
def application(name: str, amqp_url: str, queue: str) -> Iterator[ModuleType]:
    """Load an application; its queue and exchanges are deleted in the end."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AMQP_URL", amqp_url)
        patch.setenv("INTEROP_QUEUE", queue)
        module = load_module(name)
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
    # It keeps connections, for whose answer the broker would wait when it stops; only
    # who has asked for a result has one.
    results = module.app.backend.result_consumer
    if results._connection is not None:
        results.stop()
    module.app.pool.force_close_all()
    module.app.close()


def load_module(name: str) -> ModuleType:
    """Import an application under the name by which its worker knows it."""
    spec = importlib.util.spec_from_file_location(name, HERE / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def tasks(amqp_url: str) -> Iterator[ModuleType]:
    """The application's module."""
    queue = f"interop-celery-{os.getpid()}"
    with application(MODULE, amqp_url, queue) as module:
        yield module


@pytest.fixture(scope="session")
def delayed_tasks(amqp_url: str) -> Iterator[ModuleType]:
    """The module of the application that leaves waiting to the broker."""
    queue = f"interop-celery-delayed-{os.getpid()}"
    with application(DELAYED_MODULE, amqp_url, queue) as module:
        yield module


class Workers:
    """Starts workers; those that still run in the end are killed."""

    def __init__(self, logs: Path) -> None:
        self._logs = logs
        self._running: list[Worker] = []

    def start(self, application: ModuleType, **queues: str) -> list[Worker]:
        """Start workers, name=queue, at the same time; return when all are ready."""
        started = [
            Worker(application, name, queue, self._logs / f"{name}.log")
            for name, queue in queues.items()
        ]
        self._running += started
        for worker in started:
            worker.wait_until_ready()
        return started

    def kill(self) -> None:
        """Kill all that run."""
        for worker in self._running:
            worker.kill()


@pytest.fixture(scope="session")
def workers(
    tasks: ModuleType,
    delayed_tasks: ModuleType,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Workers]:
    """What starts workers."""
    # It comes after the applications: what they delete must have no consumers.
    workers = Workers(tmp_path_factory.mktemp("celery"))
    yield workers
    workers.kill()


@pytest.fixture(scope="session")
def worker(tasks: ModuleType, workers: Workers) -> Worker:
    """A worker that all tests share, for a start takes seconds."""
    (worker,) = workers.start(tasks, shared=tasks.app.conf.task_default_queue)
    return worker
