"""Who asks: HTTP's Basic authentication against the broker's users.

A client sends its password with every request, and a good password hash takes tens of
milliseconds on purpose. `SecretChecks` knows what was right before, whether over HTTP
or AMQP, and has somebody else verify the rest; whoever drives it is woken.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import logging
from collections.abc import Callable
from typing import Final, final

from amqpd.auth.users import User, UserRegistry
from amqpd.broker.clients.secret_checks import SecretChecks
from amqpd.http.attempts import LoginAttempts
from amqpd.http.errors import HttpError, NotAuthenticated, NotAuthorised

logger = logging.getLogger("amqpd.http")

LOGIN_FAILED: Final = "Login failed"


@final
class Login:
    """Checks credentials."""

    def __init__(
        self,
        users: UserRegistry,
        secrets: SecretChecks,
        wake: Callable[[], None],
        loopback_users: frozenset[str],
        attempts: LoginAttempts,
    ) -> None:
        self._users = users
        self._secrets = secrets
        self._wake = wake
        self._loopback_users = loopback_users
        self._attempts = attempts

    async def user_of(self, header: str | None, is_loopback: bool) -> User:
        """Return the user whom an Authorization header proves.

        Raises:
            NotAuthenticated: there is none, or a wrong password.
            NotAuthorised: the user may only come from this machine, and does not.
        """
        name, password = _credentials(header)
        try:
            user = await self._user_of(name, password, is_loopback)
        except HttpError:
            self._attempts.count(False)
            raise
        self._attempts.count(True)
        return user

    async def _user_of(self, name: str, password: str, is_loopback: bool) -> User:
        user = self._users.get(name)
        if user is None or not user.password_hash:
            raise _failed(name)
        if not await self._is_right(user, password):
            raise _failed(name)
        if not is_loopback and name in self._loopback_users:
            raise NotAuthorised("User can only log in via localhost")
        # As it is now: it may have been changed while somebody verified.
        user = self._users.get(name)
        if user is None:
            raise _failed(name)
        return user

    async def _is_right(self, user: User, password: str) -> bool:
        verdict = _Verdict()
        is_right = self._secrets.ask(user, password, verdict)
        if is_right is None:
            self._wake()
            is_right = await verdict.future
        return is_right


@final
class _Verdict:
    """Waits for a verification; who asked may go away meanwhile."""

    def __init__(self) -> None:
        self.future: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

    def on_secret_checked(self, is_right: bool) -> None:
        """It is over."""
        if not self.future.done():
            self.future.set_result(is_right)


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
