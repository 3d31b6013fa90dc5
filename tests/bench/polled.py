"""A durable load beside somebody who lists ten thousand queues every second.

    plain, polled, plain, polled ...     on one broker that has the queues all the time

What a tool asks for must cost the messages nothing that anybody notices. So the CPU of
the broker per message is measured with and without a client that polls /api/queues;
the answers count with it. In turn, since a machine is faster at one time than another.
A list alone is measured in the end: what it costs when nothing changes.
"""

from __future__ import annotations

import base64
import http.client
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Final

from tests.bench.broker import Target, started
from tests.bench.figures import Figures, figures_of
from tests.bench.generator import Generator
from tests.bench.machine import cpu_seconds_of

QUEUES: Final = 10_000
REPEATS: Final = 3
POLL_SECONDS: Final = 1.0
#: Enough for a clock of hundredths of a second.
LISTS_ALONE: Final = 40
LOGIN: Final = {"Authorization": "Basic " + base64.b64encode(b"guest:guest").decode()}


class Poller:
    """A client of the management API."""

    def __init__(self, port: int) -> None:
        self.list_count = 0
        self.list_size = 0
        self._connection = http.client.HTTPConnection("127.0.0.1", port)

    def define(self, count: int) -> None:
        """Have so many durable queues."""
        queues = [
            {"name": f"listed-{n:05}", "vhost": "/", "durable": True, "arguments": {}}
            for n in range(count)
        ]
        body = json.dumps({"queues": queues})
        self._ask("POST", "/api/definitions", body.encode())

    def list_queues(self) -> None:
        """Get all queues once, with everything that is said of them."""
        self.list_size = len(self._ask("GET", "/api/queues"))
        self.list_count += 1

    def _ask(self, method: str, path: str, body: bytes | None = None) -> bytes:
        self._connection.request(method, path, body, LOGIN)
        response = self._connection.getresponse()
        octets = response.read()
        if response.status >= 300:
            raise RuntimeError(f"{method} {path}: {response.status} {octets!r}")
        return octets

    @contextmanager
    def polling(self) -> Iterator[None]:
        """List all queues every second meanwhile."""
        end = threading.Event()

        def poll() -> None:
            while not end.is_set():
                self.list_queues()
                end.wait(POLL_SECONDS)

        thread = threading.Thread(target=poll)
        thread.start()
        try:
            yield
        finally:
            end.set()
            thread.join()


def measure_polled(
    generator: Generator,
    target: Target,
    load: tuple[str, ...],
    seconds: float,
    parent: Path,
) -> Figures:
    """Run the load with and without a poller, in turn; return both and their ratio."""
    process = target.process
    port = _free_port()
    flags = ("--http-port", str(port))
    plain: list[float] = []
    polled: list[float] = []
    with started(process.command, process.core, parent, flags=flags) as listed:
        poller = Poller(port)
        poller.define(QUEUES)
        poller.list_queues()

        def cpu_s_per_million() -> float:
            result = generator.run(listed, *load, "--seconds", str(seconds))
            return figures_of(result)["cpu_s_per_million"]

        cpu_s_per_million()
        before = poller.list_count
        for _ in range(REPEATS):
            plain.append(cpu_s_per_million())
            with poller.polling():
                polled.append(cpu_s_per_million())
        list_count = poller.list_count - before
        list_ms = _cpu_ms_of_a_list(poller, listed)
    ratios = [one / other for one, other in zip(polled, plain, strict=True)]
    return {
        "plain_cpu_s_per_million": median(plain),
        "polled_cpu_s_per_million": median(polled),
        "polled_over_plain": median(ratios),
        "lists": float(list_count),
        "list_mb": poller.list_size / 1e6,
        "list_cpu_ms": list_ms,
    }


def _cpu_ms_of_a_list(poller: Poller, target: Target) -> float:
    before = cpu_seconds_of(target.pids)
    for _ in range(LISTS_ALONE):
        poller.list_queues()
    return (cpu_seconds_of(target.pids) - before) * 1000 / LISTS_ALONE


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port
