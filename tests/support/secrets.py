"""Who waits for the verdict on a password, and verifications without a thread."""

from __future__ import annotations

from amqpd.broker.clients.secret_checks import SecretChecks


class Verdicts:
    """Remembers what it is told."""

    def __init__(self) -> None:
        self.told: list[bool] = []

    def on_secret_checked(self, is_right: bool) -> None:
        """Note it."""
        self.told.append(is_right)


def secret_checks() -> SecretChecks:
    """Verifications with a key that is no secret."""
    return SecretChecks(bytes)


def verify_all(checks: SecretChecks) -> int:
    """Do all verifications that wait; return how many there were."""
    count = 0
    while (check := checks.begin()) is not None:
        check.run()
        checks.complete(check)
        count += 1
    return count
