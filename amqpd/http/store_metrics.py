"""What store and queues have done, and how they stand, by names of our own.

Counters have the label `log`: "messages", or "paging", where messages go that memory
has no room for. Ages are those of the oldest of all queues. To be read on the loop.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final, final

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)

from amqpd.broker.broker import Broker
from amqpd.broker.queues.oldest import Oldest
from amqpd.http.room import Ticks

_COUNTERS: Final = (
    ("written_bytes", "Written to the log.", "bytes_written"),
    ("syncs", "Times the log was synced.", "syncs"),
    ("elided_writes", "References that were settled before their write.", "elided"),
    ("merges", "Merges of segments.", "merges"),
    ("merged_bytes", "Copied by merges.", "merged_bytes"),
    ("removed_segments", "Segments whose files were removed.", "removed_segments"),
    ("checkpoints", "Checkpoints that were written.", "checkpoints"),
    ("cold_loads", "Reads of messages that had left memory.", "cold_loads"),
    ("cold_read_bytes", "Read from segments for them.", "cold_bytes"),
)


@final
class StoreFigures:
    """Reads every figure; to be used on the loop."""

    def __init__(self, broker: Broker, ticks: Ticks) -> None:
        self._broker = broker
        self._ticks = ticks
        self._logs = {"messages": broker.store}
        if broker.pager.paging is not None:
            self._logs["paging"] = broker.pager.paging

    def read(self) -> list[Metric]:
        """Return the figures as they are now."""
        return [
            *self._counters(),
            self._sync_seconds(),
            *self._garbage(),
            *self._waiting(),
            *self._memory(),
            *self._oldest(),
            self._times_in_queue(),
            self._delayed(),
        ]

    def _counters(self) -> Iterator[Metric]:
        for name, text, attribute in _COUNTERS:
            family = CounterMetricFamily(f"amqpd_store_{name}", text, labels=["log"])
            for log, store in self._logs.items():
                family.add_metric([log], getattr(store.statistics, attribute))
            yield family

    def _sync_seconds(self) -> Metric:
        """The paging log is never synced."""
        statistics = self._broker.store.statistics
        family = HistogramMetricFamily(
            "amqpd_store_sync_seconds", "How long writing and syncing the log took."
        )
        buckets = [
            ("+Inf" if bound == math.inf else str(bound), count)
            for bound, count in statistics.syncs_within()
        ]
        family.add_metric([], buckets, statistics.sync_seconds)
        return family

    def _garbage(self) -> Iterator[Metric]:
        sizes = _gauge("log_bytes", "Size of all segments.", "log")
        ratios = _gauge("garbage_ratio", "Share that nobody needs.", "log")
        for log, store in self._logs.items():
            size = int(store.maintenance.log_size)
            garbage = int(store.maintenance.garbage_size)
            sizes.add_metric([log], size)
            ratios.add_metric([log], garbage / max(1, size))
        yield sizes
        yield ratios

    def _waiting(self) -> Iterator[Metric]:
        yield _value(
            "confirms_waiting",
            "Confirms, commits and purges that wait for a sync.",
            int(self._broker.durability.waiting_count),
        )
        yield _value(
            "confirm_wait_seconds",
            "How long the one that waits longest has waited.",
            self._ticks.wait_seconds,
        )
        yield _value(
            "turn_max_seconds",
            "The longest turn of the loop since the start.",
            self._ticks.turn_seconds_max,
        )
        yield GaugeMetricFamily(
            "amqpd_loop_busy_seconds_max",
            "The longest time in which the loop served nobody else, since the start.",
            value=self._ticks.busy_seconds_max,
        )

    def _memory(self) -> Iterator[Metric]:
        use, budgets = self._broker.pager.use, self._broker.pager.budgets
        family = _gauge("memory_bytes", "What messages take in memory.", "kept")
        family.add_metric(["in_log"], int(use.stored))
        family.add_metric(["in_memory_only"], int(use.unstored))
        family.add_metric(["unacked"], int(use.unacked))
        yield family
        family = _gauge("memory_budget_bytes", "What they may take.", "of")
        family.add_metric(["in_log"], int(budgets.cold))
        family.add_metric(["all"], int(budgets.total))
        yield family

    def _oldest(self) -> Iterator[Metric]:
        """Ages of messages: the highest of all queues, 0 where there is none."""
        queues = [
            queue
            for vhost in self._broker.vhosts.values()
            for queue in vhost.queues.values()
        ]
        oldest = Oldest(queues, self._broker.timers.now_ms)
        for name, text, age_ms in (
            ("ready_message", "Age of the oldest message that is ready.", oldest.ready),
            ("unacked_message", "Age of the oldest unacked one.", oldest.unacked),
            (
                "unacked_delivery",
                "How long the oldest delivery has waited for its ack.",
                oldest.delivery,
            ),
        ):
            yield GaugeMetricFamily(
                f"amqpd_oldest_{name}_age_seconds", text, value=max(0, age_ms) / 1000
            )

    def _times_in_queue(self) -> Metric:
        times = self._broker.dispatch.times
        family = HistogramMetricFamily(
            "amqpd_message_time_in_queue_seconds",
            "How long messages had been in their queue at delivery; a sample.",
        )
        buckets = [
            ("+Inf" if bound == math.inf else str(bound), count)
            for bound, count in times.within()
        ]
        family.add_metric([], buckets, int(times.total_ms) / 1000)
        return family

    def _delayed(self) -> Metric:
        family = GaugeMetricFamily(
            "amqpd_exchange_messages_delayed",
            "Messages that wait at an exchange for their time.",
            labels=["vhost", "exchange"],
        )
        for vhost in self._broker.vhosts.values():
            for name, room in vhost.topology.waiting_rooms.items():
                family.add_metric([vhost.name, name], int(room.delayed_count))
        return family


def _gauge(name: str, text: str, label: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"amqpd_store_{name}", text, labels=[label])


def _value(name: str, text: str, value: float) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"amqpd_store_{name}", text, value=value)
