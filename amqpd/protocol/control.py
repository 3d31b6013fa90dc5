"""The connection as a whole: handshake, limits, heartbeats, closing. Channel 0.

It follows `lifecycle.TRANSITIONS` and owns every deadline of the connection: the
handshake's, the one for close-ok, the silence after an error that is not explained, and
the heartbeats. It knows nothing of channels; whoever owns it looks at `state` and
cleans up when the connection has stopped running.
"""

import logging
from dataclasses import dataclass
from typing import Final, cast, final

from mypy_extensions import i64
from pamqp import commands
from pamqp.base import Frame

from amqpd.auth.tls_peer import tls_facts
from amqpd.auth.users import User
from amqpd.broker.broker import Broker
from amqpd.broker.errors import (
    LoginFailed,
    NotAllowed,
)
from amqpd.broker.vhosts.session import Session
from amqpd.protocol.errors import as_amqp_error, close_method, reply_text
from amqpd.protocol.handshake import (
    ACCEPTED_PROTOCOL_HEADERS,
    PROTOCOL_HEADER,
    Handshake,
    HandshakeOptions,
)
from amqpd.protocol.heartbeat import Heartbeat, HeartbeatDue
from amqpd.protocol.lifecycle import (
    HANDSHAKE_TIMEOUT_MS,
    SILENT_CLOSE_MS,
    Event,
    State,
    advance,
    close_ok_timeout_ms,
    unexpected_method,
)
from amqpd.protocol.output import Output
from amqpd.protocol.ports import ConnectionFace
from amqpd.wire.errors import FrameMalformed, FrameUnknown
from amqpd.wire.frames import HEARTBEAT_FRAME
from amqpd.wire.methods import decode_method, encode_method
from amqpd.wire.tables import Table

logger = logging.getLogger("amqpd.connection")

START_OK: Final = 0x000A000B
TUNE_OK: Final = 0x000A001F
OPEN: Final = 0x000A0028
CLOSE: Final = 0x000A0032
CLOSE_OK: Final = 0x000A0033
UPDATE_SECRET: Final = 0x000A0046

# How others begin, for the log: whoever connects to the wrong port is to find that out.
TLS_CLIENT_HELLO: Final = b"\x16\x03"
HTTP_REQUESTS: Final = (b"GET ", b"HEAD ", b"POST ", b"PUT ")

NEVER_MS: Final[i64] = 1 << 62


@dataclass(frozen=True)
class ConnectionOptions:
    """What the configuration says about every connection."""

    handshake: HandshakeOptions
    body_size_max: int = 134_217_728
    handshake_timeout_ms: int = HANDSHAKE_TIMEOUT_MS


