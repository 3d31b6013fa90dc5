"""The certificate and what else TLS needs: checked, loaded, and loaded again.

    configuration -> check (each mistake with its setting, its origin, and a way out)
                  -> a context, which every new connection is accepted with
    SIGHUP, or other files  -> a new context; if it cannot be made the old one stays

A context is tried before it is used: we shake hands with ourselves, in memory. That
finds ciphers that do not fit the key, and reads the certificate's dates the way a
client reads them. It knows no sockets: `tls_protocol` shakes hands with clients.
"""

from __future__ import annotations

import logging
import ssl
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, final

from amqpd.config import Config, ConfigInvalid, Loaded

logger = logging.getLogger("amqpd.tls")

#: How often the files are looked at.
LOOK_SECONDS: Final = 60.0

#: Settings that are applied when everything is loaded again.
TLS_KEYS: Final = (
    "tls.cert",
    "tls.key",
    "tls.key_password",
    "tls.ca",
    "tls.verify",
    "tls.require_client_cert",
    "tls.min_version",
    "tls.max_version",
    "tls.ciphers",
)

_VERSIONS: Final = {"1.2": ssl.TLSVersion.TLSv1_2, "1.3": ssl.TLSVersion.TLSv1_3}
#: X509_V_FLAG_NO_CHECK_TIME: we only read the dates here.
_NO_CHECK_TIME: Final = 0x200000
#: Turns of a handshake; it takes three.
_TURNS_MAX: Final = 10

#: What identifies the state of a file: when it was changed, its size and inode.
_Stamp = tuple[tuple[int, int, int] | None, ...]


class TlsInvalid(Exception):
    """A setting of TLS cannot be used; the text says why and what to do."""

    def __init__(self, key: str, text: str) -> None:
        super().__init__(text)
        self.key = key


@dataclass(frozen=True)
class TlsOptions:
    """What the configuration says of TLS, but for where it listens."""

    cert: Path
    key: Path
    key_password: str | None
    ca: Path | None
    #: Whether a client's certificate is looked at, and whether it must have one.
    verify: bool
    require_client_cert: bool
    min_version: str
    max_version: str
    #: OpenSSL's names, of TLS 1.2; none: OpenSSL's choice.
    ciphers: tuple[str, ...]

    def files(self) -> list[tuple[str, Path]]:
        """Return what is read, each with the setting that names it."""
        named = [("tls.cert", self.cert), ("tls.key", self.key)]
        return named if self.ca is None else [*named, ("tls.ca", self.ca)]


def tls_options(config: Config) -> TlsOptions:
    """Return what the configuration says.

    Raises:
        TlsInvalid: it does not fit together.
    """
    if config.tls_cert is None:
        text = "is needed to listen with TLS; name the certificate, a PEM file"
        raise TlsInvalid("tls.cert", text)
    if config.tls_verify == "none" and config.tls_require_client_cert:
        text = 'means nothing unless tls.verify is "peer", which looks at certificates'
        raise TlsInvalid("tls.require_client_cert", text)
    if config.tls_verify == "peer" and config.tls_ca is None:
        text = "is needed for tls.verify; name whom to believe, a PEM file"
        raise TlsInvalid("tls.ca", text)
    if config.tls_max_version < config.tls_min_version:
        text = f"must not be below tls.min_version, {config.tls_min_version}"
        raise TlsInvalid("tls.max_version", text)
    return TlsOptions(
        cert=config.tls_cert,
        # One file may have both.
        key=config.tls_key or config.tls_cert,
        key_password=config.tls_key_password,
        ca=config.tls_ca if config.tls_verify == "peer" else None,
        verify=config.tls_verify == "peer",
        require_client_cert=config.tls_require_client_cert,
        min_version=config.tls_min_version,
        max_version=config.tls_max_version,
        ciphers=config.tls_ciphers,
    )


