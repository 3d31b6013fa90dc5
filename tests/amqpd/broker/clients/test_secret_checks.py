"""Passwords with slow hashes: verified once, elsewhere, and remembered."""

from __future__ import annotations

import pytest

from amqpd.auth.passwords import ARGON2ID, DEFAULT_ALGORITHM, hash_password
from amqpd.auth.users import User
from amqpd.broker.clients.secret_checks import REMEMBERED_MAX, SecretChecks
from tests.support.secrets import Verdicts, secret_checks, verify_all

SLOW = hash_password("right", b"0123456789abcdef", ARGON2ID)


def slow(name: str = "joe", password_hash: str = SLOW) -> User:
    return User(name, password_hash, ARGON2ID)


def ask(checks: SecretChecks, secret: str, user: User | None = None) -> Verdicts:
    verdicts = Verdicts()
    known = checks.ask(user or slow(), secret, verdicts)
    if known is not None:
        verdicts.told.append(known)
    return verdicts


@pytest.mark.parametrize(("secret", "is_right"), [("right", True), ("wrong", False)])
def test_a_quick_hash_is_verified_at_once(secret: str, is_right: bool) -> None:
    checks = secret_checks()
    user = User("joe", hash_password("right", b"salt"), DEFAULT_ALGORITHM)
    assert checks.ask(user, secret, Verdicts()) is is_right
    assert not checks.has_work


@pytest.mark.parametrize(("secret", "is_right"), [("right", True), ("wrong", False)])
def test_a_slow_hash_is_a_step(secret: str, is_right: bool) -> None:
    checks = secret_checks()
    verdicts = ask(checks, secret)
    assert (verdicts.told, checks.has_work) == ([], True)
    assert verify_all(checks) == 1
    assert (verdicts.told, checks.has_work) == ([is_right], False)


def test_who_asks_the_same_waits_for_the_same() -> None:
    checks = secret_checks()
    first, second, other = (ask(checks, one) for one in ("right", "right", "wrong"))
    assert verify_all(checks) == 2
    assert (first.told, second.told, other.told) == ([True], [True], [False])


def test_what_was_right_is_remembered_and_what_was_wrong_is_not() -> None:
    checks = secret_checks()
    ask(checks, "right")
    ask(checks, "wrong")
    verify_all(checks)
    assert ask(checks, "right").told == [True]
    assert ask(checks, "wrong").told == []


def test_another_hash_or_another_user_is_not_remembered() -> None:
    checks = secret_checks()
    ask(checks, "right")
    verify_all(checks)
    changed = hash_password("other", b"0123456789abcdef", ARGON2ID)
    assert ask(checks, "right", slow(password_hash=changed)).told == []
    assert ask(checks, "right", slow(name="ann")).told == []


def test_memory_is_bounded() -> None:
    checks = secret_checks()
    ask(checks, "right")
    verify_all(checks)
    # As if so many others had logged in.
    checks._known.update((b"%d" % number, None) for number in range(REMEMBERED_MAX))
    ask(checks, "right", slow(name="ann"))
    verify_all(checks)
    assert ask(checks, "right").told == []
    assert ask(checks, "right", slow(name="ann")).told == [True]
