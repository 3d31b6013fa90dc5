"""Messages as JSON: what is published, and what was taken from a queue.

A body is text (`string`) or base64. Properties are those of AMQP by their names; what
is no property is passed over, as in RabbitMQ, and none at all is an empty list.
"""

from __future__ import annotations

import base64
import binascii
import struct
from collections.abc import Mapping
from typing import Any, Final

from amqpd.broker.queues.delivery import Reference
from amqpd.broker.vhosts.direct import body_of, names_of
from amqpd.http.columns import Facts
from amqpd.http.errors import BadRequest
from amqpd.http.tables import as_json, encoded
from amqpd.wire.frames import HEAD_SIZE
from amqpd.wire.properties import property_list

BASIC: Final = 60
#: Property -> its flag and what it is: short string, octet, timestamp, table.
PROPERTIES: Final = {
    "content_type": (0x8000, "s"),
    "content_encoding": (0x4000, "s"),
    "headers": (0x2000, "F"),
    "delivery_mode": (0x1000, "o"),
    "priority": (0x0800, "o"),
    "correlation_id": (0x0400, "s"),
    "reply_to": (0x0200, "s"),
    "expiration": (0x0100, "s"),
    "message_id": (0x0080, "s"),
    "timestamp": (0x0040, "T"),
    "type": (0x0020, "s"),
    "user_id": (0x0010, "s"),
    "app_id": (0x0008, "s"),
    "cluster_id": (0x0004, "s"),
}
_NUMBERS: Final = {"o": (">B", 0xFF), "T": (">Q", (1 << 63) - 1)}


def header_of(properties: object, body_size: int) -> bytes:
    """Return the payload of the content header that has these properties.

    Raises:
        BadRequest: a property is not of its kind.
    """
    if not isinstance(properties, dict):
        if properties != []:
            raise BadRequest("properties must be an object")
        properties = {}
    flags = 0
    values = b""
    for name, (flag, kind) in PROPERTIES.items():
        if name in properties:
            flags |= flag
            values += _encoded(name, kind, properties[name])
    return struct.pack(">HHQH", BASIC, 0, body_size, flags) + values


def _encoded(name: str, kind: str, value: Any) -> bytes:
    if kind == "F":
        if not isinstance(value, dict):
            if value != []:
                raise BadRequest("headers must be an object")
            value = {}
        table = encoded(value)
        return struct.pack(">I", len(table)) + table
    if kind == "s":
        if not isinstance(value, str):
            raise BadRequest(["not_string", name])
        octets = value.encode("utf-8", "surrogateescape")
        if len(octets) > 255:
            raise BadRequest(f"{name} is longer than 255 octets")
        return bytes((len(octets),)) + octets
    code, highest = _NUMBERS[kind]
    if not isinstance(value, int) or isinstance(value, bool):
        raise BadRequest(["not_int", name])
    if not 0 <= value <= highest:
        raise BadRequest(f"{name} must be between 0 and {highest}")
    return struct.pack(code, value)


def payload_in(body: Mapping[str, Any]) -> bytes:
    """Return the body of the message that a request wants to publish.

    Raises:
        BadRequest: it is not what its encoding says.
    """
    payload, encoding = body["payload"], body["payload_encoding"]
    if not isinstance(payload, str):
        raise BadRequest("payload_not_string")
    if encoding == "string":
        return payload.encode("utf-8", "surrogatepass")
    if encoding != "base64":
        raise BadRequest(["unsupported_encoding", encoding])
    try:
        return base64.b64decode(payload, validate=True)
    except (binascii.Error, ValueError):
        raise BadRequest(["not_base64", payload]) from None


def message_facts(
    reference: Reference, count: int, as_base64: bool, truncate: int | None
) -> Facts:
    """Return what is said of a message; `count` more are ready behind it."""
    message = reference.message
    exchange, routing_key = names_of(message)
    body = body_of(message)
    payload = body if truncate is None else body[:truncate]
    shown, encoding = _shown(payload, as_base64)
    return {
        "payload_bytes": len(body),
        "redelivered": bool(reference.redelivered),
        "exchange": exchange.decode("utf-8", "surrogateescape"),
        "routing_key": routing_key.decode("utf-8", "surrogateescape"),
        "message_count": count,
        "properties": _properties(message.content),
        "payload": shown,
        "payload_encoding": encoding,
    }


def _shown(payload: bytes, as_base64: bool) -> tuple[str, str]:
    if not as_base64:
        try:
            return payload.decode(), "string"
        except UnicodeDecodeError:
            pass  # Then it goes out as what it is.
    return base64.b64encode(payload).decode(), "base64"


def _properties(content: bytes) -> Facts | list[object]:
    properties = property_list(content, HEAD_SIZE)
    found = {}
    for name in PROPERTIES:
        value = getattr(properties, name)
        if value is not None:
            found[name] = as_json(value)
    return found or []
