"""The headers of a dead letter, as RabbitMQ writes them.

    x-death                 [ {count, reason, queue, time, exchange, routing-keys
                               [, original-expiration]}, ... ]      most recent first
    x-first-death-reason, -queue, -exchange       of the first time, never changed
    x-last-death-reason, -queue, -exchange        of the last time

There is one entry for each (queue, reason); a repeat counts it up and moves it to the
front. Counts are 64-bit, times are seconds. What a publisher sends in these headers
(a consumed message that is published again) is history like any other, as it was in
RabbitMQ 3; if `x-death` is no array it is dropped.

A message in a cycle of queues would go round for ever if nobody ever rejected it: see
`goes_in_circles`. It knows bytes only; where dead letters go is `dead_letters`'.
"""

from typing import Final, final

from mypy_extensions import i64

from amqpd.broker.messages.message import Message
from amqpd.wire.frames import HEAD_SIZE, read_u32
from amqpd.wire.properties import (
    HAS_EXPIRATION,
    HAS_HEADERS,
    expiration,
    header_table_place,
    walk_properties,
)
from amqpd.wire.rewriting import (
    header_entries,
    with_header_entries,
    without_expiration,
)
from amqpd.wire.tables import decode_walked_table, find_value, skip_value

REJECTED: Final = "rejected"
EXPIRED: Final = "expired"
MAXLEN: Final = "maxlen"
DELIVERY_LIMIT: Final = "delivery_limit"

_DEATH: Final = b"x-death"
_FIRST_REASON: Final = b"x-first-death-reason"
_LAST: Final = (
    b"x-last-death-reason",
    b"x-last-death-queue",
    b"x-last-death-exchange",
)
_ARRAY: Final = 0x41
_TABLE: Final = 0x46
_DELIVERY_COUNT: Final = b"x-delivery-count"


@final
class Death:
    """One entry of x-death: its octets, and what they say."""

    __slots__ = ("entries", "queue", "reason")

    def __init__(self, queue: str, reason: str, entries: bytes) -> None:
        self.queue = queue
        self.reason = reason
        self.entries = entries


@final
class Circumstances:
    """What is to be told of a death."""

    __slots__ = ("exchange", "keys", "queue", "reason", "time_ms")

    def __init__(
        self, queue: str, reason: str, exchange: str, keys: list[bytes], time_ms: i64
    ) -> None:
        self.queue = queue
        self.reason = reason
        # How it had come to that queue.
        self.exchange = exchange
        self.keys = keys
        self.time_ms: i64 = time_ms


def deaths_of(message: Message) -> list[Death]:
    """Return the entries of x-death, most recent first."""
    content = message.content
    start, end = header_table_place(content, HEAD_SIZE)
    if start == end:
        return []
    array = find_value(content, start + 4, end, _DEATH)
    if array < 0 or content[array] != _ARRAY:
        return []
    deaths: list[Death] = []
    position = array + 5
    array_end = skip_value(content, array, end, 0)
    while position < array_end:
        after = skip_value(content, position, array_end, 1)
        if content[position] == _TABLE:
            table = decode_walked_table(content, position + 5, after)
            queue, reason = table.get("queue"), table.get("reason")
            if isinstance(queue, str) and isinstance(reason, str):
                deaths.append(Death(queue, reason, content[position + 5 : after]))
        position = after
    return deaths


def goes_in_circles(deaths: list[Death], queue_name: str) -> bool:
    """Whether the way from a queue back to it was gone without anybody rejecting."""
    for death in deaths:
        if death.reason == REJECTED:
            return False
        if death.queue == queue_name:
            return True
    return False


