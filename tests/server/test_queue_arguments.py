"""Every argument of a queue: what is compared, which values are refused, and how.

Texts are RabbitMQ's. What one type of queue knows is compared when a queue is declared
again, whichever of the two declarations has it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pytest
from pamqp.commands import Basic, Queue

from tests.support.differences import Expectations
from tests.support.raw_client import RawClient, channel_closed

FreshName = Callable[[], str]
Table = dict[str, Any]

QUORUM: Final[Table] = {"x-queue-type": "quorum"}
DECLARE: Final = (50, 10)
CONSUME: Final = (60, 20)

TEXT: Final = "longstr"
CLASSIC_KEYS: Final[dict[str, tuple[object, str, str]]] = {
    "x-dead-letter-routing-key": ("k", "k", TEXT),
    "x-queue-version": (2, "2", "byte"),
    "x-queue-master-locator": ("min-masters", "min-masters", TEXT),
}
QUORUM_KEYS: Final[dict[str, tuple[object, str, str]]] = {
    "x-expires": (600_000, "600000", "signedint"),
    "x-message-ttl": (600_000, "600000", "signedint"),
    "x-dead-letter-exchange": ("dlx", "dlx", TEXT),
    "x-dead-letter-routing-key": ("k", "k", TEXT),
    "x-max-length": (6, "6", "byte"),
    "x-max-length-bytes": (600_000, "600000", "signedint"),
    "x-overflow": ("reject-publish", "reject-publish", TEXT),
    "x-single-active-consumer": (True, "true", "bool"),
    "x-queue-leader-locator": ("balanced", "balanced", TEXT),
    "x-delivery-limit": (5, "5", "byte"),
    "x-dead-letter-strategy": ("at-most-once", "at-most-once", TEXT),
    "x-max-in-memory-length": (5, "5", "byte"),
    "x-max-in-memory-bytes": (5, "5", "byte"),
    "x-quorum-initial-group-size": (1, "1", "byte"),
}
#: Those that came after the RabbitMQ that we compare with.
LATER_KEYS: Final[dict[str, tuple[object, str, str]]] = {
    "x-member-placement-tag": ("rack", "rack", TEXT),
    "x-consumer-timeout": (600_000, "600000", "signedint"),
    "x-consumer-disconnected-timeout": (600_000, "600000", "signedint"),
    "x-delayed-retry-type": ("failed", "failed", TEXT),
    "x-delayed-retry-min": (1000, "1000", "short"),
    "x-delayed-retry-max": (2000, "2000", "short"),
}


def declare(client: RawClient, name: str, arguments: Table) -> None:
    method = Queue.Declare(0, name, durable=True, arguments=arguments)
    client.call(1, method, Queue.DeclareOk)


def expect_refused(client: RawClient, name: str, arguments: Table, why: str) -> None:
    """Declare; the channel must be closed for this reason, `{}` is the queue."""
    method = Queue.Declare(0, name, durable=True, arguments=arguments)
    client.send_method(1, method)
    text = "PRECONDITION_FAILED - " + why.format(f"queue '{name}' in vhost '/'")
    client.expect_refusal(channel_closed(406, text, *DECLARE))


def expect_compared(
    client: RawClient, fresh_name: FreshName, key: str, kind: Table, said: Any
) -> None:
    """Declare with and without it, both ways: it counts both times."""
    value, shown, type_name = said
    is_key = key == "x-dead-letter-routing-key"
    without = {**kind, "x-dead-letter-exchange": ""} if is_key else kind
    has = {**without, key: value}
    typed = f"the value '{shown}' of type '{type_name}'"
    for first, second, told in (
        (has, without, f"received none but current is {typed}"),
        (without, has, f"received {typed} but current is none"),
    ):
        name = fresh_name()
        declare(client, name, first)
        declare(client, name, first)
        why = f"inequivalent arg '{key}' for {{}}: {told}"
        expect_refused(client, name, second, why)


@pytest.mark.parametrize("key", CLASSIC_KEYS)
def test_what_a_classic_queue_knows_is_compared(
    client: RawClient, fresh_name: FreshName, key: str
) -> None:
    expect_compared(client, fresh_name, key, {}, CLASSIC_KEYS[key])


@pytest.mark.parametrize("key", QUORUM_KEYS)
def test_what_a_quorum_queue_knows_is_compared(
    client: RawClient, fresh_name: FreshName, key: str
) -> None:
    expect_compared(client, fresh_name, key, QUORUM, QUORUM_KEYS[key])


@pytest.mark.parametrize("key", LATER_KEYS)
def test_what_later_versions_know_is_compared_too(
    client: RawClient, fresh_name: FreshName, expectations: Expectations, key: str
) -> None:
    if expectations.differ("arguments-of-later-versions"):
        name = fresh_name()
        declare(client, name, {**QUORUM, key: LATER_KEYS[key][0]})
        declare(client, name, QUORUM)
        return
    expect_compared(client, fresh_name, key, QUORUM, LATER_KEYS[key])


@pytest.mark.parametrize(
    ("value", "told"),
    [(60000.0, "received '6.0e4'"), ("60000", "received '60000'")],
)
def test_a_number_of_another_class_is_another_value(
    client: RawClient, fresh_name: FreshName, value: object, told: str
) -> None:
    name = fresh_name()
    declare(client, name, {"x-message-ttl": 60000})
    why = f"inequivalent arg 'x-message-ttl' for {{}}: {told} but current is '60000'"
    expect_refused(client, name, {"x-message-ttl": value}, why)


INTEGERS: Final = ("x-max-length", "x-max-length-bytes", "x-max-priority")
TIMES: Final = ("x-expires", "x-message-ttl")


@pytest.mark.parametrize("key", [*INTEGERS, *TIMES, "x-queue-version"])
@pytest.mark.parametrize(
    ("value", "type_name"), [("1", TEXT), (1.5, "float"), (True, "bool")]
)
def test_a_number_that_is_none_is_406(
    client: RawClient, fresh_name: FreshName, key: str, value: object, type_name: str
) -> None:
    why = f"invalid arg '{key}' for {{}}: \"expected integer, got {type_name}\""
    expect_refused(client, fresh_name(), {key: value}, why)


@pytest.mark.parametrize("key", [*INTEGERS, *TIMES])
def test_a_negative_number_is_406(
    client: RawClient, fresh_name: FreshName, key: str
) -> None:
    why = f"invalid arg '{key}' for {{}}: {{{{value_negative,-1}}}}"
    expect_refused(client, fresh_name(), {key: -1}, why)


@pytest.mark.parametrize("key", TIMES)
def test_more_than_ten_years_is_406(
    client: RawClient, fresh_name: FreshName, key: str
) -> None:
    why = f"invalid arg '{key}' for {{}}: {{{{value_too_large,315360000001}}}}"
    expect_refused(client, fresh_name(), {key: 315_360_000_001}, why)
    declare(client, fresh_name(), {key: 315_360_000_000})


@pytest.mark.parametrize("key", ["x-overflow", "x-queue-mode", "x-queue-type"])
def test_a_text_that_is_none_is_406(
    client: RawClient, fresh_name: FreshName, key: str
) -> None:
    why = f"invalid arg '{key}' for {{}}: {{{{unacceptable_type,byte}}}}"
    expect_refused(client, fresh_name(), {key: 5}, why)


@pytest.mark.parametrize(
    ("key", "value", "told"),
    [
        ("x-queue-leader-locator", "nope", "invalid_queue_locator_arg"),
        ("x-dead-letter-strategy", "nope", "invalid_dlx_strategy"),
        ("x-quorum-initial-group-size", 0, "{value_zero,0}"),
        ("x-quorum-initial-group-size", -1, "{value_negative,-1}"),
        ("x-max-in-memory-length", -1, "{value_negative,-1}"),
        ("x-max-in-memory-bytes", "1", '"expected integer, got longstr"'),
        ("x-overflow", "nope", "invalid_overflow"),
        ("x-single-active-consumer", "true", "{unacceptable_type,longstr}"),
    ],
)
def test_values_of_a_quorum_queue_are_checked(
    client: RawClient, fresh_name: FreshName, key: str, value: object, told: str
) -> None:
    escaped = told.replace("{", "{{").replace("}", "}}")
    why = f"invalid arg '{key}' for {{}}: {escaped}"
    expect_refused(client, fresh_name(), {**QUORUM, key: value}, why)


@pytest.mark.parametrize(
    ("key", "value", "told"),
    [
        ("x-delivery-limit", "5", '"expected integer, got longstr"'),
        ("x-consumer-timeout", -1, "{value_negative,-1}"),
        ("x-consumer-timeout", "5", '"expected integer, got longstr"'),
        ("x-delayed-retry-min", -1, "{value_negative,-1}"),
        ("x-delayed-retry-max", "5", '"expected integer, got longstr"'),
        ("x-delayed-retry-type", 5, "{unacceptable_type,byte}"),
    ],
)
def test_values_that_later_versions_check_are_checked(
    client: RawClient,
    fresh_name: FreshName,
    expectations: Expectations,
    key: str,
    value: object,
    told: str,
) -> None:
    table = {**QUORUM, key: value}
    if expectations.differ("arguments-of-later-versions"):
        declare(client, fresh_name(), table)
        return
    escaped = told.replace("{", "{{").replace("}", "}}")
    why = f"invalid arg '{key}' for {{}}: {escaped}"
    expect_refused(client, fresh_name(), table, why)


@pytest.mark.parametrize("limit", [-1, 0, 20])
def test_a_delivery_limit_may_be_any_number(
    client: RawClient, fresh_name: FreshName, limit: int
) -> None:
    declare(client, fresh_name(), {**QUORUM, "x-delivery-limit": limit})


@pytest.mark.parametrize(
    ("key", "value"),
    [("x-max-age", "1D"), ("x-initial-cluster-size", 1), ("x-max-in-memory-length", 1)],
)
def test_what_only_another_type_knows_is_406(
    client: RawClient, fresh_name: FreshName, key: str, value: object
) -> None:
    why = f"invalid arg '{key}' for {{}} of queue type rabbit_classic_queue"
    expect_refused(client, fresh_name(), {key: value}, why)


def test_the_prefix_of_generated_names_can_be_chosen(
    client: RawClient, expectations: Expectations
) -> None:
    arguments: Table = {"x-name-prefix": "mine"}
    method = Queue.Declare(0, "", exclusive=True, arguments=arguments)
    name = client.call(1, method, Queue.DeclareOk).queue or ""
    is_unknown = expectations.differ("arguments-of-later-versions")
    assert name.startswith("amq.gen-" if is_unknown else "mine-")


def test_a_prefix_of_generated_names_that_is_too_long_is_406(
    client: RawClient, expectations: Expectations
) -> None:
    arguments: Table = {"x-name-prefix": "x" * 65}
    method = Queue.Declare(0, "", exclusive=True, arguments=arguments)
    if expectations.differ("arguments-of-later-versions"):
        client.call(1, method, Queue.DeclareOk)
        return
    client.send_method(1, method)
    text = (
        "PRECONDITION_FAILED - invalid arg 'x-name-prefix' for queue '' in vhost '/': "
        '"name prefix is longer than 64 bytes"'
    )
    client.expect_refusal(channel_closed(406, text, *DECLARE))


# -- arguments of consumers ----------------------------------------------------


def expect_consume_refused(
    client: RawClient, queue: str, arguments: Table, why: str
) -> None:
    client.send_method(1, Basic.Consume(0, queue, "t", arguments=arguments))
    text = "PRECONDITION_FAILED - " + why.format(f"queue '{queue}' in vhost '/'")
    client.expect_refusal(channel_closed(406, text, *CONSUME))


@pytest.mark.parametrize("kind", ["classic", "quorum"])
def test_where_in_a_stream_to_begin_means_nothing_for_a_queue(
    client: RawClient, fresh_name: FreshName, kind: str
) -> None:
    name = fresh_name()
    declare(client, name, {"x-queue-type": kind})
    why = f"invalid arg 'x-stream-offset' for {{}} of queue type rabbit_{kind}_queue"
    expect_consume_refused(client, name, {"x-stream-offset": "first"}, why)


@pytest.mark.parametrize(
    ("key", "value"),
    [("x-stream-filter", "a"), ("x-stream-match-unfiltered", True)],
)
def test_the_filter_of_a_stream_means_nothing_for_a_queue(
    client: RawClient,
    fresh_name: FreshName,
    expectations: Expectations,
    key: str,
    value: object,
) -> None:
    name = fresh_name()
    declare(client, name, {})
    if expectations.differ("arguments-of-later-versions"):
        consume = Basic.Consume(0, name, "t", arguments={key: value})  # type: ignore[dict-item]
        client.call(1, consume, Basic.ConsumeOk)
        return
    why = f"invalid arg '{key}' for {{}} of queue type rabbit_classic_queue"
    expect_consume_refused(client, name, {key: value}, why)


@pytest.mark.parametrize(
    ("value", "told"),
    [("5", '"expected integer, got longstr"'), (-1, "{{value_negative,-1}}")],
)
def test_a_timeout_of_a_consumer_is_checked(
    client: RawClient,
    fresh_name: FreshName,
    expectations: Expectations,
    value: object,
    told: str,
) -> None:
    name = fresh_name()
    declare(client, name, {})
    arguments: Table = {"x-consumer-timeout": value}
    if expectations.differ("consumer-timeout"):
        consume = Basic.Consume(0, name, "t", arguments=arguments)
        client.call(1, consume, Basic.ConsumeOk)
        return
    why = f"invalid arg 'x-consumer-timeout' for {{}}: {told}"
    expect_consume_refused(client, name, arguments, why)


def test_other_arguments_of_consumers_mean_nothing(
    client: RawClient, fresh_name: FreshName
) -> None:
    name = fresh_name()
    declare(client, name, {})
    arguments: Table = {"x-anything": "a", "x-cancel-on-ha-failover": True}
    consume = Basic.Consume(0, name, "t", arguments=arguments)
    client.call(1, consume, Basic.ConsumeOk)
