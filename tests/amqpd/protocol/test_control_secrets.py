"""Passwords whose verification takes time: the connection waits, the loop does not."""

from __future__ import annotations

import pytest
from pamqp import commands

from amqpd.auth.passwords import ARGON2ID, hash_password
from amqpd.auth.users import User
from amqpd.broker.errors import NotAllowed
from tests.support.connection_pair import Bench, ConnectionPair, method, tune_ok
from tests.support.raw_client import (
    ALL_CAPABILITIES,
    METHOD,
    PROTOCOL_HEADER,
    connection_closed,
    encode_frame,
    encode_start_ok,
    plain,
)
from tests.support.secrets import verify_all

OPEN = method(0, commands.Connection.Open("/"))
CLOSE_OK = method(0, commands.Connection.CloseOk())
START_OK = encode_frame(
    METHOD,
    0,
    encode_start_ok(b"PLAIN", plain("guest", "guest"), ALL_CAPABILITIES),
)


def names(pair: ConnectionPair) -> list[str]:
    return [frame.method.name for frame in pair.take()]


def pass_time(pair: ConnectionPair, milliseconds: int) -> None:
    pair.bench.now_ms += milliseconds
    pair.connection.on_time(pair.bench.now_ms)


def with_slow_hash(bench: Bench, password: str = "guest") -> User:
    """The user guest, with a password whose hash is verified elsewhere."""
    hashed = hash_password(password, b"0123456789abcdef", ARGON2ID)
    user = User("guest", hashed, ARGON2ID, ("administrator",))
    bench.broker.users.put(user)
    return user


def test_a_client_that_does_not_wait_is_served_when_its_password_is_right(
    bench: Bench,
) -> None:
    with_slow_hash(bench)
    pair = bench.accept()
    pair.send(PROTOCOL_HEADER, START_OK, tune_ok(), OPEN)
    pair.send(method(1, commands.Channel.Open()))
    assert names(pair) == ["Connection.Start"]
    assert not pair.connection.may_read()
    assert verify_all(bench.broker.secrets) == 1
    bench.turn()
    assert names(pair) == [
        "Connection.Tune",
        "Connection.OpenOk",
        "Channel.OpenOk",
    ]
    assert pair.connection.may_read()


def test_a_wrong_password_is_refused_when_that_is_known(bench: Bench) -> None:
    with_slow_hash(bench, "other")
    pair = bench.accept()
    pair.send(PROTOCOL_HEADER, START_OK, tune_ok())
    pair.take()
    verify_all(bench.broker.secrets)
    bench.turn()
    closed = pair.expect_close()
    assert (closed.code, closed.class_id, closed.method_id) == (403, 0, 0)
    assert "invalid credentials" in pair.connection.control.reason
    pair.send(CLOSE_OK)
    assert pair.is_closed


def test_a_password_that_is_changed_meanwhile_lets_nobody_in(bench: Bench) -> None:
    with_slow_hash(bench)
    pair = bench.accept()
    pair.send(PROTOCOL_HEADER, START_OK)
    pair.take()
    with_slow_hash(bench, "other")
    verify_all(bench.broker.secrets)
    assert pair.expect_close().code == 403


def test_whoever_hangs_up_meanwhile_is_gone(bench: Bench) -> None:
    with_slow_hash(bench)
    pair = bench.accept()
    pair.send(PROTOCOL_HEADER, START_OK)
    pair.take()
    pair.connection.lose_socket("gone")
    verify_all(bench.broker.secrets)
    bench.turn()
    assert pair.is_closed


def test_the_wait_for_a_verification_is_not_the_clients(bench: Bench) -> None:
    with_slow_hash(bench)
    pair = bench.accept()
    pair.send(PROTOCOL_HEADER, START_OK)
    pass_time(pair, 60_000)
    assert not pair.is_closed
    bench.broker.timers.now_ms = bench.now_ms
    verify_all(bench.broker.secrets)
    pass_time(pair, 9_999)
    assert not pair.is_closed
    pass_time(pair, 1)
    assert pair.is_closed


def test_the_next_client_with_the_same_password_does_not_wait(bench: Bench) -> None:
    with_slow_hash(bench)
    pair = bench.accept()
    pair.send(PROTOCOL_HEADER, START_OK)
    verify_all(bench.broker.secrets)
    bench.connect()


@pytest.mark.parametrize(("secret", "is_right"), [("new", True), ("old", False)])
def test_a_new_secret_is_verified_before_anything_else(
    bench: Bench, pair: ConnectionPair, secret: str, is_right: bool
) -> None:
    user = with_slow_hash(bench, "new")
    pair.send(
        method(0, commands.Connection.UpdateSecret(secret, "expired")),
        method(2, commands.Channel.Open()),
    )
    assert pair.take() == []
    verify_all(bench.broker.secrets)
    bench.turn()
    if is_right:
        assert names(pair) == ["Connection.UpdateSecretOk", "Channel.OpenOk"]
        assert pair.connection.control.handshake.user is user
    else:
        text = "NOT_ALLOWED - New secret was refused by one of the backends"
        assert pair.expect_close() == connection_closed(530, text, 10, 70)


def test_a_connection_that_is_closed_meanwhile_is_not_renewed(
    bench: Bench, pair: ConnectionPair
) -> None:
    with_slow_hash(bench, "new")
    pair.send(method(0, commands.Connection.UpdateSecret("new", "expired")))
    pair.connection.close(NotAllowed("enough"), bench.now_ms)
    assert pair.expect_close().code == 530
    verify_all(bench.broker.secrets)
    bench.turn()
    assert pair.take() == []
    pair.send(CLOSE_OK)
    assert pair.is_closed
