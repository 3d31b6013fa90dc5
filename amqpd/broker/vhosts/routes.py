"""Where (exchange, routing key) leads, remembered for one user in one virtual host.

The key is the wire form of both names as basic.publish carries it, so a cached route
costs one dictionary lookup on bytes that need not be decoded. An entry is there only if
the user may write to the exchange: verdict and route are one. A route knows whether
the bindings it was made from still stand. The default exchange has a table of
its own, so that reply queues coming and going do not empty the other one.

Who fills it: `Session.find_route` in `session.py`, which knows names and permissions.
"""

from typing import Final, final

from mypy_extensions import i64

from amqpd.broker.queues.queue import Queue
from routing.resolution import Resolution

ENTRIES_MAX: Final = 4096


@final
class Route:
    """The queues that a publish reaches, and its address as deliveries carry it."""

    __slots__ = ("_resolution", "address", "asks_message", "exchange_name", "queues")

    def __init__(
        self,
        address: bytes,
        exchange_name: str,
        queues: list[Queue],
        resolution: Resolution[Queue] | None,
    ) -> None:
        self.address = address
        self.exchange_name = exchange_name
        self.queues = queues
        # None: by the default exchange, to the queue of that name if there is one.
        self._resolution = resolution
        self.asks_message: bool = resolution is not None and resolution.asks_message

    def is_current(self) -> bool:
        """Whether nothing has changed that this route was made from."""
        resolution = self._resolution
        if resolution is not None:
            return resolution.is_current()
        # Without a queue: one may have been declared since.
        return bool(self.queues) and not self.queues[0].is_deleted


@final
class RouteCache:
    """The routes that one user has used in one virtual host; bounded."""

    __slots__ = ("by_default", "by_name", "generation")

    def __init__(self) -> None:
        self.by_name: dict[bytes, Route] = {}
        self.by_default: dict[bytes, Route] = {}
        # The generation of the permissions that the entries were checked with.
        self.generation: i64 = 0

    def remember(self, raw: bytes, route: Route) -> None:
        """Keep a route under the wire form of its names."""
        table = self.by_default if raw[0] == 0 else self.by_name
        if len(table) >= ENTRIES_MAX:
            table.clear()
        table[raw] = route

    def clear(self) -> None:
        """Forget all: permissions have changed."""
        self.by_name.clear()
        self.by_default.clear()
