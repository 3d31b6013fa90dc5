"""Where the API is listened on before anybody has asked it anything.

    listen      at once: an address that is taken is an error of the start
    a client    kept waiting while what answers is imported, on a thread, and made
    afterwards  every client goes straight to it, as where it was there before

The library that reads requests takes 13 MB and a quarter of a second to import, and a
broker may live without ever being asked. Whether it is installed is looked at before
anything is served (`check_installed`).
"""

from __future__ import annotations

import asyncio
import importlib.util
import logging
from typing import TYPE_CHECKING, Final, cast, final

from amqpd.http.room import Listener, Room

if TYPE_CHECKING:
    from amqpd.http.server import HttpServer

logger = logging.getLogger("amqpd.http")

LIBRARY: Final = "aiohttp"


def check_installed() -> None:
    """Check that what answers can be imported, without doing so.

    Raises:
        ModuleNotFoundError: not so.
    """
    if importlib.util.find_spec(LIBRARY) is None:
        raise ModuleNotFoundError(f"{LIBRARY} is not installed")


@final
class Door:
    """Listens on one or more addresses; what answers is made for the first client."""

    def __init__(self, room: Room, server: HttpServer | None = None) -> None:
        """Stand before a server that answers already, or before the whole API."""
        self._room = room
        self._listeners: list[asyncio.Server] = []
        self._server = server
        self._opening: asyncio.Task[None] | None = None
        self._callers: set[_Caller] = set()

    @property
    def is_open(self) -> bool:
        """Whether what answers is there."""
        return self._server is not None

    @property
    def is_called(self) -> bool:
        """Whether anybody waits for it to open."""
        return bool(self._callers)

    async def listen(self, address: str, port: int) -> int:
        """Listen on an IP address and return the port, which 0 leaves open.

        Raises:
            OSError: it is taken or not there.
        """
        if self._server is not None:
            await self._server.start()
        loop = asyncio.get_running_loop()
        listener = await loop.create_server(self._accept, address, port)
        self._listeners.append(listener)
        port = int(listener.sockets[0].getsockname()[1])
        self._room.listeners.append(Listener("http", address, port))
        return port

    async def stop(self) -> None:
        """Listen no more, and end what goes on."""
        for listener in self._listeners:
            listener.close()
        if self._opening is not None:
            self._opening.cancel()
        for caller in list(self._callers):
            caller.turn_away()
        if self._server is not None:
            await self._server.stop()

    def _accept(self) -> asyncio.Protocol:
        if self._server is not None:
            return self._server.accept()
        return _Caller(self)

    # -- the first clients ----------------------------------------------------

    def hold(self, caller: _Caller) -> None:
        """Somebody has come before there is who answers."""
        if self._server is not None:
            caller.hand_over(self._server)
            return
        self._callers.add(caller)
        if self._opening is None:
            self._opening = asyncio.get_running_loop().create_task(self._open())

    def release(self, caller: _Caller) -> None:
        """Somebody has gone."""
        self._callers.discard(caller)

    async def _open(self) -> None:
        try:
            # The import gives way to the loop every few milliseconds.
            await asyncio.to_thread(_import)
            server = _make(self._room)
            await server.start()
        except Exception:
            # The next client is another try.
            logger.exception("the management API cannot answer")
            self._opening = None
            for caller in list(self._callers):
                caller.turn_away()
            return
        self._server = server
        for caller in list(self._callers):
            caller.hand_over(server)
        self._callers.clear()


@final
class _Caller(asyncio.Protocol):
    """A client who waits; what it says meanwhile is kept, as far as it was read."""

    def __init__(self, door: Door) -> None:
        self._door = door
        self._transport: asyncio.Transport | None = None
        self._said: list[bytes] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A client was accepted."""
        self._transport = cast(asyncio.Transport, transport)
        self._transport.pause_reading()
        self._door.hold(self)

    def data_received(self, data: bytes) -> None:
        """It was being read already."""
        self._said.append(data)

    def connection_lost(self, error: Exception | None) -> None:
        """The client has gone."""
        self._transport = None
        self._door.release(self)

    def hand_over(self, server: HttpServer) -> None:
        """Let the server have the client."""
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        protocol = server.accept()
        transport.set_protocol(protocol)
        protocol.connection_made(transport)
        for data in self._said:
            protocol.data_received(data)
        transport.resume_reading()

    def turn_away(self) -> None:
        """There is nobody who could answer."""
        if self._transport is not None:
            self._transport.abort()


def _import() -> None:
    import amqpd.http.routes
    import amqpd.http.server  # noqa: F401


def _make(room: Room) -> HttpServer:
    from amqpd.http.routes import ENDPOINTS
    from amqpd.http.server import HttpServer

    return HttpServer(room, ENDPOINTS)
