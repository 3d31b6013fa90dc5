"""What TLS needs: what is wrong with it is named, what is new is loaded."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import pytest
from cryptography.hazmat.primitives import serialization

from amqpd.config import ConfigInvalid, Loaded, load
from amqpd.net.tls import TlsCertificates, check_tls
from tests.support.certificates import Authority, Pair

LONG_AGO: Final = datetime(2021, 1, 1, tzinfo=UTC)
PORT: Final = {"tls.port": "1"}


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def pair(authority: Authority) -> Pair:
    return authority.issue("localhost")


@pytest.fixture
def junk(tmp_path: Path) -> Path:
    path = tmp_path / "junk.pem"
    path.write_text("hello")
    return path


def configured(pair: Pair, **others: object) -> Loaded:
    flags = {"tls.cert": str(pair.cert), "tls.key": str(pair.key), **PORT}
    flags.update((f"tls.{name}", str(value)) for name, value in others.items())
    return load(None, {}, flags)


def refusal(loaded: Loaded) -> str:
    with pytest.raises(ConfigInvalid) as caught:
        TlsCertificates(loaded)
    return str(caught.value)


def test_without_a_port_there_is_no_tls() -> None:
    assert check_tls(load(None, {}, {})) is None


def test_without_any_port_nobody_could_connect() -> None:
    with pytest.raises(ConfigInvalid) as caught:
        check_tls(load(None, {}, {"port": "none"}))
    assert str(caught.value) == (
        "--port: port is none and tls.port is 0: nobody could connect; set one of them"
    )


def test_a_certificate_and_its_key_can_be_used(pair: Pair) -> None:
    certificates = check_tls(configured(pair))
    assert certificates is not None
    assert certificates.warnings == []


def test_one_file_may_have_both(authority: Authority) -> None:
    pair = authority.issue("localhost")
    pair.cert.write_bytes(pair.key.read_bytes() + pair.cert.read_bytes())
    flags = {"tls.cert": str(pair.cert), **PORT}
    assert TlsCertificates(load(None, {}, flags)).warnings == []


def test_a_port_needs_a_certificate() -> None:
    assert refusal(load(None, {}, PORT)) == (
        "default: tls.cert is needed to listen with TLS; "
        "name the certificate, a PEM file"
    )


def test_a_file_that_is_missing_is_named_with_its_setting(
    authority: Authority, pair: Pair
) -> None:
    nowhere = authority.directory / "nowhere"
    why = f"{nowhere} cannot be read: No such file or directory; it must be a PEM file"
    no_cert = configured(Pair(nowhere, pair.key))
    assert refusal(no_cert) == f"--tls-cert: tls.cert {why}"
    no_key = configured(Pair(pair.cert, nowhere))
    assert refusal(no_key) == f"--tls-key: tls.key {why}"
    no_ca = configured(pair, verify="peer", ca=nowhere)
    assert refusal(no_ca) == f"--tls-ca: tls.ca {why}"


def test_a_file_that_is_something_else_is_named(pair: Pair, junk: Path) -> None:
    assert refusal(configured(Pair(junk, pair.key))) == (
        f"--tls-cert: tls.cert {junk} has no certificate, as PEM"
    )
    assert refusal(configured(Pair(pair.cert, junk))) == (
        f"--tls-key: tls.key {junk} has no private key, as PEM; "
        "name the file that has it"
    )
    assert refusal(configured(pair, verify="peer", ca=junk)) == (
        f"--tls-ca: tls.ca {junk} has no certificates that can be read, as PEM"
    )


def test_a_key_of_another_certificate_is_named(
    authority: Authority, pair: Pair
) -> None:
    other = authority.issue("localhost")
    assert refusal(configured(Pair(pair.cert, other.key))) == (
        f"--tls-key: tls.key {other.key} is not the key of the certificate in "
        f"{pair.cert}; name the one that is"
    )


def test_an_encrypted_key_needs_its_password(pair: Pair, tmp_path: Path) -> None:
    key = serialization.load_pem_private_key(pair.key.read_bytes(), None)
    encrypted = tmp_path / "encrypted.key"
    encrypted.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(b"s3cret"),
        )
    )
    locked = Pair(pair.cert, encrypted)
    assert refusal(configured(locked)) == (
        f"default: tls.key_password is needed: the key in {encrypted} is encrypted"
    )
    wrong = refusal(configured(locked, key_password="wrong"))
    assert wrong.endswith(f"tls.key_password does not open the key in {encrypted}")
    assert "wrong" not in wrong
    assert TlsCertificates(configured(locked, key_password="s3cret")).warnings == []


@pytest.mark.parametrize(
    ("others", "complaint"),
    [
        (
            {"require_client_cert": "true"},
            "--tls-require-client-cert: tls.require_client_cert means nothing",
        ),
        ({"verify": "peer"}, "default: tls.ca is needed for tls.verify"),
        (
            {"min_version": "1.3", "max_version": "1.2"},
            "--tls-max-version: tls.max_version must not be below tls.min_version, 1.3",
        ),
        ({"ciphers": "NOPE"}, "--tls-ciphers: tls.ciphers has no cipher that OpenSSL"),
        (
            # The key is one of an elliptic curve.
            {"ciphers": "ECDHE-RSA-AES256-GCM-SHA384", "max_version": "1.2"},
            "--tls-ciphers: tls.ciphers with the certificate in",
        ),
    ],
)
def test_what_does_not_fit_together_is_named(
    pair: Pair, others: dict[str, str], complaint: str
) -> None:
    assert refusal(configured(pair, **others)).startswith(complaint)


def test_a_certificate_that_has_expired_is_a_warning_with_its_date(
    authority: Authority,
) -> None:
    old = authority.issue("localhost", valid_until=LONG_AGO)
    [warning] = TlsCertificates(configured(old)).warnings
    assert warning == (
        f"--tls-cert: tls.cert {old.cert} has expired on Jan  1 00:00:00 2021 GMT: "
        "clients will refuse it"
    )


def renew(authority: Authority, pair: Pair) -> None:
    """Put other files in the place of a pair, as tools do that renew certificates."""
    fresh = authority.issue("localhost")
    os.replace(fresh.cert, pair.cert)
    os.replace(fresh.key, pair.key)


def test_what_was_renewed_is_loaded_when_it_is_looked_at(
    authority: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    pair = authority.issue("localhost")
    certificates = TlsCertificates(configured(pair))
    before = certificates.context
    certificates.look()
    assert certificates.context is before
    renew(authority, pair)
    with caplog.at_level("INFO", "amqpd.tls"):
        certificates.look()
        after = certificates.context
        certificates.look()
    assert after is not before
    assert certificates.context is after
    assert caplog.messages == [f"the certificate in {pair.cert} is reloaded"]


def test_what_cannot_be_used_is_told_once_and_the_old_one_stays(
    authority: Authority, junk: Path, caplog: pytest.LogCaptureFixture
) -> None:
    pair = authority.issue("localhost")
    certificates = TlsCertificates(configured(pair))
    before = certificates.context
    os.replace(junk, pair.cert)
    certificates.look()
    certificates.look()
    assert certificates.context is before
    assert [record.levelname for record in caplog.records] == ["ERROR"]
    assert "the old one stays: --tls-cert: tls.cert" in caplog.text
    renew(authority, pair)
    certificates.look()
    assert certificates.context is not before


def test_a_reload_takes_what_the_configuration_says_now(
    authority: Authority, pair: Pair, caplog: pytest.LogCaptureFixture
) -> None:
    certificates = TlsCertificates(configured(pair))
    old = authority.issue("localhost", valid_until=LONG_AGO)
    certificates.reload(configured(old))
    assert f"{old.cert} has expired" in caplog.text
    pair.cert.unlink()
    caplog.clear()
    certificates.look()
    assert caplog.text == ""
