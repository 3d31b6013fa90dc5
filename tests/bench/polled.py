"""A durable load beside somebody who lists ten thousand queues every second.

    plain, polled, polled, plain ...     windows of one load, seconds long

What a tool asks for must cost the messages nothing that anybody notices. So the CPU of
the broker per message is measured with and without a client that lists /api/queues
every second; the answers count with it. A machine that others use is faster at one time
than another, by more than is looked for here: so the windows are short, follow each
other within one load, and a pair of one kind lies between a pair of the other.
A list alone is measured in the end: what it costs when nothing changes.
"""

from __future__ import annotations

import base64
import http.client
import json
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path
from statistics import mean, median
from typing import Final

from amqpd.testing import HeldPort
from tests.bench.broker import Target, started
from tests.bench.figures import Figures
from tests.bench.generator import Generator, LoadFailed, finish
from tests.bench.machine import cpu_seconds_of

QUEUES: Final = 10_000
#: How often all of IS_POLLED is gone through; a window has half of the seconds.
ROUNDS: Final = 3
IS_POLLED: Final = (False, True, True, False)
#: Until the load is what it will be.
WARM_SECONDS: Final = 2
#: Enough for a clock of hundredths of a second.
LISTS_ALONE: Final = 40
LOGIN: Final = {"Authorization": "Basic " + base64.b64encode(b"guest:guest").decode()}


class Poller:
    """A client of the management API."""

    def __init__(self, port: int) -> None:
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

    def _ask(self, method: str, path: str, body: bytes | None = None) -> bytes:
        self._connection.request(method, path, body, LOGIN)
        response = self._connection.getresponse()
        octets = response.read()
        if response.status >= 300:
            raise RuntimeError(f"{method} {path}: {response.status} {octets!r}")
        return octets


def measure_polled(
    generator: Generator,
    target: Target,
    load: tuple[str, ...],
    seconds: float,
    parent: Path,
) -> Figures:
    """Run the load, poll in some windows of it, and return what a message cost."""
    process = target.process
    port = HeldPort()
    flags = ("--http-port", str(port.number))
    size = max(1, round(seconds / 2))
    kinds = IS_POLLED * ROUNDS
    lines = WARM_SECONDS + 1 + size * len(kinds)
    with started(process.command, process.core, parent, flags=flags) as listed:
        poller = Poller(port.number)
        poller.define(QUEUES)
        poller.list_queues()
        running = generator.start(
            listed, *load, "--progress", "--seconds", str(lines + 1)
        )
        prices = _prices(running, listed, poller, size, kinds)
        finish(running)
        list_ms = _cpu_ms_of_a_list(poller, listed)
    port.close()
    plain = [price for price, polled in zip(prices, kinds, strict=True) if not polled]
    polled = [price for price, polled in zip(prices, kinds, strict=True) if polled]
    return {
        "plain_cpu_s_per_million": mean(plain),
        "polled_cpu_s_per_million": mean(polled),
        "polled_over_plain": median(_ratios(prices)),
        "lists": float(size * len(polled)),
        "list_mb": poller.list_size / 1e6,
        "list_cpu_ms": list_ms,
    }


def _prices(
    running: subprocess.Popen[str],
    target: Target,
    poller: Poller,
    size: int,
    kinds: Sequence[bool],
) -> list[float]:
    """Return the CPU-seconds per million messages of windows of so many seconds."""
    for _ in range(WARM_SECONDS):
        _delivered(running)
    before, prices = (_delivered(running), cpu_seconds_of(target.pids)), []
    for polled in kinds:
        for _ in range(size):
            if polled:
                poller.list_queues()
            now = (_delivered(running), cpu_seconds_of(target.pids))
        prices.append((now[1] - before[1]) * 1e6 / (now[0] - before[0]))
        before = now
    return prices


def _delivered(running: subprocess.Popen[str]) -> int:
    """Wait for the line of the next second; return what was delivered until then."""
    assert running.stderr is not None
    line = running.stderr.readline()
    found = re.search(r"consumed (\d+)", line)
    if found is None:
        raise LoadFailed(f"{line!r} instead of a line of progress")
    return int(found[1])


def _ratios(prices: Sequence[float]) -> list[float]:
    """Return polled over plain, of each round."""
    starts = range(0, len(prices), len(IS_POLLED))
    rounds = [prices[at : at + len(IS_POLLED)] for at in starts]
    return [(b + c) / (a + d) for a, b, c, d in rounds]


def _cpu_ms_of_a_list(poller: Poller, target: Target) -> float:
    before = cpu_seconds_of(target.pids)
    for _ in range(LISTS_ALONE):
        poller.list_queues()
    return (cpu_seconds_of(target.pids) - before) * 1000 / LISTS_ALONE
