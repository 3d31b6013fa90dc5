"""What the HTTP API refuses, in RabbitMQ's words: a status, an error and a reason.

    404 {"error": "Object Not Found", "reason": "Not Found"}

What the broker refuses (`AmqpError`) becomes one of these: a missing thing is 404, a
missing right 401 (sic), everything else 400.
"""

from __future__ import annotations

from typing import ClassVar, Final

from amqpd.broker.errors import (
    AccessRefused,
    AmqpError,
    NotAllowed,
    NotFound,
    PublishRejected,
    ResourceError,
)

REALM: Final = 'Basic realm="RabbitMQ Management"'


class HttpError(Exception):
    """A request was refused."""

    status: ClassVar[int] = 500
    error: ClassVar[str] = "internal_server_error"

    def __init__(self, reason: object, headers: dict[str, str] | None = None) -> None:
        """The reason is JSON, a text as a rule; without one there is no body."""
        super().__init__(reason)
        self.reason = reason
        self.headers = headers or {}


class BadRequest(HttpError):
    """The request makes no sense, or what it asks for is not possible."""

    status = 400
    error = "bad_request"


class InvalidPagination(HttpError):
    """The page asked for cannot be: a number that is none, or too large a page."""

    status = 400
    error = "invalid_pagination_parameters"


class PageOutOfRange(HttpError):
    """There is no such page."""

    status = 400
    error = "page_out_of_range"


class NotAuthenticated(HttpError):
    """Nobody has logged in (without a reason), or with a wrong password."""

    status = 401
    # Spelled so, unlike the next one.
    error = "not_authorized"

    def __init__(self, reason: str) -> None:
        super().__init__(reason, {"WWW-Authenticate": REALM})


class NotAuthorised(HttpError):
    """The user is known and may not do this."""

    status = 401
    error = "not_authorised"


class ObjectNotFound(HttpError):
    """The path leads nowhere."""

    status = 404
    error = "Object Not Found"

    def __init__(self) -> None:
        super().__init__("Not Found")


class Missing(HttpError):
    """Something that the request is about is not there; the reason says what."""

    status = 404
    error = "not_found"


class MethodNotAllowed(HttpError):
    """The path is there, and has no such method."""

    status = 405

    def __init__(self, allowed: str) -> None:
        super().__init__("", {"Allow": allowed})


class TooSlow(HttpError):
    """The client took too long to send its request."""

    status = 408
    error = "request_timeout"


class Protected(HttpError):
    """It is protected from deletion."""

    status = 412
    error = "precondition_failed"


class Unavailable(HttpError):
    """The change could not be stored."""

    status = 503
    error = "unavailable"


def refusal(error: AmqpError) -> HttpError:
    """Return what a refusal of the broker is here."""
    if isinstance(error, NotFound):
        return Missing(error.text)
    if isinstance(error, (AccessRefused, NotAllowed)):
        # RabbitMQ says no more; why stands in the log.
        return NotAuthorised("Access refused.")
    if isinstance(error, ResourceError):
        # The disk would not take it: it may be tried again later.
        return Unavailable(error.text)
    if isinstance(error, PublishRejected):
        return BadRequest(f"rejected {error.text}")
    return BadRequest(error.text)


def channel_refusal(error: AmqpError) -> HttpError:
    """Return what it is where RabbitMQ's API opens a channel for it."""
    text = f"{error.reply_name} - {error.text}"
    if isinstance(error, NotFound):
        return Missing(text)
    if isinstance(error, AccessRefused):
        return NotAuthorised(text)
    return BadRequest(f"{error.reply_code} {text}")
