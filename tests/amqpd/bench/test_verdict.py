"""The verdict: what is lost, and whether somebody had promised that it is not."""

from __future__ import annotations

from pamqp import commands

from amqpd.bench.consumer import Consumer
from amqpd.bench.histogram import Histogram
from amqpd.bench.ledger import QueueLedger
from amqpd.bench.message import Message
from amqpd.bench.options import Options, Target
from amqpd.bench.plan import Plan
from amqpd.bench.producer import Producer
from amqpd.bench.verdict import Verdict, judge
from amqpd.wire.methods import encode_method


class Run:
    """One producer that has published six messages to some queues, in turn."""

    def __init__(self, queues: int, exchange: str = "direct") -> None:
        target = Target.from_url("amqp://")
        self.plan = Plan(Options(target, 1, queues, queues, exchange=exchange))
        places = len(self.plan.places(0))
        message = Message("x", "q", {}, False, 16, 4096)
        messages = [message] * places
        self.producer = Producer(4096, 0, 1, messages, 6, 10, Histogram())
        self.producer.publish(6, 0)
        self.ledgers = [QueueLedger([0]) for _ in range(queues)]
        self.consumer = Consumer(4096, 1, 16, 0, Histogram(), self.ledgers[0])

    def arrive(self, queue: int, *numbers: int) -> None:
        for number in numbers:
            self.ledgers[queue].arrivals[0].is_new(number)

    def hear(self, method: commands.Basic.Ack | commands.Basic.Nack) -> None:
        self.producer.receive_data(encode_method(1, method), 0)

    def verdict(self, is_whole: bool = True) -> Verdict:
        members = ([self.producer], [self.consumer])
        return judge(self.plan, *members, self.ledgers, is_whole)


def test_all_is_well_when_everything_arrived() -> None:
    run = Run(2)
    run.arrive(0, 0, 1, 2)
    run.arrive(1, 2, 0, 1)
    assert run.verdict() == Verdict()
    assert run.verdict().is_fine


def test_lost_is_what_did_not_arrive_and_was_not_refused() -> None:
    run = Run(2)
    run.arrive(0, 0)
    run.arrive(1, 0, 1, 2)
    # Publishes 1 3 5 went to the first queue; 3 and 5 are missing there.
    run.hear(commands.Basic.Ack(3))
    run.hear(commands.Basic.Nack(5))
    verdict = run.verdict()
    assert (verdict.lost, verdict.lost_confirmed) == (1, 1)
    assert not verdict.is_fine


def test_what_nobody_has_confirmed_is_lost_but_was_not_promised() -> None:
    verdict = Run(1).verdict()
    assert (verdict.lost, verdict.lost_confirmed) == (6, 0)


def test_what_was_abandoned_with_its_connection_is_not_lost() -> None:
    run = Run(1)
    run.hear(commands.Basic.Ack(2))
    run.producer.restart()
    verdict = run.verdict()
    assert (verdict.lost, verdict.lost_confirmed) == (1, 1)


def test_a_fanout_loses_in_each_queue_for_itself() -> None:
    run = Run(2, "fanout")
    run.arrive(0, 0, 1, 2, 3, 4, 5)
    run.arrive(1, 0, 1, 2, 3)
    assert run.verdict().lost == 2


def test_a_run_that_was_cut_short_has_lost_nothing_that_we_know_of() -> None:
    verdict = Run(1).verdict(is_whole=False)
    assert (verdict.lost, verdict.lost_confirmed, verdict.is_fine) == (None, None, True)


def test_the_faults_of_consumers_and_confirms_are_added_up() -> None:
    run = Run(1)
    run.arrive(0, 0, 1, 2, 3, 4, 5)
    run.consumer.doubled, run.consumer.out_of_order = 1, 2
    run.consumer.strange, run.consumer.damaged = 3, 4
    run.producer.answers_astray = 5
    assert run.verdict() == Verdict(0, 0, 1, 2, 3, 4, 5)
