"""The arguments of queue.declare and exchange.declare: which, of what type, equal when.

Every queue type knows a list of arguments. Of those the values are checked when a queue
is declared anew, and compared when it is declared again; an argument that belongs only
to another type is refused, one that nobody knows is kept and otherwise ignored. Types
are those on the wire (`signedint`, `longstr`, ...): all integers are one class, so
60000 as `I` equals 60000 as `l`. Order and texts of the checks are RabbitMQ's.

What an argument *does* is not known here. Those without an effect on one machine, or in
RabbitMQ 4 (leader locators, in-memory lengths, lazy mode), are checked and compared.
"""

from typing import Final, final

from amqpd.broker.erlang_term import erlang_float
from amqpd.broker.errors import PreconditionFailed
from amqpd.wire.tables import encode_table, skip_value, type_name_in

CLASSIC: Final = "classic"
QUORUM: Final = "quorum"
STREAM: Final = "stream"

QUEUE_TYPE: Final = "x-queue-type"
EXPIRES: Final = "x-expires"
CONSUMER_TIMEOUT: Final = "x-consumer-timeout"
SINGLE_ACTIVE_CONSUMER: Final = "x-single-active-consumer"
MAX_PRIORITY: Final = "x-max-priority"
DEAD_LETTER_EXCHANGE: Final = "x-dead-letter-exchange"
DEAD_LETTER_ROUTING_KEY: Final = "x-dead-letter-routing-key"
DEAD_LETTER_STRATEGY: Final = "x-dead-letter-strategy"
MESSAGE_TTL: Final = "x-message-ttl"
MAX_LENGTH: Final = "x-max-length"
MAX_LENGTH_BYTES: Final = "x-max-length-bytes"
OVERFLOW: Final = "x-overflow"
DELIVERY_LIMIT: Final = "x-delivery-limit"
DELAYED_RETRY_TYPE: Final = "x-delayed-retry-type"
DELAYED_RETRY_MIN: Final = "x-delayed-retry-min"
DELAYED_RETRY_MAX: Final = "x-delayed-retry-max"
ALTERNATE_EXCHANGE: Final = "alternate-exchange"
NAME_PREFIX: Final = "x-name-prefix"
GROUP_SIZE: Final = "x-quorum-initial-group-size"

# What both types know, in the order in which RabbitMQ compares.
_COMMON: Final = (
    EXPIRES,
    MESSAGE_TTL,
    DEAD_LETTER_EXCHANGE,
    DEAD_LETTER_ROUTING_KEY,
    MAX_LENGTH,
    MAX_LENGTH_BYTES,
    OVERFLOW,
    SINGLE_ACTIVE_CONSUMER,
    QUEUE_TYPE,
    "x-queue-leader-locator",
    CONSUMER_TIMEOUT,
    # RabbitMQ has these for quorum queues only.
    DELIVERY_LIMIT,
    DELAYED_RETRY_TYPE,
    DELAYED_RETRY_MIN,
    DELAYED_RETRY_MAX,
)
_CLASSIC_ONLY: Final = (
    MAX_PRIORITY,
    "x-queue-mode",
    "x-queue-version",
    "x-queue-master-locator",
)
_QUORUM_ONLY: Final = (
    DEAD_LETTER_STRATEGY,
    "x-max-in-memory-length",
    "x-max-in-memory-bytes",
    GROUP_SIZE,
    "x-member-placement-tag",
    "x-consumer-disconnected-timeout",
)
# What is compared where a classic queue would do as well, in RabbitMQ's order.
_OF_EITHER: Final = (
    DEAD_LETTER_EXCHANGE,
    DEAD_LETTER_ROUTING_KEY,
    EXPIRES,
    MAX_LENGTH,
    MAX_LENGTH_BYTES,
    SINGLE_ACTIVE_CONSUMER,
    MESSAGE_TTL,
)
_STREAM_ONLY: Final = (
    "x-max-age",
    "x-stream-max-segment-size-bytes",
    "x-stream-filter-size-bytes",
    "x-initial-cluster-size",
)

