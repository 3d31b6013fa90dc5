"""Fields of a JSON body: of the kind that is expected, or refused by name.

Bodies come from people's scripts as well as from libraries, so a number may be text
and a flag too, as in RabbitMQ.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from amqpd.http.errors import BadRequest

ERLANG_LINE_MAX: Final = 80
ROUTING_KEY_SIZE_MAX: Final = 255

_FLAGS: Final = {"true": True, "false": False}


def require(body: Mapping[str, Any], *keys: str) -> None:
    """Check that a body has these fields.

    Raises:
        BadRequest: not so.
    """
    missing = [f"{{key_missing,{key}}}" for key in keys if key not in body]
    if missing:
        # As Erlang prints a list: long ones on several lines.
        told = f"[{','.join(missing)}]"
        if len(told) >= ERLANG_LINE_MAX:
            told = "[" + ",\n ".join(missing) + "]"
        raise BadRequest(told)


def text(body: Mapping[str, Any], key: str, default: str = "") -> str:
    """Return a text.

    Raises:
        BadRequest: it is something else.
    """
    value = body.get(key, default)
    if not isinstance(value, str):
        raise BadRequest(f"{key} must be a text")
    return value


def routing_key(body: Mapping[str, Any]) -> bytes:
    """Return a routing key, empty if there is none.

    Raises:
        BadRequest: it is no text, or too long for a client to say.
    """
    key = text(body, "routing_key").encode("utf-8", "surrogateescape")
    if len(key) > ROUTING_KEY_SIZE_MAX:
        raise BadRequest(
            f"routing_key should be less than {ROUTING_KEY_SIZE_MAX} bytes, "
            f"actually was {len(key)}\n"
        )
    return key


def flag(body: Mapping[str, Any], key: str, default: bool = False) -> bool:
    """Return true or false, which may be spelled out.

    Raises:
        BadRequest: it is neither.
    """
    value = body.get(key, default)
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value in _FLAGS:
        return _FLAGS[value]
    raise BadRequest(["not_boolean", value])


def count(body: Mapping[str, Any], key: str, highest: int) -> int:
    """Return a number from 0 to `highest`; what is more is cut.

    Raises:
        BadRequest: it is none.
    """
    value = body.get(key)
    if isinstance(value, str):
        try:
            value = int(value)
        except ValueError:
            raise BadRequest(["not_integer", value]) from None
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise BadRequest(["not_integer", value])
    return min(value, highest)


def tags(value: object) -> tuple[str, ...]:
    """Return tags, which are a list or a text with commas.

    Raises:
        BadRequest: they are something else.
    """
    if isinstance(value, str):
        value = value.split(",")
    if not isinstance(value, list) or not all(isinstance(tag, str) for tag in value):
        raise BadRequest("tags must be a list of texts")
    stripped = (str(tag).strip() for tag in value)
    return tuple(tag for tag in stripped if tag)


def names(value: object, key: str) -> list[str]:
    """Return a list of names.

    Raises:
        BadRequest: it is something else.
    """
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        raise BadRequest(f"{key} must be a list of texts")
    return value
