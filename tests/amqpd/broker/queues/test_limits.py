"""What the arguments of a queue mean as limits."""

from __future__ import annotations

import pytest

from amqpd.broker.arguments import TIME_MAX_MS
from amqpd.broker.queues.limits import (
    COUNT_MAX,
    NUMBER_MAX,
    Limits,
    Overflow,
    RetryType,
)


def test_without_arguments_there_are_no_limits() -> None:
    limits = Limits({})
    numbers = (
        limits.ttl_ms,
        limits.length_max,
        limits.size_max,
        limits.delivery_max,
    )
    assert numbers == (-1, -1, -1, -1)
    assert limits.overflow is Overflow.DROP_HEAD
    assert limits.dead_letter_exchange is None
    assert limits.dead_letter_key is None
    assert not limits.counts_deliveries
    assert not limits.has_length


def test_each_argument_has_its_place() -> None:
    limits = Limits(
        {
            "x-message-ttl": 1,
            "x-max-length": 2,
            "x-max-length-bytes": 0,
            "x-delivery-limit": 4,
            "x-overflow": "reject-publish-dlx",
            "x-dead-letter-exchange": "",
            "x-dead-letter-routing-key": "k",
        }
    )
    assert (limits.ttl_ms, limits.length_max, limits.size_max) == (1, 2, 0)
    assert limits.delivery_max == 4
    assert limits.overflow is Overflow.REJECT_PUBLISH_DLX
    assert (limits.dead_letter_exchange, limits.dead_letter_key) == ("", b"k")
    assert limits.counts_deliveries
    assert limits.has_length


@pytest.mark.parametrize("value", ["text", True, None, 1.5])
def test_what_means_nothing_is_no_limit(value: object) -> None:
    limits = Limits({"x-message-ttl": value, "x-overflow": value})
    assert limits.ttl_ms == -1
    assert limits.overflow is Overflow.DROP_HEAD


def test_a_number_beyond_everything_is_cut() -> None:
    assert Limits({"x-max-length": 1 << 62}).length_max == NUMBER_MAX


def test_quorum_queues_count_deliveries_without_a_limit() -> None:
    limits = Limits({"x-queue-type": "quorum", "x-delivery-limit": -7})
    assert limits.counts_deliveries
    assert limits.delivery_max == -1


def retry(kind: object, **more: object) -> Limits:
    named = {"x-delayed-retry-" + key: value for key, value in more.items()}
    return Limits({"x-delayed-retry-type": kind, **named})


@pytest.mark.parametrize("kind", ["disabled", "odd", None, 1])
def test_a_type_that_is_none_delays_nothing(kind: object) -> None:
    limits = retry(kind, min=100)
    assert limits.retry_type is RetryType.DISABLED
    assert limits.retry_delay_ms(1, True) == 0
    assert not limits.counts_deliveries


def test_a_delay_grows_with_the_count_up_to_the_maximum() -> None:
    limits = retry("all", min=100, max=250)
    assert [limits.retry_delay_ms(count, True) for count in (1, 2, 3)] == [
        100,
        200,
        250,
    ]
    assert limits.counts_deliveries


def test_without_a_maximum_a_delay_ends_at_ten_years() -> None:
    limits = retry("all", min=NUMBER_MAX)
    assert limits.retry_delay_ms(COUNT_MAX * 5, False) == TIME_MAX_MS
    assert retry("all", min=1).retry_delay_ms(COUNT_MAX + 1, False) == COUNT_MAX


def test_without_a_minimum_there_is_no_delay() -> None:
    assert retry("all").retry_delay_ms(5, True) == 0


def test_failed_and_returned_are_opposites() -> None:
    assert retry("failed", min=5).retry_delay_ms(1, True) == 5
    assert retry("failed", min=5).retry_delay_ms(1, False) == 0
    assert retry("returned", min=5).retry_delay_ms(1, True) == 0
    assert retry("returned", min=5).retry_delay_ms(1, False) == 5
