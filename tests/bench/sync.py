"""What it costs to have a sync done by somebody else: the way to a thread and back.

    python -m tests.bench.sync [--seconds 3] [--directory DIR]

A sync must not block the loop, so it runs on a thread; a lone confirm waits for the
disk and for both handovers. Measured in turns, each for a write and fdatasync of 1 KiB:

    bare       on the calling thread, nothing around it
    worker     `amqpd.net.worker.Worker`: a queue, and `call_soon_threadsafe` back
    executor   `loop.run_in_executor`
"""

from __future__ import annotations

import argparse
import asyncio
import os
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

from amqpd.broker.ports import Step
from amqpd.net.worker import Worker
from tests.bench.disk import FILE_SIZE, percentile
from tests.bench.machine import disk_directory

SIZE: Final = 1024

Way = Callable[[], Awaitable[None]]


class WriteAndSync:
    """A step as the log's are: system calls and nothing else."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._data = os.urandom(SIZE)
        self._offset = 0

    def run(self) -> None:
        """Write behind the last write, and sync."""
        os.pwrite(self._descriptor, self._data, self._offset)
        os.fdatasync(self._descriptor)
        self._offset = (self._offset + SIZE) % (FILE_SIZE - SIZE)


async def main() -> None:
    """Measure the three in turns and print a line for each."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.sync")
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--directory", type=Path)
    said = parser.parse_args()
    loop = asyncio.get_running_loop()
    worker = Worker("bench", loop)
    with tempfile.TemporaryFile(dir=disk_directory(said.directory)) as file:
        os.posix_fallocate(file.fileno(), 0, FILE_SIZE)
        os.fsync(file.fileno())
        step = WriteAndSync(file.fileno())
        ways: dict[str, Way] = {
            "bare": lambda: _in_place(step),
            "worker": lambda: _by_worker(worker, step),
            "executor": lambda: loop.run_in_executor(None, step.run),
        }
        samples = await _in_turns(ways, said.seconds)
    worker.close()
    bare = percentile(samples["bare"], 0.5)
    for name, taken in samples.items():
        p50, p99 = percentile(taken, 0.5), percentile(taken, 0.99)
        print(f"{name:9} p50 {p50:7.1f} us  p99 {p99:7.1f} us  {p50 / bare:.2f} x bare")


async def _in_turns(ways: dict[str, Way], seconds: float) -> dict[str, list[float]]:
    """Sync in each way in turn, since a disk is not as fast now as it was before."""
    samples: dict[str, list[float]] = {name: [] for name in ways}
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for name, sync in ways.items():
            started = time.perf_counter_ns()
            await sync()
            samples[name].append((time.perf_counter_ns() - started) / 1000)
    return samples


async def _in_place(step: Step) -> None:
    step.run()


def _by_worker(worker: Worker, step: Step) -> asyncio.Future[None]:
    done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    worker.submit(step, lambda _: done.set_result(None))
    return done


if __name__ == "__main__":
    asyncio.run(main())
