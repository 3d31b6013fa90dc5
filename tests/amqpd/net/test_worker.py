"""The worker runs steps in order on its own thread and brings them back to the loop."""

from __future__ import annotations

import asyncio
import threading
import weakref

from amqpd.net.worker import Worker
from tests.support.waiting import wait_until


class NotedStep:
    """A step that notes on which thread it ran."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.thread = 0
        self.is_allowed = threading.Event()

    def run(self) -> None:
        """Wait for the test, then note the thread."""
        assert self.is_allowed.wait(20)
        self.thread = threading.get_ident()


async def test_steps_run_elsewhere_in_order_and_complete_on_the_loop() -> None:
    worker = Worker("test", asyncio.get_running_loop())
    completed: list[tuple[int, int]] = []
    steps = [NotedStep(number) for number in range(3)]

    def complete(step: object) -> None:
        assert isinstance(step, NotedStep)
        completed.append((step.number, threading.get_ident()))

    for step in steps:
        worker.submit(step, complete)
    for step in reversed(steps):
        assert completed == []
        step.is_allowed.set()
    await wait_until(lambda: len(completed) == 3)
    here = threading.get_ident()
    assert completed == [(0, here), (1, here), (2, here)]
    assert {step.thread for step in steps} - {here, 0}
    worker.close()


async def test_a_step_that_is_over_is_not_kept() -> None:
    worker = Worker("test", asyncio.get_running_loop())
    step: NotedStep | None = NotedStep(1)
    assert step is not None
    step.is_allowed.set()
    kept = weakref.ref(step)
    worker.submit(step, lambda _: None)
    step = None
    await wait_until(lambda: kept() is None)
    worker.close()


async def test_a_closed_worker_finishes_what_was_submitted() -> None:
    worker = Worker("test", asyncio.get_running_loop())
    completed: list[object] = []
    step = NotedStep(1)
    worker.submit(step, completed.append)
    worker.close()
    step.is_allowed.set()
    await wait_until(lambda: completed == [step])


def test_a_step_that_comes_back_after_the_loop_has_ended_is_dropped() -> None:
    loop = asyncio.new_event_loop()
    worker = Worker("test-orphan", loop)
    step = NotedStep(1)
    worker.submit(step, lambda _: None)
    loop.close()
    step.is_allowed.set()
    for thread in threading.enumerate():
        if thread.name == "test-orphan":
            thread.join(20)
            assert not thread.is_alive()
