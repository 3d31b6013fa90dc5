"""Attempts to log in, by protocol. Where they came from is not kept."""

from __future__ import annotations

from typing import Final

from amqpd.http.answer import NO_CONTENT, Answer, json_answer
from amqpd.http.call import Call
from amqpd.http.endpoint import Endpoint, Need
from amqpd.http.errors import ObjectNotFound


def _check_node(call: Call) -> None:
    if call.name("node") != call.room.identity.node:
        raise ObjectNotFound


async def list_attempts(call: Call) -> Answer:
    """How many attempts of each protocol, and how many failed."""
    _check_node(call)
    found = call.room.attempts.of_protocols(call.broker.churn)
    return json_answer(
        [
            {
                "protocol": protocol,
                "auth_attempts": failed + succeeded,
                "auth_attempts_failed": failed,
                "auth_attempts_succeeded": succeeded,
            }
            for protocol, (failed, succeeded) in found.items()
            if failed + succeeded
        ]
    )


async def list_sources(call: Call) -> Answer:
    """By address and user: RabbitMQ does not keep that either, unless it is told to."""
    _check_node(call)
    return json_answer([])


async def forget_attempts(call: Call) -> Answer:
    """Count anew."""
    _check_node(call)
    call.room.attempts.forget(call.broker.churn)
    return NO_CONTENT


_ALL = "/api/auth/attempts/{node}"

ENDPOINTS: Final = (
    Endpoint("GET", _ALL, Need.MONITORING, list_attempts),
    Endpoint("DELETE", _ALL, Need.MONITORING, forget_attempts),
    Endpoint("GET", _ALL + "/source", Need.MONITORING, list_sources),
)
