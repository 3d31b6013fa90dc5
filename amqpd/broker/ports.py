"""What the broker calls in the rooms before it, on the data plane.

They are traits that the front room's classes inherit: compiled, a call costs what a
method call costs. The others are plain protocols: a call for each alarm, login or disk
operation may cost what it likes.
"""

from typing import Protocol

from mypy_extensions import i64, trait


@trait
class DurabilityWaiter:
    """Who is told what became of a range of numbers that waited for the disk."""

    def on_durable(self, first: i64, last: i64) -> None:
        """An fsync that covers them has returned, or nobody needs one any more."""
        raise NotImplementedError

    def on_refused(self, first: i64, last: i64) -> None:
        """The disk would not take them; nothing of them is kept."""
        raise NotImplementedError


class AlarmWaiter(Protocol):
    """Who publishes, and so waits as long as an alarm is on."""

    def on_alarms_over(self) -> None:
        """No resource is short any more."""


class SecretWaiter(Protocol):
    """Who waits for the verdict on a password, once for a connection."""

    def on_secret_checked(self, is_right: bool) -> None:
        """It is there."""


class Step(Protocol):
    """Work that blocks. It was begun on the loop and is completed there."""

    def run(self) -> None:
        """Do it, on whatever thread; never raises."""