def make_context(options: TlsOptions) -> ssl.SSLContext:
    """Return what connections are accepted with.

    Raises:
        TlsInvalid: a file cannot be read or is not what it should be.
    """
    for key, path in options.files():
        try:
            path.read_bytes()
        except OSError as error:
            text = f"{path} cannot be read: {error.strerror}; it must be a PEM file"
            raise TlsInvalid(key, text) from error
    context = _bare_context(options)
    _load_key(context, options)
    if options.ca is not None:
        try:
            context.load_verify_locations(options.ca)
        except ssl.SSLError as error:
            text = f"{options.ca} has no certificates that can be read, as PEM"
            raise TlsInvalid("tls.ca", text) from error
    if options.verify:
        context.verify_mode = ssl.CERT_OPTIONAL
    if options.require_client_cert:
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def _bare_context(options: TlsOptions) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = _VERSIONS[options.min_version]
    context.maximum_version = _VERSIONS[options.max_version]
    # A client that asks for new keys all the time would cost us a processor.
    context.options |= ssl.OP_NO_RENEGOTIATION
    if options.ciphers:
        try:
            context.set_ciphers(":".join(options.ciphers))
        except ssl.SSLError as error:
            text = (
                "has no cipher that OpenSSL knows; `openssl ciphers` lists their names "
                "(those of TLS 1.3, which begin with TLS_, are always there)"
            )
            raise TlsInvalid("tls.ciphers", text) from error
    return context


def _load_key(context: ssl.SSLContext, options: TlsOptions) -> None:
    asked: list[bool] = []

    def password() -> str:
        # Without it OpenSSL would ask on the terminal.
        asked.append(True)
        return options.key_password or ""

    try:
        context.load_cert_chain(options.cert, options.key, password)
    except (ssl.SSLError, ValueError) as error:
        raise _unusable(options, error, bool(asked)) from error


def _unusable(options: TlsOptions, error: Exception, was_asked: bool) -> TlsInvalid:
    """Say what is wrong with a certificate and its key."""
    cert, key = options.cert, options.key
    if was_asked and options.key_password is None:
        text = f"is needed: the key in {key} is encrypted"
        return TlsInvalid("tls.key_password", text)
    if was_asked:
        return TlsInvalid("tls.key_password", f"does not open the key in {key}")
    reason = getattr(error, "reason", None)
    if reason == "KEY_VALUES_MISMATCH":
        text = (
            f"{key} is not the key of the certificate in {cert}; name the one that is"
        )
        return TlsInvalid("tls.key", text)
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cert)
    except ssl.SSLError:
        return TlsInvalid("tls.cert", f"{cert} has no certificate, as PEM")
    if reason is None or reason in ("NO_START_LINE", "PEM_LIB", "UNSUPPORTED"):
        return TlsInvalid(
            "tls.key", f"{key} has no private key, as PEM; name the file that has it"
        )
    return TlsInvalid("tls.cert", f"{cert} and {key} cannot be used: {error}")


@dataclass(frozen=True)
class Seen:
    """What a client makes of the certificate."""

    #: When it ends, in seconds since the epoch; None: it was not looked at so closely.
    expires_s: float | None
    #: Why clients will refuse it, if they will.
    doubts: list[str]


def see_as_client(options: TlsOptions) -> Seen:
    """Return what a client makes of the certificate.

    Raises:
        TlsInvalid: nobody could connect; the text says why.
    """
    served = _bare_context(options)
    _load_key(served, options)
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.check_hostname = False
    client.minimum_version = _VERSIONS[options.min_version]
    client.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN | _NO_CHECK_TIME
    client.load_verify_locations(options.cert)
    if options.ciphers:
        client.set_ciphers(":".join(options.ciphers))
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    theirs = client.wrap_bio(to_client, to_server)
    ours = served.wrap_bio(to_server, to_client, server_side=True)
    try:
        for _ in range(_TURNS_MAX):
            if _shake(theirs):
                break
            _shake(ours)
    except ssl.SSLCertVerificationError as error:
        why = f"is a certificate that clients will refuse: {error.verify_message}"
        return Seen(None, [why])
    except ssl.SSLError as error:
        key = "tls.ciphers" if options.ciphers else "tls.cert"
        text = f"with the certificate in {options.cert} nobody can connect: {error}"
        raise TlsInvalid(key, text) from error
    return _dates(theirs.getpeercert() or {})


