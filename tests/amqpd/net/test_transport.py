"""A client's socket: when it is read, what is written, when it is dropped."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from pamqp import commands

from amqpd.broker.alarms import ResourceLimit
from amqpd.broker.errors import ConnectionForced
from amqpd.clock import Clock
from amqpd.net import resources as resources_module
from amqpd.net.resources import LOOK_MS, NEAR_SIZE, ResourceWatch
from amqpd.net.ticker import Ticker
from amqpd.net.transport import (
    CAREFUL_READ_SIZE,
    ENCRYPTED_READ_SIZE,
    LINGER_MS,
    PIECES_MAX,
    READ_SIZE,
    SHORT_READ_SIZE,
    ClientTransport,
    EncryptedClientTransport,
)
from amqpd.protocol.connection import UNITS_PER_TURN, Connection
from amqpd.protocol.control import ConnectionOptions
from amqpd.protocol.output import PIECE_SIZE_MIN, Output
from tests.support.connection_pair import HANDSHAKE, Bench, cut, method, tune_ok
from tests.support.raw_client import (
    ALL_CAPABILITIES,
    METHOD,
    PROTOCOL_HEADER,
    encode_frame,
    encode_start_ok,
    plain,
)

QOS = method(1, commands.Basic.Qos())


class NotingTransport(asyncio.Transport):
    """Asyncio's end of a socket, whose kernel takes what the test lets it take."""

    def __init__(self, peer: tuple[str, int] | None) -> None:
        super().__init__()
        self.written = b""
        self.in_buffer = 0
        self.max_size = 0
        self.limits: tuple[int | None, int | None] = (None, None)
        self.is_reading_now = True
        self.is_closed = False
        self.is_aborted = False
        self.socket = socket.socket()
        self._peer = peer

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return {
            "socket": self.socket,
            "peername": self._peer,
            "sockname": ("127.0.0.1", 5672),
        }.get(name, default)

    def set_write_buffer_limits(
        self, high: int | None = None, low: int | None = None
    ) -> None:
        self.limits = (high, low)

    def get_write_buffer_size(self) -> int:
        return self.in_buffer

    def write(self, data: bytes | bytearray | memoryview[Any]) -> None:
        self.written += data

    def pause_reading(self) -> None:
        assert self.is_reading_now
        self.is_reading_now = False

    def resume_reading(self) -> None:
        assert not self.is_reading_now
        self.is_reading_now = True

    def is_closing(self) -> bool:
        return self.is_closed or self.is_aborted

    def close(self) -> None:
        self.is_closed = True

    def abort(self) -> None:
        self.is_aborted = True


class Socket:
    """A client transport on a noting transport, fed and flushed by hand."""

    def __init__(
        self,
        bench: Bench,
        ticker: Ticker,
        peer: tuple[str, int] | None = ("127.0.0.1", 1234),
    ) -> None:
        self.members: set[ClientTransport] = set()
        self.ticker = ticker
        self.transport = NotingTransport(peer)
        self._bench = bench
        self.client = ClientTransport(ticker, self.make_connection, self.members)

    def make_connection(
        self, output: Output, name: str, is_loopback: bool, now_ms: int
    ) -> Connection:
        return Connection(
            self._bench.broker,
            ConnectionOptions(HANDSHAKE),
            output,
            self.ticker.pending,
            name,
            is_loopback,
            now_ms,
        )

    @property
    def connection(self) -> Connection:
        connection = self.client.connection
        assert connection is not None
        return connection

    def open(self) -> None:
        """Accept, log in, open channel 1."""
        self.client.connection_made(self.transport)
        start_ok = encode_start_ok(b"PLAIN", plain("guest", "guest"), ALL_CAPABILITIES)
        self.receive(
            PROTOCOL_HEADER,
            encode_frame(METHOD, 0, start_ok),
            tune_ok(),
            method(0, commands.Connection.Open("/")),
            method(1, commands.Channel.Open()),
        )
        self.names()

    def receive(self, *pieces: bytes) -> None:
        """Something was read from the socket."""
        self.client.data_received(b"".join(pieces))

    def flush(self) -> None:
        """Write as the ticker does it."""
        self.ticker.outputs.take_dirty()
        self.client.flush()

    def names(self) -> list[str]:
        """Flush; the methods that were written."""
        self.flush()
        frames, _ = cut(self.transport.written)
        self.transport.written = b""
        return [frame.method.name for frame in frames]


