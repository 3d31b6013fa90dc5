"""Figures of each queue, channel and connection, for who asks for them by name.

Not part of /metrics: ten thousand queues are a hundred thousand lines, which is more
than most want to keep. They are read in slices, so that the loop is held for a few
milliseconds at most, and an object that comes or goes meanwhile may be missing.

    /metrics/per-object                     all of them
    /metrics/detailed?family=F&vhost=V      those families, as rabbitmq_detailed_*
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Final, final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from amqpd.broker.broker import Broker
from amqpd.broker.clients.connection_facts import ChannelFacts
from amqpd.broker.clients.connections import OpenConnection
from amqpd.broker.queues.keeper import held_count_of
from amqpd.broker.queues.queue import Queue

SLICE_COUNT: Final = 200

QUEUE_COARSE: Final = "queue_coarse_metrics"
QUEUE_CONSUMERS: Final = "queue_consumer_count"
CHANNEL: Final = "channel_metrics"
CONNECTION_COARSE: Final = "connection_coarse_metrics"
FAMILIES: Final = (QUEUE_COARSE, QUEUE_CONSUMERS, CHANNEL, CONNECTION_COARSE)

_QUEUE_FIGURES: Final[dict[str, tuple[tuple[str, str], ...]]] = {
    QUEUE_COARSE: (
        ("queue_messages_ready", "Messages ready to be delivered"),
        ("queue_messages_unacked", "Messages delivered but not yet acknowledged"),
        ("queue_messages", "Sum of ready and unacknowledged messages"),
    ),
    QUEUE_CONSUMERS: (("queue_consumers", "Consumers on a queue"),),
}
_CHANNEL_FIGURES: Final = (
    ("channel_consumers", "Consumers on a channel"),
    ("channel_messages_unacked", "Delivered but not yet acknowledged messages"),
    ("channel_messages_unconfirmed", "Published but not yet confirmed messages"),
    ("channel_messages_uncommitted", "Messages of a transaction in progress"),
    ("channel_acks_uncommitted", "Acknowledgements of a transaction in progress"),
    ("consumer_prefetch", "Limit of unacknowledged messages for each consumer"),
    ("channel_prefetch", "Total limit of unacknowledged messages of all consumers"),
)
_CONNECTION_COUNTERS: Final = (
    ("connection_incoming_bytes", "Octets received on a connection"),
    ("connection_outgoing_bytes", "Octets sent on a connection"),
)


@final
class ObjectFigures:
    """Reads the figures of single objects; to be used on the loop."""

    def __init__(
        self,
        broker: Broker,
        families: Iterable[str] = FAMILIES,
        vhosts: Iterable[str] = (),
        prefix: str = "rabbitmq",
    ) -> None:
        self._broker = broker
        self._families = frozenset(families)
        self._vhosts = frozenset(vhosts)
        self._prefix = prefix

    async def read(self) -> list[Metric]:
        """Return the figures; others have their turn meanwhile."""
        metrics: list[Metric] = []
        for family, figures in _QUEUE_FIGURES.items():
            if family in self._families:
                metrics += await self._queues(figures, _READERS[family])
        if CHANNEL in self._families:
            metrics += await self._channels()
        if CONNECTION_COARSE in self._families:
            metrics += await self._connections()
        return metrics

    async def _queues(
        self,
        figures: tuple[tuple[str, str], ...],
        read: Callable[[Queue], tuple[int, ...]],
    ) -> list[Metric]:
        gauges = [self._gauge(figure, ["vhost", "queue"]) for figure in figures]
        count = 0
        for vhost in list(self._broker.vhosts.values()):
            if self._vhosts and vhost.name not in self._vhosts:
                continue
            for queue in list(vhost.queues.values()):
                count += 1
                if count % SLICE_COUNT == 0:
                    await asyncio.sleep(0)
                for gauge, value in zip(gauges, read(queue), strict=True):
                    gauge.add_metric([vhost.name, queue.name], value)
        return list(gauges)

    async def _channels(self) -> list[Metric]:
        labels = ["vhost", "connection", "channel"]
        gauges = [self._gauge(figure, labels) for figure in _CHANNEL_FIGURES]
        for connection in await self._open_connections():
            for facts in connection.channel_facts():
                name = connection.get_name()
                of = [connection.vhost_name(), name, f"{name} ({facts.number})"]
                for gauge, value in zip(gauges, _of_channel(facts), strict=True):
                    gauge.add_metric(of, value)
        return list(gauges)

    async def _connections(self) -> list[Metric]:
        labels = ["vhost", "connection"]
        counters = [
            CounterMetricFamily(f"{self._prefix}_{name}", text, labels=labels)
            for name, text in _CONNECTION_COUNTERS
        ]
        channels = self._gauge(("connection_channels", "Channels"), labels)
        for connection in await self._open_connections():
            facts = connection.facts()
            of = [facts.vhost, facts.name]
            counters[0].add_metric(of, facts.bytes_received)
            counters[1].add_metric(of, facts.bytes_sent)
            channels.add_metric(of, facts.channel_count)
        return [*counters, channels]

    async def _open_connections(self) -> list[OpenConnection]:
        await asyncio.sleep(0)
        return [
            connection
            for connection in self._broker.connections.all()
            if not self._vhosts or connection.vhost_name() in self._vhosts
        ]

    def _gauge(self, figure: tuple[str, str], labels: list[str]) -> GaugeMetricFamily:
        name, text = figure
        return GaugeMetricFamily(f"{self._prefix}_{name}", text, labels=labels)


def _coarse(queue: Queue) -> tuple[int, ...]:
    ready, unacked = queue.ready_count, int(queue.unacked_count)
    return ready, unacked, ready + unacked + held_count_of(queue.keeper)


def _consumers(queue: Queue) -> tuple[int, ...]:
    return (int(queue.consumer_count),)


_READERS: Final = {QUEUE_COARSE: _coarse, QUEUE_CONSUMERS: _consumers}


def _of_channel(facts: ChannelFacts) -> tuple[int, ...]:
    return (
        len(facts.consumers),
        facts.unacked_count,
        facts.unconfirmed_count,
        facts.uncommitted_count,
        facts.uncommitted_ack_count,
        facts.consumer_prefetch,
        facts.prefetch,
    )
