"""Sums over everything that is there: read on request, never kept.

A scrape of the metrics asks a few times a minute; a running sum would cost each message
something instead. It takes a microsecond for ten queues.
"""

from typing import final

from mypy_extensions import i64

from amqpd.broker.broker import Broker
from amqpd.broker.clients.traffic import Traffic
from amqpd.broker.queues.keeper import held_count_of
from amqpd.broker.queues.queue import Queue


@final
class QueueTotals:
    """What all queues hold."""

    __slots__ = ("consumers", "held", "queues", "ready", "unacked")

    def __init__(self) -> None:
        self.queues = 0
        self.consumers: i64 = 0
        self.ready: i64 = 0
        self.unacked: i64 = 0
        # Dead letters that wait for room elsewhere.
        self.held: i64 = 0

    def add(self, queue: Queue) -> None:
        """Count a queue, too."""
        self.queues += 1
        self.consumers += queue.consumer_count
        self.ready += queue.ready_count
        self.unacked += queue.unacked_count
        self.held += held_count_of(queue.keeper)


@final
class TrafficTotals:
    """What has passed since the start, and who has let it pass."""

    __slots__ = ("consuming_channels", "publishing_channels", "traffic")

    def __init__(self) -> None:
        self.traffic = Traffic()
        self.publishing_channels = 0
        self.consuming_channels = 0


def queue_totals(broker: Broker) -> QueueTotals:
    """Return the sums over all queues."""
    totals = QueueTotals()
    for vhost in broker.vhosts.values():
        for queue in vhost.queues.values():
            totals.add(queue)
    return totals


def traffic_totals(broker: Broker) -> TrafficTotals:
    """Return the sums over all channels, open and closed."""
    totals = TrafficTotals()
    totals.traffic.add(broker.traffic)
    for connection in broker.connections.all():
        publishing, consuming = connection.count_traffic(totals.traffic)
        totals.publishing_channels += publishing
        totals.consuming_channels += consuming
    return totals
