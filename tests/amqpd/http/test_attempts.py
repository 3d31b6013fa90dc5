"""Attempts to log in, counted by protocol and counted anew."""

from amqpd.broker.clients.traffic import Churn
from amqpd.http.attempts import LoginAttempts


def test_attempts_are_those_since_they_were_counted_anew() -> None:
    attempts, churn = LoginAttempts(), Churn()
    churn.logins_failed, churn.logins_succeeded = 1, 2
    for is_right in (True, True, False):
        attempts.count(is_right)
    assert attempts.of_protocols(churn) == {"http": (1, 2), "amqp091": (1, 2)}
    attempts.forget(churn)
    churn.logins_succeeded += 3
    attempts.count(False)
    assert attempts.of_protocols(churn) == {"http": (1, 0), "amqp091": (0, 3)}
