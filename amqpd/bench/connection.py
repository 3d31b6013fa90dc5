"""A socket to a broker: logging in, calls that wait for their answer, then streaming.

    open     connect, handshake, one channel             blocking, with a timeout
    call     one method and the answer to it             blocking, with a timeout
    stream   hand the socket to a producer or consumer   never blocks from then on

Heartbeats are declined: a run ends when it ends, and the kernel says when the peer is
gone. What the broker says instead of an answer is turned into an error that tells
whoever started the run what to do.
"""

from __future__ import annotations

import socket
import ssl
from typing import Final, TypeVar

from pamqp import commands
from pamqp.base import Frame
from pamqp.common import FieldTable

from amqpd import __version__
from amqpd.bench.conversation import Conversation
from amqpd.bench.errors import (
    BenchError,
    CallRefused,
    ConnectionClosed,
    ConnectionLost,
    Refused,
    Unreachable,
)
from amqpd.bench.message import CHANNEL
from amqpd.bench.options import Target
from amqpd.wire.errors import WireError
from amqpd.wire.frames import PROTOCOL_HEADER

TIMEOUT_S: Final = 10.0
FRAME_MAX: Final = 131_072
READ_SIZE: Final = 262_144
#: Reads of one turn, so that one connection does not keep the others waiting.
_READS_MAX: Final = 4

_CAPABILITIES: Final = (
    "authentication_failure_close",
    "basic.nack",
    "connection.blocked",
    "consumer_cancel_notify",
    "publisher_confirms",
)
_ACCESS_REFUSED: Final = 403
_NOT_ALLOWED: Final = 530

MethodT = TypeVar("MethodT", bound=Frame)


class Connection:
    """A connection with one channel, open when it is made."""

    def __init__(self, target: Target, name: str) -> None:
        self.target = target
        self.server_properties: FieldTable = {}
        self.frame_max = FRAME_MAX
        #: What is waiting for room in the kernel's buffer.
        self._unsent = memoryview(b"")
        self._heard = Conversation(FRAME_MAX)
        self._answers: list[Frame] = []
        self._name = name
        self._open()

    def reopen(self) -> None:
        """Drop the socket and log in again, for calls.

        Raises:
            BenchError: the broker is not there, or does not let us in.
        """
        self.disconnect()
        self._heard.restart()
        self._answers.clear()
        self._open()

    @property
    def broker(self) -> str:
        """What the broker calls itself, with its own name where that is another."""
        said = {key: str(value) for key, value in self.server_properties.items()}
        name = f"{said.get('product', 'unknown')} {said.get('version', '')}".strip()
        own = said.get("amqpd_version")
        return f"amqpd {own} (as {name})" if own else name

    @property
    def is_same_machine(self) -> bool:
        """Whether both ends of the connection have the same address."""
        return bool(self._socket.getpeername()[0] == self._socket.getsockname()[0])

    # -- one call after the other

    def call(self, method: Frame, expected: type[MethodT]) -> MethodT:
        """Send a method on the channel and return the answer.

        Raises:
            CallRefused: the channel was closed instead; it is open again.
            RunFailed: the connection is lost.
        """
        self._heard.say(CHANNEL, method)
        self._send_heard()
        while True:
            answer = self._next()
            if isinstance(answer, expected):
                return answer
            if isinstance(answer, commands.Channel.Close):
                self._heard.say(CHANNEL, commands.Channel.CloseOk())
                self._heard.say(CHANNEL, commands.Channel.Open())
                self._send_heard()
                self._expect(commands.Channel.OpenOk)
                raise CallRefused(answer.reply_code or 0, answer.reply_text or "")

    def close(self) -> None:
        """End the connection as the protocol wants it, as far as the peer does."""
        try:
            self._socket.settimeout(TIMEOUT_S)
            self._heard.say(0, commands.Connection.Close(200, "bye", 0, 0))
            self._send_heard()
            self._expect(commands.Connection.CloseOk)
        except (OSError, BenchError):
            # It is gone either way.
            pass
        finally:
            self.disconnect()

    def disconnect(self) -> None:
        """Drop the socket."""
        self._socket.close()

    # -- streaming

    def stream(self, conversation: Conversation) -> None:
        """Be what carries a producer or a consumer from now on."""
        conversation.methods.extend(self._answers)
        self._heard = conversation
        self._socket.setblocking(False)

    def fileno(self) -> int:
        """The socket, for a selector."""
        return self._socket.fileno()

    @property
    def has_unsent(self) -> bool:
        """Whether something waits until the socket takes it."""
        return bool(self._unsent)

    def receive(self) -> list[bytes]:
        """Return what has come; more may be there.

        Raises:
            RunFailed: the connection is lost.
        """
        chunks: list[bytes] = []
        try:
            while len(chunks) < _READS_MAX:
                data = self._socket.recv(READ_SIZE)
                if not data:
                    raise ConnectionResetError("the broker closed it")
                chunks.append(data)
                if len(data) < READ_SIZE and not self._has_decrypted():
                    break
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            pass
        except OSError as error:
            # What came before may say why; the next read fails again.
            if not chunks:
                raise self._lost(error) from error
        return chunks

    def send(self, data: bytes) -> None:
        """Send that, behind what waits already.

        Raises:
            RunFailed: the connection is lost.
        """
        self._unsent = memoryview(bytes(self._unsent) + data if self._unsent else data)
        self.flush()

    def flush(self) -> None:
        """Send what waits, as far as the socket takes it.

        Raises:
            RunFailed: the connection is lost.
        """
        try:
            while self._unsent:
                self._unsent = self._unsent[self._socket.send(self._unsent) :]
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            pass
        except OSError as error:
            raise self._lost(error) from error

    # -- below

    def _open(self) -> None:
        self._socket = _connected(self.target)
        try:
            self._log_in()
        except BaseException:
            self.disconnect()
            raise

    def _log_in(self) -> None:
        target = self.target
        try:
            self._heard.out.write(PROTOCOL_HEADER)
            start = self._first()
            self.server_properties = start.server_properties or {}
            self._heard.say(0, _start_ok(target, self._name))
            self._send_heard()
            tune = self._expect(commands.Connection.Tune)
            self.frame_max = min(tune.frame_max or FRAME_MAX, FRAME_MAX)
            self._heard.say(0, commands.Connection.TuneOk(1, self.frame_max, 0))
            self._heard.say(0, commands.Connection.Open(target.vhost))
            self._send_heard()
            self._expect(commands.Connection.OpenOk)
            self._heard.say(CHANNEL, commands.Channel.Open())
            self._send_heard()
            self._expect(commands.Channel.OpenOk)
        except ConnectionClosed as closed:
            raise _refusal(target, closed) from None
        except ConnectionLost as ended:
            raise Refused(
                f"{target} ended the connection while {target.user!r} logged in: "
                f"{ended.why}",
                "is that user there, with that password?",
            ) from None

    def _first(self) -> commands.Connection.Start:
        """The broker's introduction, or why this is no broker."""
        try:
            self._send_heard()
            return self._expect(commands.Connection.Start)
        except ConnectionLost as error:
            if isinstance(error.__cause__, WireError):
                raise Unreachable(
                    f"{self.target} does not speak AMQP 0-9-1: {error.why}",
                    "is that the port of the broker's management or of its TLS?",
                ) from error
            raise Unreachable(
                f"{self.target} ends the connection without a word: {error.why}",
                "is that the broker's port, and is the broker ready?",
            ) from error

    def _expect(self, expected: type[MethodT]) -> MethodT:
        while not isinstance(answer := self._next(), expected):
            pass
        return answer

    def _next(self) -> Frame:
        """The next method, whatever it is but connection.close."""
        while not self._answers:
            try:
                data = self._socket.recv(READ_SIZE)
            except OSError as error:
                raise self._lost(error) from error
            if not data:
                raise self._lost("the broker closed it")
            try:
                self._heard.receive_data(data, 0)
            except WireError as wrong:
                raise self._lost(wrong.text) from wrong
            self._answers = self._heard.take_methods()
        answer = self._answers.pop(0)
        if isinstance(answer, commands.Connection.Close):
            raise ConnectionClosed(
                str(self.target), answer.reply_code or 0, answer.reply_text or ""
            )
        return answer

    def _send_heard(self) -> None:
        try:
            self._socket.sendall(self._heard.take_output())
        except OSError as error:
            raise self._lost(error) from error

    def _has_decrypted(self) -> bool:
        # A TLS record is at most 16 KiB, and so is a read.
        return isinstance(self._socket, ssl.SSLSocket) and self._socket.pending() > 0

    def _lost(self, why: OSError | str) -> ConnectionLost:
        text = why if isinstance(why, str) else why.strerror or str(why)
        return ConnectionLost(str(self.target), text)


