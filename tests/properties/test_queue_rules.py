"""A queue with rules against a model that looks at every message at every step.

Whatever is published, got, acked, rejected, requeued, however time passes and wherever
the broker is stopped or killed: what is ready is what the model says, in its order, and
every message that was not acked, or dropped without an exchange, is a dead letter once,
for the reason that the model gives. With little memory, messages leave it in between:
then they may be late by a second, but none is delivered after its time, and none is
lost or doubled.
"""

from __future__ import annotations

from typing import Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from amqpd.broker.queues.pager import MemoryBudgets
from tests.support.fast_directory import fast_directory
from tests.support.rules_model import (
    NOTHING,
    PLENTY,
    STEPS,
    STEPS_AND_STARTS,
    RuledQueueAndModel,
    Rules,
)

Script = list[tuple[str, int]]

OVERFLOWS: Final = st.sampled_from(
    ["drop-head", "reject-publish", "reject-publish-dlx"]
)
LENGTHS: Final = st.sampled_from([None, 0, 1, 3])
TIMES: Final = st.sampled_from([None, 15, 50])
LIMITS: Final = st.sampled_from([None, 0, 2])
MEMORY: Final = st.sampled_from([PLENTY, NOTHING])

#: Whatever there is at a time, as long as all is in memory.
ALL_RULES: Final = st.builds(
    Rules, TIMES, LENGTHS, OVERFLOWS, LIMITS, st.booleans(), st.just((None, 0, 5, 200))
)
#: A length depends on what has expired to the millisecond: here nothing does.
LENGTH_RULES: Final = st.builds(
    Rules, st.none(), LENGTHS, OVERFLOWS, LIMITS, st.booleans(), st.just((None,))
)
TIME_RULES: Final = st.builds(
    Rules,
    TIMES,
    st.none(),
    st.just("drop-head"),
    LIMITS,
    st.booleans(),
    st.just((None, 0, 5, 200, 1200)),
)


def play(rules: Rules, budgets: MemoryBudgets, script: Script, is_exact: bool) -> None:
    """Take every step with both, and compare."""
    with fast_directory() as directory:
        pair = RuledQueueAndModel(directory / "d", budgets, rules)
        pair.is_exact = is_exact
        for what, number in script:
            pair.do(what, number)
        pair.check_end()
        pair.bench.close()


@given(ALL_RULES, STEPS)
@settings(max_examples=60, deadline=None)
def test_a_queue_with_rules_does_what_the_model_does(
    rules: Rules, steps: Script
) -> None:
    play(rules, PLENTY, steps, is_exact=True)


@given(TIME_RULES, STEPS)
@settings(max_examples=40, deadline=None)
def test_with_little_memory_nothing_is_late_lost_or_doubled(
    rules: Rules, steps: Script
) -> None:
    play(rules, NOTHING, steps, is_exact=False)


@given(LENGTH_RULES, MEMORY, STEPS_AND_STARTS)
@settings(max_examples=30, deadline=None)
def test_lengths_limits_and_order_outlive_stops_and_kills(
    rules: Rules, budgets: MemoryBudgets, steps: Script
) -> None:
    play(rules, budgets, steps, is_exact=True)


@given(TIME_RULES, MEMORY, STEPS_AND_STARTS)
@settings(max_examples=30, deadline=None)
def test_deadlines_outlive_stops_and_kills(
    rules: Rules, budgets: MemoryBudgets, steps: Script
) -> None:
    play(rules, budgets, steps, is_exact=False)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@given(st.one_of(LENGTH_RULES, TIME_RULES), MEMORY, STEPS_AND_STARTS)
@settings(max_examples=3000, deadline=None)
def test_rules_outlive_stops_and_kills_many_times(
    rules: Rules, budgets: MemoryBudgets, steps: Script
) -> None:
    play(rules, budgets, steps, is_exact=rules.times == (None,))
