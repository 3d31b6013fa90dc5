"""Counts of what has passed: added up, and bodies by their size."""

from __future__ import annotations

import pytest

from amqpd.broker.clients.traffic import SIZE_BOUNDS, Traffic

COUNTS = (
    "received",
    "received_to_confirm",
    "confirmed",
    "routed",
    "unroutable",
    "returned",
    "delivered",
    "delivered_no_ack",
    "got",
    "got_no_ack",
    "get_empty",
    "redelivered",
    "acked",
    "body_octets",
    "bodies_to_small",
    "bodies_to_medium",
    "bodies_to_large",
)


@pytest.mark.parametrize("bound", range(len(SIZE_BOUNDS)))
def test_a_body_counts_up_to_its_bound_and_beyond_it_for_the_next(bound: int) -> None:
    traffic = Traffic()
    traffic.receive(SIZE_BOUNDS[bound])
    traffic.receive(SIZE_BOUNDS[bound] + 1)
    expected = [0] * (len(SIZE_BOUNDS) + 1)
    expected[bound] = expected[bound + 1] = 1
    assert traffic.sizes() == expected
    assert traffic.received == 2
    assert traffic.body_octets == 2 * SIZE_BOUNDS[bound] + 1


def test_all_counts_are_added() -> None:
    one, total = Traffic(), Traffic()
    for value, name in enumerate(COUNTS, start=1):
        setattr(one, name, value)
    one.receive(20_000)
    total.add(one)
    total.add(one)
    for name in COUNTS:
        assert getattr(total, name) == 2 * getattr(one, name), name
    assert sum(total.bodies) == 2
    assert total.sizes()[3] == 2
