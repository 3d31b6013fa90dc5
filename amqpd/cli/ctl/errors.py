"""What a verb fails with: a text for people and an exit code for scripts.

The codes are those of `rabbitmqctl`, which are those of sysexits.h:

    64   the command line is wrong
    65   what was named or given cannot be used: no such virtual host, bad file
    67   no such user
    69   the broker is not there, refuses, or a check failed
    70   it failed on the way
    75   not in time: trying again may help
"""

from __future__ import annotations

from typing import Final

EXIT_OK: Final = 0
EXIT_USAGE: Final = 64
EXIT_DATA: Final = 65
EXIT_NO_USER: Final = 67
EXIT_UNAVAILABLE: Final = 69
EXIT_SOFTWARE: Final = 70
EXIT_TEMPORARY: Final = 75


class Failure(Exception):
    """The verb did not do what it was asked to; `hint` says what may help."""

    def __init__(
        self, text: str, exit_code: int = EXIT_UNAVAILABLE, hint: str = ""
    ) -> None:
        super().__init__(text)
        self.exit_code = exit_code
        self.hint = hint


class Unreachable(Failure):
    """Nobody answers at the URL, or not in time."""


class Refused(Failure):
    """The broker answered with an error status."""

    def __init__(
        self, status: int, reason: str, text: str, exit_code: int, hint: str = ""
    ) -> None:
        super().__init__(text, exit_code, hint)
        self.status = status
        self.reason = reason


class UsageError(Failure):
    """The command line cannot be understood."""

    def __init__(self, text: str, hint: str = "") -> None:
        super().__init__(text, EXIT_USAGE, hint)


def no_such_user(name: str) -> Failure:
    """Return what any verb says about a user who does not exist."""
    return Failure(f'User "{name}" does not exist', EXIT_NO_USER)


def no_such_vhost(name: str) -> Failure:
    """Return what any verb says about a virtual host that does not exist."""
    return Failure(f"Virtual host '{name}' does not exist", EXIT_DATA)
