"""References in pages: first in, first out, whatever the lengths."""

from __future__ import annotations

import random
from collections import deque

import pytest

from amqpd.broker.delivery import Reference, ReferenceOwner
from amqpd.broker.fresh_list import PAGE_SIZE, SLOTS_KEPT_MAX, FreshList
from amqpd.broker.message import Message

OWNER = ReferenceOwner()
MESSAGE = Message(b"\x00\x00\xce", b"\x02\x00\x01" + bytes(20), None, 0, 0)


def reference(seq: int) -> Reference:
    return Reference(OWNER, MESSAGE, seq)


@pytest.mark.parametrize(
    "count", [1, SLOTS_KEPT_MAX, PAGE_SIZE - 1, PAGE_SIZE, PAGE_SIZE + 1, 5 * PAGE_SIZE]
)
def test_what_goes_in_first_comes_out_first(count: int) -> None:
    fresh = FreshList()
    for seq in range(count):
        fresh.append(reference(seq))
    assert [fresh.pop().seq for _ in range(count)] == list(range(count))
    assert fresh.take_all() == []


@pytest.mark.parametrize("popped", [0, 1, PAGE_SIZE, PAGE_SIZE + 1, 3 * PAGE_SIZE])
def test_take_all_takes_what_was_not_popped_in_order(popped: int) -> None:
    count = 3 * PAGE_SIZE + 7
    fresh = FreshList()
    for seq in range(count):
        fresh.append(reference(seq))
    for _ in range(popped):
        fresh.pop()
    assert [one.seq for one in fresh.take_all()] == list(range(popped, count))
    fresh.append(reference(count))
    assert fresh.pop().seq == count


def test_any_order_of_appends_and_pops_is_that_of_a_deque() -> None:
    chance = random.Random(7)
    fresh, model = FreshList(), deque[int]()
    seq = 0
    for _ in range(200):
        for _ in range(chance.choice([1, 3, 100, 700])):
            fresh.append(reference(seq))
            model.append(seq)
            seq += 1
        for _ in range(min(len(model), chance.choice([1, 3, 100, 700, 2000]))):
            assert fresh.pop().seq == model.popleft()
    assert [one.seq for one in fresh.take_all()] == list(model)
