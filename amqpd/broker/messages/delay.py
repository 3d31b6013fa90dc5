"""The header `x-delay`: how long a message waits, and what is left of it afterwards.

As in RabbitMQ's plugin it is a number of milliseconds, also as text or as a float;
what is nothing of this, 0 or less, delays nothing. What is delivered tells of the delay
by the negative of it: whoever publishes that again is not delayed again.
"""

from decimal import Decimal
from typing import Final

from mypy_extensions import i64

from amqpd.broker.arguments import TIME_MAX_MS
from amqpd.broker.messages.message import Message
from amqpd.wire.frames import HEAD_SIZE
from amqpd.wire.properties import HAS_EXPIRATION, expiration, header_table_place
from amqpd.wire.rewriting import header_entries, with_header_entries
from amqpd.wire.tables import decode_walked_table, find_value, skip_value

DELAY: Final = b"x-delay"
# Length and name of the key, before its value.
_KEY: Final = b"\x07x-delay"
_KEY_SIZE: Final[i64] = 8
_INT_MIN: Final = -(1 << 31)


def delay_of(content: bytes) -> i64:
    """Return how long a message with this content waits; 0 or less: not at all.

    RabbitMQ delivers at once what shall wait longer than 49 days. Here it waits, up to
    ten years.
    """
    start, end = header_table_place(content, HEAD_SIZE)
    if start == end:
        return 0
    value = find_value(content, start + 4, end, DELAY)
    if value < 0:
        return 0
    entry = decode_walked_table(
        content, value - _KEY_SIZE, skip_value(content, value, end, 0)
    )
    return min(_milliseconds(entry["x-delay"]), TIME_MAX_MS)


def _milliseconds(value: object) -> int:
    if isinstance(value, bool):
        return 0
    if isinstance(value, int):
        return value
    if isinstance(value, (str, float, Decimal)):
        if isinstance(value, str) and not _is_whole(value):
            return 0
        try:
            return int(value)
        except (ValueError, OverflowError):
            # No number, or no finite one.
            return 0
    return 0


def _is_whole(text: str) -> bool:
    """Whether a text is what Erlang reads as an integer."""
    digits = text[1:] if text[:1] in ("-", "+") else text
    return digits.isascii() and digits.isdecimal() and len(digits) < 20


def due_ms_of(content: bytes, enqueued_ms: i64) -> i64:
    """Return when the delay of a message is over that was published at a time."""
    return enqueued_ms + max(0, delay_of(content))


def released(message: Message, now_ms: i64) -> Message:
    """Return a message whose delay is over, as it goes on now.

    Its time to live begins now.
    """
    content = message.content
    delay_ms = -delay_of(content)
    if delay_ms < 0:
        entries = header_entries(content, frozenset({DELAY}))
        content = with_header_entries(content, entries + _entry(int(delay_ms)))
    copy = Message(message.address, content, message.body, message.facts, now_ms)
    if message.facts & HAS_EXPIRATION:
        # It was checked when the message was published.
        copy.expires_ms = now_ms + int(expiration(content, HEAD_SIZE))
    return copy


def _entry(delay_ms: int) -> bytes:
    """The entry of the header table; as in RabbitMQ 32 bits, if that is enough."""
    if delay_ms >= _INT_MIN:
        return _KEY + b"I" + delay_ms.to_bytes(4, "big", signed=True)
    return _KEY + b"l" + delay_ms.to_bytes(8, "big", signed=True)
