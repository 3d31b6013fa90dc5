"""A client's socket: bytes from the kernel to the connection, and back.

A read brings all there is, up to `READ_SIZE`, and no buffer is kept for the next. What
is written leaves in one system call, in pieces if it has large ones. A socket is not
read while its connection has something left to process, while its client does not read
what it is sent, or while the disk is far behind.
"""

import asyncio
import logging
import os
import socket
from collections.abc import Callable
from ipaddress import ip_address
from typing import Final, cast

from amqpd.broker.errors import AmqpError
from amqpd.net.peer_names import connection_name
from amqpd.net.ticker import Ticker
from amqpd.net.tls_protocol import tls_peer
from amqpd.protocol.connection import Connection
from amqpd.protocol.output import Output

logger = logging.getLogger("amqpd.connection")

# Above this many octets that the kernel has not taken, we stop writing. It is less
# than `output.CONSUMERS_MARK`, so whoever waits for room is woken when writing resumes.
WRITE_BUFFER_SIZE_MAX: Final = 128 * 1024
WRITE_BUFFER_SIZE_LOW: Final = 32 * 1024

# One read brings at most so much. Delivered to one consumer that fits below
# `output.BURST_MARK` (a delivery is up to a fifth longer than its publish): else each
# read is two writes, the second of them short. A third of it, and a client on the same
# machine is woken three times as often, at our expense: 0.65 CPU-seconds per million
# messages of 1 KiB instead of 0.35.
READ_SIZE: Final = 640 * 1024
# With TLS, which keeps a buffer as large as its largest read: what `CONSUMERS_MARK` has
# room for.
ENCRYPTED_READ_SIZE: Final = 208 * 1024
# While memory is nearly short: a hundred publishers are read before anybody looks.
CAREFUL_READ_SIZE: Final = 64 * 1024
# While memory is short each read is parked, of every connection at least one.
SHORT_READ_SIZE: Final = 16 * 1024

# What a client has not read so long after the end it does not get any more.
LINGER_MS: Final = 3_000

# Linux refuses more pieces than this in one writev (IOV_MAX).
PIECES_MAX: Final = 1024

ConnectionFactory = Callable[[Output, str, bool, int], Connection]


