"""Lines of references: without those that are not wanted any more, and cut in two."""

from collections import deque

from mypy_extensions import i64

from amqpd.broker.queues.delivery import Reference
from amqpd.broker.queues.settled_seqs import SettledSeqs


def unstruck(line: deque[Reference], holes: SettledSeqs) -> deque[Reference]:
    """Return a line without the struck ones, whose seqs go to `holes`."""
    kept: deque[Reference] = deque()
    for reference in line:
        if reference.is_struck:
            holes.add(reference.seq)
        else:
            kept.append(reference)
    return kept


def without(
    line: deque[Reference], seqs: set[int], taken: list[Reference]
) -> deque[Reference]:
    """Return a line without the given seqs; those go to `taken`."""
    kept: deque[Reference] = deque()
    for reference in line:
        if int(reference.seq) in seqs:
            taken.append(reference)
        else:
            kept.append(reference)
    return kept


def taken_from(line: deque[Reference], cost_max: i64) -> deque[Reference]:
    """Take from the front what costs about as much, at least one; of 0 nothing."""
    taken: deque[Reference] = deque()
    cost: i64 = 0
    while line:
        cost += line[0].message.cost
        if cost > cost_max and (taken or not cost_max):
            break
        taken.append(line.popleft())
    return taken
