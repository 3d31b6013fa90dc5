"""How many messages, queues, exchanges there are, over one or all virtual hosts."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from amqpd.broker.queues.keeper import held_count_of
from amqpd.broker.vhosts.vhost import VirtualHost
from amqpd.http.pace import Pace


@dataclass
class Totals:
    """Sums."""

    ready: int = 0
    unacked: int = 0
    # Dead letters that wait for room elsewhere.
    held: int = 0
    queues: int = 0
    exchanges: int = 0
    consumers: int = 0

    def facts(self) -> dict[str, Any]:
        """Return the messages as RabbitMQ names them."""
        return {
            "messages": self.ready + self.unacked + self.held,
            "messages_ready": self.ready,
            "messages_unacknowledged": self.unacked,
        }


async def totals_of(vhosts: Iterable[VirtualHost], pace: Pace) -> Totals:
    """Count what is in some virtual hosts, in slices."""
    totals = Totals()
    for vhost in vhosts:
        # With the default exchange, which is no object of its own.
        totals.exchanges += len(vhost.exchanges) + 1
        for queue in list(vhost.queues.values()):
            totals.queues += 1
            totals.ready += queue.ready_count
            totals.unacked += int(queue.unacked_count)
            totals.held += held_count_of(queue.keeper)
            totals.consumers += queue.consumer_count
            await pace.step()
    return totals
