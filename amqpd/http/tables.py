"""Field tables as JSON, and back: arguments, headers, client properties.

JSON has fewer kinds of values, so the way out loses some: octets become text, times
become seconds, decimals become floats. The way in knows what JSON can say.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal
from typing import Any

from amqpd.broker.arguments import Arguments
from amqpd.http.errors import BadRequest
from amqpd.wire.tables import Table, encode_table


def as_json(value: object) -> Any:
    """Return a value of a table as JSON can have it."""
    if isinstance(value, dict):
        return {key: as_json(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [as_json(inner) for inner in value]
    if isinstance(value, (bytes, bytearray)):
        return value.decode("utf-8", "replace")
    if isinstance(value, datetime):
        return int(value.timestamp())
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, float) and (value != value or value in _INFINITIES):
        return str(value)
    return value


_INFINITIES = (float("inf"), float("-inf"))


def arguments_in(body: Mapping[str, Any], key: str = "arguments") -> Arguments:
    """Return a table that a body has under `key`; empty if it has none.

    Raises:
        BadRequest: it is no object, or has values that no table can have.
    """
    table = body.get(key, {})
    if not isinstance(table, dict):
        # A client in a language without objects writes an empty one as a list.
        if table != []:
            raise BadRequest(f"{key} must be an object")
        table = {}
    return Arguments(table, encoded(table))


def encoded(table: Table) -> bytes:
    """Return the octets of a table.

    Raises:
        BadRequest: it has values that no table can have.
    """
    _refuse_null(table)
    try:
        return encode_table(table)
    except (ValueError, OverflowError) as error:
        raise BadRequest(str(error)) from None


def _refuse_null(value: object) -> None:
    if value is None:
        raise BadRequest("null_not_allowed")
    if isinstance(value, dict):
        for inner in value.values():
            _refuse_null(inner)
    elif isinstance(value, list):
        for inner in value:
            _refuse_null(inner)
