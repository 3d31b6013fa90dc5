"""Who asks."""

from __future__ import annotations

from amqpd.http.answer import Answer
from amqpd.http.call import Call
from amqpd.http.endpoint import Endpoint, Need
from amqpd.http.listing import single


async def show_user(call: Call) -> Answer:
    """The user of this request, and the tags."""
    return single(call, {"name": call.user.name, "tags": list(call.user.tags)})


ENDPOINTS = (Endpoint("GET", "/api/whoami", Need.MANAGEMENT, show_user),)
