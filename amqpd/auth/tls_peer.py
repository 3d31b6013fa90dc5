"""What TLS says of a connection: how it is encrypted, and who is at the other end.

The words are those of RabbitMQ, that is of Erlang, so that tools find what they know.
"""

from __future__ import annotations

from dataclasses import dataclass

from amqpd.auth.certificates import Certificate, distinguished_name


@dataclass(frozen=True)
class TlsPeer:
    """The other end of a TLS connection."""

    #: tlsv1.2 or tlsv1.3.
    protocol: str
    #: ecdhe_rsa, aes_256_gcm, aead: the parts of the cipher suite.
    key_exchange: str
    cipher: str
    hash: str
    #: None: it has none, or nobody asked for it.
    certificate: Certificate | None = None


def tls_facts(peer: TlsPeer | None) -> dict[str, str | bool | None]:
    """Return what lists and events say of a connection; None: it has no TLS."""
    certificate = None if peer is None else peer.certificate
    subject = issuer = validity = None
    if certificate is not None:
        subject = distinguished_name(certificate.subject)
        issuer = distinguished_name(certificate.issuer)
        validity = f"{certificate.valid_from} - {certificate.valid_until}"
    return {
        "ssl": peer is not None,
        "ssl_protocol": None if peer is None else peer.protocol,
        "ssl_key_exchange": None if peer is None else peer.key_exchange,
        "ssl_cipher": None if peer is None else peer.cipher,
        "ssl_hash": None if peer is None else peer.hash,
        "peer_cert_subject": subject,
        "peer_cert_issuer": issuer,
        "peer_cert_validity": validity,
    }
