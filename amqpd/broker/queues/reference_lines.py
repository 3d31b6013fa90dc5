"""Lines of references without those that are not wanted in them any more."""

from collections import deque

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
