"""SASL: who gets in by PLAIN and AMQPLAIN, and how the others are refused."""

from __future__ import annotations

import pytest
from pamqp import commands

from tests.support.differences import Expectations
from tests.support.raw_client import (
    ALL_CAPABILITIES,
    METHOD,
    RawClient,
    connection_closed,
    encode_start_ok,
    longstr,
    plain,
    shortstr,
)


def amqplain(**fields: str) -> bytes:
    """Return the AMQPLAIN response: a table without its length."""
    return b"".join(
        shortstr(key.encode()) + b"S" + longstr(value.encode())
        for key, value in fields.items()
    )


def answer_start(
    client: RawClient,
    mechanism: bytes,
    response: bytes,
    client_properties: bytes = ALL_CAPABILITIES,
) -> None:
    client.start()
    start_ok = encode_start_ok(mechanism, response, client_properties)
    client.send_frame(METHOD, 0, start_ok)


@pytest.mark.parametrize(
    ("mechanism", "response"),
    [
        (b"PLAIN", plain("limited", "limited")),
        (b"AMQPLAIN", amqplain(LOGIN="limited", PASSWORD="limited")),
        (b"AMQPLAIN", amqplain(PASSWORD="limited", X="y", LOGIN="limited")),
    ],
    ids=["PLAIN", "AMQPLAIN", "AMQPLAIN in another order"],
)
def test_the_right_password_is_answered_with_tune(
    stranger: RawClient, mechanism: bytes, response: bytes
) -> None:
    answer_start(stranger, mechanism, response)
    tune = stranger.expect_method(0, commands.Connection.Tune)
    assert (tune.channel_max, tune.frame_max, tune.heartbeat) == (2047, 131072, 60)


def test_plain_ignores_the_authorization_identity(
    stranger: RawClient, expectations: Expectations
) -> None:
    answer_start(stranger, b"PLAIN", b"somebody\x00limited\x00limited")
    logged_in = connection_closed(0, "")
    expected = expectations.of("plain-authorization-identity", logged_in)
    if expected == logged_in:
        stranger.expect_method(0, commands.Connection.Tune)
    else:
        stranger.expect_refusal(expected)


@pytest.mark.parametrize(
    ("mechanism", "response"),
    [
        (b"PLAIN", plain("limited", "wrong")),
        (b"PLAIN", plain("limited", "")),
        (b"PLAIN", plain("nobody", "limited")),
        (b"AMQPLAIN", amqplain(LOGIN="limited", PASSWORD="wrong")),
    ],
    ids=["wrong password", "empty password", "unknown user", "AMQPLAIN"],
)
def test_a_refused_login_is_403_for_clients_that_can_tell(
    stranger: RawClient, mechanism: bytes, response: bytes
) -> None:
    answer_start(stranger, mechanism, response)
    text = (
        "ACCESS_REFUSED - Login was refused using authentication mechanism "
        f"{mechanism.decode()}. For details see the broker logfile."
    )
    stranger.expect_refusal(connection_closed(403, text))


def test_a_refused_login_is_silence_for_clients_that_cannot_tell(
    stranger: RawClient,
) -> None:
    answer_start(stranger, b"PLAIN", plain("limited", "wrong"), b"")
    stranger.set_timeout(10)
    stranger.expect_end()


def test_an_unknown_mechanism_is_503(
    stranger: RawClient, expectations: Expectations
) -> None:
    answer_start(stranger, b"NOPE", b"")
    text = "COMMAND_INVALID - unknown authentication mechanism 'NOPE'"
    ours = connection_closed(503, text, 10, 11)
    stranger.expect_refusal(expectations.of("handshake-error", ours))


@pytest.mark.parametrize(
    ("mechanism", "response"),
    [
        (b"PLAIN", b"limited"),
        (b"AMQPLAIN", b"garbage"),
        (b"AMQPLAIN", amqplain(LOGIN="limited")),
    ],
    ids=["PLAIN", "AMQPLAIN", "AMQPLAIN without a password"],
)
def test_a_malformed_response_is_502(
    stranger: RawClient,
    expectations: Expectations,
    mechanism: bytes,
    response: bytes,
) -> None:
    answer_start(stranger, mechanism, response)
    ours = connection_closed(502, "SYNTAX_ERROR - ...", 10, 11)
    stranger.expect_refusal(expectations.of("handshake-error", ours))