@pytest.fixture
async def ticker(bench: Bench) -> AsyncIterator[Ticker]:
    loop = asyncio.get_running_loop()
    fatal: list[BaseException] = []
    ticker = Ticker(bench.broker, Clock(), loop, 3600.0, fatal.append)
    yield ticker
    ticker.close()
    assert fatal == []


@pytest.fixture
async def opened(bench: Bench, ticker: Ticker) -> AsyncIterator[Socket]:
    opened = Socket(bench, ticker)
    opened.open()
    yield opened
    opened.client.connection_lost(None)
    opened.transport.socket.close()


async def test_an_accepted_socket_is_kept_alive_and_named(opened: Socket) -> None:
    assert opened.connection.name == "127.0.0.1:1234 -> 127.0.0.1:5672"
    accepted = opened.transport.socket
    assert accepted.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
    assert opened.members == {opened.client}
    assert opened.transport.limits == (128 * 1024, 32 * 1024)


@pytest.mark.parametrize(
    ("peer", "name"),
    [
        (("::1", 7, 0, 0), "[::1]:7"),
        (("10.0.0.1", 7), "10.0.0.1:7"),
        (None, "unknown"),
    ],
)
async def test_peers_have_the_names_that_rabbitmq_gives_them(
    bench: Bench, ticker: Ticker, peer: tuple[str, int] | None, name: str
) -> None:
    accepted = Socket(bench, ticker, peer)
    accepted.client.connection_made(accepted.transport)
    assert accepted.connection.name == f"{name} -> 127.0.0.1:5672"
    accepted.client.connection_lost(None)
    accepted.transport.socket.close()


async def test_what_is_read_is_answered_with_the_flush(opened: Socket) -> None:
    opened.receive(QOS)
    assert opened.transport.written == b""
    assert opened.names() == ["Basic.QosOk"]


async def test_a_socket_with_a_backlog_is_not_read(opened: Socket) -> None:
    opened.receive(QOS * (UNITS_PER_TURN + 1))
    assert not opened.transport.is_reading_now
    assert opened.ticker.paused == {opened.client}
    opened.connection.advance(0)
    opened.client.regulate_reading()
    assert opened.transport.is_reading_now
    assert opened.ticker.paused == set()
    opened.client.regulate_reading()
    assert opened.transport.is_reading_now


async def test_no_socket_is_read_while_the_disk_is_behind(opened: Socket) -> None:
    opened.ticker.disk.is_behind = True
    opened.receive(QOS)
    assert not opened.transport.is_reading_now
    opened.ticker.disk.is_behind = False
    opened.client.regulate_reading()
    assert opened.transport.is_reading_now


