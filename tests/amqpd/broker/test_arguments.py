"""Arguments: what is refused, what is compared, and RabbitMQ's words for it."""

from decimal import Decimal

import pytest

from amqpd.broker.arguments import (
    Arguments,
    check_queue_arguments,
    check_same_queue_arguments,
    priority_level_count,
)
from amqpd.broker.errors import PreconditionFailed
from amqpd.wire.tables import Table
from tests.support.control_plane import arguments

QUEUE = "queue 'q' in vhost '/'"
QUORUM: Table = {"x-queue-type": "quorum"}


def refusal(table: Table) -> str:
    """The text that a new queue with these arguments is refused with."""
    with pytest.raises(PreconditionFailed) as caught:
        check_queue_arguments(arguments(table), QUEUE)
    return caught.value.text


def difference(current: Table, received: Table) -> str:
    """The text that a second declaration is refused with."""
    with pytest.raises(PreconditionFailed) as caught:
        check_same_queue_arguments(arguments(current), arguments(received), QUEUE)
    return caught.value.text


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        ("x-expires", 0, "{value_zero,0}"),
        ("x-expires", -1, "{value_negative,-1}"),
        ("x-expires", True, '"expected integer, got bool"'),
        ("x-expires", "a", '"expected integer, got longstr"'),
        ("x-expires", 1.5, '"expected integer, got double"'),
        ("x-expires", None, '"expected integer, got void"'),
        ("x-expires", [1], '"expected integer, got array"'),
        ("x-expires", {"a": 1}, '"expected integer, got table"'),
        ("x-expires", Decimal("1.5"), '"expected integer, got decimal"'),
        ("x-expires", 315_360_000_001, "{value_too_large,315360000001}"),
        ("x-message-ttl", -1, "{value_negative,-1}"),
        ("x-message-ttl", 315_360_000_001, "{value_too_large,315360000001}"),
        ("x-max-length", -5, "{value_negative,-5}"),
        ("x-max-length-bytes", "a", '"expected integer, got longstr"'),
        ("x-max-priority", 256, "{max_value_exceeded,256}"),
        ("x-max-priority", -1, "{value_negative,-1}"),
        ("x-dead-letter-routing-key", "k", "routing_key_but_no_dlx_defined"),
        ("x-dead-letter-routing-key", 5, "{unacceptable_type,signedint}"),
        ("x-overflow", "x", "invalid_overflow"),
        ("x-overflow", 5, "{unacceptable_type,signedint}"),
        ("x-queue-mode", "x", "\"unsupported queue mode 'x'\""),
        ("x-queue-version", 3, "\"unsupported queue version '3'\""),
        ("x-queue-version", "2", '"expected integer, got longstr"'),
        ("x-single-active-consumer", 1, "{unacceptable_type,signedint}"),
        ("x-queue-leader-locator", "x", "invalid_queue_locator_arg"),
        ("x-queue-type", "x", "\"unsupported queue type 'x'\""),
        (
            "x-queue-type",
            "stream",
            "\"unsupported queue type 'stream', declare 'classic' or 'quorum'\"",
        ),
        ("x-queue-type", 5, "{unacceptable_type,signedint}"),
        ("x-queue-master-locator", 5, "{unacceptable_type,signedint}"),
        ("x-consumer-timeout", -1, "{value_negative,-1}"),
    ],
)
def test_a_value_that_makes_no_sense_is_refused(
    key: str, value: object, reason: str
) -> None:
    assert refusal({key: value}) == f"invalid arg '{key}' for {QUEUE}: {reason}"


def test_a_group_of_nobody_is_refused() -> None:
    key = "x-quorum-initial-group-size"
    told = f"invalid arg '{key}' for {QUEUE}: {{value_zero,0}}"
    assert refusal({**QUORUM, key: 0}) == told
    check_queue_arguments(arguments({**QUORUM, key: 1}), QUEUE)


@pytest.mark.parametrize(
    "table",
    [
        {},
        {"x-expires": 1},
        {"x-message-ttl": 0},
        {"x-message-ttl": 315_360_000_000},
        {"x-max-length": 0},
        {"x-max-length-bytes": 2**62},
        {"x-max-priority": 0},
        {"x-max-priority": 255},
        {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "k"},
        {"x-overflow": "reject-publish-dlx"},
        {"x-queue-mode": "lazy"},
        {"x-queue-version": 1},
        {"x-queue-master-locator": "client-local"},
        {"x-queue-leader-locator": "client-local"},
        {"x-single-active-consumer": True},
        {"x-delayed-retry-type": "all", "x-delayed-retry-min": 0},
        {"x-delayed-retry-type": "failed", "x-delayed-retry-max": 1},
        {"x-queue-type": "classic"},
        {"x-queue-type": "quorum", "x-delivery-limit": -1},
        {"x-queue-type": "quorum", "x-dead-letter-strategy": "at-least-once"},
        {"x-nobody-knows": "anything"},
    ],
)
def test_what_rabbitmq_takes_is_taken(table: Table) -> None:
    check_queue_arguments(arguments(table), QUEUE)


@pytest.mark.parametrize(
    ("table", "key", "kind"),
    [
        ({"x-dead-letter-strategy": "a"}, "x-dead-letter-strategy", "classic"),
        ({"x-max-age": "1D"}, "x-max-age", "classic"),
        ({"x-max-age": "1", "x-dead-letter-strategy": 1}, "x-max-age", "classic"),
        ({**QUORUM, "x-max-priority": 256}, "x-max-priority", "quorum"),
        ({**QUORUM, "x-queue-mode": "lazy"}, "x-queue-mode", "quorum"),
    ],
)
def test_an_argument_of_another_type_of_queue_is_refused(
    table: Table, key: str, kind: str
) -> None:
    expected = f"invalid arg '{key}' for {QUEUE} of queue type rabbit_{kind}_queue"
    assert refusal(table) == expected


