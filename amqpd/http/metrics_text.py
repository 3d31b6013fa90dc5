"""The aggregated figures as text, read and written on the loop: about a millisecond."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, final

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from amqpd.http.overview_metrics import OverviewFigures
from amqpd.http.room import Room
from amqpd.http.store_metrics import StoreFigures

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"


@final
class _Collected(Collector):
    """Figures that have been read."""

    def __init__(self, metrics: list[Metric]) -> None:
        self._metrics = metrics

    def collect(self) -> Iterable[Metric]:
        """Return them."""
        return self._metrics


def metrics_text(room: Room) -> bytes:
    """Return the figures in Prometheus' text format."""
    overview = OverviewFigures(room.broker, room.identity, room.now_ms)
    store = StoreFigures(room.broker, room.ticks)
    registry = CollectorRegistry()
    registry.register(_Collected([*overview.read(), *store.read()]))
    return generate_latest(registry)
