"""The handshake up to tune-ok: introduce ourselves, log the client in, agree on limits.

    client                              server
    AMQP 0 0 9 1        ------------->
                        <-------------  start: who we are, what we can, mechanisms
    start-ok: who, how  ------------->
                        <-------------  tune: the limits we propose
    tune-ok: the limits ------------->
    open: virtual host  ------------->  (the connection and the broker, from here on)

Clients are steered by what start says: libraries look at `product`, `version` and
`capabilities` and change their ways. So the default is to introduce ourselves as the
RabbitMQ we are compatible with, and to say who we really are beside it; the names can
be switched, the behaviour cannot.

What clients say of themselves is taken as it comes: a table may hold anything, and only
what has the expected type is believed. It knows users, but no virtual host, no socket
and no clock.
"""

from dataclasses import dataclass
from typing import Final, final

from pamqp import commands, common

from amqpd.auth import sasl
from amqpd.auth.certificates import BY_DISTINGUISHED_NAME, CertificateLogin
from amqpd.auth.tls_peer import TlsPeer
from amqpd.auth.users import (
    DEFAULT_LOOPBACK_USERS,
    LoginRefused,
    User,
    UserRegistry,
    invalid_credentials,
)
from amqpd.broker.clients.secret_checks import SecretChecks
from amqpd.broker.errors import (
    AmqpError,
    CommandInvalid,
    LoginFailed,
    NotAllowed,
    SyntaxInvalid,
)
from amqpd.broker.ports import SecretWaiter
from amqpd.wire.tables import Table

PROTOCOL_HEADER: Final = b"AMQP\x00\x00\x09\x01"

#: What we also take for 0-9-1, as RabbitMQ does: 0-9's own header.
ACCEPTED_PROTOCOL_HEADERS: Final = (PROTOCOL_HEADER, b"AMQP\x01\x01\x00\x09")

#: The smallest limits a client may ask for; frame-min-size of AMQP 0-9-1.
FRAME_MAX_LOWEST: Final = 4096
CHANNEL_MAX_LOWEST: Final = 1

#: The version of RabbitMQ whose behaviour is ours.
COMPATIBLE_VERSION: Final = "3.13.7"

_IDENTITY_RABBITMQ: Final = "rabbitmq-3.13"

_CAPABILITIES: Final = (
    "publisher_confirms",
    "exchange_exchange_bindings",
    "basic.nack",
    "consumer_cancel_notify",
    "connection.blocked",
    "consumer_priorities",
    "authentication_failure_close",
    "per_consumer_qos",
    "direct_reply_to",
)


@dataclass(frozen=True)
class HandshakeOptions:
    """What the configuration says about the handshake.

    `amqpd_version` is the real version; `identity` is "rabbitmq-3.13" or "amqpd".
    A limit of 0 means no limit, a heartbeat of 0 proposes none.
    """

    amqpd_version: str
    identity: str = _IDENTITY_RABBITMQ
    cluster_name: str = "amqpd@localhost"
    frame_max: int = 131_072
    channel_max: int = 2047
    heartbeat_s: int = 60
    loopback_users: frozenset[str] = DEFAULT_LOOPBACK_USERS
    mechanisms: tuple[str, ...] = sasl.MECHANISMS
    #: What in a client's certificate is the name of the user.
    certificate_login: CertificateLogin = BY_DISTINGUISHED_NAME


@final
class ClientCapabilities:
    """Which notifications the client wants; all off unless it says true."""

    def __init__(self, client_properties: Table) -> None:
        said = client_properties.get("capabilities")
        capabilities = said if isinstance(said, dict) else {}
        self.consumer_cancel_notify = capabilities.get("consumer_cancel_notify") is True
        self.blocked = capabilities.get("connection.blocked") is True
        self.authentication_failure_close = (
            capabilities.get("authentication_failure_close") is True
        )


