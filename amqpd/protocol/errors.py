"""From an exception to the close method that tells the peer about it.

One place knows how a refusal looks on the wire: reply code, level and the text
`NAME - explanation`. The broker's errors carry their own code; the wire's know none,
so this module names one for each class. Anything else is our own failure: the
connection is closed with 541 and the details go to the log, not to the peer.
"""

import logging
from typing import Final

from pamqp import commands

from amqpd.broker.errors import (
    AmqpError,
    ChannelException,
    CommandInvalid,
    FrameError,
    InternalError,
    SyntaxInvalid,
)
from amqpd.wire.errors import FrameMalformed, MethodUnknown, SyntaxMalformed, WireError

logger = logging.getLogger("amqpd.connection")

#: A reply text is a short string.
_REPLY_TEXT_SIZE_MAX: Final = 255
_ELLIPSIS: Final = b"..."


def close_method(
    error: Exception, class_id: int, method_id: int
) -> tuple[bool, commands.Channel.Close | commands.Connection.Close]:
    """Return whether only the channel closes, and the method that says why.

    `class_id` and `method_id` name the offending method, 0 and 0 when there is none.
    A channel-level error that has no channel to close (channel 0) is the caller's to
    turn into a connection's.
    """
    refusal = as_amqp_error(error)
    code, text = refusal.reply_code, reply_text(refusal)
    if isinstance(refusal, ChannelException):
        return True, commands.Channel.Close(code, text, class_id, method_id)
    return False, commands.Connection.Close(code, text, class_id, method_id)


def as_amqp_error(error: Exception) -> AmqpError:
    """Return `error` as the refusal it amounts to."""
    if isinstance(error, AmqpError):
        return error
    if isinstance(error, FrameMalformed):
        return FrameError(error.text)
    if isinstance(error, SyntaxMalformed):
        return SyntaxInvalid(error.text)
    if isinstance(error, MethodUnknown):
        return CommandInvalid(error.text)
    if isinstance(error, WireError):
        return SyntaxInvalid(error.text)
    # What went wrong inside is nobody's business outside; RabbitMQ says no more.
    return InternalError("")


def reply_text(error: AmqpError) -> str:
    """Return `NAME - explanation` in at most 255 bytes of valid UTF-8.

    Longer texts are cut and end in three dots, as RabbitMQ's do.
    """
    if not error.text:
        return error.reply_name
    # A name from the wire may hold surrogates for bytes that were no UTF-8.
    whole = f"{error.reply_name} - {error.text}".encode("utf-8", "backslashreplace")
    if len(whole) > _REPLY_TEXT_SIZE_MAX:
        whole = whole[: _REPLY_TEXT_SIZE_MAX - len(_ELLIPSIS)]
        return whole.decode("utf-8", "ignore") + _ELLIPSIS.decode()
    return whole.decode("utf-8")


def log_unforeseen(error: Exception, connection: str) -> None:
    """Log an error that no client can be blamed for: it is ours."""
    if not isinstance(error, (AmqpError, WireError)):
        logger.error(
            "connection %s: internal error",
            connection,
            exc_info=error,
            extra={"connection": connection},
        )


def log_closed_channel(
    error: ChannelException, connection: str, channel: int, method: tuple[int, int]
) -> None:
    """Log why a channel is closed, and at which method."""
    logger.error(
        "connection %s, channel %d: %s - %s (class %d, method %d)",
        connection,
        channel,
        error.reply_name,
        error.text,
        *method,
        extra={"connection": connection, "channel": channel},
    )