_KNOWN: Final[dict[str, tuple[str, ...]]] = {
    CLASSIC: _COMMON + _CLASSIC_ONLY,
    QUORUM: _COMMON + _QUORUM_ONLY,
}
_FOREIGN: Final[dict[str, tuple[str, ...]]] = {
    CLASSIC: _STREAM_ONLY + _QUORUM_ONLY,
    QUORUM: _STREAM_ONLY + _CLASSIC_ONLY,
}

# What a queue is told that compares ids. Who does not know the first means nothing with
# any of them, so they are not compared.
_DEDUPLICATION: Final = ("x-cache-size", "x-cache-ttl", "x-deduplication-header")

# Values as RabbitMQ's list of validators has them; what is not listed is free.
_POSITIVE_TIMES: Final = frozenset({EXPIRES})
_POSITIVE_COUNTS: Final = frozenset({GROUP_SIZE, "x-cache-size", "x-cache-ttl"})
_TIMES: Final = frozenset({MESSAGE_TTL})
_COUNTS: Final = frozenset(
    {
        *_POSITIVE_COUNTS,
        MAX_LENGTH,
        MAX_LENGTH_BYTES,
        MAX_PRIORITY,
        "x-max-in-memory-length",
        "x-max-in-memory-bytes",
        CONSUMER_TIMEOUT,
        "x-consumer-disconnected-timeout",
        DELAYED_RETRY_MIN,
        DELAYED_RETRY_MAX,
    }
)
_INTEGERS: Final = frozenset({DELIVERY_LIMIT, "x-queue-version"})
_TEXTS: Final = frozenset(
    {
        DEAD_LETTER_ROUTING_KEY,
        OVERFLOW,
        "x-queue-mode",
        QUEUE_TYPE,
        "x-queue-leader-locator",
        "x-queue-master-locator",
        DEAD_LETTER_STRATEGY,
        "x-member-placement-tag",
        DELAYED_RETRY_TYPE,
        "x-deduplication-header",
    }
)
_CHOICES: Final[dict[str, tuple[str, ...]]] = {
    OVERFLOW: ("drop-head", "reject-publish", "reject-publish-dlx"),
    "x-queue-mode": ("default", "lazy"),
    "x-queue-leader-locator": (
        "client-local",
        "balanced",
        "random",
        "least-leaders",
    ),
    DEAD_LETTER_STRATEGY: ("at-most-once", "at-least-once"),
    DELAYED_RETRY_TYPE: ("disabled", "all", "failed", "returned"),
}
_CHOICE_REFUSED: Final[dict[str, str]] = {
    OVERFLOW: "invalid_overflow",
    "x-queue-leader-locator": "invalid_queue_locator_arg",
    DEAD_LETTER_STRATEGY: "invalid_dlx_strategy",
    DELAYED_RETRY_TYPE: "invalid_delayed_retry_type",
}

PRIORITY_MAX: Final = 255
# In octets; a name has 255.
NAME_PREFIX_SIZE_MAX: Final = 64
QUEUE_VERSIONS: Final = (1, 2)
# Ten years in milliseconds, RabbitMQ's longest time.
TIME_MAX_MS: Final = 315_360_000_000

_INTEGER_TYPES: Final = frozenset(
    {
        "byte",
        "short",
        "signedint",
        "long",
        "unsignedbyte",
        "unsignedshort",
        "unsignedint",
    }
)
_FLOAT_TYPES: Final = frozenset({"float", "double"})


@final
class Arguments:
    """One table of arguments, decoded and as it came."""

    __slots__ = ("raw", "table")

    def __init__(self, table: dict[str, object], raw: bytes) -> None:
        self.table = table
        self.raw = raw

    def type_name(self, key: str) -> str:
        """RabbitMQ's name of the type of that argument."""
        return type_name_in(self.raw, key)

    def canonical(self) -> bytes:
        """The octets with the entries in an order of their own.

        Tables that differ only in the order of their keys are the same to RabbitMQ.
        """
        raw = self.raw
        end = len(raw)
        entries: list[bytes] = []
        position = 0
        while position < end:
            after = int(skip_value(raw, position + 1 + raw[position], end, 0))
            entries.append(raw[position:after])
            position = after
        return b"".join(sorted(entries))

    def exchange_name(self, key: str, resource: str) -> str | None:
        """Return the exchange that the argument names, None when it is not there.

        Raises:
            PreconditionFailed: it is there and is no text.
        """
        if key not in self.table:
            return None
        value = self.table[key]
        if isinstance(value, str):
            return value
        raise PreconditionFailed(
            f"invalid type '{self.type_name(key)}' for arg '{key}' in {resource}"
        )


