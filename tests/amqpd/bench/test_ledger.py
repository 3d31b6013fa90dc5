"""The ledger: each message once, whatever the order, and memory that is given back."""

from __future__ import annotations

import random

from amqpd.bench.ledger import Arrivals, Order, QueueLedger

CHUNK = 65536


def test_a_message_is_new_once() -> None:
    arrivals = Arrivals()
    assert [arrivals.is_new(number) for number in (3, 4, 3, 11, 4)] == [
        True,
        True,
        False,
        True,
        False,
    ]
    assert arrivals.count == 3


def test_a_message_is_doubled_also_when_its_chunk_is_long_complete() -> None:
    arrivals = Arrivals()
    for number in range(CHUNK + 1):
        assert arrivals.is_new(number)
    assert not arrivals.is_new(0)
    assert not arrivals.is_new(CHUNK)


def test_what_is_missing_is_found_in_every_chunk() -> None:
    arrivals = Arrivals()
    lost = {0, 9, CHUNK - 1, CHUNK, 2 * CHUNK + 5}
    for number in range(3 * CHUNK):
        if number not in lost:
            arrivals.is_new(number)
    assert arrivals.missing(3 * CHUNK) == sorted(lost)
    assert arrivals.missing(10) == [0, 9]


def test_all_that_was_sent_is_missing_when_nothing_arrived() -> None:
    assert Arrivals().missing(CHUNK + 2) == list(range(CHUNK + 2))


def test_nothing_is_missing_whatever_the_order_of_arrival() -> None:
    numbers = list(range(2 * CHUNK))
    random.Random(1).shuffle(numbers)
    arrivals = Arrivals()
    for number in numbers:
        arrivals.is_new(number)
    assert arrivals.missing(2 * CHUNK) == []


def test_chunks_that_complete_in_another_order_are_all_dropped() -> None:
    arrivals = Arrivals()
    for number in [*range(CHUNK, 2 * CHUNK), *range(CHUNK)]:
        arrivals.is_new(number)
    assert arrivals.chunks_kept == 0


def test_a_queue_has_its_own_arrivals_for_each_producer() -> None:
    ledger = QueueLedger([2, 5])
    assert ledger.arrivals[2].is_new(0)
    assert ledger.arrivals[5].is_new(0)
    assert 1 not in ledger.arrivals


def test_order_is_that_of_each_producer_for_itself() -> None:
    order = Order()
    seen = [(1, 0), (2, 5), (1, 1), (2, 4), (1, 3), (1, 2), (1, 4)]
    assert [order.is_kept(producer, number) for producer, number in seen] == [
        True,
        True,
        True,
        False,
        True,
        False,
        True,
    ]
