"""What it costs to read messages back that left memory, and how much is read for it.

    python -m tests.bench.cold_reads [--messages 100000] [--queues 1000] [--size 100]
                                     [--window 262144] [--order together|turns|drawn]

A log of so many messages is written by the store, synced once and opened again, and
read back: one of a single queue, and one of many that are read all at once. Windows of
one queue are 256 KiB, windows of many their share of the 16 MiB that are read together.
`together` reads a window of each as the broker does, `turns` one after the other, and
`drawn` lets the next queue be drawn at random, so that queues are at different places
of the log.

Printed are microseconds of processor time a message on the reader thread (`run`) and on
the loop (`begin` and `complete`), messages in a window, the longest of each, and the
bytes read from segments for each byte of the log. What is read is in the page cache.
"""

from __future__ import annotations

import argparse
import random
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from store.cold_read import ColdRead
from store.filesystem import OsFileSystem
from store.opening import Opened, open_store
from store.options import StoreOptions
from store.shared_read import SharedRead
from tests.bench.machine import disk_directory

UUID: Final = bytes(range(16))
ENVELOPE: Final = b"\x00\x07default\x00\x05key 1"
TURN: Final = 2000
BUDGET: Final = 16 * 1024 * 1024
WINDOW_MIN: Final = 8 * 1024


@dataclass
class Figures:
    """What reading a log took, in nanoseconds, and what it read."""

    messages: int = 0
    windows: int = 0
    loop_ns: int = 0
    reader_ns: int = 0
    longest_loop_ns: int = 0
    longest_run_ns: int = 0
    bytes_read: int = 0

    def line(self, name: str, log_size: int) -> str:
        """Return the figures as a line of the table."""
        count = max(1, self.messages)
        return (
            f"{name:14} {self.messages:9} messages  "
            f"reader {self.reader_ns / count / 1000:6.3f} us  "
            f"loop {self.loop_ns / count / 1000:6.3f} us  "
            f"{self.messages / max(1, self.windows):6.0f} a window  "
            f"longest run {self.longest_run_ns / 1e6:5.2f} ms, "
            f"loop {self.longest_loop_ns / 1e6:5.2f} ms  "
            f"read {self.bytes_read / log_size:.2f} x the log"
        )


def write_log(directory: str, messages: int, queues: int, size: int) -> int:
    """Write messages to queues in turn; return the size of the log."""
    filesystem = OsFileSystem()
    ids = set(range(1, queues + 1))
    options = StoreOptions(reserve_segments=0)
    opened: Opened[str] = open_store(
        directory, filesystem, options, UUID, ids, queues, 0
    )
    store = opened.store
    content = bytes(size)
    for i in range(messages):
        seq, queue = divmod(i, queues)
        store.append(ENVELOPE, content, None, 1, 0, queue + 1, seq + 1, 0)
        if i % TURN == TURN - 1:
            step = store.begin(False, 0)
            if step is not None:
                step.run()
                store.complete(step)
    last = store.close_step(0)
    assert last is not None
    last.run()
    store.complete(last)
    store.close()
    return sum(path.stat().st_size for path in Path(directory, "log").glob("*.seg"))


class Reading:
    """Reads a log back, queue by queue or all at once."""

    def __init__(self, directory: str, queues: int, window: int) -> None:
        ids = set(range(1, queues + 1))
        options = StoreOptions(reserve_segments=0)
        opened: Opened[str] = open_store(
            directory, OsFileSystem(), options, UUID, ids, queues, 0
        )
        self.store = opened.store
        self._window = window
        self._next = dict.fromkeys(ids, 1)
        self._last = {
            queue_id: int(queue.next_seq) - 1
            for queue_id, queue in opened.queues.items()
        }
        self.figures = Figures()

    def run(self, order: str) -> Figures:
        """Read everything, windows of all queues, of each in turn or of one drawn."""
        rng = random.Random(1)
        while self._next:
            waiting = list(self._next)
            if order == "together":
                self._read(waiting)
                continue
            for queue_id in waiting:
                chosen = rng.choice(waiting) if order == "drawn" else queue_id
                if chosen in self._next:
                    self._read([chosen])
        self.figures.bytes_read = int(self.store.statistics.cold_bytes)
        self.store.close()
        return self.figures

    def _read(self, queue_ids: list[int]) -> None:
        steps = [self._begin(queue_id) for queue_id in queue_ids]
        if len(steps) == 1:
            self._time_run(steps[0].run)
        else:
            shared = SharedRead(steps)
            while self._time_run(shared.advance):
                pass
        for queue_id, step in zip(queue_ids, steps, strict=True):
            self._complete(queue_id, step)

    def _begin(self, queue_id: int) -> ColdRead:
        first, last = self._next[queue_id], self._last[queue_id]
        started = time.thread_time_ns()
        step = self.store.begin_read(queue_id, first, last, 4096, self._window)
        self._note_loop(started)
        return step

    def _complete(self, queue_id: int, step: ColdRead) -> None:
        started = time.thread_time_ns()
        result = self.store.complete_read(step)
        self._note_loop(started)
        assert result.error is None
        assert not result.damaged
        self.figures.windows += 1
        self.figures.messages += len(result.messages)
        self._next[queue_id] = int(result.next_seq)
        if result.is_end:
            del self._next[queue_id]

    def _time_run(self, run: Callable[[], bool | None]) -> bool | None:
        started = time.thread_time_ns()
        is_more = run()
        took = time.thread_time_ns() - started
        self.figures.reader_ns += took
        self.figures.longest_run_ns = max(self.figures.longest_run_ns, took)
        return is_more

    def _note_loop(self, started_ns: int) -> None:
        took = time.thread_time_ns() - started_ns
        self.figures.loop_ns += took
        self.figures.longest_loop_ns = max(self.figures.longest_loop_ns, took)


def main() -> None:
    """Write, read and print."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.cold_reads")
    parser.add_argument("--messages", type=int, default=100_000)
    parser.add_argument("--queues", type=int, default=1000)
    parser.add_argument("--size", type=int, default=100)
    parser.add_argument("--window", type=int, default=256 * 1024)
    orders = ("together", "turns", "drawn")
    parser.add_argument("--order", choices=orders, default=orders[0])
    parser.add_argument("--directory", type=Path)
    said = parser.parse_args()
    for queues in (1, said.queues):
        with tempfile.TemporaryDirectory(dir=disk_directory(said.directory)) as path:
            size = write_log(path, said.messages, queues, said.size)
            window = min(said.window, max(WINDOW_MIN, BUDGET // queues))
            reading = Reading(path, queues, window)
            figures = reading.run(said.order)
            print(figures.line(f"{queues} queues", size))


if __name__ == "__main__":
    main()
