"""Lines of references that are swept and cut."""

from collections import deque

import pytest

from amqpd.broker.queues.delivery import Reference
from amqpd.broker.queues.reference_lines import taken_from, unstruck, without
from amqpd.broker.queues.settled_seqs import SettledSeqs
from tests.support.deliveries import reference_of

COST = int(reference_of(1).message.cost)


def line_of(*seqs: int) -> deque[Reference]:
    return deque(reference_of(seq) for seq in seqs)


def seqs_of(line: deque[Reference]) -> list[int]:
    return [int(reference.seq) for reference in line]


def test_the_struck_ones_leave_holes() -> None:
    line, holes = line_of(1, 2, 3), SettledSeqs()
    line[1].is_struck = True
    assert seqs_of(unstruck(line, holes)) == [1, 3]
    assert 2 in holes


def test_those_that_are_asked_for_are_taken_out_in_order() -> None:
    taken: list[Reference] = []
    assert seqs_of(without(line_of(1, 2, 3, 4), {4, 2}, taken)) == [1, 3]
    assert [reference.seq for reference in taken] == [2, 4]


@pytest.mark.parametrize(
    ("cost", "count"),
    [(0, 0), (1, 1), (COST, 1), (2 * COST - 1, 1), (2 * COST, 2), (9 * COST, 3)],
)
def test_what_fits_is_taken_from_the_front(cost: int, count: int) -> None:
    line = line_of(1, 2, 3)
    assert seqs_of(taken_from(line, cost)) == [1, 2, 3][:count]
    assert seqs_of(line) == [1, 2, 3][count:]
