"""What the broker refuses, as HTTP has it."""

import pytest

from amqpd.broker.errors import (
    AccessRefused,
    AmqpError,
    NotAllowed,
    NotFound,
    PreconditionFailed,
    PublishRejected,
    ResourceError,
)
from amqpd.http.errors import channel_refusal, refusal


@pytest.mark.parametrize(
    ("error", "status", "name", "reason"),
    [
        (NotFound("no queue"), 404, "not_found", "no queue"),
        (AccessRefused("why"), 401, "not_authorised", "Access refused."),
        (NotAllowed("why"), 401, "not_authorised", "Access refused."),
        (PreconditionFailed("why"), 400, "bad_request", "why"),
        (PublishRejected("full"), 400, "bad_request", "rejected full"),
        (ResourceError("disk"), 503, "unavailable", "disk"),
    ],
)
def test_a_refusal_has_a_status_and_a_reason(
    error: AmqpError, status: int, name: str, reason: str
) -> None:
    found = refusal(error)
    assert (found.status, found.error, found.reason) == (status, name, reason)


@pytest.mark.parametrize(
    ("error", "status", "reason"),
    [
        (NotFound("no queue"), 404, "NOT_FOUND - no queue"),
        (AccessRefused("why"), 401, "ACCESS_REFUSED - why"),
        (PreconditionFailed("why"), 400, "406 PRECONDITION_FAILED - why"),
    ],
)
def test_where_a_channel_would_be_closed_its_text_is_told(
    error: AmqpError, status: int, reason: str
) -> None:
    found = channel_refusal(error)
    assert (found.status, found.reason) == (status, reason)