@final
class Handshake:
    """One connection's handshake; the methods are called in the order above."""

    def __init__(
        self,
        options: HandshakeOptions,
        users: UserRegistry,
        checks: SecretChecks,
        peer_is_loopback: bool,
    ) -> None:
        self._options = options
        self._users = users
        self._checks = checks
        # Who it would be if the password is right.
        self._candidate: User | None = None
        self._peer_is_loopback = peer_is_loopback
        #: None: there is no TLS. Whoever accepts the connection says it.
        self.tls_peer: TlsPeer | None = None
        self.client_properties: Table = {}
        self.capabilities = ClientCapabilities({})
        self.connection_name = ""
        self.mechanism = ""
        self.user: User | None = None
        #: Why a login was refused: for the log, never for the peer.
        self.refusal = ""
        self.frame_max = options.frame_max
        self.channel_max = options.channel_max
        self.heartbeat_s = options.heartbeat_s

    def start(self) -> commands.Connection.Start:
        """Return what the server opens the conversation with."""
        return commands.Connection.Start(
            version_major=0,
            version_minor=9,
            server_properties=server_properties(self._options),
            mechanisms=" ".join(self._mechanisms()),
            locales="en_US",
        )

    def _mechanisms(self) -> list[str]:
        """The ways to log in that this client is offered."""
        peer = self.tls_peer
        has_certificate = peer is not None and peer.certificate is not None
        return [
            mechanism
            for mechanism in self._options.mechanisms
            if has_certificate or mechanism != sasl.EXTERNAL
        ]

    def on_start_ok(
        self, method: commands.Connection.StartOk, waiter: SecretWaiter
    ) -> commands.Connection.Tune | None:
        """Log the client in and return the limits to propose.

        None: the password is being verified, and the waiter calls `end_login`.

        Raises:
            LoginFailed: see `refusal` for the reason and `is_told` for the answer.
            CommandInvalid: the mechanism was not offered.
            SyntaxInvalid: the response does not have the mechanism's form.
        """
        # Everything the log and the answer to a refusal need comes first.
        self.client_properties = dict(method.client_properties)
        self.capabilities = ClientCapabilities(self.client_properties)
        self.connection_name = _text(self.client_properties.get("connection_name"))
        self.mechanism = method.mechanism
        # The wire hands long strings out as text, with escapes for what is no text.
        response = method.response.encode("utf-8", "surrogateescape")
        is_right = self._begin_login(method.mechanism, response, waiter)
        return None if is_right is None else self.end_login(is_right)

    def end_login(self, is_right: bool) -> commands.Connection.Tune:
        """Return the limits to propose to somebody whose password is right.

        Raises:
            LoginFailed: it is wrong, or the user has changed while it was verified.
        """
        candidate = self._candidate
        assert candidate is not None
        if not is_right or self._users.get(candidate.name) is not candidate:
            raise self._login_failed(invalid_credentials(candidate.name))
        self.user = candidate
        options = self._options
        return commands.Connection.Tune(
            options.channel_max, options.frame_max, options.heartbeat_s
        )

    def on_tune_ok(self, method: commands.Connection.TuneOk) -> None:
        """Take the client's limits; they hold from the next frame on.

        The heartbeat is whatever the client says: 0 switches it off, more is allowed.

        Raises:
            NotAllowed: a limit is outside what was proposed.
        """
        frame_max, channel_max = method.frame_max or 0, method.channel_max or 0
        options = self._options
        _check_limit("frame_max", frame_max, FRAME_MAX_LOWEST, options.frame_max)
        _check_limit(
            "channel_max", channel_max, CHANNEL_MAX_LOWEST, options.channel_max
        )
        self.frame_max = frame_max
        self.channel_max = channel_max
        self.heartbeat_s = method.heartbeat or 0

    def check_channels(self, count: int) -> None:
        """Check that a client with so many channels may have one more.

        Raises:
            NotAllowed: it has said that it would not.
        """
        if 0 < self.channel_max <= count:
            raise NotAllowed(
                f"number of channels opened ({self.channel_max}) has reached the "
                f"negotiated channel_max ({self.channel_max})"
            )

    def is_told(self, error: AmqpError) -> bool:
        """Whether an error of the handshake is sent as connection.close.

        A refused login is told only to a client that knows what to do with it; others
        find the socket closed. RabbitMQ is as silent about every other error up to
        tune-ok, which helps nobody: a client that asks for too small a frame should
        read so. Before the login is done, what follows the close is the silent delay.
        """
        if isinstance(error, LoginFailed):
            return self.capabilities.authentication_failure_close
        return True

    def _begin_login(
        self, mechanism: str, response: bytes, waiter: SecretWaiter
    ) -> bool | None:
        try:
            if mechanism not in self._mechanisms():
                raise sasl.unknown(mechanism)
            if mechanism == sasl.EXTERNAL:
                self._candidate = self._certified()
                return True
            name, password = sasl.credentials(mechanism, response)
            self._candidate = self._users.candidate(
                name, self._peer_is_loopback, self._options.loopback_users
            )
        # One name each: compiled, a variable has the type of its first use.
        except sasl.MechanismUnknown as unknown:
            raise CommandInvalid(str(unknown)) from None
        except sasl.ResponseMalformed as malformed:
            raise SyntaxInvalid(str(malformed)) from None
        except LoginRefused as refused:
            raise self._login_failed(refused) from None
        return self._checks.ask(self._candidate, password, waiter)

    def _certified(self) -> User:
        """Return the user whom the client's certificate names."""
        peer, options = self.tls_peer, self._options
        assert peer is not None and peer.certificate is not None
        name = options.certificate_login.name_in(peer.certificate)
        if not name:
            source = options.certificate_login.source.replace("_", " ")
            raise LoginRefused(name, f"the certificate has no {source}")
        return self._users.certified(
            name, self._peer_is_loopback, options.loopback_users
        )

    def _login_failed(self, refused: LoginRefused) -> LoginFailed:
        mechanism = self.mechanism
        self.refusal = f"{mechanism} login refused: {refused.reason}"
        return LoginFailed(
            f"Login was refused using authentication mechanism {mechanism}. "
            "For details see the broker logfile."
        )


def server_properties(options: HandshakeOptions) -> common.FieldTable:
    """Return the table that introduces this server to clients."""
    is_compatible = options.identity == _IDENTITY_RABBITMQ
    own = f"amqpd {options.amqpd_version}"
    about = f"{own}, compatible with RabbitMQ 3.13; not RabbitMQ"
    capabilities: common.FieldTable = dict.fromkeys(_CAPABILITIES, True)
    return {
        "capabilities": capabilities,
        "cluster_name": options.cluster_name,
        "information": about,
        "platform": about,
        "product": "RabbitMQ" if is_compatible else "amqpd",
        "version": COMPATIBLE_VERSION if is_compatible else options.amqpd_version,
        "amqpd_version": options.amqpd_version,
    }


def _check_limit(name: str, value: int, lowest: int, highest: int) -> None:
    """Refuse a limit the client may not choose; 0 asks for no limit at all."""
    if value != 0 and value < lowest:
        raise NotAllowed(
            f"negotiated {name} = {value} is lower than "
            f"the minimum allowed value ({lowest})"
        )
    if highest != 0 and (value == 0 or value > highest):
        detail = " (no limit)" if value == 0 and name == "channel_max" else ""
        raise NotAllowed(
            f"negotiated {name} = {value}{detail} is higher than "
            f"the maximum allowed value ({highest})"
        )


def _text(value: object) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return ""
