"""The AMQP listeners and everybody who is connected through them.

There are one or two doors, each a port on all hosts: without TLS, and with it.
"""

import asyncio
import errno
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from amqpd.broker.broker import Broker
from amqpd.broker.errors import AmqpError, ConnectionForced, InternalError
from amqpd.clock import Clock
from amqpd.net.resources import ResourceWatch
from amqpd.net.ticker import Client, Ticker
from amqpd.net.tls import LOOK_SECONDS, TlsCertificates
from amqpd.net.tls_protocol import TlsProtocol
from amqpd.net.transport import (
    ENCRYPTED_READ_SIZE,
    ClientTransport,
    EncryptedClientTransport,
)
from amqpd.protocol.connection import Connection
from amqpd.protocol.control import ConnectionOptions
from amqpd.protocol.output import Output

logger = logging.getLogger("amqpd.listener")

BACKLOG: Final = 1024
# How long clients are given to answer our close when the broker stops.
FAREWELL_SECONDS: Final = 3.0
LOOPBACKS: Final = ("127.0.0.1", "::1")


class ListenFailed(Exception):
    """An address could not be listened on; the text says which and why."""


@dataclass(frozen=True)
class Bound:
    """An address that is listened on."""

    address: str
    port: int
    is_tls: bool

    def __str__(self) -> str:
        """How it is shown to people."""
        host = f"[{self.address}]" if ":" in self.address else self.address
        return f"{host}:{self.port}{' (TLS)' if self.is_tls else ''}"


class _Door:
    """A port that clients come in by, on one or more hosts."""

    def __init__(
        self, port: int, is_tls: bool, accept: Callable[[], asyncio.BaseProtocol]
    ) -> None:
        self.port = port
        self.is_tls = is_tls
        self.accept = accept
        self.listeners: list[asyncio.Server] = []


class Server:
    """Listeners on one or more hosts."""

    def __init__(
        self,
        broker: Broker,
        options: ConnectionOptions,
        hosts: list[str],
        port: int | None,
        tick_seconds: float,
        on_fatal: Callable[[BaseException], None],
        tls: TlsCertificates | None = None,
        tls_port: int = 0,
    ) -> None:
        """Say what to listen with; a port of 0 is any, None is none without TLS."""
        loop = asyncio.get_running_loop()
        self._broker = broker
        self._options = options
        self._hosts = hosts
        self._loop = loop
        self._on_fatal = on_fatal
        self._tls = tls
        self._doors: list[_Door] = []
        if port is not None:
            self._doors.append(_Door(port, False, self._accept))
        if tls is not None:
            self._doors.append(_Door(tls_port, True, self._accept_tls))
        self._look: asyncio.TimerHandle | None = None
        self._members: set[ClientTransport] = set()
        self._encrypted: set[TlsProtocol] = set()
        # What is read with TLS, before and after it is deciphered.
        size = 0 if tls is None else ENCRYPTED_READ_SIZE
        self._cipher_buffer = memoryview(bytearray(size))
        self._plain_buffer = memoryview(bytearray(size))
        self.ticker = Ticker(broker, Clock(), loop, tick_seconds, self._fail)

    @property
    def port(self) -> int:
        """The port without TLS, or the one with it if there is no other."""
        return self._doors[0].port

    @property
    def tls_port(self) -> int:
        """The port with TLS."""
        return self._doors[-1].port

    async def start(self) -> None:
        """Listen.

        Raises:
            ListenFailed: an address is taken or not there.
        """
        await self.resume()
        self.ticker.start_sweep(self._clients)
        self._look_at_certificates()

    def suspend(self) -> None:
        """Listen no more; who is connected stays."""
        for door in self._doors:
            for listener in door.listeners:
                listener.close()
            door.listeners.clear()

    async def resume(self) -> None:
        """Listen, on the same ports as before.

        Raises:
            ListenFailed: an address is taken or not there.
        """
        for door in self._doors:
            if not door.listeners:
                await self._open(door)

    async def _open(self, door: _Door) -> None:
        for host in self._hosts:
            if host == "localhost":
                await self._listen(door, LOOPBACKS[0], False)
                await self._listen(door, LOOPBACKS[1], True)
            else:
                await self._listen(door, host, False)

    async def stop(self, reason: str) -> None:
        """Say goodbye to every client, then wait for the disk."""
        self.suspend()
        if self._look is not None:
            self._look.cancel()
        text = f"broker forced connection closure with reason '{reason}'"
        self._close_all(ConnectionForced(text))
        deadline = self._loop.time() + FAREWELL_SECONDS
        # Once, at the end: nothing that would have to tell about each member's leaving.
        while self._members and self._loop.time() < deadline:  # noqa: ASYNC110
            await asyncio.sleep(0.005)
        for client in list(self._members):
            client.abort()
        # Those that are still shaking hands.
        for encrypted in self.encrypted():
            encrypted.abort()
        await asyncio.sleep(0)
        await self.ticker.drain()
        self.ticker.close()

    def connection_count(self) -> int:
        """How many sockets are open."""
        return len(self._members)

    def encrypted(self) -> list[TlsProtocol]:
        """The sockets with TLS, as far as they have come."""
        return list(self._encrypted)

    def bound(self) -> list[Bound]:
        """What is listened on; a host's name may stand for several addresses."""
        return [
            Bound(str(socket.getsockname()[0]), door.port, door.is_tls)
            for door in self._doors
            for listener in door.listeners
            for socket in listener.sockets
        ]

    def bound_addresses(self) -> list[str]:
        """The IP addresses that are listened on, each once."""
        return list(dict.fromkeys(bound.address for bound in self.bound()))

    async def _listen(self, door: _Door, host: str, is_optional: bool) -> None:
        try:
            listener = await self._loop.create_server(
                door.accept, host, door.port, backlog=BACKLOG
            )
        except OSError as error:
            if is_optional and error.errno in (
                errno.EADDRNOTAVAIL,
                errno.EAFNOSUPPORT,
            ):
                logger.info("not listening on %s: %s", host, error)
                return
            flag = "--tls-port" if door.is_tls else "--port"
            raise ListenFailed(
                f"cannot listen on {host} port {door.port}: {error.strerror}; "
                f"choose another {flag}, or stop what is using it"
            ) from error
        door.listeners.append(listener)
        # Port 0 means any: the second loopback gets the one that the first was given.
        door.port = listener.sockets[0].getsockname()[1]

    def _accept(self) -> ClientTransport:
        return ClientTransport(self.ticker, self._make_connection, self._members)

    def _accept_tls(self) -> TlsProtocol:
        assert self._tls is not None
        client = EncryptedClientTransport(
            self.ticker, self._make_connection, self._members, self._plain_buffer
        )
        return TlsProtocol(
            client, self._tls.context, self._cipher_buffer, self._encrypted
        )

    def _look_at_certificates(self) -> None:
        """Notice that certificates were renewed, if there are any."""
        if self._tls is not None:
            self._tls.look()
            self._look = self._loop.call_later(LOOK_SECONDS, self._look_at_certificates)

    def watch(self, resources: ResourceWatch) -> None:
        """Heed what the process has and what is left."""
        self.ticker.resources = resources
        resources.on_shortage = self._heed_memory

    def _heed_memory(self) -> None:
        resources = self.ticker.resources
        assert resources is not None
        if resources.is_memory_nearly_short:
            self.ticker.demand_garbage()
        self.ticker.outputs.has_bursts = not resources.is_memory_nearly_short
        for client in self._members:
            client.fit_reads()

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
