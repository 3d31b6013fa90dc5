"""From exceptions to close methods: code, level, text, offending method."""

import pytest
from pamqp import commands, frame

from amqpd.broker.errors import (
    AccessRefused,
    AmqpError,
    InternalError,
    LoginFailed,
    NotAllowed,
    NotFound,
)
from amqpd.protocol.errors import as_amqp_error, close_method, reply_text
from amqpd.wire.errors import FrameMalformed, MethodUnknown, SyntaxMalformed, WireError


def test_a_channel_exception_closes_the_channel() -> None:
    is_channel_level, close = close_method(
        NotFound("no queue 'q' in vhost '/'"), 50, 10
    )

    assert is_channel_level
    assert isinstance(close, commands.Channel.Close)
    assert close.reply_code == 404
    assert close.reply_text == "NOT_FOUND - no queue 'q' in vhost '/'"
    assert (close.class_id, close.method_id) == (50, 10)


def test_a_connection_exception_closes_the_connection() -> None:
    is_channel_level, close = close_method(NotAllowed("vhost x not found"), 10, 40)

    assert not is_channel_level
    assert isinstance(close, commands.Connection.Close)
    assert close.reply_code == 530
    assert close.reply_text == "NOT_ALLOWED - vhost x not found"
    assert (close.class_id, close.method_id) == (10, 40)


def test_a_refused_login_closes_the_connection_with_the_code_of_a_refused_access() -> (
    None
):
    assert not close_method(LoginFailed("no"), 0, 0)[0]
    assert close_method(AccessRefused("no"), 0, 0)[0]
    assert close_method(LoginFailed("no"), 0, 0)[1].reply_code == 403


@pytest.mark.parametrize(
    ("error", "code", "text"),
    [
        (FrameMalformed("f"), 501, "FRAME_ERROR - f"),
        (SyntaxMalformed("s"), 502, "SYNTAX_ERROR - s"),
        (MethodUnknown("m"), 503, "COMMAND_INVALID - m"),
        (WireError("w"), 502, "SYNTAX_ERROR - w"),
    ],
)
def test_what_is_wrong_with_bytes_has_its_code(
    error: WireError, code: int, text: str
) -> None:
    is_channel_level, close = close_method(error, 0, 0)

    assert not is_channel_level
    assert (close.reply_code, close.reply_text) == (code, text)


def test_our_own_failure_is_not_explained_to_the_peer() -> None:
    is_channel_level, close = close_method(ZeroDivisionError("secret"), 60, 40)

    assert not is_channel_level
    assert (close.reply_code, close.reply_text) == (541, "INTERNAL_ERROR")


def test_a_refusal_is_passed_through_unchanged() -> None:
    error = InternalError("queue.declare: database is locked")

    assert as_amqp_error(error) is error


def test_a_text_that_fits_exactly_is_not_cut() -> None:
    text = "x" * (255 - len("NOT_FOUND - "))

    assert reply_text(NotFound(text)) == f"NOT_FOUND - {text}"


@pytest.mark.parametrize("size", range(230, 300))
def test_a_long_text_is_cut_between_characters_and_ends_in_dots(size: int) -> None:
    text = reply_text(NotFound("a" * (size % 4) + "\U0001f407" * size))

    assert text.startswith("NOT_FOUND - ")
    assert text.endswith("...")
    assert 252 <= len(text.encode()) <= 255


def test_bytes_that_are_no_text_do_not_break_the_close_method() -> None:
    name = b"\xff\xfe".decode("utf-8", "surrogateescape")
    error: AmqpError = NotFound(f"no queue '{name}'")

    close = close_method(error, 50, 10)[1]

    assert close.reply_text == r"NOT_FOUND - no queue '\udcff\udcfe'"
    assert frame.marshal(close, 1)