class ClientTransport(asyncio.Protocol):
    """One accepted socket."""

    def __init__(
        self,
        ticker: Ticker,
        make_connection: ConnectionFactory,
        members: "set[ClientTransport]",
    ) -> None:
        self._ticker = ticker
        ticker.accepted_count += 1
        self._make_connection = make_connection
        self._members = members
        self._transport: asyncio.Transport | None = None
        self._is_encrypted = False
        self._is_reading = True
        self._is_write_paused = False
        # When a sweep first found the connection closed; 0: it runs.
        self._closed_ms = 0
        self.connection: Connection | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A client was accepted."""
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(
            high=WRITE_BUFFER_SIZE_MAX, low=WRITE_BUFFER_SIZE_LOW
        )
        accepted: socket.socket = transport.get_extra_info("socket")
        resources = self._ticker.resources
        if resources is not None and not resources.admits(
            accepted.fileno(), self._ticker.now_ms()
        ):
            self._transport.abort()
            return
        accepted.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        peer = transport.get_extra_info("peername")
        output = Output(self._ticker.outputs)
        output.sink = self
        is_loopback = peer is not None and ip_address(peer[0]).is_loopback
        self.connection = self._make_connection(
            output, connection_name(transport), is_loopback, self._ticker.now_ms()
        )
        secured = transport.get_extra_info("ssl_object")
        if secured is not None:
            self._is_encrypted = True
            output.has_bursts = False
            self.connection.control.handshake.tls_peer = tls_peer(secured)
        self._members.add(self)
        self.fit_reads()

    @property
    def read_size(self) -> int:
        """How much the next read may bring."""
        resources = self._ticker.resources
        if resources is not None and resources.is_memory_short:
            return SHORT_READ_SIZE
        if resources is not None and resources.is_memory_nearly_short:
            return CAREFUL_READ_SIZE
        return ENCRYPTED_READ_SIZE if self._is_encrypted else READ_SIZE

    def fit_reads(self) -> None:
        """There is more memory than before, or less."""
        if self._transport is not None:
            # asyncio's own, of which 256 KiB is only what it begins with.
            self._transport.max_size = self.read_size  # type: ignore[attr-defined]

    def data_received(self, data: bytes) -> None:
        """Something was read."""
        connection = self.connection
        if connection is None:
            return
        if not connection.bytes_in:
            # Not before: who says nothing only looks whether somebody is there.
            name = connection.name
            logger.info("connection %s: accepted", name, extra={"connection": name})
        connection.receive_data(data, self._ticker.now_ms())
        self.regulate_reading()
        self._ticker.wake()

    def regulate_reading(self) -> None:
        """Read the socket, or do not, as the connection's state wants it."""
        connection, transport = self.connection, self._transport
        if connection is None or transport is None or transport.is_closing():
            return
        wanted = connection.may_read() and not self._ticker.is_disk_behind
        if wanted == self._is_reading:
            return
        self._is_reading = wanted
        if wanted:
            self._ticker.paused.discard(self)
            transport.resume_reading()
            connection.control.watch_again(self._ticker.now_ms())
        else:
            transport.pause_reading()
            connection.control.stop_watching()
            self._ticker.paused.add(self)

    def flush(self) -> None:
        """Write what the connection has to say this turn."""
        connection, transport = self.connection, self._transport
        if connection is None or transport is None:
            return
        output = connection.output
        if self._is_write_paused:
            return
        pieces = output.take()
        if pieces:
            self._write(transport, pieces)
            output.in_transport = transport.get_write_buffer_size()
        output.wake_consumers()
        if connection.control.is_closed and not output.is_dirty:
            transport.close()

    def _write(self, transport: asyncio.Transport, pieces: list[bytes]) -> None:
        """Write pieces; what the kernel takes at once is not put together first."""
        if len(pieces) > 1 and not (
            self._is_encrypted
            or transport.is_closing()
            or transport.get_write_buffer_size()
        ):
            accepted: socket.socket = transport.get_extra_info("socket")
            pieces = write_at_once(accepted.fileno(), pieces)
        if pieces:
            transport.write(pieces[0] if len(pieces) == 1 else b"".join(pieces))

    def pause_writing(self) -> None:
        """The kernel takes no more for now."""
        self._is_write_paused = True

    def resume_writing(self) -> None:
        """The kernel has taken nearly everything."""
        self._is_write_paused = False
        connection, transport = self.connection, self._transport
        if connection is None or transport is None:
            return
        connection.output.in_transport = transport.get_write_buffer_size()
        connection.output.writer()
        connection.output.wake_consumers()
        self.regulate_reading()
        self._ticker.wake()

    def on_time(self, now_ms: int) -> None:
        """Deadlines and heartbeats."""
        connection, transport = self.connection, self._transport
        if connection is None or transport is None:
            return
        connection.on_time(now_ms)
        if not connection.control.is_closed:
            return
        if not self._closed_ms:
            self._closed_ms = now_ms
        if now_ms - self._closed_ms >= LINGER_MS:
            transport.abort()
        else:
            connection.output.writer()
            self._ticker.wake()

    def close(self, error: AmqpError) -> None:
        """End the connection and tell the client why."""
        if self.connection is not None:
            self.connection.close(error, self._ticker.now_ms())
            self._ticker.wake()

    def abort(self) -> None:
        """Drop the socket."""
        if self._transport is not None:
            self._transport.abort()

    def connection_lost(self, error: Exception | None) -> None:
        """The socket is gone."""
        self._members.discard(self)
        self._ticker.paused.discard(self)
        connection = self.connection
        if connection is None:
            # It was turned away.
            return
        reason = "client unexpectedly closed TCP connection"
        if error is not None:
            reason = f"{reason}: {error}"
        connection.lose_socket(reason)
        level = logging.INFO if connection.control.is_orderly else logging.WARNING
        if not connection.bytes_in:
            # A load balancer that looks whether somebody is there.
            level = logging.DEBUG
        logger.log(
            level,
            "connection %s: closed: %s",
            connection.name,
            connection.control.reason,
            extra={"connection": connection.name},
        )
        self.connection = None
        self._transport = None
        self._ticker.wake()


class EncryptedClientTransport(ClientTransport, asyncio.BufferedProtocol):
    """One accepted socket, behind TLS.

    What was deciphered comes in records of 16 KiB. So that each read is one piece all
    sockets have one buffer, from which it is copied.
    """

    def __init__(
        self,
        ticker: Ticker,
        make_connection: ConnectionFactory,
        members: set[ClientTransport],
        buffer: memoryview,
    ) -> None:
        super().__init__(ticker, make_connection, members)
        self._buffer = buffer

    def get_buffer(self, sizehint: int) -> memoryview:
        """Where the next read goes."""
        return self._buffer[: self.read_size]

    def buffer_updated(self, nbytes: int) -> None:
        """Something was read."""
        self.data_received(bytes(self._buffer[:nbytes]))


def write_at_once(descriptor: int, pieces: list[bytes]) -> list[bytes]:
    """Write to a socket what it takes now; return what is left."""
    try:
        taken = os.writev(descriptor, pieces[:PIECES_MAX])
    except OSError:
        # It is full; or gone, which whoever writes the rest finds out.
        return pieces
    for at, piece in enumerate(pieces):
        if taken < len(piece):
            return [piece[taken:], *pieces[at + 1 :]]
        taken -= len(piece)
    return []
