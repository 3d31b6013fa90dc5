"""`/metrics`: what has passed, how store and queues stand, in Prometheus' text format.

The library serves each scrape on a thread of its own; the figures are the loop's, some
of them sums over what changes from turn to turn. So the thread asks the loop for all
of them at once and waits:

    scrape > thread > [loop: read every figure] > thread > text

A scrape costs the loop some tens of microseconds and one more for every few segments
and queues; writing the text costs it nothing. A loop that does not answer in time is an
error 500, which is what the scraper should see.

Counters of the store have the label `log`: "messages", or "paging", where messages go
that memory has no room for. What RabbitMQ has, too, is read by `overview_metrics` and
`object_metrics`. How a scrape is used is not known here.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import socketserver
import threading
from collections.abc import Callable, Coroutine, Iterable
from typing import TYPE_CHECKING, Any, Final, final
from urllib.parse import parse_qs
from wsgiref.simple_server import WSGIRequestHandler

from prometheus_client import CollectorRegistry, ProcessCollector, make_wsgi_app
from prometheus_client.core import (
    Metric,
)
from prometheus_client.exposition import ThreadingWSGIServer
from prometheus_client.registry import Collector

from amqpd.broker.broker import Broker
from amqpd.http.object_metrics import FAMILIES, ObjectFigures
from amqpd.http.overview_metrics import OverviewFigures
from amqpd.http.room import Identity, Ticks
from amqpd.http.store_metrics import StoreFigures

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIEnvironment

logger = logging.getLogger("amqpd.metrics")

# How long a scrape waits for the loop, and a socket for the request.
ANSWER_SECONDS_MAX: Final = 5.0
CONNECTIONS_MAX: Final = 16


@final
class LoopCollector(Collector):
    """Has the figures read on the loop, whichever thread asks."""

    def __init__(
        self,
        read: Callable[[], Coroutine[Any, Any, list[Metric]]],
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self._read = read
        self._loop = loop

    def collect(self) -> list[Metric]:
        """Return the figures.

        Raises:
            TimeoutError: the loop did not get to it in time.
        """
        reading = asyncio.run_coroutine_threadsafe(self._read(), self._loop)
        return reading.result(ANSWER_SECONDS_MAX)


class _Handler(WSGIRequestHandler):
    timeout = ANSWER_SECONDS_MAX

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        logger.debug(format, *args)


class _Listener(ThreadingWSGIServer):
    """A thread for each connection, as long as there are not many."""

    request_queue_size = CONNECTIONS_MAX

    def __init__(self, address: tuple[str, int], handler: type[_Handler]) -> None:
        self._free = threading.BoundedSemaphore(CONNECTIONS_MAX)
        super().__init__(address, handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        if self._free.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            # Nobody has logged in here: whoever it is may come again.
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    def server_bind(self) -> None:
        # Not HTTPServer's, which asks the DNS for the name of the address.
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = self.socket.getsockname()[:2]
        self.setup_environ()


class _Listener6(_Listener):
    address_family = socket.AF_INET6

    def server_bind(self) -> None:
        # Else `::` would take the port of 0.0.0.0, too.
        self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        super().server_bind()


@final
class MetricsEndpoint:
    """Listens on one or more addresses and answers with the figures."""

    def __init__(self, broker: Broker, ticks: Ticks, identity: Identity) -> None:
        self._broker = broker
        self._loop = asyncio.get_running_loop()
        self._store = StoreFigures(broker, ticks)
        self._overview = OverviewFigures(broker, identity, ticks.now_ms)
        self._aggregated = make_wsgi_app(self._registry(self._read_all, True))
        self._listeners: list[_Listener] = []

    async def _read_all(self) -> list[Metric]:
        return [*self._overview.read(), *self._store.read()]

    def _registry(
        self, read: Callable[[], Coroutine[Any, Any, list[Metric]]], of_process: bool
    ) -> CollectorRegistry:
        registry = CollectorRegistry()
        if of_process:
            ProcessCollector(registry=registry)
        registry.register(LoopCollector(read, self._loop))
        return registry

    def _answer(
        self, environment: WSGIEnvironment, start_response: StartResponse
    ) -> Iterable[bytes]:
        """Answer /metrics and everything that is not one of the other paths."""
        app = self._aggregated
        path = environment.get("PATH_INFO", "")
        if path == "/metrics/per-object":
            figures = ObjectFigures(self._broker)
            app = make_wsgi_app(self._registry(figures.read, False))
        elif path == "/metrics/detailed":
            asked = parse_qs(environment.get("QUERY_STRING", ""))
            figures = ObjectFigures(
                self._broker,
                [name for name in asked.get("family", []) if name in FAMILIES],
                asked.get("vhost", []),
                "rabbitmq_detailed",
            )
            app = make_wsgi_app(self._registry(figures.read, False))
        answer: Iterable[bytes] = app(environment, start_response)
        return answer

    def listen(self, address: str, port: int) -> int:
        """Listen on an IP address and return the port, which 0 leaves open.

        Raises:
            OSError: it is taken or not there.
        """
        kind = _Listener6 if ":" in address else _Listener
        listener = kind((address, port), _Handler)
        listener.set_app(self._answer)
        self._listeners.append(listener)
        threading.Thread(
            target=listener.serve_forever, name="amqpd-metrics", daemon=True
        ).start()
        return listener.server_port

    async def stop(self) -> None:
        """Listen no more; takes up to half a second, while the loop goes on."""
        shutdowns = [asyncio.to_thread(each.shutdown) for each in self._listeners]
        await asyncio.gather(*shutdowns)
        for listener in self._listeners:
            listener.server_close()
