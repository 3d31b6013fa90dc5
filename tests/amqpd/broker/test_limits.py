"""What the arguments of a queue mean as limits."""

from __future__ import annotations

import pytest

from amqpd.broker.limits import NUMBER_MAX, Limits, Overflow


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
