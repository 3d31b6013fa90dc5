r"""An AMQP client that sends whatever a test wants: the peer of every rule we enforce.

Ordinary clients refuse to send what a broker must refuse to take. This one is a socket,
a frame cutter and pamqp for the methods; it has no state of its own about channels, so
that it never stands in the way of a wrong frame. Everything is synchronous and has a
timeout: a broker that does not answer fails the test instead of hanging it.

    client.send_method(1, commands.Queue.Purge("nowhere"))     what pamqp can build
    client.send_frame(METHOD, 1, b"\x00\x32...")               any frame
    client.send_bytes(b"AMQP\x01")                             any bytes
    client.expect_method(1, commands.Queue.PurgeOk)            the next frame, typed
    client.expect_close(0)                                     code, text, class, method

It knows nothing about which answer is right: that is what the tests say.
"""

from __future__ import annotations

import socket
import ssl
import struct
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Final, Self, TypeVar
from urllib.parse import unquote, urlsplit

from pamqp import base, commands, frame

METHOD: Final = 1
HEADER: Final = 2
BODY: Final = 3
HEARTBEAT: Final = 8
FRAME_END: Final = b"\xce"
PROTOCOL_HEADER: Final = b"AMQP\x00\x00\x09\x01"
HEARTBEAT_FRAME: Final = b"\x08\x00\x00\x00\x00\x00\x00\xce"
TIMEOUT_S: Final = 15.0
#: How long a broker keeps silent before it drops a peer that it does not trust.
SILENT_CLOSE_S: Final = 3.0

MethodT = TypeVar("MethodT", bound=base.Frame)


@dataclass(frozen=True)
class ReceivedFrame:
    """One frame as it came: the payload is untouched, decoded only on request."""

    kind: int
    channel: int
    payload: bytes

    @property
    def method(self) -> base.Frame:
        """The method this frame carries.

        Raises:
            AssertionError: it is no method frame.
        """
        assert self.kind == METHOD, f"expected a method frame, got {self}"
        decoded = frame.unmarshal(encode_frame(self.kind, self.channel, self.payload))
        assert isinstance(decoded[2], base.Frame)
        return decoded[2]


@dataclass(frozen=True)
class Closed:
    """What a connection.close or channel.close said; `level` is who closed."""

    level: str
    code: int
    text: str
    class_id: int
    method_id: int


@dataclass(frozen=True)
class Message:
    """A content-bearing method with its content, properties as raw bytes.

    `properties` begins with the property flags: exactly what follows the body size.
    """

    method: base.Frame
    properties: bytes
    body: bytes


@dataclass(frozen=True)
class Endpoint:
    """Where a broker listens and who may log in."""

    host: str
    port: int
    user: str
    password: str
    vhost: str

    @classmethod
    def from_url(cls, url: str) -> Endpoint:
        """Return the endpoint an amqp:// URL names; an absent vhost means `/`."""
        parts = urlsplit(url)
        return cls(
            parts.hostname or "127.0.0.1",
            parts.port or 5672,
            unquote(parts.username or "guest"),
            unquote(parts.password or "guest"),
            unquote(parts.path[1:]) or "/",
        )


def encode_frame(kind: int, channel: int, payload: bytes) -> bytes:
    """Return the bytes of one frame."""
    return struct.pack(">BHI", kind, channel, len(payload)) + payload + FRAME_END


def encode_method(channel: int, method: base.Frame) -> bytes:
    """Return the frame that carries `method`."""
    return frame.marshal(method, channel)


def encode_header(body_size: int, properties: bytes = b"\x00\x00") -> bytes:
    """Return the payload of a basic content header with raw property bytes."""
    return struct.pack(">HHQ", 60, 0, body_size) + properties


def shortstr(value: bytes) -> bytes:
    """Return a short string: one octet of length, then the bytes."""
    return bytes([len(value)]) + value


def longstr(value: bytes) -> bytes:
    """Return a long string (or a table's body): four octets of length, then it."""
    return struct.pack(">I", len(value)) + value


def plain(user: str, password: str) -> bytes:
    """Return the SASL PLAIN response."""
    return f"\x00{user}\x00{password}".encode()


def encode_start_ok(
    mechanism: bytes, response: bytes, client_properties: bytes = b""
) -> bytes:
    """Return the payload of connection.start-ok built from raw parts.

    pamqp encodes the SASL response as text; AMQPLAIN and malformed responses are bytes.
    """
    return (
        struct.pack(">HH", 10, 11)
        + longstr(client_properties)
        + shortstr(mechanism)
        + longstr(response)
        + shortstr(b"en_US")
    )


