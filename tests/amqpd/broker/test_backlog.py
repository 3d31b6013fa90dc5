"""What is ready keeps its order, whatever comes back and whatever leaves memory."""

import sys

import pytest

from amqpd.broker.backlog import Backlog, MemoryUse
from tests.support.deliveries import reference_of


def backlog_of(*seqs: int) -> Backlog:
    ready = Backlog(True, MemoryUse())
    for seq in seqs:
        ready.append(reference_of(seq, bytes(seq)))
    return ready


def seqs_of(ready: Backlog) -> list[int]:
    return [ready.pop().seq for _ in range(ready.count)]


def test_what_comes_first_goes_first() -> None:
    assert seqs_of(backlog_of(1, 2, 3)) == [1, 2, 3]


def test_what_comes_back_goes_to_its_place() -> None:
    ready = backlog_of(1, 2, 3, 4)
    taken = [ready.pop() for _ in range(3)]
    for reference in (taken[1], taken[2], taken[0]):
        ready.put_back(reference)
    ready.append(reference_of(5))
    assert seqs_of(ready) == [1, 2, 3, 4, 5]


def test_count_and_size_cover_the_fresh_and_the_returned() -> None:
    ready = backlog_of(1, 2, 3)
    sizes = {seq: reference_of(seq, bytes(seq)).message.size for seq in (1, 2, 3)}
    assert (ready.count, ready.size) == (3, sum(sizes.values()))
    first = ready.pop()
    assert (ready.count, ready.size) == (2, sizes[2] + sizes[3])
    ready.put_back(first)
    assert (ready.count, ready.size) == (3, sum(sizes.values()))
    ready.pop()
    assert (ready.count, ready.size) == (2, sizes[2] + sizes[3])


def test_everything_is_taken_in_order() -> None:
    ready = backlog_of(1, 2, 3, 4)
    taken = [ready.pop() for _ in range(3)]
    ready.put_back(taken[2])
    ready.put_back(taken[0])
    assert [reference.seq for reference in ready.take_all()] == [1, 3, 4]
    assert (ready.count, ready.size) == (0, 0)
    assert ready.take_all() == []


def test_after_everything_was_taken_it_begins_anew() -> None:
    ready = backlog_of(1, 2)
    first = ready.pop()
    ready.put_back(first)
    ready.take_all()
    ready.append(reference_of(3))
    assert seqs_of(ready) == [3]


def test_what_is_removed_is_the_named_and_only_them() -> None:
    ready = backlog_of(1, 2, 3, 4, 5, 6)
    taken = [ready.pop() for _ in range(4)]
    for reference in reversed(taken):
        ready.put_back(reference)
    removed = ready.remove({2, 3, 5, 99})
    assert [reference.seq for reference in removed] == [2, 3, 5]
    kept = sum(reference_of(seq, bytes(seq)).message.size for seq in (1, 4, 6))
    assert (ready.count, ready.size) == (3, kept)
    assert seqs_of(ready) == [1, 4, 6]


@pytest.mark.parametrize("is_removed", [True, False])
def test_what_was_popped_is_neither_taken_nor_removed_again(is_removed: bool) -> None:
    ready = backlog_of(1, 2, 3, 4)
    ready.pop()
    ready.pop()
    taken = ready.remove({1, 2, 3}) if is_removed else ready.take_all()
    assert [reference.seq for reference in taken] == ([3] if is_removed else [3, 4])
    ready.append(reference_of(5))
    assert seqs_of(ready) == ([4, 5] if is_removed else [5])


def test_a_popped_reference_is_not_held_on_to() -> None:
    ready = backlog_of(1, 2)
    popped, free = ready.pop(), reference_of(1)
    assert sys.getrefcount(popped) == sys.getrefcount(free)
