"""The figures that RabbitMQ's dashboards and alert rules ask for, by RabbitMQ's names.

Everything is a sum over all objects, as RabbitMQ's /metrics is by default: the Grafana
dashboard 10991 ("RabbitMQ-Overview") works with it, and the text has the same size with
ten queues and with ten thousand. A name that RabbitMQ has means the same here; what
there is no such thing of is left out. To be read on the loop.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from typing import Final, final

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)

from amqpd.broker.alarms import DISK, MEMORY
from amqpd.broker.broker import Broker
from amqpd.broker.clients.traffic import SIZE_BOUNDS, Traffic
from amqpd.broker.totals import queue_totals, traffic_totals
from amqpd.http.room import Identity
from amqpd.process import descriptors_max, open_descriptors, resident_size

PROTOCOL: Final = {"protocol": "amqp091"}
QUEUE_TYPE: Final = {"protocol": "amqp091", "queue_type": "rabbit_classic_queue"}

#: By protocol: what the name ends with, the text, the count of `Traffic`.
_BY_PROTOCOL: Final = (
    ("received", "Messages received from clients.", "received"),
    (
        "received_confirm",
        "Messages received from publishers using confirms.",
        "received_to_confirm",
    ),
    ("routed", "Messages routed to queues.", "routed"),
    ("confirmed", "Messages confirmed to publishers.", "confirmed"),
    ("unroutable_returned", "Unroutable, returned to publishers.", "returned"),
)
#: By protocol and type of queue.
_BY_QUEUE_TYPE: Final = (
    (
        "delivered_consume_manual_ack",
        "Delivered to consumers with manual acknowledgement.",
        "delivered",
    ),
    (
        "delivered_consume_auto_ack",
        "Delivered to consumers with automatic acknowledgement.",
        "delivered_no_ack",
    ),
    ("delivered_get_manual_ack", "Got, with manual acknowledgement.", "got"),
    ("delivered_get_auto_ack", "Got, with automatic acknowledgement.", "got_no_ack"),
    ("get_empty", "Attempts to get from an empty queue.", "get_empty"),
    ("redelivered", "Delivered again.", "redelivered"),
    ("acknowledged", "Acknowledged by consumers.", "acked"),
)
_CHURN: Final = (
    ("channels_opened", "Channels opened.", "channels_opened"),
    ("channels_closed", "Channels closed.", "channels_closed"),
    ("queues_declared", "Queues declared.", "queues_declared"),
    ("queues_created", "Queues created.", "queues_created"),
    ("queues_deleted", "Queues deleted.", "queues_deleted"),
)
_DEAD_LETTER_REASONS: Final = ("maxlen", "expired", "rejected", "delivery_limit")
_DEAD_LETTER_LABELS: Final = ("queue_type", "dead_letter_strategy")
_AT_MOST_ONCE: Final = ("rabbit_classic_queue", "at_most_once")
_AT_LEAST_ONCE: Final = ("rabbit_quorum_queue", "at_least_once")


@final
class OverviewFigures:
    """Reads the aggregated figures; to be used on the loop."""

    def __init__(
        self,
        broker: Broker,
        identity: Identity,
        now_ms: Callable[[], int],
    ) -> None:
        self._broker = broker
        self._identity = identity
        self._now_ms = now_ms

    def read(self) -> list[Metric]:
        """Return the figures as they are now."""
        return [
            *self._who(),
            *self._objects(),
            *self._resources(),
            *self._alarms(),
            *self._messages(),
        ]

    def _who(self) -> Iterator[Metric]:
        identity = self._identity
        yield _labelled(
            "build_info",
            "RabbitMQ & Erlang/OTP version info",
            {
                "rabbitmq_version": identity.rabbitmq_version,
                "prometheus_plugin_version": identity.rabbitmq_version,
                "prometheus_client_version": identity.amqpd_version,
                "erlang_version": "0",
                "product_name": "amqpd",
                "product_version": identity.amqpd_version,
            },
            1,
        )
        cluster_id = uuid.uuid5(uuid.NAMESPACE_DNS, identity.cluster_name)
        yield _labelled(
            "identity_info",
            "RabbitMQ node & cluster identity info",
            {
                "rabbitmq_node": identity.node,
                "rabbitmq_cluster": identity.cluster_name,
                "rabbitmq_cluster_permanent_id": f"rabbitmq-cluster-id-{cluster_id}",
                "rabbitmq_endpoint": "aggregated",
            },
            1,
        )
        uptime_s = (self._now_ms() - identity.started_ms) / 1000
        yield _gauge("erlang_uptime_seconds", "Node uptime", uptime_s)

    def _objects(self) -> Iterator[Metric]:
        broker = self._broker
        connections, churn = broker.connections, broker.churn
        totals = queue_totals(broker)
        channels = churn.channels_opened - churn.channels_closed
        yield _gauge("connections", "Connections currently open", len(connections))
        yield _gauge("channels", "Channels currently open", channels)
        yield _gauge(
            "consumers", "Consumers currently connected", int(totals.consumers)
        )
        yield _gauge("queues", "Queues available", totals.queues)
        yield _gauge("queue_messages_ready", "Messages ready", int(totals.ready))
        yield _gauge("queue_messages_unacked", "Messages unacked", int(totals.unacked))
        yield _gauge(
            "queue_messages",
            "Sum of ready and unacknowledged messages",
            int(totals.ready + totals.unacked + totals.held),
        )
        yield _counter(
            "connections_opened", "Connections opened.", connections.opened_count
        )
        yield _counter(
            "connections_closed", "Connections closed.", connections.closed_count
        )
        for name, text, attribute in _CHURN:
            yield _counter(name, text, getattr(churn, attribute))
        attempts = churn.logins_succeeded + churn.logins_failed
        yield _counter("auth_attempts", "Attempts to log in.", attempts, PROTOCOL)
        yield _counter(
            "auth_attempts_succeeded",
            "Attempts to log in that succeeded.",
            churn.logins_succeeded,
            PROTOCOL,
        )
        yield _counter(
            "auth_attempts_failed",
            "Attempts to log in that failed.",
            churn.logins_failed,
            PROTOCOL,
        )

    def _resources(self) -> Iterator[Metric]:
        alarms = self._broker.alarms
        yield _gauge(
            "disk_space_available_bytes",
            "Disk space available in bytes",
            alarms.disk_free or 0,
        )
        yield _gauge(
            "disk_space_available_limit_bytes",
            "Free disk space low watermark in bytes",
            alarms.disk_limit,
        )
        yield _gauge("process_open_fds", "Open file descriptors", open_descriptors())
        yield _gauge(
            "process_max_fds", "Open file descriptors limit", descriptors_max()
        )
        yield _gauge(
            "process_open_tcp_sockets",
            "Open TCP sockets",
            len(self._broker.connections),
        )
        yield _gauge(
            "process_max_tcp_sockets", "Open TCP sockets limit", descriptors_max()
        )
        yield _gauge(
            "process_resident_memory_bytes",
            "Memory used in bytes",
            resident_size(),
        )
        yield _gauge(
            "resident_memory_limit_bytes",
            "Memory high watermark in bytes",
            alarms.memory_limit,
        )

    def _alarms(self) -> Iterator[Metric]:
        alarms = self._broker.alarms
        for name, text, is_on in (
            ("memory_used_watermark", "memory is used", alarms.has(MEMORY)),
            ("free_disk_space_watermark", "little is free", alarms.has(DISK)),
            (
                "file_descriptor_limit",
                "file descriptors run short",
                alarms.is_out_of_descriptors,
            ),
        ):
            yield _gauge(f"alarms_{name}", f"is 1 if so much {text}", int(is_on))
        yield _gauge("unreachable_cluster_peers_count", "There are no peers.", 0)

    def _messages(self) -> Iterator[Metric]:
        totals = traffic_totals(self._broker)
        traffic = totals.traffic
        yield _labelled(
            "global_publishers",
            "Publishers currently connected",
            PROTOCOL,
            totals.publishing_channels,
        )
        yield _labelled(
            "global_consumers",
            "Consumers currently connected",
            PROTOCOL,
            int(queue_totals(self._broker).consumers),
        )
        for name, text, attribute in _BY_PROTOCOL:
            value = int(getattr(traffic, attribute))
            yield _counter(f"global_messages_{name}", text, value, PROTOCOL)
        dropped = int(traffic.unroutable - traffic.returned)
        text = "Unroutable, dropped."
        yield _counter("global_messages_unroutable_dropped", text, dropped, PROTOCOL)
        for name, text, attribute in _BY_QUEUE_TYPE:
            value = int(getattr(traffic, attribute))
            yield _counter(f"global_messages_{name}", text, value, QUEUE_TYPE)
        delivered = traffic.delivered + traffic.delivered_no_ack
        delivered += traffic.got + traffic.got_no_ack
        text = "Delivered to consumers, or got."
        yield _counter("global_messages_delivered", text, int(delivered), QUEUE_TYPE)
        yield from self._dead_letters()
        yield _sizes(traffic)

    def _dead_letters(self) -> Iterator[Metric]:
        rooms = [vhost.topology.dead_letters for vhost in self._broker.vhosts.values()]
        for reason in _DEAD_LETTER_REASONS:
            family = CounterMetricFamily(
                f"rabbitmq_global_messages_dead_lettered_{reason}",
                f"Dead-lettered: {reason}.",
                labels=_DEAD_LETTER_LABELS,
            )
            at_once = sum(room.counts.get(reason, 0) for room in rooms)
            family.add_metric(_AT_MOST_ONCE, at_once)
            # None is dropped for length where they are to arrive.
            if reason != "maxlen":
                held = sum(room.held_counts.get(reason, 0) for room in rooms)
                family.add_metric(_AT_LEAST_ONCE, held)
            yield family
        text = "Dead letters that have arrived in all queues they are for."
        arrived = sum(room.arrived_count for room in rooms)
        labels = dict(zip(_DEAD_LETTER_LABELS, _AT_LEAST_ONCE, strict=True))
        yield _counter("global_messages_dead_lettered_confirmed", text, arrived, labels)


def _sizes(traffic: Traffic) -> Metric:
    family = HistogramMetricFamily(
        "rabbitmq_message_size_bytes",
        "Size of messages received from publishers",
        labels=list(PROTOCOL),
    )
    buckets: list[tuple[str, float]] = []
    count = 0
    bounds = [*(f"{bound:g}" for bound in SIZE_BOUNDS), "+Inf"]
    for bound, more in zip(bounds, traffic.sizes(), strict=True):
        count += more
        buckets.append((bound, count))
    family.add_metric(list(PROTOCOL.values()), buckets, int(traffic.body_octets))
    return family


def _gauge(name: str, text: str, value: float) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"rabbitmq_{name}", text, value=value)


def _labelled(
    name: str, text: str, labels: dict[str, str], value: float
) -> GaugeMetricFamily:
    family = GaugeMetricFamily(f"rabbitmq_{name}", text, labels=list(labels))
    family.add_metric(list(labels.values()), value)
    return family


def _counter(
    name: str, text: str, value: int, labels: dict[str, str] | None = None
) -> CounterMetricFamily:
    given = labels or {}
    family = CounterMetricFamily(f"rabbitmq_{name}", text, labels=list(given))
    family.add_metric(list(given.values()), value)
    return family