def test_a_wrong_value_is_reported_before_an_argument_of_another_type() -> None:
    text = refusal({"x-dead-letter-strategy": 1, "x-message-ttl": -1})
    assert text == f"invalid arg 'x-message-ttl' for {QUEUE}: {{value_negative,-1}}"


@pytest.mark.parametrize(
    ("current", "received", "told"),
    [
        (
            {"x-message-ttl": 60000},
            {},
            "received none but current is the value '60000' of type 'signedint'",
        ),
        (
            {},
            {"x-message-ttl": 1},
            "received the value '1' of type 'signedint' but current is none",
        ),
        (
            {"x-message-ttl": 60000},
            {"x-message-ttl": 1},
            "received '1' but current is '60000'",
        ),
        (
            {"x-message-ttl": 1},
            {"x-message-ttl": "1"},
            "received '1' but current is '1'",
        ),
        (
            {"x-message-ttl": 1},
            {"x-message-ttl": 1.0},
            "received '1.0' but current is '1'",
        ),
    ],
)
def test_a_difference_names_both_values(
    current: Table, received: Table, told: str
) -> None:
    expected = f"inequivalent arg 'x-message-ttl' for {QUEUE}: {told}"
    assert difference(current, received) == expected


def test_a_flag_is_shown_as_a_word() -> None:
    text = difference({}, {"x-single-active-consumer": True})
    assert text.endswith("received the value 'true' of type 'bool' but current is none")


def test_octets_are_shown_as_text() -> None:
    text = difference({"x-overflow": b"\xff"}, {})
    assert "the value '\N{REPLACEMENT CHARACTER}' of type 'binary'" in text


@pytest.mark.parametrize(
    ("current", "received"),
    [
        (b"I\x00\x00\xea\x60", b"l" + (60000).to_bytes(8, "big")),
        (b"u\xea\x60", b"i\x00\x00\xea\x60"),
    ],
)
def test_integers_of_any_width_are_one_type(current: bytes, received: bytes) -> None:
    key = b"\x0dx-message-ttl"
    table: Table = {"x-message-ttl": 60000}
    check_same_queue_arguments(
        Arguments(table, key + current), Arguments(table, key + received), QUEUE
    )


def test_floats_of_either_width_are_one_type() -> None:
    table: Table = {"x-message-ttl": 1.0}
    check_same_queue_arguments(
        Arguments(table, b"\x0dx-message-ttlf\x3f\x80\x00\x00"), arguments(table), QUEUE
    )


def test_arguments_that_nobody_knows_are_not_compared() -> None:
    check_same_queue_arguments(arguments({"x-a": 1}), arguments({"x-a": 2}), QUEUE)


def test_of_several_differences_the_first_in_rabbitmqs_order_is_told() -> None:
    text = difference(
        {"x-max-length": 1, "x-message-ttl": 5}, {"x-max-length": 2, "x-message-ttl": 6}
    )
    assert text.startswith("inequivalent arg 'x-message-ttl'")


@pytest.mark.parametrize(
    ("current", "received"),
    [({}, {"x-queue-type": "classic"}), ({"x-queue-type": "classic"}, {})],
)
def test_a_queue_without_a_type_is_a_classic_one(
    current: Table, received: Table
) -> None:
    check_same_queue_arguments(arguments(current), arguments(received), QUEUE)


@pytest.mark.parametrize(
    ("current", "received", "told"),
    [
        (
            {},
            QUORUM,
            "received the value 'quorum' of type 'longstr' but current is none",
        ),
        (
            QUORUM,
            {},
            "received none but current is the value 'quorum' of type 'longstr'",
        ),
        (
            QUORUM,
            {"x-queue-type": "stream"},
            "received 'stream' but current is 'quorum'",
        ),
    ],
)
def test_another_type_of_queue_is_a_difference(
    current: Table, received: Table, told: str
) -> None:
    expected = f"inequivalent arg 'x-queue-type' for {QUEUE}: {told}"
    assert difference(current, received) == expected


def test_a_quorum_queue_compares_its_own_arguments() -> None:
    text = difference({**QUORUM, "x-delivery-limit": 3}, QUORUM)
    assert text.startswith("inequivalent arg 'x-delivery-limit'")


def test_an_exchange_argument_must_be_a_text() -> None:
    with pytest.raises(PreconditionFailed) as caught:
        arguments({"x-dead-letter-exchange": 5}).exchange_name(
            "x-dead-letter-exchange", QUEUE
        )
    assert caught.value.text == (
        f"invalid type 'signedint' for arg 'x-dead-letter-exchange' in {QUEUE}"
    )


def test_tables_that_differ_in_order_only_have_the_same_canonical_form() -> None:
    one = arguments({"b": "x", "a": 1})
    other = arguments({"a": 1, "b": "x"})
    assert one.raw != other.raw
    assert one.canonical() == other.canonical()


def test_the_canonical_form_of_an_ordered_table_is_the_table() -> None:
    table = arguments({"a": 1, "b": "x"})
    assert table.canonical() == table.raw


@pytest.mark.parametrize(
    ("table", "count"),
    [
        ({}, 1),
        ({"x-max-priority": 0}, 1),
        ({"x-max-priority": 10}, 11),
        ({"x-max-priority": 255}, 256),
    ],
)
def test_levels_are_counted_from_0(table: Table, count: int) -> None:
    assert priority_level_count(table) == count