async def test_little_is_read_at_a_time_while_memory_is_short(
    bench: Bench, opened: Socket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    used = 100 << 20
    monkeypatch.setattr(resources_module, "resident_size", lambda: used)
    resources = opened.ticker.resources = ResourceWatch(bench.broker, tmp_path)
    resources.on_shortage = opened.client.fit_reads
    bench.broker.alarms.memory_total = 1 << 40
    resources.look(0)
    assert opened.transport.max_size == READ_SIZE
    assert opened.ticker.accepted_count == 1
    bench.broker.alarms.set_memory_watermark(ResourceLimit(0))
    resources.look(LOOK_MS)
    assert opened.transport.max_size == SHORT_READ_SIZE
    late = Socket(bench, opened.ticker)
    late.open()
    assert late.transport.max_size == SHORT_READ_SIZE
    buffer = memoryview(bytearray(ENCRYPTED_READ_SIZE))
    encrypted = EncryptedClientTransport(
        opened.ticker, late.make_connection, late.members, buffer
    )
    assert len(encrypted.get_buffer(-1)) == SHORT_READ_SIZE
    bench.broker.alarms.set_memory_watermark(ResourceLimit(used + NEAR_SIZE // 2))
    resources.look(2 * LOOK_MS)
    assert opened.transport.max_size == CAREFUL_READ_SIZE
    assert len(encrypted.get_buffer(-1)) == CAREFUL_READ_SIZE
    bench.broker.alarms.set_memory_watermark(ResourceLimit(1 << 60))
    resources.look(3 * LOOK_MS)
    assert len(encrypted.get_buffer(-1)) == ENCRYPTED_READ_SIZE
    assert opened.transport.max_size == READ_SIZE
    late.client.connection_lost(None)
    late.transport.socket.close()


def frames_with_large_contents(opened: Socket, count: int) -> bytes:
    """Have contents written that are not pasted; what is to leave."""
    output, expected = opened.connection.output, b""
    for number in range(count):
        content = bytes([number % 256]) * (PIECE_SIZE_MIN + number)
        output.writer().write(b"%d" % number)
        output.insert(content)
        expected += b"%d" % number + content
    output.writer().write(b"end")
    return expected + b"end"


@pytest.fixture
def ends(opened: Socket) -> Iterator[tuple[socket.socket, socket.socket]]:
    """Ours and the other end of a socket that the kernel knows."""
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    before = opened.transport.socket
    opened.transport.socket = ours
    yield ours, theirs
    opened.transport.socket = before
    ours.close()
    theirs.close()


async def test_large_contents_leave_as_they_are_in_one_system_call(
    opened: Socket, ends: tuple[socket.socket, socket.socket]
) -> None:
    expected = frames_with_large_contents(opened, 3)
    opened.flush()
    assert ends[1].recv(1 << 20) == expected
    assert opened.transport.written == b""
    assert opened.connection.output.sent >= len(expected)


async def test_what_the_kernel_does_not_take_of_them_is_left_to_asyncio(
    opened: Socket, ends: tuple[socket.socket, socket.socket]
) -> None:
    # More pieces than one system call may have, and more than the kernel keeps.
    expected = frames_with_large_contents(opened, PIECES_MAX)
    opened.flush()
    assert opened.transport.written
    taken = ends[1].recv(len(expected))
    assert taken
    assert taken + opened.transport.written == expected


async def test_nothing_is_written_past_what_asyncio_still_has(
    opened: Socket, ends: tuple[socket.socket, socket.socket]
) -> None:
    expected = frames_with_large_contents(opened, 3)
    opened.transport.in_buffer = 1
    opened.flush()
    assert opened.transport.written == expected
    assert opened.connection.output.in_transport == 1


async def test_nothing_is_written_behind_what_an_end_has_cut_off(
    opened: Socket, ends: tuple[socket.socket, socket.socket]
) -> None:
    frames_with_large_contents(opened, 3)
    opened.transport.abort()
    opened.flush()
    ends[0].shutdown(socket.SHUT_WR)
    assert ends[1].recv(1) == b""


async def test_a_socket_that_is_gone_is_asyncios_to_find_out(
    opened: Socket, ends: tuple[socket.socket, socket.socket]
) -> None:
    expected = frames_with_large_contents(opened, 3)
    ends[0].close()
    opened.flush()
    assert opened.transport.written == expected


async def test_a_client_that_is_not_read_is_not_missed(opened: Socket) -> None:
    opened.ticker.disk.is_behind = True
    opened.receive(QOS)
    now_ms = opened.ticker.now_ms()
    for step in range(1, 5):
        opened.client.on_time(now_ms + step * 60_000)
    assert not opened.connection.control.is_closed
    opened.ticker.disk.is_behind = False
    opened.client.regulate_reading()
    for step in range(5, 9):
        opened.client.on_time(now_ms + step * 60_000)
    assert opened.connection.control.is_closed


async def test_nothing_is_written_while_the_kernel_takes_nothing(
    opened: Socket,
) -> None:
    opened.client.pause_writing()
    opened.transport.in_buffer = 200_000
    opened.receive(QOS)
    assert opened.names() == []
    opened.transport.in_buffer = 10_000
    opened.client.resume_writing()
    assert opened.connection.output.in_transport == 10_000
    assert opened.ticker.outputs.has_work()
    assert opened.names() == ["Basic.QosOk"]


async def test_what_the_transport_holds_counts_for_the_marks(opened: Socket) -> None:
    opened.transport.in_buffer = 123_456
    opened.receive(QOS)
    opened.client.flush()
    assert opened.connection.output.in_transport == 123_456


async def test_a_closed_connection_is_closed_once_all_is_written(
    opened: Socket,
) -> None:
    opened.receive(method(0, commands.Connection.Close(200, "bye", 0, 0)))
    assert not opened.transport.is_closed
    assert opened.names() == ["Connection.CloseOk"]
    assert opened.transport.is_closed
    # A transport that is closing is neither read nor paused any more.
    opened.client.regulate_reading()
    assert opened.transport.is_reading_now


async def test_a_large_rest_is_written_before_the_socket_is_closed(
    opened: Socket,
) -> None:
    opened.connection.output.send_body(1, bytes(600_000))
    opened.receive(method(0, commands.Connection.Close(200, "bye", 0, 0)))
    opened.flush()
    assert not opened.transport.is_closed
    while opened.ticker.outputs.has_work():
        opened.flush()
    assert opened.transport.is_closed
    frames, _ = cut(opened.transport.written)
    assert frames[-1].method.name == "Connection.CloseOk"


async def test_our_close_is_written_with_the_next_turn(opened: Socket) -> None:
    opened.client.close(ConnectionForced("over"))
    assert opened.names() == ["Connection.Close"]
    assert not opened.transport.is_closed


async def test_a_closed_client_that_does_not_read_is_dropped_after_a_while(
    opened: Socket,
) -> None:
    opened.client.pause_writing()
    opened.receive(method(0, commands.Connection.Close(200, "bye", 0, 0)))
    now_ms = opened.ticker.now_ms()
    opened.client.on_time(now_ms)
    opened.client.on_time(now_ms + LINGER_MS - 1)
    assert not opened.transport.is_aborted
    opened.client.on_time(now_ms + LINGER_MS)
    assert opened.transport.is_aborted


async def test_a_client_that_ran_out_of_time_is_closed_with_the_next_flush(
    opened: Socket,
) -> None:
    now_ms = opened.ticker.now_ms()
    for step in range(1, 4):
        opened.client.on_time(now_ms + step * 60_000)
    assert opened.ticker.outputs.has_work()
    opened.flush()
    assert opened.transport.is_closed


async def test_time_alone_does_nothing_to_a_running_connection(
    opened: Socket,
) -> None:
    opened.client.on_time(opened.ticker.now_ms())
    assert not opened.transport.is_closing()


@pytest.mark.parametrize("error", [None, ConnectionResetError("reset by peer")])
async def test_a_lost_socket_cleans_up(
    bench: Bench, ticker: Ticker, error: Exception | None
) -> None:
    lost = Socket(bench, ticker)
    lost.open()
    connection = lost.connection
    lost.ticker.disk.is_behind = True
    lost.receive(QOS)
    assert ticker.paused == {lost.client}
    lost.client.connection_lost(error)
    assert lost.members == set()
    assert ticker.paused == set()
    assert connection.control.is_closed
    reason = "client unexpectedly closed TCP connection"
    if error is not None:
        reason += ": reset by peer"
    assert connection.control.reason == reason
    lost.transport.socket.close()


async def test_what_comes_after_the_loss_is_harmless(
    bench: Bench, ticker: Ticker
) -> None:
    lost = Socket(bench, ticker)
    lost.client.abort()
    lost.client.close(ConnectionForced("over"))
    lost.open()
    lost.client.abort()
    assert lost.transport.is_aborted
    lost.client.connection_lost(None)
    lost.client.flush()
    lost.client.on_time(0)
    lost.client.resume_writing()
    lost.client.regulate_reading()
    lost.client.close(ConnectionForced("over"))
    lost.client.abort()
    assert lost.transport.written == b""
    lost.transport.socket.close()


async def test_a_client_is_logged_with_its_first_octets_and_once(
    bench: Bench, ticker: Ticker, caplog: pytest.LogCaptureFixture
) -> None:
    stranger = Socket(bench, ticker)
    with caplog.at_level("INFO", "amqpd.connection"):
        stranger.client.connection_made(stranger.transport)
        assert caplog.messages == []
        stranger.receive(PROTOCOL_HEADER[:4])
        stranger.receive(PROTOCOL_HEADER[4:])
        name = stranger.connection.name
        assert caplog.messages == [f"connection {name}: accepted"]
        stranger.client.connection_lost(None)
    stranger.transport.socket.close()


@pytest.mark.parametrize(
    ("said", "level"), [("nothing", "DEBUG"), ("close", "INFO"), ("all", "WARNING")]
)
async def test_the_end_is_logged_as_loudly_as_it_deserves(
    bench: Bench,
    ticker: Ticker,
    caplog: pytest.LogCaptureFixture,
    said: str,
    level: str,
) -> None:
    ended = Socket(bench, ticker)
    if said == "nothing":
        ended.client.connection_made(ended.transport)
    else:
        ended.open()
    if said == "close":
        ended.receive(method(0, commands.Connection.Close(200, "bye", 0, 0)))
    with caplog.at_level("DEBUG", "amqpd.connection"):
        ended.client.connection_lost(None)
    assert [record.levelname for record in caplog.records] == [level]
    ended.transport.socket.close()
