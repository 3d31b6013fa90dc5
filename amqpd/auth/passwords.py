"""Password hashes: RabbitMQ's, so that users move both ways, and a better one.

    rabbit_password_hashing_*          base64( salt, 4 bytes | digest(salt | password) )
    amqpd_password_hashing_argon2id    base64( "$argon2id$v=19$m=19456,t=2,p=1$..." )

Three digests exist; SHA-256 is RabbitMQ's default and MD5 only what very old
definitions hold. They are quick: whoever gets hold of them can try billions of
passwords. So new hashes are argon2id, unless the configuration says otherwise. That
takes 19 MiB and about 20 ms on purpose, and is never done where others wait
(`is_slow`). RabbitMQ does not know it: such a user needs a new password there.

Salts come from the caller: nothing here reads a source of randomness. A password that
is no valid UTF-8 keeps its bytes (surrogate escapes), as it was hashed from bytes.
"""

import base64
import binascii
import hashlib
import hmac
from typing import Final

#: What a salt of RabbitMQ's has.
SALT_SIZE: Final = 4
_ARGON2_SALT_SIZE: Final = 16

#: What hashed a password when nobody says.
DEFAULT_ALGORITHM: Final = "rabbit_password_hashing_sha256"
ARGON2ID: Final = "amqpd_password_hashing_argon2id"

#: RabbitMQ's name of an algorithm -> what it is called elsewhere.
_DIGESTS: Final[dict[str, str]] = {
    "rabbit_password_hashing_sha256": "sha256",
    "rabbit_password_hashing_sha512": "sha512",
    "rabbit_password_hashing_md5": "md5",
}

ALGORITHMS: Final[tuple[str, ...]] = (*_DIGESTS, ARGON2ID)

# The least that OWASP advises for argon2id; more would be felt at every first login.
_TIME_COST: Final = 2
_MEMORY_KIB: Final = 19 * 1024
_PARALLELISM: Final = 1
_HASH_SIZE: Final = 32
# A hash from a file says itself what it costs to verify it.
_MEMORY_KIB_MAX: Final = 1024 * 1024
_TIME_COST_MAX: Final = 64


class AlgorithmUnknown(ValueError):
    """A password hashing algorithm that this broker does not know."""


def is_slow(algorithm: str) -> bool:
    """Whether hashing and verifying take so long that others must not wait for it."""
    return algorithm == ARGON2ID


def salt_size(algorithm: str) -> int:
    """Return how many octets of chance a new hash needs."""
    return _ARGON2_SALT_SIZE if algorithm == ARGON2ID else SALT_SIZE


def hash_password(
    password: str, salt: bytes, algorithm: str = DEFAULT_ALGORITHM
) -> str:
    """Return the hash as RabbitMQ's tables and definitions hold it.

    Raises:
        AlgorithmUnknown: see ALGORITHMS.
    """
    if algorithm == ARGON2ID:
        return base64.b64encode(_argon2(password, salt)).decode()
    return base64.b64encode(salt + _digest(password, salt, algorithm)).decode()


def verify(password: str, password_hash: str, algorithm: str) -> bool:
    """Return whether `password` is the one that was hashed.

    A hash that is no hash (damaged, or of another algorithm) fits no password.

    Raises:
        AlgorithmUnknown: see ALGORITHMS.
    """
    try:
        expected = base64.b64decode(password_hash, validate=True)
    except (binascii.Error, ValueError):
        expected = b""
    if algorithm == ARGON2ID:
        return _fits_argon2(password, expected)
    salt = expected[:SALT_SIZE]
    digest = _digest(password, salt, algorithm)
    return hmac.compare_digest(salt + digest, expected)


def _octets(password: str) -> bytes:
    return password.encode("utf-8", "surrogateescape")


def _argon2(password: str, salt: bytes) -> bytes:
    # Only where it is needed: a start should not take longer for it.
    from argon2 import low_level

    return low_level.hash_secret(
        _octets(password),
        salt,
        _TIME_COST,
        _MEMORY_KIB,
        _PARALLELISM,
        _HASH_SIZE,
        low_level.Type.ID,
    )


def _fits_argon2(password: str, encoded: bytes) -> bool:
    from argon2 import exceptions, extract_parameters, low_level

    try:
        costs = extract_parameters(encoded.decode("ascii", "replace"))
        if costs.memory_cost > _MEMORY_KIB_MAX or costs.time_cost > _TIME_COST_MAX:
            return False
        return low_level.verify_secret(encoded, _octets(password), low_level.Type.ID)
    except (exceptions.VerificationError, exceptions.InvalidHash):
        return False


def _digest(password: str, salt: bytes, algorithm: str) -> bytes:
    name = _DIGESTS.get(algorithm)
    if name is None:
        raise AlgorithmUnknown(f"unknown password hashing algorithm '{algorithm}'")
    data = salt + _octets(password)
    # Not for security: MD5 must verify where the policy of the machine forbids it.
    return hashlib.new(name, data, usedforsecurity=False).digest()