def queue_type(table: dict[str, object]) -> str:
    """Return the type of a queue that has these arguments."""
    value = table.get(QUEUE_TYPE, CLASSIC)
    return value if isinstance(value, str) else CLASSIC


def with_default_type(arguments: Arguments, kind: str | None) -> Arguments:
    """Return the arguments with that type, unless they name one or there is none."""
    if kind is None or kind == CLASSIC or QUEUE_TYPE in arguments.table:
        return arguments
    said: dict[str, object] = {QUEUE_TYPE: kind}
    return Arguments({**arguments.table, **said}, arguments.raw + encode_table(said))


def priority_level_count(table: dict[str, object]) -> int:
    """Return how many priority levels a queue with these checked arguments has."""
    highest = table.get(MAX_PRIORITY, 0)
    return 1 + highest if isinstance(highest, int) else 1


def check_queue_arguments(arguments: Arguments, resource: str) -> None:
    """Check the arguments of a queue that is about to be declared.

    Raises:
        PreconditionFailed: a value is of the wrong type or out of range, or an argument
            belongs to another type of queue; `resource` names the queue in the text.
    """
    _check_value(arguments, QUEUE_TYPE, resource)
    kind = queue_type(arguments.table)
    for key in _KNOWN[kind]:
        _check_value(arguments, key, resource)
    if arguments.table.get("x-message-deduplication") is True:
        for key in _DEDUPLICATION:
            _check_value(arguments, key, resource)
    for key in _FOREIGN[kind]:
        if key in arguments.table:
            raise PreconditionFailed(
                f"invalid arg '{key}' for {resource} of queue type {module_name(kind)}"
            )


def name_prefix(table: dict[str, object]) -> str:
    """Return how the name is to begin that the broker chooses; empty: its own way."""
    value = table.get(NAME_PREFIX)
    return value if isinstance(value, str) else ""


def check_name_prefix(arguments: Arguments, resource: str) -> None:
    """Check how the name is to begin that the broker chooses.

    Raises:
        PreconditionFailed: it is no text, or too long.
    """
    if NAME_PREFIX not in arguments.table:
        return
    value = arguments.table[NAME_PREFIX]
    refusal = ""
    if not isinstance(value, str):
        refusal = f"{{unacceptable_type,{arguments.type_name(NAME_PREFIX)}}}"
    elif len(value.encode("utf-8", "surrogateescape")) > NAME_PREFIX_SIZE_MAX:
        refusal = f'"name prefix is longer than {NAME_PREFIX_SIZE_MAX} bytes"'
    if refusal:
        raise PreconditionFailed(
            f"invalid arg '{NAME_PREFIX}' for {resource}: {refusal}"
        )


def module_name(kind: str) -> str:
    """How RabbitMQ's texts call a queue type."""
    return f"rabbit_{kind}_queue"


def check_same_queue_arguments(
    current: Arguments, received: Arguments, resource: str
) -> None:
    """Check that a queue is declared again with the arguments it has.

    Raises:
        PreconditionFailed: an argument that the queue's type knows differs.
    """
    kind = queue_type(current.table)
    for key in _KNOWN[kind]:
        if key == QUEUE_TYPE and queue_type(received.table) == kind:
            continue
        check_same_argument(current, received, key, resource)


def check_like_quorum(current: Arguments, received: Arguments, resource: str) -> None:
    """Check the arguments that count if a quorum queue may be taken for a classic one.

    Raises:
        PreconditionFailed: one of them differs.
    """
    for key in _OF_EITHER:
        check_same_argument(current, received, key, resource)


