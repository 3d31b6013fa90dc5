"""Values as RabbitMQ's texts show them: in Erlang's syntax.

A text of RabbitMQ's that refuses a value repeats it, so `<<"x">> is not a valid maximum
length`. People search for these texts, and tests of client libraries look for them.
"""

from decimal import Decimal
from math import isfinite
from typing import Final

#: Beyond it Erlang writes every floating-point number with an exponent.
_PLAIN_MAX: Final = 1 << 53


def erlang_term(value: object) -> str:
    """Return a value that came as JSON, as Erlang would print it."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        escaped = value.replace("\\", "\\\\").replace('"', '\\"')
        return f'<<"{escaped}">>'
    if isinstance(value, float):
        return erlang_float(value)
    if isinstance(value, list):
        return "[" + ",".join([erlang_term(one) for one in value]) + "]"
    if isinstance(value, dict):
        return erlang_pairs(value)
    return str(value)


def erlang_pairs(fields: dict[str, object]) -> str:
    """Return an object as the list of pairs that RabbitMQ makes of it."""
    pairs = [
        f"{{{erlang_term(key)},{erlang_term(value)}}}"
        for key, value in sorted(fields.items())
    ]
    return "[" + ",".join(pairs) + "]"


def erlang_float(value: float) -> str:
    """Return a floating-point number as Erlang shows it: 1.5, but 6.0e4 for 60000.0.

    Of all ways to write it, the shortest; if two are, the one without an exponent.
    """
    if not isfinite(value):
        return str(value)
    number = Decimal(repr(value)).normalize()
    plain = _with_point(f"{number:f}")
    mantissa, _, exponent = f"{number:e}".partition("e")
    scientific = f"{_with_point(mantissa)}e{int(exponent)}"
    is_plain = abs(value) < _PLAIN_MAX and len(plain) <= len(scientific)
    return plain if is_plain else scientific


def _with_point(digits: str) -> str:
    return digits if "." in digits else digits + ".0"
