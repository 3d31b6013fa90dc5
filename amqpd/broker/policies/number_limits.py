"""Limits of a virtual host or a user: how many of something there may be.

A limit is an integer; a negative one is none, 0 forbids. What there may be limits of is
a short list, and anything else is refused in RabbitMQ's words.
"""

from typing import Final

from amqpd.broker.erlang_term import erlang_pairs, erlang_term
from amqpd.broker.policies.policy import ParameterInvalid

MAX_CONNECTIONS: Final = "max-connections"
MAX_QUEUES: Final = "max-queues"
MAX_CHANNELS: Final = "max-channels"

OF_VHOST: Final = (MAX_CONNECTIONS, MAX_QUEUES)
OF_USER: Final = (MAX_CONNECTIONS, MAX_CHANNELS)

NO_LIMIT: Final = -1


def check_vhost_limits(value: object) -> dict[str, int]:
    """Return a virtual host's limits.

    Raises:
        ParameterInvalid: they cannot be.
    """
    return _checked(value, OF_VHOST, "limits")


def check_user_limits(value: object) -> dict[str, int]:
    """Return a user's limits.

    Raises:
        ParameterInvalid: they cannot be.
    """
    return _checked(value, OF_USER, "user-limits")


def _checked(value: object, known: tuple[str, ...], what: str) -> dict[str, int]:
    # What has no limits any more RabbitMQ writes as an empty list.
    fields = {} if value == [] else value
    if not isinstance(fields, dict):
        raise ParameterInvalid(f"{what} should be an object")
    unknown = {key: number for key, number in fields.items() if key not in known}
    if unknown:
        raise ParameterInvalid(f"Unrecognised terms {erlang_pairs(unknown)} in {what}")
    limits: dict[str, int] = {}
    for key, number in fields.items():
        if isinstance(number, bool) or not isinstance(number, int):
            told = erlang_term(number)
            raise ParameterInvalid(f"{key} should be a number, actually was {told}")
        limits[key] = number
    return limits
