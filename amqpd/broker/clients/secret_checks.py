"""Whether a password is a user's, where finding out takes its time.

    verdict = checks.ask(user, secret, waiter)      True, False, or None: later
    step = checks.begin(); step.run()               on a worker thread
    checks.complete(step)                           waiter.on_secret_checked(verdict)

A quick hash is verified at once. A slow one is a step; who asks the same while it is
under way waits for the same. What was right is remembered as a keyed digest, bound to
the stored hash and with a key that only this process has, so that a thousand clients
of one user that connect again cost one verification, and a changed password is
forgotten.
"""

import hashlib
import hmac
from collections import deque
from collections.abc import Callable
from typing import Final, final

from amqpd.auth.passwords import is_slow, verify
from amqpd.auth.users import User
from amqpd.broker.ports import SecretWaiter

REMEMBERED_MAX: Final = 4096
_KEY_SIZE: Final = 32


@final
class SecretCheck:
    """One verification."""

    def __init__(self, user: User, secret: str, digest: bytes) -> None:
        self.digest = digest
        self.is_right = False
        self.waiters: list[SecretWaiter] = []
        self._user = user
        self._secret = secret

    def run(self) -> None:
        """Verify it."""
        user = self._user
        self.is_right = verify(self._secret, user.password_hash, user.algorithm)


@final
class SecretChecks:
    """All verifications, and what is known from them."""

    def __init__(self, random_octets: Callable[[int], bytes]) -> None:
        self._random_octets = random_octets
        self._key = b""
        self._known: dict[bytes, None] = {}
        self._pending: dict[bytes, SecretCheck] = {}
        self._waiting: deque[SecretCheck] = deque()

    def ask(self, user: User, secret: str, waiter: SecretWaiter) -> bool | None:
        """Return whether the secret is the user's; None: the waiter is told later."""
        if not is_slow(user.algorithm):
            return verify(secret, user.password_hash, user.algorithm)
        digest = self._digest(user, secret)
        if digest in self._known:
            return True
        check = self._pending.get(digest)
        if check is None:
            check = SecretCheck(user, secret, digest)
            self._pending[digest] = check
            self._waiting.append(check)
        check.waiters.append(waiter)
        return None

    @property
    def has_work(self) -> bool:
        """Whether a verification waits to be begun."""
        return bool(self._waiting)

    def begin(self) -> SecretCheck | None:
        """Take the next one; None: there is none."""
        return self._waiting.popleft() if self._waiting else None

    def complete(self, check: SecretCheck) -> None:
        """Tell those who wait."""
        del self._pending[check.digest]
        if check.is_right:
            if len(self._known) >= REMEMBERED_MAX:
                self._known.clear()
            self._known[check.digest] = None
        for waiter in check.waiters:
            waiter.on_secret_checked(check.is_right)

    def _digest(self, user: User, secret: str) -> bytes:
        if not self._key:
            self._key = self._random_octets(_KEY_SIZE)
        said = "\0".join((user.name, user.algorithm, user.password_hash, secret))
        octets = said.encode("utf-8", "surrogateescape")
        return hmac.new(self._key, octets, hashlib.sha256).digest()
