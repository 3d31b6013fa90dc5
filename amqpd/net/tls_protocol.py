"""TLS between a client's socket and its connection: the handshake, and what fails.

    asyncio's socket -> TlsProtocol (asyncio's TLS, in memory) -> ClientTransport

The client's transport is told of a connection once the handshake is done, and not at
all if it fails; so what there is to say of a failure is said here, in one line that
names the mistake. asyncio's own TLS does the work. All of them are read into one
buffer: it would have one of 256 KiB for each connection.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import ssl
from asyncio import sslproto
from datetime import UTC, datetime
from typing import Any, Final, cast

from amqpd.auth.certificates import Certificate, Name
from amqpd.auth.tls_peer import TlsPeer
from amqpd.net.peer_names import connection_name

logger = logging.getLogger("amqpd.tls")

HANDSHAKE_SECONDS: Final = 5
#: As long as a closed client without TLS is given to read what it was sent.
SHUTDOWN_SECONDS: Final = 3.0

#: How those begin who speak something else: what it is, and where it belongs.
_STRANGERS: Final = {
    b"AMQP": "it speaks AMQP without TLS, which belongs to the other port",
    b"GET ": "it speaks HTTP without TLS",
    b"HEAD": "it speaks HTTP without TLS",
    b"POST": "it speaks HTTP without TLS",
}
_GREETING_SIZE: Final = 4


class TlsProtocol(sslproto.SSLProtocol):
    """One accepted socket, encrypted."""

    #: Of the buffer that asyncio makes for each; ours takes its place.
    max_size = 1

    def __init__(
        self,
        client: asyncio.BufferedProtocol,
        context: ssl.SSLContext,
        read_buffer: memoryview,
        members: set[TlsProtocol],
    ) -> None:
        super().__init__(
            asyncio.get_running_loop(),
            client,
            context,
            None,  # type: ignore[arg-type]  # nobody waits for the handshake
            server_side=True,
            ssl_handshake_timeout=HANDSHAKE_SECONDS,
            ssl_shutdown_timeout=SHUTDOWN_SECONDS,
        )
        self._client = client
        self._ssl_buffer = read_buffer
        self._ssl_buffer_view = read_buffer
        self._members = members
        self._socket: asyncio.Transport | None = None
        self._name = ""
        self._greeting = b""
        self._is_shaken = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A client was accepted: shake hands."""
        self._socket = cast(asyncio.Transport, transport)
        self._members.add(self)
        self._name = connection_name(transport)
        super().connection_made(transport)

    def get_buffer(self, n: int) -> memoryview:
        """Where the next read goes: no more is read than the client would take."""
        return self._ssl_buffer_view[: len(memoryview(self._client.get_buffer(n)))]

    def buffer_updated(self, nbytes: int) -> None:
        """Something encrypted was read, or what should be."""
        if not self._is_shaken and len(self._greeting) < _GREETING_SIZE:
            self._greeting += bytes(
                self._ssl_buffer_view[: min(nbytes, _GREETING_SIZE)]
            )
        super().buffer_updated(nbytes)

    def abort(self) -> None:
        """Drop the socket, in whatever state."""
        if self._socket is not None:
            self._socket.abort()

    def connection_lost(self, exc: BaseException | None) -> None:
        """The socket is gone; if that was too early, say why."""
        self._members.discard(self)
        if not self._is_shaken:
            # A load balancer that looks whether somebody is there says nothing.
            level = logging.WARNING if self._greeting else logging.DEBUG
            logger.log(
                level,
                "connection %s: TLS handshake failed: %s",
                self._name,
                failure_text(exc, self._greeting),
                extra={"connection": self._name},
            )
        self._socket = None
        super().connection_lost(exc)

    def _on_handshake_complete(self, handshake_exc: BaseException | None) -> None:
        self._is_shaken = handshake_exc is None
        if handshake_exc is not None and self._socket is not None:
            # asyncio would keep to itself what the client is to be told: the alert.
            alert: bytes = self._outgoing.read()  # type: ignore[attr-defined]
            if alert:
                self._socket.write(alert)
        super()._on_handshake_complete(handshake_exc)
        if isinstance(handshake_exc, BaseException):
            # It was raised there, so it refers to a frame that refers to it.
            handshake_exc.__traceback__ = None


def failure_text(error: BaseException | None, greeting: bytes) -> str:
    """Say why a handshake failed, so that the mistake can be found."""
    if greeting[:_GREETING_SIZE] in _STRANGERS:
        return _STRANGERS[greeting[:_GREETING_SIZE]]
    if isinstance(error, ConnectionAbortedError):
        return f"it took longer than {HANDSHAKE_SECONDS} s"
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the client's certificate is refused: {error.verify_message}"
    if isinstance(error, ssl.SSLError):
        reason = (error.reason or "no reason").replace("_", " ").lower()
        _, is_alert, alert = reason.partition("alert ")
        return f"the client says: {alert}" if is_alert else reason
    return "the client hung up"


def tls_peer(secured: ssl.SSLObject) -> TlsPeer:
    """Return what there is to know of the other end of a handshake."""
    cipher = secured.cipher()
    assert cipher is not None, "the handshake is done"
    key_exchange, symmetric, digest = _suites().get(cipher[0], (cipher[0], "", ""))
    found = secured.getpeercert()
    return TlsPeer(
        protocol=str(secured.version()).lower(),
        key_exchange=key_exchange,
        cipher=symmetric,
        hash=digest,
        certificate=_certificate(found) if found else None,
    )


def _certificate(found: dict[str, Any]) -> Certificate:
    return Certificate(
        subject=cast(Name, found["subject"]),
        issuer=cast(Name, found["issuer"]),
        valid_from=_date(found["notBefore"]),
        valid_until=_date(found["notAfter"]),
        alternative_names=tuple(
            (kind, value)
            for kind, value in found.get("subjectAltName", ())
            if isinstance(value, str)
        ),
    )


def _date(text: str) -> str:
    moment = datetime.fromtimestamp(ssl.cert_time_to_seconds(text), UTC)
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


@functools.cache
def _suites() -> dict[str, tuple[str, str, str]]:
    """Return the parts of OpenSSL's cipher suites in Erlang's words, by name."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.set_ciphers("ALL:@SECLEVEL=0")
    suites = {}
    for suite in context.get_ciphers():
        exchange = suite["kea"].removeprefix("kx-")
        signed = suite["auth"].removeprefix("auth-")
        if signed not in (exchange, "any"):
            exchange = f"{exchange}_{signed}"
        digest = "aead" if suite["aead"] else str(suite["digest"])
        suites[suite["name"]] = exchange, suite["symmetric"].replace("-", "_"), digest
    return suites
