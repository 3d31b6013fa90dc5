"""Who asks: HTTP's Basic authentication against the broker's users.

A client sends its password with every request, and a good password hash takes tens of
milliseconds on purpose. So a password that was verified is remembered for a while, as a
keyed digest: the key is this process's own and the digest is bound to the stored hash,
so a changed password is forgotten with it. Verifying runs on a worker thread.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import hmac
import logging
import os
from typing import Final, final

from amqpd.auth.users import LoginRefused, User, UserRegistry
from amqpd.http.errors import NotAuthenticated, NotAuthorised

logger = logging.getLogger("amqpd.http")

REMEMBERED_MAX: Final = 1024
#: A good hash takes memory as well as time, and anybody may try passwords.
VERIFIED_AT_ONCE: Final = 2
LOGIN_FAILED: Final = "Login failed"

_NOBODY: Final[frozenset[str]] = frozenset()


@final
class Login:
    """Checks credentials."""

    def __init__(self, users: UserRegistry, loopback_users: frozenset[str]) -> None:
        self._users = users
        self._loopback_users = loopback_users
        self._key = os.urandom(32)
        self._remembered: dict[bytes, None] = {}
        self._turns = asyncio.Semaphore(VERIFIED_AT_ONCE)

    async def user_of(self, header: str | None, is_loopback: bool) -> User:
        """Return the user whom an Authorization header proves.

        Raises:
            NotAuthenticated: there is none, or a wrong password.
            NotAuthorised: the user may only come from this machine, and does not.
        """
        name, password = _credentials(header)
        user = self._users.get(name)
        if user is None or not user.password_hash:
            raise _failed(name)
        digest = self._digest(user, password)
        if digest not in self._remembered:
            async with self._turns:
                is_right = await asyncio.to_thread(self._verify, name, password)
            if not is_right:
                raise _failed(name)
            self._remember(digest)
        if not is_loopback and name in self._loopback_users:
            raise NotAuthorised("User can only log in via localhost")
        # As it is now: it may have been changed while the thread was at it.
        user = self._users.get(name)
        if user is None:
            raise _failed(name)
        return user

    def _verify(self, name: str, password: str) -> bool:
        try:
            self._users.authenticate(name, password, True, _NOBODY)
        except LoginRefused:
            return False
        return True

    def _digest(self, user: User, password: str) -> bytes:
        said = "\0".join((user.name, user.algorithm, user.password_hash, password))
        octets = said.encode("utf-8", "surrogateescape")
        return hmac.new(self._key, octets, hashlib.sha256).digest()

    def _remember(self, digest: bytes) -> None:
        if len(self._remembered) >= REMEMBERED_MAX:
            self._remembered.clear()
        self._remembered[digest] = None


def _credentials(header: str | None) -> tuple[str, str]:
    """Return name and password as the header has them."""
    scheme, _, encoded = (header or "").partition(" ")
    if scheme.lower() != "basic":
        raise NotAuthenticated("")
    try:
        octets = base64.b64decode(encoded.strip(), validate=True)
    except (binascii.Error, ValueError):
        raise NotAuthenticated(LOGIN_FAILED) from None
    name, _, password = octets.decode("utf-8", "surrogateescape").partition(":")
    return name, password


def _failed(name: str) -> NotAuthenticated:
    shown = name if name.isprintable() else ascii(name)[1:-1]
    logger.warning("HTTP access denied: user '%s' - invalid credentials", shown)
    return NotAuthenticated(LOGIN_FAILED)