def with_death(
    message: Message, told: Circumstances, address: bytes, leave_out: frozenset[bytes]
) -> Message:
    """Return a new message that tells of its death, without a deadline.

    `leave_out` are headers that it loses.
    """
    content = message.content
    expired = b""
    if message.facts & HAS_EXPIRATION:
        expired = expiration(content, HEAD_SIZE)
        content = without_expiration(content)
    deaths = deaths_of(message)
    newest = _newest(deaths, told, expired)
    others = [
        death.entries
        for death in deaths
        if death.queue != told.queue or death.reason != told.reason
    ]
    kept = header_entries(content, leave_out | {_DEATH, _DELIVERY_COUNT, *_LAST})
    what = (told.reason, told.queue, told.exchange)
    if not deaths or find_value(kept, 0, len(kept), _FIRST_REASON) < 0:
        kept = _without_first(content, leave_out) + _three("first", what)
    kept += _entry(_DEATH, _array([_table(one) for one in [newest, *others]]))
    kept += _three("last", what)
    content = with_header_entries(content, kept)
    end = HEAD_SIZE + read_u32(content, 3)
    facts = walk_properties(content, HEAD_SIZE, end)
    return Message(address, content, message.body, facts, told.time_ms)


def with_delivery_count(message: Message, count: i64) -> Message:
    """Return a copy for one queue, that tells how often it was delivered before."""
    entries = b""
    if message.facts & HAS_HEADERS:
        entries = header_entries(message.content, frozenset({_DELIVERY_COUNT}))
    entries += _entry(_DELIVERY_COUNT, _long(count))
    copy = Message(
        message.address,
        with_header_entries(message.content, entries),
        message.body,
        message.facts | HAS_HEADERS,
        message.enqueued_ms,
    )
    copy.expires_ms = message.expires_ms
    copy.number = message.number
    return copy


def _without_first(content: bytes, leave_out: frozenset[bytes]) -> bytes:
    first = {key.replace(b"last", b"first") for key in _LAST}
    return header_entries(
        content, leave_out | first | {_DEATH, _DELIVERY_COUNT, *_LAST}
    )


def _newest(deaths: list[Death], told: Circumstances, expired: bytes) -> bytes:
    """The octets of the entry of this death."""
    for death in deaths:
        if death.queue == told.queue and death.reason == told.reason:
            return _counted_up(death.entries)
    keys = _array([_string(key) for key in told.keys])
    entries = (
        _entry(b"count", _long(1))
        + _entry(b"reason", _text(told.reason))
        + _entry(b"queue", _text(told.queue))
        + _entry(b"time", b"T" + int(told.time_ms // 1000).to_bytes(8, "big"))
        + _entry(b"exchange", _text(told.exchange))
        + _entry(b"routing-keys", keys)
    )
    if expired:
        entries += _entry(b"original-expiration", _string(expired))
    return entries


def _counted_up(entries: bytes) -> bytes:
    count = decode_walked_table(entries, 0, len(entries)).get("count")
    number = count if isinstance(count, int) and not isinstance(count, bool) else 0
    end: i64 = len(entries)
    kept: list[bytes] = []
    position: i64 = 0
    while position < end:
        value = position + 1 + i64(entries[position])
        after = skip_value(entries, value, end, 0)
        if entries[position + 1 : value] != b"count":
            kept.append(entries[position:after])
        position = after
    return _entry(b"count", _long(min(number + 1, _LONG_MAX))) + b"".join(kept)


_LONG_MAX: Final = (1 << 63) - 1


def _three(which: str, what: tuple[str, str, str]) -> bytes:
    """The three headers of the first or the last death."""
    entries = b""
    for name, value in zip(("reason", "queue", "exchange"), what, strict=True):
        entries += _entry(f"x-{which}-death-{name}".encode(), _text(value))
    return entries


def _entry(key: bytes, value: bytes) -> bytes:
    return bytes((len(key),)) + key + value


def _text(value: str) -> bytes:
    return _string(value.encode("utf-8", "surrogateescape"))


def _string(value: bytes) -> bytes:
    return b"S" + len(value).to_bytes(4, "big") + value


def _long(value: i64) -> bytes:
    return b"l" + int(value).to_bytes(8, "big", signed=True)


def _array(values: list[bytes]) -> bytes:
    joined = b"".join(values)
    return b"A" + len(joined).to_bytes(4, "big") + joined


def _table(entries: bytes) -> bytes:
    return b"F" + len(entries).to_bytes(4, "big") + entries