def _connected(target: Target) -> socket.socket:
    try:
        plain = socket.create_connection((target.host, target.port), TIMEOUT_S)
    # A name that cannot be one is refused before anybody is asked for it.
    except (socket.gaierror, UnicodeError) as unknown:
        raise Unreachable(
            f"there is no host {target.host!r}: {unknown}",
            "name the broker with --url amqp://user:password@host:port/vhost",
        ) from unknown
    except OSError as error:
        raise Unreachable(
            f"cannot connect to {target}: {error.strerror or error}",
            "is the broker running (amqpd serve)? Name another with --url "
            "amqp://user:password@host:port/vhost",
        ) from error
    plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if not target.is_tls:
        return plain
    try:
        context = ssl.create_default_context()
        return context.wrap_socket(plain, server_hostname=target.host)
    except OSError as failed:
        plain.close()
        raise Unreachable(
            f"{target} and we do not agree on TLS: {failed.strerror or failed}",
            "SSL_CERT_FILE names the certificates that are trusted",
        ) from failed


def _start_ok(target: Target, name: str) -> commands.Connection.StartOk:
    capabilities: FieldTable = dict.fromkeys(_CAPABILITIES, True)
    properties: FieldTable = {
        "product": "amqpd bench",
        "version": __version__,
        "connection_name": name,
        "capabilities": capabilities,
    }
    response = f"\0{target.user}\0{target.password}"
    return commands.Connection.StartOk(properties, "PLAIN", response, "en_US")


def _refusal(target: Target, closed: ConnectionClosed) -> Refused:
    said = f"{closed.code} {closed.text}"
    if closed.code == _ACCESS_REFUSED:
        return Refused(
            f"{target} does not let user {target.user!r} in: {said}",
            "name another with --url amqp://user:password@host; guest may log in "
            "from the broker's own machine only",
        )
    if closed.code != _NOT_ALLOWED:
        return Refused(f"{target} refuses the connection: {said}")
    if "not found" in closed.text:
        return Refused(
            f"{target} has no virtual host {target.vhost!r}: {said}",
            f"make it: amqpctl add_vhost {target.vhost}",
        )
    return Refused(
        f"{target} does not let {target.user!r} into {target.vhost!r}: {said}",
        f"permit it: amqpctl set_permissions -p {target.vhost} {target.user} "
        "'.*' '.*' '.*'",
    )
