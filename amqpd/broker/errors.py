"""What a broker refuses, named by AMQP 0-9-1's reply codes.

A `ChannelException` closes the channel that asked, a `ConnectionException` the
connection. The text names the thing and the virtual host; the protocol puts the
reply name before it. Texts are RabbitMQ's, since people grep for them.
"""

from typing import ClassVar


class AmqpError(Exception):
    """An operation was refused; the peer is told why by a close method."""

    reply_code: ClassVar[int] = 541
    reply_name: ClassVar[str] = "INTERNAL_ERROR"

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text


class ChannelException(AmqpError):
    """Closes the channel that the offending method came in on."""


class ConnectionException(AmqpError):
    """Closes the whole connection."""


class AccessRefused(ChannelException):
    """The user may not do this to that resource."""

    reply_code = 403
    reply_name = "ACCESS_REFUSED"


class NotFound(ChannelException):
    """The named exchange, queue or vhost does not exist."""

    reply_code = 404
    reply_name = "NOT_FOUND"


class ResourceLocked(ChannelException):
    """The queue belongs exclusively to another connection."""

    reply_code = 405
    reply_name = "RESOURCE_LOCKED"


class PreconditionFailed(ChannelException):
    """The thing is not in the state that the request needs."""

    reply_code = 406
    reply_name = "PRECONDITION_FAILED"


class PublishRejected(ChannelException):
    """A queue of the message is full and refuses more; a channel would nack it."""

    reply_code = 311
    reply_name = "CONTENT_TOO_LARGE"


class ConnectionForced(ConnectionException):
    """The broker or its operator ends the connection."""

    reply_code = 320
    reply_name = "CONNECTION_FORCED"


class LoginFailed(ConnectionException):
    """Wrong user, wrong password, or a user that may only log in locally."""

    reply_code = 403
    reply_name = "ACCESS_REFUSED"


class FrameError(ConnectionException):
    """A frame could not be taken apart."""

    reply_code = 501
    reply_name = "FRAME_ERROR"


class SyntaxInvalid(ConnectionException):
    """A method, table or content header could not be decoded."""

    reply_code = 502
    reply_name = "SYNTAX_ERROR"


class CommandInvalid(ConnectionException):
    """The method does not exist or may not be sent now."""

    reply_code = 503
    reply_name = "COMMAND_INVALID"


class ChannelError(ConnectionException):
    """The channel is not open, or open already."""

    reply_code = 504
    reply_name = "CHANNEL_ERROR"


class UnexpectedFrame(ConnectionException):
    """A frame came where another kind was due."""

    reply_code = 505
    reply_name = "UNEXPECTED_FRAME"


class ResourceError(ConnectionException):
    """The broker has not got what the request needs."""

    reply_code = 506
    reply_name = "RESOURCE_ERROR"


class NotAllowed(ConnectionException):
    """The connection tried what its user or its negotiated limits forbid."""

    reply_code = 530
    reply_name = "NOT_ALLOWED"


class NotImplementedHere(ConnectionException):
    """AMQP 0-9-1 has it, this broker (like RabbitMQ) does not."""

    reply_code = 540
    reply_name = "NOT_IMPLEMENTED"


class InternalError(ConnectionException):
    """The broker failed; its log has the details."""

    reply_code = 541
    reply_name = "INTERNAL_ERROR"
