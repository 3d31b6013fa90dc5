"""What is said of a connection with TLS, and of one without."""

from amqpd.auth.certificates import Certificate
from amqpd.auth.tls_peer import TlsPeer, tls_facts


def test_a_connection_without_tls_has_no_facts_of_it() -> None:
    facts = tls_facts(None)

    assert facts.pop("ssl") is False
    assert set(facts.values()) == {None}


def test_a_client_without_a_certificate_has_no_names() -> None:
    peer = TlsPeer("tlsv1.2", "ecdhe_rsa", "aes_128_gcm", "aead")

    assert tls_facts(peer) == {
        "ssl": True,
        "ssl_protocol": "tlsv1.2",
        "ssl_key_exchange": "ecdhe_rsa",
        "ssl_cipher": "aes_128_gcm",
        "ssl_hash": "aead",
        "peer_cert_subject": None,
        "peer_cert_issuer": None,
        "peer_cert_validity": None,
    }


def test_a_certificate_is_shown_with_its_names_and_dates() -> None:
    certificate = Certificate(
        subject=((("commonName", "worker"),),),
        issuer=((("organizationName", "CA"),),),
        valid_from="2026-01-01T00:00:00Z",
        valid_until="2027-01-01T00:00:00Z",
    )
    peer = TlsPeer("tlsv1.3", "any", "aes_256_gcm", "aead", certificate)

    facts = tls_facts(peer)

    assert facts["peer_cert_subject"] == "CN=worker"
    assert facts["peer_cert_issuer"] == "O=CA"
    assert facts["peer_cert_validity"] == (
        "2026-01-01T00:00:00Z - 2027-01-01T00:00:00Z"
    )
