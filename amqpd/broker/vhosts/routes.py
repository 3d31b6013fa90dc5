"""Where (exchange, routing key) leads, remembered for one user in one virtual host.

The key is the wire form of both names as basic.publish carries it, so a cached route
costs one dictionary lookup on bytes that need not be decoded. An entry is there only if
the user may write to the exchange: verdict and route are one. A route knows whether
the bindings it was made from still stand. The default exchange has a table of
its own, so that reply queues coming and going do not empty the other one.

A route that asks for the headers of a message, and for nothing else of it, has *ways*:
routes again, one for each header table that came, and remembered by its octets.

Who fills it: `Session` in `session.py`, which knows names and permissions.
"""

from typing import Final, final

from mypy_extensions import i64

from amqpd.broker.queues.queue import Queue
from routing.resolution import Resolution

ENTRIES_MAX: Final = 4096
# The memory that the ways of one user in one virtual host may take. Where each message
# has a table of its own (an id in it) ways are made and dropped all the time.
WAYS_SIZE_MAX: Final[i64] = 1024 * 1024
# What a way takes besides the octets that it is remembered by and 8 for each queue.
WAY_COST: Final[i64] = 600
# A larger table is not remembered: it would drive out many others.
WAY_KEY_SIZE_MAX: Final[i64] = 16 * 1024


@final
class Route:
    """The queues that a publish reaches, and its address as deliveries carry it."""

    __slots__ = (
        "_resolution",
        "address",
        "asks_headers",
        "asks_message",
        "exchange_name",
        "queues",
    )

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
        # Of what it asks the message that is the headers, and nothing else.
        self.asks_headers: bool = (
            resolution is not None and resolution.asks_only_headers
        )

    def ask_each_message(self) -> None:
        """Let no two messages be taken for the same, whatever they have in common."""
        self.asks_message = True
        self.asks_headers = False

    def note_headers_asked(self) -> None:
        """The route was found by the headers: no other answer is to be had from them.

        Nothing is left to ask, unless it is more than the headers.
        """
        if self.asks_headers:
            self.asks_headers = False
            self.asks_message = False

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

    __slots__ = ("_ways_size", "by_default", "by_name", "generation", "ways")

    def __init__(self) -> None:
        self.by_name: dict[bytes, Route] = {}
        self.by_default: dict[bytes, Route] = {}
        # By address and header table.
        self.ways: dict[bytes, Route] = {}
        self._ways_size: i64 = 0
        # The generation of the permissions that the entries were checked with.
        self.generation: i64 = 0

    def remember(self, raw: bytes, route: Route) -> None:
        """Keep a route under the wire form of its names."""
        table = self.by_default if raw[0] == 0 else self.by_name
        if len(table) >= ENTRIES_MAX:
            table.clear()
        table[raw] = route

    def remember_way(self, key: bytes, way: Route) -> None:
        """Keep a way under its address and header table; it may replace one."""
        key_size: i64 = len(key)
        if key_size > WAY_KEY_SIZE_MAX:
            return
        size = key_size + WAY_COST + 8 * i64(len(way.queues))
        if self._ways_size + size > WAYS_SIZE_MAX:
            self.ways.clear()
            self._ways_size = 0
        self._ways_size += size
        self.ways[key] = way

    def clear(self) -> None:
        """Forget all: permissions have changed."""
        self.by_name.clear()
        self.by_default.clear()
        self.ways.clear()
        self._ways_size = 0
