"""The plan: every queue gets messages, and consumers as far as there are some."""

from __future__ import annotations

import pytest

from amqpd.bench.options import Options, Target
from amqpd.bench.plan import Plan


def plan(producers: int, consumers: int, queues: int, exchange: str = "direct") -> Plan:
    target = Target.from_url("amqp://")
    return Plan(Options(target, producers, consumers, queues, exchange=exchange))


def test_producers_share_queues_in_turn() -> None:
    assert [plan(3, 1, 2).places(number) for number in range(3)] == [
        [[0]],
        [[1]],
        [[0]],
    ]


def test_a_producer_may_have_several_queues() -> None:
    assert [plan(2, 1, 5).places(number) for number in range(2)] == [
        [[0], [2], [4]],
        [[1], [3]],
    ]


def test_a_fanout_reaches_all_queues_from_one_place() -> None:
    assert plan(2, 1, 3, "fanout").places(1) == [[0, 1, 2]]


@pytest.mark.parametrize("exchange", ["direct", "fanout"])
def test_a_queue_knows_whose_messages_it_gets(exchange: str) -> None:
    one = plan(3, 1, 2, exchange)
    for queue in range(2):
        for producer in range(3):
            reached = any(queue in place for place in one.places(producer))
            assert (producer in one.producers_of(queue)) == reached


def test_consumers_take_queues_in_turn() -> None:
    one = plan(1, 3, 2)
    assert [one.queue_of(number) for number in range(3)] == [0, 1, 0]
    assert one.is_consumed(1)
    assert not plan(1, 1, 2).is_consumed(1)
