"""What the rules of a queue say about how long and how many messages stay in it.

Read once, when the rules are made. The values of a declaration have been checked by
then; what definitions bring that means nothing is no limit. -1 stands for none.
Whoever acts on it is `queue_keeper`.
"""

from enum import Enum
from typing import Final, final

from mypy_extensions import i64, mypyc_attr

from amqpd.broker.arguments import (
    DEAD_LETTER_EXCHANGE,
    DEAD_LETTER_ROUTING_KEY,
    DEAD_LETTER_STRATEGY,
    DELAYED_RETRY_MAX,
    DELAYED_RETRY_MIN,
    DELAYED_RETRY_TYPE,
    DELIVERY_LIMIT,
    MAX_LENGTH,
    MAX_LENGTH_BYTES,
    MESSAGE_TTL,
    OVERFLOW,
    QUORUM,
    TIME_MAX_MS,
    queue_type,
)
from amqpd.broker.messages.message import Message
from amqpd.broker.timers import NEVER_MS

NO_LIMIT: Final[i64] = -1
AT_LEAST_ONCE: Final = "at-least-once"
# No queue comes near it, and no time either.
NUMBER_MAX: Final = 1 << 53
# More returns than this make no delay longer: products stay below 2 ** 63.
COUNT_MAX: Final[i64] = 1000


class Overflow(Enum):
    """What happens when a queue would have too much."""

    DROP_HEAD = "drop-head"
    REJECT_PUBLISH = "reject-publish"
    REJECT_PUBLISH_DLX = "reject-publish-dlx"


class RetryType(Enum):
    """Which messages that come back wait before they are ready again."""

    DISABLED = "disabled"
    ALL = "all"
    # Those that were rejected, or lost with their channel.
    FAILED = "failed"
    # All others: by basic.nack, by basic.recover, or because nobody answered in time.
    RETURNED = "returned"


@final
@mypyc_attr(acyclic=True)
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
        # Whether a dead letter stays until all queues that it is for have taken it; and
        # whether somebody wants that, and something else says no.
        wants_all: bool = (
            table.get(DEAD_LETTER_STRATEGY) == AT_LEAST_ONCE
            and queue_type(table) == QUORUM
        )
        self.is_at_least_once: bool = (
            wants_all
            and self.dead_letter_exchange is not None
            and self.overflow is Overflow.REJECT_PUBLISH
        )
        self.falls_back: bool = wants_all and not self.is_at_least_once
        self.retry_type = _retry_type(table)
        self.retry_min_ms: i64 = max(0, whole_number(table, DELAYED_RETRY_MIN))
        self.retry_max_ms: i64 = whole_number(table, DELAYED_RETRY_MAX)
        # Whether returns are counted, and consumers told how many there were.
        self.counts_deliveries: bool = (
            self.delivery_max >= 0
            or queue_type(table) == QUORUM
            or self.retry_type is not RetryType.DISABLED
        )

    @property
    def has_length(self) -> bool:
        """Whether there is a limit to how much may be ready."""
        return self.length_max >= 0 or self.size_max >= 0

    def deadline_ms(self, message: Message) -> i64:
        """When a message of the queue expires; `NEVER_MS`: never."""
        deadline_ms = NEVER_MS
        if self.ttl_ms >= 0:
            deadline_ms = message.enqueued_ms + self.ttl_ms
        if message.expires_ms and message.expires_ms < deadline_ms:
            deadline_ms = message.expires_ms
        return deadline_ms

    def retry_delay_ms(self, count: i64, is_failed: bool) -> i64:
        """How long one waits that came back for the `count`th time; 0: not at all."""
        retry_type = self.retry_type
        if retry_type is RetryType.DISABLED:
            return 0
        if retry_type is not RetryType.ALL and (
            is_failed != (retry_type is RetryType.FAILED)
        ):
            return 0
        delay_ms = min(self.retry_min_ms * min(count, COUNT_MAX), TIME_MAX_MS)
        return min(delay_ms, self.retry_max_ms) if self.retry_max_ms >= 0 else delay_ms


def whole_number(table: dict[str, object], key: str) -> int:
    """Return a number among arguments; -1 if there is none."""
    value = table.get(key)
    if isinstance(value, bool) or not isinstance(value, int):
        return -1
    return min(value, NUMBER_MAX)


def _retry_type(table: dict[str, object]) -> RetryType:
    value = table.get(DELAYED_RETRY_TYPE)
    for retry_type in RetryType:
        if value == retry_type.value:
            return retry_type
    return RetryType.DISABLED


def _overflow(table: dict[str, object]) -> Overflow:
    value = table.get(OVERFLOW)
    for overflow in Overflow:
        if value == overflow.value:
            return overflow
    return Overflow.DROP_HEAD
