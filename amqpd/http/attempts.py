"""Attempts to log in, by protocol, since they were counted anew.

What connections do is counted by the broker for good; what was counted when somebody
asked for a new beginning is taken off. What the API does is counted here.
"""

from __future__ import annotations

from typing import final

from amqpd.broker.clients.traffic import Churn


@final
class LoginAttempts:
    """How many there were, and how many of them failed."""

    def __init__(self) -> None:
        self._http = [0, 0]
        self._amqp_before = [0, 0]

    def count(self, is_right: bool) -> None:
        """Somebody has shown credentials to the API."""
        self._http[is_right] += 1

    def of_protocols(self, churn: Churn) -> dict[str, tuple[int, int]]:
        """Return how many failed and how many succeeded, of each protocol."""
        failed, succeeded = self._amqp_before
        amqp = churn.logins_failed - failed, churn.logins_succeeded - succeeded
        return {"http": (self._http[0], self._http[1]), "amqp091": amqp}

    def forget(self, churn: Churn) -> None:
        """Count anew."""
        self._http = [0, 0]
        self._amqp_before = [churn.logins_failed, churn.logins_succeeded]
