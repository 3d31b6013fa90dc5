"""Users: who exists, and who may try to log in from where.

A login fails in four ways (a wrong password is one), and the peer is told the same of
all of them; the reason is in the exception, for the log. A user without a password hash
exists but cannot log in with a password (RabbitMQ's passwordless users, for
certificates and other backends). Some users (guest, unless configured otherwise) may
only come from this machine.

The registry knows nothing of where users are kept: the broker fills it from its tables.
"""

from typing import Final, final

from mypy_extensions import i64

from amqpd.auth.passwords import DEFAULT_ALGORITHM

#: Which users may only log in over the loopback interface unless configured otherwise.
DEFAULT_LOOPBACK_USERS: Final[frozenset[str]] = frozenset({"guest"})


class LoginRefused(Exception):
    """Not let in; `reason` is for the log, the peer is not told."""

    def __init__(self, user_name: str, reason: str) -> None:
        super().__init__(reason)
        self.user_name = user_name
        self.reason = reason


def invalid_credentials(name: str) -> LoginRefused:
    """The refusal of a wrong password."""
    return LoginRefused(name, f"user '{_shown(name)}' - invalid credentials")


def _shown(name: str) -> str:
    """Return the name for a log line: anybody may send any bytes as a name."""
    return name if name.isprintable() else ascii(name)[1:-1]


@final
class User:
    """One user as the tables have it; the hash is base64 as RabbitMQ writes it."""

    def __init__(
        self,
        name: str,
        password_hash: str,
        algorithm: str = DEFAULT_ALGORITHM,
        tags: tuple[str, ...] = (),
    ) -> None:
        self.name = name
        self.password_hash = password_hash
        self.algorithm = algorithm
        self.tags = tags

    @property
    def is_impersonator(self) -> bool:
        """Whether it may publish under another user's id."""
        return "impersonator" in self.tags

    @property
    def is_administrator(self) -> bool:
        """Whether it may administer everything."""
        return "administrator" in self.tags


@final
class UserRegistry:
    """All users by name. `generation` counts changes, for caches of verdicts."""

    def __init__(self) -> None:
        self._users: dict[str, User] = {}
        self.generation: i64 = 0

    def put(self, user: User) -> None:
        """Add `user`, or replace the one of that name."""
        self._users[user.name] = user
        self.generation += 1

    def remove(self, name: str) -> None:
        """Forget the user; does nothing when there is none."""
        if self._users.pop(name, None) is not None:
            self.generation += 1

    def get(self, name: str) -> User | None:
        """Return the user of that name, if any."""
        return self._users.get(name)

    def names(self) -> list[str]:
        """Return all names, sorted."""
        return sorted(self._users)

    def candidate(
        self, name: str, from_loopback: bool, loopback_users: frozenset[str]
    ) -> User:
        """Return the user whom a password would have to prove.

        Raises:
            LoginRefused: no password would do: there is no such user, it has none, or
                may only come from this machine. Texts are those of RabbitMQ's log.
        """
        user = self._users.get(name)
        if user is None or not user.password_hash:
            raise invalid_credentials(name)
        _check_origin(name, from_loopback, loopback_users)
        return user

    def certified(
        self, name: str, from_loopback: bool, loopback_users: frozenset[str]
    ) -> User:
        """Return the user whom a verified certificate names; no password is needed.

        Raises:
            LoginRefused: there is no such user, or it may only come from this machine.
        """
        user = self._users.get(name)
        if user is None:
            text = f"there is no user '{_shown(name)}', whom the certificate names"
            raise LoginRefused(name, text)
        _check_origin(name, from_loopback, loopback_users)
        return user


def _check_origin(
    name: str, from_loopback: bool, loopback_users: frozenset[str]
) -> None:
    if not from_loopback and name in loopback_users:
        raise LoginRefused(name, f"user '{name}' can only connect via localhost")
