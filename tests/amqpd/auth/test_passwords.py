"""Password hashes: RabbitMQ's formats, verified and produced."""

import base64
import hashlib

import pytest

from amqpd.auth.passwords import (
    ALGORITHMS,
    DEFAULT_ALGORITHM,
    AlgorithmUnknown,
    hash_password,
    verify,
)

SALT = b"\x90\x8d\xc6\x0a"


def test_a_hash_is_the_salt_and_the_digest_of_salt_and_password() -> None:
    # The example of RabbitMQ's documentation ("Computing a Password Hash").
    expected = base64.b64encode(SALT + hashlib.sha256(SALT + b"test12").digest())

    assert hash_password("test12", SALT) == expected.decode()
    assert expected == b"kI3GCqW5JLMJa4iX1lo7X4D6XbYqlLgxIs30+P6tENUV2POR"


def test_a_hash_made_elsewhere_is_verified() -> None:
    known = "+pHuxkR9fCyrrwXjOD4BP4XbzO3l8LJr8YkThMgJ0yVHFRE+"

    assert verify("guest", known, DEFAULT_ALGORITHM)
    assert not verify("Guest", known, DEFAULT_ALGORITHM)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("password", ["", "guest", "p\xe4ss\u0142\U0001f407", "\udcff"])
def test_every_algorithm_verifies_its_own_hash_only(
    algorithm: str, password: str
) -> None:
    password_hash = hash_password(password, SALT, algorithm)

    for other in ALGORITHMS:
        assert verify(password, password_hash, other) == (other == algorithm)
    assert not verify(password + "x", password_hash, algorithm)


@pytest.mark.parametrize("damaged", ["", "AAAA", "no base64!", "kI3GCqW5JLM", "\xe4"])
def test_a_damaged_hash_fits_no_password(damaged: str) -> None:
    assert not verify("", damaged, DEFAULT_ALGORITHM)


def test_a_hash_with_something_in_between_is_damaged() -> None:
    password_hash = hash_password("guest", SALT)

    damaged = password_hash[:8] + "!" + password_hash[8:]

    assert not verify("guest", damaged, DEFAULT_ALGORITHM)


def test_an_unknown_algorithm_is_an_error_and_not_a_refusal() -> None:
    with pytest.raises(AlgorithmUnknown, match="rot13"):
        verify("guest", "AAAA", "rot13")
    with pytest.raises(AlgorithmUnknown, match="rot13"):
        hash_password("guest", SALT, "rot13")