def _shake(end: ssl.SSLObject) -> bool:
    """Do one end's next step, and return whether it is through."""
    try:
        end.do_handshake()
    except ssl.SSLWantReadError:
        return False
    return True


@final
class TlsCertificates:
    """What new connections are accepted with, now."""

    def __init__(self, loaded: Loaded) -> None:
        """Load everything.

        Raises:
            ConfigInvalid: something cannot be used.
        """
        self._loaded = loaded
        #: What is doubtful and yet used.
        self.warnings: list[str] = []
        #: When the certificate ends, in seconds since the epoch, if that is known.
        self.expires_s: float | None = None
        self._stamp: _Stamp = ()
        self.context = self._load(loaded)

    def reload(self, loaded: Loaded) -> None:
        """Load everything again, and keep what there is if that cannot be used."""
        self._loaded = loaded
        try:
            self.context = self._load(loaded)
        except ConfigInvalid as error:
            logger.error(
                "the certificate is not reloaded, the old one stays: %s", error
            )
            return
        logger.info("the certificate in %s is reloaded", loaded.config.tls_cert)
        self.tell()

    def tell(self) -> None:
        """Log what is doubtful."""
        for warning in self.warnings:
            logger.warning("%s", warning)

    def look(self) -> None:
        """Load everything again if a file is another than it was."""
        config = self._loaded.config
        if _stamp(config) != self._stamp:
            self.reload(self._loaded)

    def _load(self, loaded: Loaded) -> ssl.SSLContext:
        # Before they are read: what changes meanwhile is another file next time. And
        # even if they cannot be used: that is said once.
        self._stamp = _stamp(loaded.config)
        try:
            options = tls_options(loaded.config)
            context = make_context(options)
            seen = see_as_client(options)
        except TlsInvalid as error:
            origin = loaded.origins[error.key]
            raise ConfigInvalid(f"{origin}: {error.key} {error}") from error
        origin = loaded.origins["tls.cert"]
        self.expires_s = seen.expires_s
        self.warnings = [
            f"{origin}: tls.cert {options.cert} {doubt}" for doubt in seen.doubts
        ]
        return context


def check_tls(loaded: Loaded) -> TlsCertificates | None:
    """Return what connections are accepted with; None: there is no TLS.

    Raises:
        ConfigInvalid: something cannot be used, or nobody could connect at all.
    """
    config = loaded.config
    if config.tls_port:
        return TlsCertificates(loaded)
    if config.port is None:
        origin = loaded.origins["port"]
        text = "is none and tls.port is 0: nobody could connect; set one of them"
        raise ConfigInvalid(f"{origin}: port {text}")
    return None


def _stamp(config: Config) -> _Stamp:
    stamps: list[tuple[int, int, int] | None] = []
    for path in (config.tls_cert, config.tls_key, config.tls_ca):
        try:
            found = None if path is None else path.stat()
        except OSError:
            found = None
        if found is None:
            stamps.append(None)
        else:
            stamps.append((found.st_mtime_ns, found.st_size, found.st_ino))
    return tuple(stamps)


def _dates(found: dict[str, Any]) -> Seen:
    """Say when a certificate ends, and whether it is valid now."""
    now, first, last = time.time(), found["notBefore"], found["notAfter"]
    expires_s = ssl.cert_time_to_seconds(last)
    doubts = []
    if now > expires_s:
        doubts.append(f"has expired on {last}: clients will refuse it")
    if now < ssl.cert_time_to_seconds(first):
        doubts.append(f"is not valid before {first}: clients will refuse it")
    return Seen(expires_s, doubts)
