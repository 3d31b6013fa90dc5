"""Whether every message arrived once and in order: the end of a run with --verify.

lost            sent, not refused by a nack, never arrived in a queue it went to
lost confirmed  those of them that the broker had confirmed
doubled         arrived again in the same queue without being marked redelivered
out of order    a consumer saw one producer's messages in another order than sent
strange         not of this run, or in a queue where it was not sent to
damaged         another size or content than was sent
astray          confirms of what was confirmed already, or never published
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass

from amqpd.bench.consumer import Consumer
from amqpd.bench.ledger import QueueLedger
from amqpd.bench.plan import Plan
from amqpd.bench.producer import Producer


@dataclass
class Verdict:
    """How many messages were wrong in which way; nacked and redelivered are not."""

    #: None when the run was cut short: what was under way would count as lost.
    lost: int | None = 0
    lost_confirmed: int | None = 0
    doubled: int = 0
    out_of_order: int = 0
    strange: int = 0
    damaged: int = 0
    astray: int = 0

    @property
    def is_fine(self) -> bool:
        """Whether nothing was wrong."""
        return not any(asdict(self).values())


def judge(
    plan: Plan,
    producers: Sequence[Producer],
    consumers: Iterable[Consumer],
    ledgers: Sequence[QueueLedger],
    is_whole: bool,
) -> Verdict:
    """Return the verdict on a run; losses only if it ran to its end."""
    verdict = Verdict() if is_whole else Verdict(None, None)
    for consumer in consumers:
        verdict.doubled += int(consumer.doubled)
        verdict.out_of_order += int(consumer.out_of_order)
        verdict.strange += int(consumer.strange)
        verdict.damaged += int(consumer.damaged)
    for number, producer in enumerate(producers):
        verdict.astray += int(producer.answers_astray)
        if is_whole:
            _count_losses(verdict, plan.places(number), producer, ledgers)
    return verdict


def _count_losses(
    verdict: Verdict,
    places: list[list[int]],
    producer: Producer,
    ledgers: Sequence[QueueLedger],
) -> None:
    assert verdict.lost is not None
    assert verdict.lost_confirmed is not None
    for place, queues in enumerate(places):
        sent = producer.sent_to(place)
        for queue in queues:
            arrivals = ledgers[queue].arrivals[int(producer.number)]
            for number in arrivals.missing(sent):
                fate = producer.fate(place, number)
                verdict.lost += fate not in ("nacked", "abandoned")
                verdict.lost_confirmed += fate == "confirmed"
