"""The exchange that events are published to, in its virtual host."""

from typing import final

from mypy_extensions import i64

from amqpd.broker.events import EXCHANGE, EventOutlet
from amqpd.broker.exchange import event_exchange
from amqpd.broker.vhosts.notice import publish_event
from amqpd.broker.vhosts.topology import Topology
from amqpd.wire.tables import Table


@final
class EventExchange(EventOutlet):
    """Publishes events in one virtual host."""

    def __init__(self, topology: Topology) -> None:
        self._topology = topology
        if EXCHANGE not in topology.exchanges:
            topology.add_exchange(event_exchange())

    def is_wanted(self) -> bool:
        """Whether anything is bound to it."""
        router = self._topology.router
        return router.has_exchange(EXCHANGE) and router.has_bindings_from(EXCHANGE)

    def publish(self, key: str, headers: Table, now_ms: i64) -> None:
        """Publish an event."""
        if self._topology.router.has_exchange(EXCHANGE):
            publish_event(self._topology, EXCHANGE, key, headers, now_ms)
