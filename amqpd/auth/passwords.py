"""Password hashes in RabbitMQ's formats, so that users move both ways with them.

    base64( salt, 4 bytes | digest(salt | password, UTF-8) )

Three digests exist; SHA-256 is the default and MD5 only what very old definitions hold.
Salts come from the caller: nothing here reads a source of randomness. A password that
is no valid UTF-8 keeps its bytes (surrogate escapes), as it was hashed from bytes.
"""

import base64
import binascii
import hashlib
import hmac
from typing import Final

SALT_SIZE: Final = 4

DEFAULT_ALGORITHM: Final = "rabbit_password_hashing_sha256"

#: RabbitMQ's name of an algorithm -> what it is called elsewhere.
_DIGESTS: Final[dict[str, str]] = {
    "rabbit_password_hashing_sha256": "sha256",
    "rabbit_password_hashing_sha512": "sha512",
    "rabbit_password_hashing_md5": "md5",
}

ALGORITHMS: Final[tuple[str, ...]] = tuple(_DIGESTS)


class AlgorithmUnknown(ValueError):
    """A password hashing algorithm that this broker does not know."""


def hash_password(
    password: str, salt: bytes, algorithm: str = DEFAULT_ALGORITHM
) -> str:
    """Return the hash as RabbitMQ's tables and definitions hold it.

    Raises:
        AlgorithmUnknown: see ALGORITHMS.
    """
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
    salt = expected[:SALT_SIZE]
    digest = _digest(password, salt, algorithm)
    return hmac.compare_digest(salt + digest, expected)


def _digest(password: str, salt: bytes, algorithm: str) -> bytes:
    name = _DIGESTS.get(algorithm)
    if name is None:
        raise AlgorithmUnknown(f"unknown password hashing algorithm '{algorithm}'")
    data = salt + password.encode("utf-8", "surrogateescape")
    # Not for security: MD5 must verify where the policy of the machine forbids it.
    return hashlib.new(name, data, usedforsecurity=False).digest()
