"""Password hashes: RabbitMQ's formats, verified and produced."""

import base64
import hashlib

import pytest

from amqpd.auth.passwords import (
    ALGORITHMS,
    ARGON2ID,
    DEFAULT_ALGORITHM,
    AlgorithmUnknown,
    hash_password,
    is_slow,
    salt_size,
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
    salt = (4 * SALT)[: salt_size(algorithm)]
    password_hash = hash_password(password, salt, algorithm)

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


def test_an_argon2_hash_is_the_usual_text_in_base64() -> None:
    hashed = hash_password("secret", b"0123456789abcdef", ARGON2ID)
    text = base64.b64decode(hashed)
    assert text.startswith(b"$argon2id$v=19$m=19456,t=2,p=1$")
    assert verify("secret", hashed, ARGON2ID)
    assert not verify("Secret", hashed, ARGON2ID)


def test_another_programs_argon2_hash_is_verified() -> None:
    from argon2 import PasswordHasher

    encoded = PasswordHasher(time_cost=1, memory_cost=64).hash("p\u00e4ss")
    assert verify("p\u00e4ss", base64.b64encode(encoded.encode()).decode(), ARGON2ID)


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"no hash",
        b"$argon2id$v=19$m=4194304,t=2,p=1$MDEyMzQ1Njc4OWFiY2RlZg$AAAA",
        b"$argon2id$v=19$m=64,t=99999,p=1$MDEyMzQ1Njc4OWFiY2RlZg$AAAA",
    ],
)
def test_what_is_no_hash_or_costs_too_much_fits_nothing(text: bytes) -> None:
    assert not verify("", base64.b64encode(text).decode(), ARGON2ID)


def test_only_argon2_is_slow_and_wants_much_salt() -> None:
    slow = [algorithm for algorithm in ALGORITHMS if is_slow(algorithm)]
    assert slow == [ARGON2ID]
    assert {salt_size(algorithm) for algorithm in ALGORITHMS} == {4, 16}
