"""A thread that runs steps, one after the other, and hands them back to the loop.

A dedicated thread with a queue costs a lone sync 1.2 to 1.4 times a bare fdatasync;
the loop's executor costs 1.6 (tests/bench/sync).
"""

import asyncio
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import final

from amqpd.broker.ports import Step


@final
class Worker:
    """Runs steps in the order in which they were submitted."""

    def __init__(self, name: str, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._steps: SimpleQueue[tuple[Step, Callable[[Step], None]] | None] = (
            SimpleQueue()
        )
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def submit(self, step: Step, complete: Callable[[Step], None]) -> None:
        """Run the step on the thread, then call `complete` on the loop."""
        self._steps.put((step, complete))

    def close(self) -> None:
        """Let the thread end once it has run what was submitted."""
        self._steps.put(None)

    def _run(self) -> None:
        while True:
            submitted = self._steps.get()
            if submitted is None:
                return
            step, complete = submitted
            step.run()
            try:
                self._loop.call_soon_threadsafe(complete, step)
            except RuntimeError:
                # The loop is closed: the process ends, nobody waits for this any more.
                return
            # While it waits for the next one: a step may hold much, and clients.
            del submitted, step, complete
