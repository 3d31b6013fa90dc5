"""The keys that a policy's definition may have, and what their values may be.

Each key has a check and the words in which RabbitMQ refuses what it does not pass. What
a key does is not known here; that of a queue is named like its argument, without `x-`.
Some keys are accepted for what they say in RabbitMQ and mean nothing on one machine;
those of mirrored queues, which RabbitMQ 4 has no more, are still in old definitions and
are passed over.
"""

import re
from typing import Final

from amqpd.broker.erlang_term import erlang_pairs, erlang_term

# Kinds of values. A tuple lists all that there are.
_TEXT: Final = "text"
_INTEGER: Final = "integer"
_COUNT: Final = "count"
_POSITIVE: Final = "positive"
_AGE: Final = "age"
_FILTER_SIZE: Final = "filter size"

_Kind = str | tuple[object, ...]

_NOT_VALID: Final = "is not a valid "

_CHECKS: Final[dict[str, tuple[_Kind, str]]] = {
    "alternate-exchange": (_TEXT, _NOT_VALID + "alternate exchange name"),
    "consumer-disconnected-timeout": (
        _COUNT,
        _NOT_VALID + "consumer disconnected timeout",
    ),
    "consumer-timeout": (_COUNT, _NOT_VALID + "consumer timeout"),
    "dead-letter-exchange": (_TEXT, _NOT_VALID + "dead letter exchange name"),
    "dead-letter-routing-key": (_TEXT, _NOT_VALID + "dead letter routing key"),
    "dead-letter-strategy": (
        ("at-most-once", "at-least-once"),
        _NOT_VALID + "dead letter strategy",
    ),
    "delayed-retry-max": (_COUNT, _NOT_VALID + "delayed retry maximum"),
    "delayed-retry-min": (_COUNT, _NOT_VALID + "delayed retry minimum"),
    "delayed-retry-type": (
        ("disabled", "all", "failed", "returned"),
        _NOT_VALID + "delayed retry type",
    ),
    "delivery-limit": (_INTEGER, _NOT_VALID + "delivery limit"),
    "expires": (_POSITIVE, _NOT_VALID + "queue expiry"),
    "federation-upstream": (_TEXT, _NOT_VALID + "federation upstream name"),
    "federation-upstream-pattern": (_TEXT, _NOT_VALID + "federation upstream pattern"),
    "federation-upstream-set": (_TEXT, _NOT_VALID + "federation upstream set name"),
    "initial-cluster-size": (_COUNT, _NOT_VALID + "cluster size"),
    "max-age": (_AGE, _NOT_VALID + "max age"),
    "max-in-memory-bytes": (_COUNT, _NOT_VALID + "maximum memory in bytes"),
    "max-in-memory-length": (_COUNT, _NOT_VALID + "maximum memory in bytes"),
    "max-length": (_COUNT, _NOT_VALID + "maximum length"),
    "max-length-bytes": (_COUNT, _NOT_VALID + "maximum length in bytes"),
    "member-placement-tag": (_TEXT, _NOT_VALID + "member placement tag"),
    "message-ttl": (_COUNT, _NOT_VALID + "message TTL"),
    "overflow": (
        ("drop-head", "reject-publish", "reject-publish-dlx"),
        _NOT_VALID + "overflow value",
    ),
    "queue-leader-locator": (
        ("client-local", "balanced", "random", "least-leaders"),
        _NOT_VALID + "queue leader locator value",
    ),
    "queue-master-locator": (
        ("min-masters", "client-local", "random"),
        "invalid queue-master-locator value",
    ),
    "queue-mode": (("default", "lazy"), _NOT_VALID + "queue-mode value"),
    "queue-version": ((1, 2), _NOT_VALID + "queue-version value"),
    "routing-key": (_TEXT, _NOT_VALID + "routing key"),
    "shards-per-node": (_COUNT, _NOT_VALID + "number of shards"),
    "stream-filter-size-bytes": (_FILTER_SIZE, _NOT_VALID + "filter size"),
    "stream-max-segment-size-bytes": (_COUNT, _NOT_VALID + "segment size"),
    "target-group-size": (_POSITIVE, _NOT_VALID + "target group size"),
}

#: Of mirrored queues: accepted, and without any effect.
REMOVED_KEYS: Final = frozenset(
    {
        "ha-mode",
        "ha-params",
        "ha-promote-on-failure",
        "ha-promote-on-shutdown",
        "ha-sync-batch-size",
        "ha-sync-mode",
    }
)

#: What an operator's policy may set.
OPERATOR_KEYS: Final = frozenset(
    {
        "delayed-retry-max",
        "delayed-retry-min",
        "delayed-retry-type",
        "delivery-limit",
        "expires",
        "max-in-memory-bytes",
        "max-in-memory-length",
        "max-length",
        "max-length-bytes",
        "member-placement-tag",
        "message-ttl",
        "overflow",
        "queue-master-locator",
        "queue-version",
        "target-group-size",
    }
)

_AGE_PATTERN: Final = re.compile(r"[0-9]+[YMDhms]\Z")
_FILTER_SIZES: Final = range(16, 256)


def definition_problem(definition: dict[str, object], is_operator: bool) -> str:
    """Return why a policy may not say this, in RabbitMQ's words; empty if it may."""
    if not definition:
        return "no policy provided"
    unknown: dict[str, object] = {}
    for key, value in sorted(definition.items()):
        known = key in OPERATOR_KEYS if is_operator else _is_known(key)
        if not known:
            unknown[key] = value
        elif key in _CHECKS:
            kind, refusal = _CHECKS[key]
            if not _fits(kind, value):
                return f"{erlang_term(value)} {refusal}"
    if unknown:
        return f"{erlang_pairs(unknown)} are not recognised policy settings"
    return ""


def _is_known(key: str) -> bool:
    return key in _CHECKS or key in REMOVED_KEYS


def _fits(kind: _Kind, value: object) -> bool:
    if isinstance(kind, tuple):
        return not isinstance(value, bool) and value in kind
    if kind in (_TEXT, _AGE):
        if not isinstance(value, str):
            return False
        return kind == _TEXT or _AGE_PATTERN.match(value) is not None
    if isinstance(value, bool) or not isinstance(value, int):
        return False
    if kind == _FILTER_SIZE:
        return value in _FILTER_SIZES
    return value >= {_INTEGER: value, _COUNT: 0, _POSITIVE: 1}[kind]
