"""What the rules of a queue say about how long and how many messages stay in it.

Read once, when the rules are made. The values of a declaration have been checked by
then; what definitions bring that means nothing is no limit. -1 stands for none.
Whoever acts on it is `queue_keeper`.
"""

from enum import Enum
from typing import Final, final

from mypy_extensions import i64

from amqpd.broker.arguments import (
    DEAD_LETTER_EXCHANGE,
    DEAD_LETTER_ROUTING_KEY,
    DELIVERY_LIMIT,
    MAX_LENGTH,
    MAX_LENGTH_BYTES,
    MESSAGE_TTL,
    OVERFLOW,
    QUORUM,
    queue_type,
)

NO_LIMIT: Final[i64] = -1
# No queue comes near it, and no time either.
NUMBER_MAX: Final = 1 << 53


class Overflow(Enum):
    """What happens when a queue would have too much."""

    DROP_HEAD = "drop-head"
    REJECT_PUBLISH = "reject-publish"
    REJECT_PUBLISH_DLX = "reject-publish-dlx"


@final
class Limits:
    """The limits of one queue."""

    def __init__(self, table: dict[str, object]) -> None:
        self.ttl_ms: i64 = whole_number(table, MESSAGE_TTL)
        self.length_max: i64 = whole_number(table, MAX_LENGTH)
        # Octets of bodies of what is ready.
        self.size_max: i64 = whole_number(table, MAX_LENGTH_BYTES)
        self.delivery_max: i64 = max(whole_number(table, DELIVERY_LIMIT), NO_LIMIT)
        self.overflow = _overflow(table)
        exchange = table.get(DEAD_LETTER_EXCHANGE)
        # Where dead letters go; None: nowhere.
        self.dead_letter_exchange = exchange if isinstance(exchange, str) else None
        key = table.get(DEAD_LETTER_ROUTING_KEY)
        # The key they go by; None: those that they had.
        self.dead_letter_key = key.encode() if isinstance(key, str) else None
        # Whether returns are counted, and consumers told how many there were.
        self.counts_deliveries: bool = (
            self.delivery_max >= 0 or queue_type(table) == QUORUM
        )

    @property
    def has_length(self) -> bool:
        """Whether there is a limit to how much may be ready."""
        return self.length_max >= 0 or self.size_max >= 0


def whole_number(table: dict[str, object], key: str) -> int:
    """Return a number among arguments; -1 if there is none."""
    value = table.get(key)
    if isinstance(value, bool) or not isinstance(value, int):
        return -1
    return min(value, NUMBER_MAX)


def _overflow(table: dict[str, object]) -> Overflow:
    value = table.get(OVERFLOW)
    for overflow in Overflow:
        if value == overflow.value:
            return overflow
    return Overflow.DROP_HEAD
