"""What is ready keeps its order, whatever comes back and whatever leaves memory."""

import gc
import sys
from collections import deque
from collections.abc import Callable

import pytest

from amqpd.broker.queues.backlog import STRUCK_MIN, Backlog
from amqpd.broker.queues.delivery import Reference
from amqpd.broker.queues.memory_use import MemoryUse, Written
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


def test_after_its_lines_were_taken_it_begins_anew() -> None:
    references = [reference_of(seq) for seq in range(1, 6)]
    ready = Backlog(False, MemoryUse())
    for reference in references:
        ready.append(reference)
    returned = [ready.pop() for _ in range(2)][1]
    ready.put_back(returned)
    ready.split(1)
    ready.leave()
    ready.strike(references[4])
    lines = ready.take_lines()
    assert [one for line in lines for one in line] == references[1:]
    assert (ready.count, ready.size, ready.struck_count) == (0, 0, 0)
    assert not ready.is_split
    assert not ready.has_memory
    ready.append(reference_of(6))
    assert seqs_of(ready) == [6]


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


# -- out of memory and back ---------------------------------------------------


def stored(seq: int, number: int) -> Reference:
    reference = reference_of(seq)
    reference.message.number = number
    return reference


def written_to(stored_base: int, paged_base: int = 1) -> Written:
    written = Written()
    written.stored_base, written.paged_base = stored_base, paged_base
    return written


def stored_backlog(count: int) -> Backlog:
    """A backlog of stored messages; seq and number are the same."""
    backlog = Backlog(True, MemoryUse())
    for seq in range(1, count + 1):
        backlog.append(stored(seq, seq))
    return backlog


COST = int(reference_of(1).message.cost)


def test_what_fits_the_window_is_not_split() -> None:
    backlog = stored_backlog(3)
    assert not backlog.split(3 * COST)
    assert backlog.at_hand == 3
    assert backlog.split(2 * COST)
    assert (backlog.at_hand, backlog.behind) == (2, 1)
    assert backlog.split(0)
    assert (backlog.at_hand, backlog.behind) == (2, 1)


def test_a_window_has_one_message_however_large_it_is() -> None:
    backlog = stored_backlog(3)
    assert backlog.split(1)
    assert backlog.at_hand == 1


def test_without_a_window_nothing_stays_at_hand() -> None:
    backlog = stored_backlog(3)
    assert backlog.split(0)
    assert (backlog.at_hand, backlog.behind) == (0, 3)


def test_only_what_is_written_is_dropped() -> None:
    backlog = stored_backlog(4)
    backlog.split(0)
    written = written_to(3)
    assert backlog.drop_written(written, 1)
    assert backlog.drop_written(written, 1)
    assert not backlog.drop_written(written, 1)
    assert (backlog.cold_first, backlog.cold_last) == (1, 2)
    assert (backlog.count, backlog.cold_stored, backlog.cold_paged) == (4, 2, 0)


def test_numbers_of_a_transient_queue_say_nothing_of_its_messages() -> None:
    backlog = Backlog(False, MemoryUse())
    backlog.append(stored(1, 1))
    backlog.split(0)
    assert not backlog.drop_written(written_to(100), 1)


def test_what_the_paging_log_lost_stays_in_memory() -> None:
    backlog = Backlog(False, MemoryUse())
    for seq in (1, 2):
        reference = reference_of(seq)
        reference.page = seq
        backlog.append(reference)
    backlog.split(0)
    written = written_to(1, 10)
    written.lost_pages = {2}
    assert backlog.drop_written(written, 1)
    assert not backlog.drop_written(written, 1)


def test_the_head_is_dropped_from_its_end() -> None:
    backlog = stored_backlog(4)
    backlog.split(3 * COST)
    written = written_to(4)
    assert backlog.drop_last_of_head(written)
    assert backlog.drop_last_of_head(written)
    assert (backlog.cold_first, backlog.cold_last) == (2, 3)
    assert (backlog.at_hand, backlog.behind) == (1, 3)
    assert backlog.drop_last_of_head(written)
    assert not backlog.drop_last_of_head(written)


def test_what_is_loaded_stands_before_what_is_still_cold() -> None:
    backlog = stored_backlog(4)
    backlog.split(0)
    for _ in range(4):
        backlog.drop_written(written_to(5), 1)
    backlog.load([stored(1, 0), stored(2, 0)], 3)
    assert not backlog.is_cold_over
    assert seqs_at_hand(backlog) == [1, 2]
    backlog.load([stored(3, 0), stored(4, 0)], 5)
    assert backlog.is_cold_over
    backlog.join()
    assert seqs_at_hand(backlog) == [3, 4]
    assert (backlog.count, backlog.size) == (0, 0)


def test_the_parts_are_joined_in_order() -> None:
    backlog = Backlog(False, MemoryUse())
    for seq in range(1, 6):
        backlog.append(reference_of(seq))
    backlog.split(2 * COST)
    backlog.leave()
    backlog.append(reference_of(6))
    backlog.join()
    assert seqs_at_hand(backlog) == [1, 2, 3, 4, 5, 6]


def test_what_was_lost_on_the_disk_is_not_counted_for_ever() -> None:
    backlog = Backlog(True, MemoryUse())
    backlog.restore(1, 9, 5, 500)
    assert (backlog.count, backlog.size) == (5, 500)
    for _ in range(2):
        # The log tells of it until it knows.
        backlog.lose_cold([1], [])
        assert backlog.count == 4
    backlog.load([stored(3, 0)], 10)
    assert backlog.is_cold_over
    backlog.join()
    assert seqs_at_hand(backlog) == [3]
    assert (backlog.count, backlog.size) == (0, 0)