@final
class Control:
    """State and deadlines of one connection."""

    def __init__(
        self,
        broker: Broker,
        options: ConnectionOptions,
        output: Output,
        name: str,
        peer_is_loopback: bool,
        owner: ConnectionFace,
        now_ms: i64,
    ) -> None:
        self.name = name
        self.state = State.AWAIT_PROTOCOL_HEADER
        self.session: Session | None = None
        self.handshake = Handshake(
            options.handshake, broker.users, broker.secrets, peer_is_loopback
        )
        # Why the connection ended, for the log; empty while it runs.
        self.reason = ""
        # Whether it has published since an alarm began.
        self.is_blocked = False
        self._is_orderly = False
        self._broker = broker
        self._output = output
        self._owner: ConnectionFace | None = owner
        # Whose new secret is being verified.
        self._renewing: User | None = None
        self._timeout_ms: i64 = options.handshake_timeout_ms
        self._deadline_ms: i64 = now_ms + self._timeout_ms
        self._heartbeat = Heartbeat(0, now_ms)

    @property
    def is_closed(self) -> bool:
        """Whether the socket is to be closed once everything is written."""
        return self.state is State.CLOSED

    @property
    def is_orderly(self) -> bool:
        """Whether the connection ended by a client's close that we answered."""
        return self._is_orderly

    @property
    def is_waiting(self) -> bool:
        """Whether a password is being verified: nothing else is looked at meanwhile."""
        if self.state is State.LOGGING_IN:
            return True
        return self._renewing is not None and self.state is State.OPEN

    def take_protocol_header(self, header: bytes) -> None:
        """The first eight octets came."""
        if header not in ACCEPTED_PROTOCOL_HEADERS:
            self._output.writer().write(PROTOCOL_HEADER)
            self._end(Event.LOST_TRUST, _described(header))
            return
        self.state = advance(self.state, Event.RECEIVED_PROTOCOL_HEADER)
        self._send(self.handshake.start())

    def take_method(self, payload: bytes, method_id: i64, now_ms: i64) -> None:
        """A method came on channel 0.

        Raises:
            AmqpError, WireError: it is refused; the caller hands that to `fail`.
        """
        if self.state is State.AWAIT_CLOSE_OK:
            self._take_while_closing(method_id)
            return
        method = decode_method(payload).method
        if method_id == START_OK:
            self.state = advance(self.state, Event.RECEIVED_START_OK)
            self._on_start_ok(cast(commands.Connection.StartOk, method))
        elif method_id == TUNE_OK:
            self.state = advance(self.state, Event.RECEIVED_TUNE_OK)
            self._on_tune_ok(cast(commands.Connection.TuneOk, method), now_ms)
        elif method_id == OPEN:
            self.state = advance(self.state, Event.RECEIVED_OPEN)
            self._on_open(cast(commands.Connection.Open, method))
        elif method_id == CLOSE:
            self._on_close(cast(commands.Connection.Close, method))
        elif method_id == UPDATE_SECRET and self.state is State.OPEN:
            self._on_update_secret(cast(commands.Connection.UpdateSecret, method))
        else:
            raise unexpected_method(self.state)

    def fail(
        self, error: Exception, class_id: int, method_id: int, now_ms: i64
    ) -> None:
        """Close the connection because of an error; harmless when it is closing."""
        if self.state in (State.CLOSED, State.AWAIT_CLOSE_OK, State.CLOSING_SILENTLY):
            return
        refusal = as_amqp_error(error)
        reason = self.handshake.refusal or reply_text(refusal)
        if self.state is State.AWAIT_PROTOCOL_HEADER:
            self._end(Event.LOST_TRUST, reason)
            return
        if isinstance(refusal, LoginFailed):
            self._broker.churn.logins_failed += 1
            self._tell_login("failure", reason)
            # RabbitMQ names no method in this one.
            class_id = method_id = 0
        is_told = self.handshake.is_told(refusal)
        if is_told:
            self._send(close_method(refusal, class_id, method_id)[1])
        # Behind a frame that could not be taken apart nothing can be read any more.
        is_deaf = isinstance(error, FrameMalformed) and not isinstance(
            error, FrameUnknown
        )
        if is_told and not is_deaf:
            self._end(Event.SENT_CLOSE, reason)
            wait_ms = close_ok_timeout_ms(self.handshake.heartbeat_s)
            self._deadline_ms = now_ms + wait_ms
        else:
            self._end(Event.LOST_TRUST, reason)
            self._deadline_ms = now_ms + SILENT_CLOSE_MS

    def lose_socket(self, reason: str) -> None:
        """The socket is gone."""
        if self.state is not State.CLOSED:
            self._end(Event.SOCKET_LOST, reason)

    def forget_connection(self) -> None:
        """The connection is over; what is left here is its reason."""
        self.session = None
        self._owner = None

    def on_time(self, now_ms: i64, bytes_in: i64, bytes_out: i64) -> None:
        """Do what is due: give up waiting, send a heartbeat, miss one."""
        if self.state is State.CLOSED:
            return
        if now_ms >= self._deadline_ms and not self.is_waiting:
            self._end(Event.TIME_IS_UP, self.reason or "handshake_timeout")
            return
        if self.state is not State.OPEN:
            return
        due = self._heartbeat.on_time(now_ms, bytes_in, bytes_out)
        if due is HeartbeatDue.SEND:
            self._output.writer().write(HEARTBEAT_FRAME)
        elif due is HeartbeatDue.LOST:
            timeout = self._heartbeat.interval_s
            self._end(
                Event.TIME_IS_UP, f"missed heartbeats from client, timeout: {timeout}s"
            )

    def stop_watching(self) -> None:
        """The socket is not read on purpose: silence is not the client's fault."""
        self._heartbeat.stop_watching()

    def watch_again(self, now_ms: i64) -> None:
        """The socket is read again."""
        self._heartbeat.watch_again(now_ms)

    @property
    def shown_state(self) -> str:
        """The state in RabbitMQ's words, for lists of open connections."""
        if self.state is not State.OPEN:
            return "closing"
        if self.is_blocked:
            return "blocked"
        return "blocking" if self._broker.alarms.is_on else "running"

    def block(self) -> None:
        """Its publishes wait; the client is told, once, if it wants to know."""
        if not self.is_blocked:
            self.is_blocked = True
            if self.handshake.capabilities.blocked:
                self._send(commands.Connection.Blocked(self._broker.alarms.reason))

    def unblock(self) -> None:
        """No publish waits any more."""
        if self.is_blocked:
            self.is_blocked = False
            if self.handshake.capabilities.blocked and self.state is State.OPEN:
                self._send(commands.Connection.Unblocked())

    def end_wait(self, is_right: bool, now_ms: i64) -> None:
        """A password has been verified; nothing happens if nobody waits any more.

        Raises:
            AmqpError: it is wrong; the caller hands that to `fail`.
        """
        if self.state is State.LOGGING_IN:
            # The wait was ours.
            self._deadline_ms = now_ms + self._timeout_ms
            self._end_login(self.handshake.end_login(is_right))
        elif self.is_waiting:
            self._end_renewal(is_right)

    # -- steps ----------------------------------------------------------------

    def _tell_login(self, outcome: str, error: str) -> None:
        user = self.handshake.user
        headers: Table = {
            "connection_type": "network",
            "name": "" if user is None else user.name,
            "connection_name": self.name,
            "protocol": "{0,9,1}",
            "auth_mechanism": self.handshake.mechanism,
        }
        for key, value in tls_facts(self.handshake.tls_peer).items():
            headers[key] = "" if value is None else value
        if error:
            headers["error"] = error
        self._broker.events.tell(f"user.authentication.{outcome}", headers)

    def _on_start_ok(self, method: commands.Connection.StartOk) -> None:
        assert self._owner is not None
        tune = self.handshake.on_start_ok(method, self._owner)
        if tune is not None:
            self._end_login(tune)

    def _end_login(self, tune: commands.Connection.Tune) -> None:
        self.state = advance(self.state, Event.LOGGED_IN)
        self._broker.churn.logins_succeeded += 1
        self._send(tune)
        self._tell_login("success", "")

    def _on_tune_ok(self, method: commands.Connection.TuneOk, now_ms: i64) -> None:
        self.handshake.on_tune_ok(method)
        self._output.frame_max = self.handshake.frame_max
        self._heartbeat = Heartbeat(self.handshake.heartbeat_s, now_ms)

    def _on_open(self, method: commands.Connection.Open) -> None:
        user = self.handshake.user
        assert user is not None
        self.session = self._broker.open_vhost(
            user, method.virtual_host or "", self._owner
        )
        self.session.connection_name = self.name
        self._deadline_ms = NEVER_MS
        self._send(commands.Connection.OpenOk())
        logger.info(
            "connection %s: user '%s' authenticated and granted access to vhost '%s'%s",
            self.name,
            user.name,
            self.session.vhost.name,
            _quoted(self.handshake.connection_name),
            extra={"connection": self.name, "user": user.name},
        )

    def _on_close(self, method: commands.Connection.Close) -> None:
        self._send(commands.Connection.CloseOk())
        self._is_orderly = True
        text = f"client closed it: {method.reply_code} {method.reply_text}".rstrip()
        self._end(Event.RECEIVED_CLOSE, text)

    def _on_update_secret(self, method: commands.Connection.UpdateSecret) -> None:
        user = self.handshake.user
        assert user is not None and self._owner is not None
        # As it is now: the new secret is not the one that it had.
        renewing = self._broker.users.get(user.name)
        if renewing is None or not renewing.password_hash:
            raise _secret_refused()
        logger.info(
            "connection %s: user '%s' updates its secret, reason: %s",
            self.name,
            user.name,
            method.reason,
            extra={"connection": self.name, "user": user.name},
        )
        self._renewing = renewing
        secret = method.new_secret or ""
        is_right = self._broker.secrets.ask(renewing, secret, self._owner)
        if is_right is not None:
            self._end_renewal(is_right)

    def _end_renewal(self, is_right: bool) -> None:
        """Log the user in anew, with what is permitted from now on."""
        renewed, session = self._renewing, self.session
        self._renewing = None
        assert renewed is not None and session is not None and self._owner is not None
        if not is_right or self._broker.users.get(renewed.name) is not renewed:
            raise _secret_refused()
        self.handshake.user = renewed
        session.renew(renewed)
        self._send(commands.Connection.UpdateSecretOk())
        self._owner.on_renewed()

    def _take_while_closing(self, method_id: i64) -> None:
        if method_id == CLOSE:
            self.state = advance(self.state, Event.RECEIVED_CLOSE)
            self._send(commands.Connection.CloseOk())
        elif method_id == CLOSE_OK:
            self.state = advance(self.state, Event.RECEIVED_CLOSE_OK)

    def _end(self, event: Event, reason: str) -> None:
        self.state = advance(self.state, event)
        if not self.reason:
            self.reason = reason

    def _send(self, method: Frame) -> None:
        self._output.writer().write(encode_method(0, method))


def _described(header: bytes) -> str:
    """Say what a client speaks that does not speak AMQP 0-9-1."""
    if header.startswith(TLS_CLIENT_HELLO):
        return "not AMQP 0-9-1 but TLS: it came to the port that is without TLS"
    if header.startswith(HTTP_REQUESTS):
        return f"not AMQP 0-9-1 but HTTP: it began with {header!r}"
    return f"not AMQP 0-9-1: it began with {header!r}"


def _secret_refused() -> NotAllowed:
    return NotAllowed("New secret was refused by one of the backends")


def _quoted(name: str) -> str:
    return f", client name '{name}'" if name else ""
