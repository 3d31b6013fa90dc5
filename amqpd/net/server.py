"""The AMQP listeners and everybody who is connected through them."""

import asyncio
import errno
import logging
from collections.abc import Callable
from typing import Final

from amqpd.broker.broker import Broker
from amqpd.broker.errors import AmqpError, ConnectionForced, InternalError
from amqpd.clock import Clock
from amqpd.net.ticker import Client, Ticker
from amqpd.net.transport import ClientTransport
from amqpd.protocol.connection import Connection
from amqpd.protocol.control import ConnectionOptions
from amqpd.protocol.output import Output

logger = logging.getLogger("amqpd.listener")

READ_SIZE: Final = 256 * 1024
BACKLOG: Final = 1024
# How long clients are given to answer our close when the broker stops.
FAREWELL_SECONDS: Final = 3.0
LOOPBACKS: Final = ("127.0.0.1", "::1")


class ListenFailed(Exception):
    """An address could not be listened on; the text says which and why."""


class Server:
    """Listeners on one port of one or more hosts."""

    def __init__(
        self,
        broker: Broker,
        options: ConnectionOptions,
        hosts: list[str],
        port: int,
        tick_seconds: float,
        on_fatal: Callable[[BaseException], None],
    ) -> None:
        loop = asyncio.get_running_loop()
        self.port = port
        self.addresses: list[str] = []
        self._broker = broker
        self._options = options
        self._hosts = hosts
        self._loop = loop
        self._on_fatal = on_fatal
        self._listeners: list[asyncio.Server] = []
        self._members: set[ClientTransport] = set()
        self._read_buffer = memoryview(bytearray(READ_SIZE))
        self.ticker = Ticker(broker, Clock(), loop, tick_seconds, self._fail)

    async def start(self) -> None:
        """Listen.

        Raises:
            ListenFailed: an address is taken or not there.
        """
        await self.resume()
        self.ticker.start_sweep(self._clients)

    def suspend(self) -> None:
        """Listen no more; who is connected stays."""
        for listener in self._listeners:
            listener.close()
        self._listeners.clear()
        self.addresses.clear()

    async def resume(self) -> None:
        """Listen, on the same port as before.

        Raises:
            ListenFailed: an address is taken or not there.
        """
        if self._listeners:
            return
        for host in self._hosts:
            if host == "localhost":
                await self._listen(LOOPBACKS[0], False)
                await self._listen(LOOPBACKS[1], True)
            else:
                await self._listen(host, False)

    async def stop(self, reason: str) -> None:
        """Say goodbye to every client, then wait for the disk."""
        self.suspend()
        text = f"broker forced connection closure with reason '{reason}'"
        self._close_all(ConnectionForced(text))
        deadline = self._loop.time() + FAREWELL_SECONDS
        # Once, at the end: nothing that would have to tell about each member's leaving.
        while self._members and self._loop.time() < deadline:  # noqa: ASYNC110
            await asyncio.sleep(0.005)
        for client in list(self._members):
            client.abort()
        await asyncio.sleep(0)
        await self.ticker.drain()
        self.ticker.close()

    def connection_count(self) -> int:
        """How many sockets are open."""
        return len(self._members)

    def bound_addresses(self) -> list[str]:
        """The IP addresses that are listened on; a name may stand for several."""
        return [
            str(bound.getsockname()[0])
            for listener in self._listeners
            for bound in listener.sockets
        ]

    async def _listen(self, host: str, is_optional: bool) -> None:
        try:
            listener = await self._loop.create_server(
                self._accept, host, self.port, backlog=BACKLOG
            )
        except OSError as error:
            if is_optional and error.errno in (
                errno.EADDRNOTAVAIL,
                errno.EAFNOSUPPORT,
            ):
                logger.info("not listening on %s: %s", host, error)
                return
            raise ListenFailed(
                f"cannot listen on {host} port {self.port}: {error.strerror}; "
                "choose another --port, or stop what is using it"
            ) from error
        self._listeners.append(listener)
        # Port 0 means any: the second loopback gets the one that the first was given.
        self.port = listener.sockets[0].getsockname()[1]
        self.addresses.append(f"[{host}]" if ":" in host else host)

    def _accept(self) -> ClientTransport:
        return ClientTransport(
            self.ticker, self._read_buffer, self._make_connection, self._members
        )

    def _make_connection(
        self, output: Output, name: str, is_loopback: bool, now_ms: int
    ) -> Connection:
        return Connection(
            self._broker,
            self._options,
            output,
            self.ticker.pending,
            name,
            is_loopback,
            now_ms,
        )

    def _clients(self) -> list[Client]:
        return list(self._members)

    def _close_all(self, error: AmqpError) -> None:
        for client in list(self._members):
            client.close(error)

    def _fail(self, error: BaseException) -> None:
        """The log can take no more: nothing may be confirmed from here on."""
        logger.critical("the log failed and is closed: %s", error)
        self._close_all(InternalError("the message log failed"))
        self._on_fatal(error)