def test_what_is_missing_between_the_folded_is_known_to_be_settled() -> None:
    backlog = stored_backlog(9)
    taken = [backlog.pop() for _ in range(7)]
    for at in (5, 1):
        backlog.put_back(taken[at])
    backlog.fold_returned(10)
    assert [seq for seq in range(1, 10) if seq in backlog.holes] == [3, 4, 5, 7]
    assert seqs_at_hand(backlog) == [2, 6, 8, 9]


@pytest.mark.parametrize("is_dropped", [True, False])
def test_the_last_hole_ends_before_what_follows_wherever_that_is(
    is_dropped: bool,
) -> None:
    backlog = stored_backlog(5)
    taken = [backlog.pop() for _ in range(3)]
    backlog.split(0)
    if is_dropped:
        backlog.drop_written(written_to(6), 1)
    backlog.put_back(taken[0])
    backlog.fold_returned(6)
    assert [seq for seq in range(1, 6) if seq in backlog.holes] == [2, 3]


def test_the_last_hole_ends_before_the_next_message_if_nothing_follows() -> None:
    backlog = stored_backlog(3)
    taken = [backlog.pop() for _ in range(3)]
    backlog.put_back(taken[0])
    backlog.fold_returned(4)
    assert [seq for seq in range(1, 6) if seq in backlog.holes] == [2, 3]


def test_what_came_back_can_be_paged_unless_the_log_is_past_it() -> None:
    backlog = Backlog(True, MemoryUse())
    for seq in (1, 2, 3):
        backlog.put_back(stored(seq, seq) if seq == 1 else reference_of(seq))
    assert backlog.can_be_paged(1)
    assert not backlog.can_be_paged(2)


def seqs_at_hand(backlog: Backlog) -> list[int]:
    return [int(backlog.pop().seq) for _ in range(int(backlog.at_hand))]


# -- expiring in place --------------------------------------------------------


def test_the_struck_are_passed_over_and_hold_nothing() -> None:
    ready = Backlog(True, MemoryUse())
    references = [reference_of(seq, bytes(seq)) for seq in range(1, 6)]
    for reference in references:
        ready.append(reference)
    message = references[1].message
    assert ready.strike(references[1]) is message
    ready.strike(references[4])
    assert references[1].message is not message
    kept = [references[at].message.size for at in (0, 2, 3)]
    assert (ready.count, ready.size) == (3, sum(kept))
    assert seqs_of(ready) == [1, 3, 4]


def test_one_that_came_back_can_be_struck() -> None:
    ready = backlog_of(1, 2, 3)
    first, second = ready.pop(), ready.pop()
    ready.put_back(first)
    ready.put_back(second)
    ready.strike(first)
    assert seqs_of(ready) == [2, 3]


def test_a_cold_one_that_was_struck_is_not_cold_any_more() -> None:
    ready = stored_backlog(3)
    ready.split(0)
    while ready.drop_written(written_to(10), 1):
        pass
    assert ready.has_cold(2)
    ready.strike_cold(2, False)
    assert not ready.has_cold(2)
    assert not ready.has_cold(4)
    assert (ready.count, ready.cold_stored) == (2, 2)
    assert 2 in ready.holes


def test_the_struck_do_not_pile_up() -> None:
    ready = Backlog(True, MemoryUse())
    references = [reference_of(seq) for seq in range(1, 1001)]
    for reference in references:
        ready.append(reference)
    for reference in references[1:]:
        ready.strike(reference)
    assert ready.struck_count <= STRUCK_MIN
    assert seqs_of(ready) == [1]


def walked_lines() -> int:
    """How many deques of references the collector of garbage walks."""
    return sum(
        isinstance(one, deque) and bool(one) and isinstance(one[0], Reference)
        for one in gc.get_objects()
    )


def split_with_leaving(ready: Backlog) -> None:
    ready.split(2 * COST)
    ready.leave()


def split_and_join(ready: Backlog) -> None:
    split_with_leaving(ready)
    ready.join()
    ready.split(2 * COST)
    ready.leave()


def pop_and_fold(ready: Backlog) -> None:
    ready.put_back(ready.pop())
    ready.fold_returned(100)


def take_all_and_begin_anew(ready: Backlog) -> None:
    ready.take_all()
    for seq in range(10, 20):
        ready.append(reference_of(seq))
    ready.split(2 * COST)
    ready.leave()


def strike_and_sweep(ready: Backlog) -> None:
    ready.strike(ready.first())
    assert ready.has_memory


@pytest.mark.parametrize(
    "rearrange",
    [
        split_with_leaving,
        split_and_join,
        pop_and_fold,
        take_all_and_begin_anew,
        strike_and_sweep,
        lambda ready: ready.remove({2}),
    ],
)
def test_the_collector_of_garbage_walks_no_line(
    rearrange: Callable[[Backlog], object],
) -> None:
    before = walked_lines()
    ready = backlog_of(1, 2, 3, 4, 5, 6)
    rearrange(ready)
    assert ready.count > 3
    assert walked_lines() == before


def test_the_collector_of_garbage_does_not_walk_what_comes_behind_the_cold() -> None:
    before = walked_lines()
    ready = Backlog(True, MemoryUse())
    ready.restore(1, 5, 5, 500)
    ready.append(reference_of(6))
    assert walked_lines() == before