def check_same_argument(
    current: Arguments, received: Arguments, key: str, resource: str
) -> None:
    """Check that one argument is the same in both tables, or in neither.

    Raises:
        PreconditionFailed: it is not.
    """
    has = key in current.table
    gets = key in received.table
    if not has and not gets:
        return
    if has and gets:
        old = current.table[key]
        new = received.table[key]
        same_class = _type_class(current, key) == _type_class(received, key)
        if same_class and old == new:
            return
        told = f"received '{_shown(new)}' but current is '{_shown(old)}'"
    elif has:
        told = f"received none but current is {_typed(current, key)}"
    else:
        told = f"received {_typed(received, key)} but current is none"
    raise PreconditionFailed(f"inequivalent arg '{key}' for {resource}: {told}")


def check_same_property(
    name: str, current: object, received: object, resource: str
) -> None:
    """Check that a property (durable, type, ...) is declared as it is.

    Raises:
        PreconditionFailed: it is not.
    """
    if received != current:
        raise PreconditionFailed(
            f"inequivalent arg '{name}' for {resource}: "
            f"received '{_shown(received)}' but current is '{_shown(current)}'"
        )


def _check_value(arguments: Arguments, key: str, resource: str) -> None:
    if key not in arguments.table:
        return
    refusal = _refusal(arguments, key)
    if refusal:
        raise PreconditionFailed(f"invalid arg '{key}' for {resource}: {refusal}")


def _refusal(arguments: Arguments, key: str) -> str:
    """Why RabbitMQ refuses the value of an argument; empty when it does not."""
    value = arguments.table[key]
    if key in _TEXTS:
        if not isinstance(value, str):
            return f"{{unacceptable_type,{arguments.type_name(key)}}}"
        return _text_refusal(arguments, key, value)
    if key == SINGLE_ACTIVE_CONSUMER:
        if not isinstance(value, bool):
            return f"{{unacceptable_type,{arguments.type_name(key)}}}"
        return ""
    if not _is_integer(key):
        return ""
    if not isinstance(value, int) or isinstance(value, bool):
        return f'"expected integer, got {arguments.type_name(key)}"'
    return _number_refusal(key, value)


def _is_integer(key: str) -> bool:
    return key in _COUNTS or key in _TIMES or key in _POSITIVE_TIMES or key in _INTEGERS


def _number_refusal(key: str, value: int) -> str:
    if key == "x-queue-version" and value not in QUEUE_VERSIONS:
        return f"\"unsupported queue version '{value}'\""
    if key in _INTEGERS:
        return ""
    if value < 0:
        return f"{{value_negative,{value}}}"
    if value == 0 and (key in _POSITIVE_TIMES or key in _POSITIVE_COUNTS):
        return "{value_zero,0}"
    if (key in _TIMES or key in _POSITIVE_TIMES) and value > TIME_MAX_MS:
        return f"{{value_too_large,{value}}}"
    if key == MAX_PRIORITY and value > PRIORITY_MAX:
        return f"{{max_value_exceeded,{value}}}"
    return ""


def _text_refusal(arguments: Arguments, key: str, value: str) -> str:
    if key == DEAD_LETTER_ROUTING_KEY:
        if DEAD_LETTER_EXCHANGE not in arguments.table:
            return "routing_key_but_no_dlx_defined"
        return ""
    if key == QUEUE_TYPE:
        return _type_refusal(value)
    choices = _CHOICES.get(key)
    if choices is None or value in choices:
        return ""
    if key == "x-queue-mode":
        return f"\"unsupported queue mode '{value}'\""
    return _CHOICE_REFUSED[key]


def _type_refusal(kind: str) -> str:
    if kind == STREAM:
        # Who asks for one meant it: RabbitMQ knows this type, so say what to do.
        return f"\"unsupported queue type 'stream', declare '{CLASSIC}' or '{QUORUM}'\""
    return "" if kind in _KNOWN else f"\"unsupported queue type '{kind}'\""


def _type_class(arguments: Arguments, key: str) -> str:
    name = arguments.type_name(key)
    if name in _INTEGER_TYPES:
        return "int"
    return "float" if name in _FLOAT_TYPES else name


def _typed(arguments: Arguments, key: str) -> str:
    value = _shown(arguments.table[key])
    return f"the value '{value}' of type '{arguments.type_name(key)}'"


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return erlang_float(value)
    if isinstance(value, (bytes, bytearray)):
        return value.decode(errors="replace")
    return str(value)
