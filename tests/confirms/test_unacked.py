"""Delivery tags of one channel and what they stand for."""

import tracemalloc

import pytest

from confirms.errors import UnknownDeliveryTag
from confirms.unacked import Unacked


def delivered(count: int) -> Unacked[str]:
    """Return a ledger in which tag n stands for "m<n>"."""
    unacked = Unacked[str]()
    for tag in range(1, count + 1):
        assert unacked.add(f"m{tag}") == tag
    return unacked


def names(*tags: int) -> list[str]:
    return [f"m{tag}" for tag in tags]


def with_stragglers() -> Unacked[str]:
    """Return a ledger where 1, 2 and 5 lie behind tags that need no ack."""
    unacked = delivered(5)
    unacked.take(3)
    unacked.take(4)
    unacked.skip(10)
    unacked.add("m16")
    return unacked


def test_tags_begin_at_one_and_rise_by_one() -> None:
    unacked = Unacked[str]()
    assert unacked.next_tag == 1
    assert [unacked.add("a"), unacked.add("b")] == [1, 2]
    assert (unacked.next_tag, unacked.count) == (3, 2)


def test_a_tag_is_taken_once() -> None:
    unacked = delivered(3)
    assert unacked.take(2) == "m2"
    with pytest.raises(UnknownDeliveryTag) as caught:
        unacked.take(2)
    assert caught.value.tag == 2
    assert unacked.count == 2


@pytest.mark.parametrize("tag", [0, 4, -1])
def test_a_tag_that_was_never_given_out_is_unknown(tag: int) -> None:
    unacked = delivered(3)
    with pytest.raises(UnknownDeliveryTag):
        unacked.take(tag)
    assert unacked.count == 3


def test_multiple_takes_everything_up_to_the_tag_in_order() -> None:
    unacked = delivered(5)
    unacked.take(2)
    assert unacked.take_through(4) == names(1, 3, 4)
    assert unacked.take_through(5) == names(5)
    assert unacked.count == 0


@pytest.mark.parametrize("tag", [1, 2, 4, 9])
def test_multiple_asks_for_an_outstanding_tag_and_else_takes_nothing(tag: int) -> None:
    unacked = delivered(5)
    unacked.take_through(2)
    unacked.take(4)
    with pytest.raises(UnknownDeliveryTag):
        unacked.take_through(tag)
    assert unacked.take_all() == names(3, 5)


@pytest.mark.parametrize("tag", range(20))
def test_what_is_outstanding_below_a_tag_is_told_in_order_and_stays(tag: int) -> None:
    unacked = with_stragglers()
    outstanding = [1, 2, 5, 16]
    below = names(*(one for one in outstanding if one < tag))
    assert unacked.outstanding_before(tag) == below
    assert unacked.take_all() == names(*outstanding)


def test_what_was_taken_is_not_outstanding_below_a_tag() -> None:
    unacked = delivered(5)
    unacked.take(1)
    unacked.take(3)
    assert unacked.outstanding_before(5) == names(2, 4)


def test_multiple_of_tag_zero_takes_everything() -> None:
    unacked = delivered(3)
    assert unacked.take_through(0) == names(1, 2, 3)
    assert unacked.take_through(0) == []


def test_tags_that_come_back_out_of_order_leave_the_rest_in_order() -> None:
    unacked = delivered(5)
    assert [unacked.take(2), unacked.take(1)] == names(2, 1)
    with pytest.raises(UnknownDeliveryTag):
        unacked.take(2)
    assert unacked.take(3) == "m3"
    assert unacked.take_all() == names(4, 5)


def test_skipped_tags_are_unknown() -> None:
    unacked = delivered(1)
    assert unacked.skip(3) == 2
    assert unacked.add("m5") == 5
    for tag in (2, 3, 4):
        with pytest.raises(UnknownDeliveryTag):
            unacked.take(tag)
    assert (unacked.count, unacked.take_all()) == (2, names(1, 5))


def test_entries_from_before_skipped_tags_are_taken_singly() -> None:
    unacked = with_stragglers()
    assert unacked.take(2) == "m2"
    assert unacked.count == 3
    with pytest.raises(UnknownDeliveryTag):
        unacked.take(2)
    assert unacked.take_all() == names(1, 5, 16)


def test_multiple_up_to_a_tag_from_before_skipped_ones() -> None:
    unacked = with_stragglers()
    assert unacked.take_through(2) == names(1, 2)
    assert unacked.count == 2
    assert unacked.take_all() == names(5, 16)


def test_multiple_across_skipped_tags() -> None:
    unacked = with_stragglers()
    assert unacked.take_through(16) == names(1, 2, 5, 16)
    assert unacked.count == 0


def test_a_restored_tag_is_outstanding_in_its_old_place() -> None:
    unacked = delivered(5)
    unacked.take_through(4)
    unacked.restore(2, "m2")
    unacked.restore(4, "m4")
    assert unacked.count == 3
    assert unacked.take_through(5) == names(2, 4, 5)


def test_a_restored_tag_finds_its_place_before_skipped_ones() -> None:
    unacked = with_stragglers()
    unacked.restore(4, "m4")
    assert unacked.count == 5
    assert unacked.take_through(5) == names(1, 2, 4, 5)


def test_what_was_never_delivered_cannot_be_restored() -> None:
    unacked = delivered(1)
    with pytest.raises(AssertionError):
        unacked.restore(2, "m2")


def flow(unacked: Unacked[int], count: int, window: int) -> int:
    """Deliver and ack in order; return the octets that the ledger grew by at most."""
    numbers = list(range(unacked.next_tag, unacked.next_tag + count + window))
    for number in numbers[:window]:
        unacked.add(number)
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    for place in range(count):
        unacked.add(numbers[place + window])
        assert unacked.take(numbers[place]) == numbers[place]
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return peak - before


def test_a_long_flow_that_is_acked_in_order_costs_no_memory() -> None:
    unacked = Unacked[int]()
    assert flow(unacked, count=20_000, window=100) < 20_000
    assert unacked.take_all() == list(range(20_001, 20_101))


def test_a_long_flow_around_forgotten_tags_costs_no_memory() -> None:
    unacked = Unacked[int]()
    for number in range(1, 61):
        unacked.add(number)
    unacked.take(10)
    assert flow(unacked, count=20_000, window=1) < 20_000
    assert unacked.count == 60
    assert unacked.take_through(11) == [*range(1, 10), 11]
    assert unacked.take_all() == [*range(12, 61), 20_061]
