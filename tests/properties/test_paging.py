"""A queue that never has memory, against a model that always has.

Every step of a script is done by a real broker with both logs on a real directory, and
by a dict. Persistent and transient messages, gets, consumers that come and go, acks,
requeues, purges, restarts; in between memory is taken away, and windows are read whole,
in part, or come back after they are not wanted any more. What is delivered is always
what the model has first, with the right mark, and the counts are those of the model.
"""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from amqpd.broker.queues.pager import MemoryBudgets
from tests.support.fast_directory import fast_directory
from tests.support.queue_model import STEPS, PriorityQueueAndModel, QueueAndModel

PLENTY = 1 << 40


@given(STEPS, st.booleans())
@settings(max_examples=150, deadline=None)
def test_a_queue_without_memory_is_as_one_with_memory(
    steps: list[tuple[str, int]], pages_all: bool
) -> None:
    budgets = MemoryBudgets(0, 0 if pages_all else PLENTY)
    with fast_directory() as directory:
        both = QueueAndModel(directory, budgets)
        for what, number in steps:
            both.do(what, number)
        both.drain()
        both.bench.close()


@given(STEPS, st.sampled_from([(0, 0), (0, PLENTY), (PLENTY, PLENTY)]))
@settings(max_examples=150, deadline=None)
def test_a_queue_with_priorities_serves_the_highest_first_come_what_may(
    steps: list[tuple[str, int]], memory: tuple[int, int]
) -> None:
    with fast_directory() as directory:
        both = PriorityQueueAndModel(directory, MemoryBudgets(*memory))
        for what, number in steps:
            both.do(what, number)
        both.drain()
        both.bench.close()