def channel_closed(code: int, text: str, class_id: int, method_id: int) -> Closed:
    """Return the expectation that the channel is closed so."""
    return Closed("channel", code, text, class_id, method_id)


def connection_closed(
    code: int, text: str, class_id: int = 0, method_id: int = 0
) -> Closed:
    """Return the expectation that the connection is closed so."""
    return Closed("connection", code, text, class_id, method_id)


#: client-properties whose capabilities switch all server notifications on.
ALL_CAPABILITIES: Final = (
    shortstr(b"capabilities")
    + b"F"
    + longstr(
        b"".join(
            shortstr(name) + b"t\x01"
            for name in (
                b"authentication_failure_close",
                b"basic.nack",
                b"connection.blocked",
                b"consumer_cancel_notify",
                b"publisher_confirms",
            )
        )
    )
)


class RawClient:
    """A socket to a broker; see the module's docstring."""

    def __init__(
        self,
        endpoint: Endpoint,
        timeout_s: float = TIMEOUT_S,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.endpoint = endpoint
        plain = socket.create_connection((endpoint.host, endpoint.port), timeout_s)
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket = plain
        if tls is not None:
            self._socket = tls.wrap_socket(plain, server_hostname="localhost")
        self._buffer = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.disconnect()

    # -- sending ----------------------------------------------------------------

    def send_bytes(self, data: bytes) -> None:
        """Send anything."""
        self._socket.sendall(data)

    def send_frame(self, kind: int, channel: int, payload: bytes) -> None:
        """Send one well-formed frame with any content."""
        self.send_bytes(encode_frame(kind, channel, payload))

    def send_method(self, channel: int, method: base.Frame) -> None:
        """Send one method frame."""
        self.send_bytes(encode_method(channel, method))

    def publish(
        self,
        channel: int,
        method: commands.Basic.Publish,
        body: bytes = b"",
        properties: bytes = b"\x00\x00",
    ) -> None:
        """Send a whole message in one write; the body in one frame, none if empty."""
        data = encode_method(channel, method)
        data += encode_frame(HEADER, channel, encode_header(len(body), properties))
        if body:
            data += encode_frame(BODY, channel, body)
        self.send_bytes(data)

    def disconnect(self) -> None:
        """Close the socket without a word; does nothing when it is closed already."""
        self._socket.close()

    # -- receiving --------------------------------------------------------------

    def set_timeout(self, timeout_s: float) -> None:
        """Wait at most this long for each read from now on."""
        self._socket.settimeout(timeout_s)

    def read_exactly(self, size: int) -> bytes:
        """Return the next `size` bytes.

        Raises:
            EOFError: the broker closed the socket first.
            TimeoutError: nothing came in time.
        """
        while len(self._buffer) < size:
            try:
                data = self._socket.recv(65536)
            except ConnectionResetError:
                data = b""
            if not data:
                raise EOFError(f"closed by the broker after {self._buffer!r}")
            self._buffer += data
        taken, self._buffer = self._buffer[:size], self._buffer[size:]
        return taken

    def receive_frame(self) -> ReceivedFrame:
        """Return the next frame, heartbeats included."""
        kind, channel, size = struct.unpack(">BHI", self.read_exactly(7))
        payload = self.read_exactly(size)
        end = self.read_exactly(1)
        assert end == FRAME_END, f"frame ends with {end!r}"
        return ReceivedFrame(kind, channel, payload)

    def next_frame(self) -> ReceivedFrame:
        """Return the next frame that is not a heartbeat."""
        received = self.receive_frame()
        while received.kind == HEARTBEAT:
            received = self.receive_frame()
        return received

    def expect_method(self, channel: int, kind: type[MethodT]) -> MethodT:
        """Return the next method; fail when it is another one or elsewhere."""
        received = self.next_frame()
        method = received.method
        assert isinstance(method, kind), f"expected {kind.name}, got {dict(method)}"
        assert received.channel == channel
        return method

    def expect_message(self, channel: int, kind: type[MethodT]) -> Message:
        """Return the next message; fail when something else comes."""
        return self.content_of(channel, self.expect_method(channel, kind))

    def content_of(self, channel: int, method: base.Frame) -> Message:
        """Return the message whose method has come; its content must be next."""
        header = self.next_frame()
        assert header.kind == HEADER and header.channel == channel
        class_id, weight, size = struct.unpack(">HHQ", header.payload[:12])
        assert (class_id, weight) == (60, 0)
        body = b""
        while len(body) < size:
            part = self.next_frame()
            assert part.kind == BODY and part.channel == channel
            body += part.payload
        return Message(method, header.payload[12:], body)

    def expect_close(self, channel: int) -> Closed:
        """Return what closed the channel, or the connection when `channel` is 0.

        The close is answered as a well-behaved client does. Anything but a close on
        that channel fails the test, so the level is asserted by asking for it.
        """
        received = self.next_frame()
        method = received.method
        assert received.channel == channel, (
            f"expected a close on {channel}: {received.channel} {dict(method)}"
        )
        if isinstance(method, commands.Connection.Close):
            level = "connection"
            self.send_method(0, commands.Connection.CloseOk())
        else:
            assert isinstance(method, commands.Channel.Close), dict(method)
            level = "channel"
            self.send_method(channel, commands.Channel.CloseOk())
        return Closed(
            level,
            method.reply_code or 0,
            method.reply_text,
            method.class_id or 0,
            method.method_id or 0,
        )

    def expect_refusal(
        self, expected: Closed, channel: int = 1, await_end: bool = True
    ) -> None:
        """Fail unless the broker closes what `expected` says, and nothing else.

        A text that ends in `...` is a beginning. After a channel-level close the
        channel is opened again, after the others the socket must end, for which
        `await_end` may be switched off: after a framing error that takes seconds.
        """
        if expected.level == "socket":
            self.set_timeout(SILENT_CLOSE_S + TIMEOUT_S)
            self.expect_end()
            return
        closed = self.expect_close(channel if expected.level == "channel" else 0)
        if expected.text.endswith("..."):
            assert closed.text.startswith(expected.text[:-3]), closed
            expected = replace(expected, text=closed.text)
        assert closed == expected
        if expected.level == "channel":
            self.open_channel(channel)
        elif await_end:
            self.expect_end()

    def expect_end(self) -> None:
        """Fail unless the broker closes the socket without another frame."""
        try:
            received = self.next_frame()
        except EOFError:
            return
        raise AssertionError(f"expected the end of the stream, got {received}")

    # -- the polite way in and out ----------------------------------------------

    def start(self) -> commands.Connection.Start:
        """Send the protocol header and return the broker's connection.start."""
        self.send_bytes(PROTOCOL_HEADER)
        return self.expect_method(0, commands.Connection.Start)

    def login(self) -> commands.Connection.Tune:
        """Go as far as connection.tune, which is returned and not answered."""
        self.start()
        response = plain(self.endpoint.user, self.endpoint.password)
        self.send_frame(
            METHOD, 0, encode_start_ok(b"PLAIN", response, ALL_CAPABILITIES)
        )
        return self.expect_method(0, commands.Connection.Tune)

    def open(
        self, frame_max: int = 131072, channel_max: int = 2047, heartbeat: int = 0
    ) -> Self:
        """Go all the way to connection.open-ok; heartbeats are off unless asked for."""
        self.login()
        self.send_method(
            0, commands.Connection.TuneOk(channel_max, frame_max, heartbeat)
        )
        self.send_method(0, commands.Connection.Open(self.endpoint.vhost))
        self.expect_method(0, commands.Connection.OpenOk)
        return self

    def open_channel(self, channel: int = 1) -> Self:
        """Open a channel."""
        self.send_method(channel, commands.Channel.Open())
        self.expect_method(channel, commands.Channel.OpenOk)
        return self

    def call(self, channel: int, method: base.Frame, reply: type[MethodT]) -> MethodT:
        """Send a method and return its answer, which must be the next one."""
        self.send_method(channel, method)
        return self.expect_method(channel, reply)

    def temporary_queue(self) -> str:
        """Declare an exclusive queue on channel 1; return the name the broker gave."""
        declare = commands.Queue.Declare(exclusive=True)
        name = self.call(1, declare, commands.Queue.DeclareOk).queue
        assert name
        return name

    def publish_to_queue(
        self, queue: str, body: bytes = b"", properties: bytes = b"\x00\x00"
    ) -> None:
        """Send a message on channel 1 straight to a queue."""
        self.publish(1, commands.Basic.Publish(0, "", queue), body, properties)

    def get(self, queue: str, no_ack: bool = True) -> Message | None:
        """Take one message on channel 1; None when the queue is empty."""
        self.send_method(1, commands.Basic.Get(0, queue, no_ack))
        received = self.next_frame()
        assert received.channel == 1
        if isinstance(received.method, commands.Basic.GetEmpty):
            return None
        assert isinstance(received.method, commands.Basic.GetOk), received
        return self.content_of(1, received.method)

    def close(self) -> None:
        """Close the connection politely.

        The socket is not awaited: RabbitMQ leaves closing it to the client.
        """
        close = commands.Connection.Close(200, "bye", 0, 0)
        self.call(0, close, commands.Connection.CloseOk)
        self.disconnect()
