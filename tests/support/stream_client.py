"""An AMQP client on asyncio streams, for brokers that run in the same loop."""

from __future__ import annotations

import asyncio
import ssl
from typing import TypeVar

from pamqp import base, commands

from tests.support.connection_pair import cut, method, tune_ok
from tests.support.raw_client import (
    ALL_CAPABILITIES,
    METHOD,
    PROTOCOL_HEADER,
    ReceivedFrame,
    encode_frame,
    encode_start_ok,
    plain,
)
from tests.support.waiting import PATIENCE_S

MethodT = TypeVar("MethodT", bound=base.Frame)


class StreamClient:
    """A socket to a broker that shares this test's loop."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self.reader = reader
        self.writer = writer
        self._rest = b""
        self._frames: list[ReceivedFrame] = []

    @staticmethod
    async def connect(
        port: int, host: str = "127.0.0.1", tls: ssl.SSLContext | None = None
    ) -> StreamClient:
        """A socket on which nothing has been said, but for TLS."""
        name = None if tls is None else "localhost"
        return StreamClient(
            *await asyncio.open_connection(host, port, ssl=tls, server_hostname=name)
        )

    @staticmethod
    async def open(
        port: int, heartbeat: int = 60, tls: ssl.SSLContext | None = None
    ) -> StreamClient:
        """A connection to the virtual host /, with channel 1."""
        client = await StreamClient.connect(port, tls=tls)
        start_ok = encode_start_ok(b"PLAIN", plain("guest", "guest"), ALL_CAPABILITIES)
        client.send(
            PROTOCOL_HEADER,
            encode_frame(METHOD, 0, start_ok),
            tune_ok(heartbeat=heartbeat),
            method(0, commands.Connection.Open("/")),
            method(1, commands.Channel.Open()),
        )
        for expected in (
            commands.Connection.Start,
            commands.Connection.Tune,
            commands.Connection.OpenOk,
            commands.Channel.OpenOk,
        ):
            await client.expect(expected)
        return client

    def send(self, *pieces: bytes) -> None:
        """Send octets."""
        self.writer.write(b"".join(pieces))

    async def next_frame(self) -> ReceivedFrame:
        """The next frame.

        Raises:
            EOFError: the broker has closed the socket.
            TimeoutError: nothing came.
        """
        while not self._frames:
            data = await asyncio.wait_for(self.reader.read(65536), PATIENCE_S)
            if not data:
                raise EOFError
            self._frames, self._rest = cut(self._rest + data)
        return self._frames.pop(0)

    async def expect(self, expected: type[MethodT]) -> MethodT:
        """The next frame, which is this method."""
        found = (await self.next_frame()).method
        assert isinstance(found, expected), f"expected {expected.__name__}: {found}"
        return found

    async def call(self, sent: base.Frame, expected: type[MethodT]) -> MethodT:
        """Send a method on channel 1 and return the answer."""
        self.send(method(1, sent))
        return await self.expect(expected)

    async def deliveries(self, count: int) -> list[bytes]:
        """The bodies of the next deliveries, none of them empty."""
        bodies: list[bytes] = []
        while len(bodies) < count:
            await self.expect(commands.Basic.Deliver)
            size = int.from_bytes((await self.next_frame()).payload[4:12], "big")
            body = b""
            while len(body) < size:
                body += (await self.next_frame()).payload
            bodies.append(body)
        return bodies

    async def is_at_end(self) -> bool:
        """Whether the broker closes the socket without another frame."""
        try:
            await self.next_frame()
        except (EOFError, ConnectionError):
            return True
        return False

    async def close(self) -> None:
        """Drop the socket."""
        self.writer.close()
        try:
            await self.writer.wait_closed()
        except ConnectionError:
            pass
