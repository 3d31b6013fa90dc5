"""Lines of references: made so that the collector of garbage never walks them.

A full collection follows every reference of every container that it knows, and those
in a backlog lie all over memory: with 20 million ready it stopped everybody for 0.6 s.
It can find nothing there. A message refers to no container, and what a line refers to
otherwise is its queue, which empties its lines when it ends. So lines are taken from
the collector's lists as soon as they are made. Python has no word for that, its C
interface has: `PyObject_GC_UnTrack`.

Why deques, although their two calls are 5 % of the instructions of a transient
message: a list is copied when it grows, and a thousand queues of one length all grow
at the same message (a stall of 30 ms, see tests/bench/fairness).
"""

import ctypes
from collections import deque
from typing import Final

from amqpd.broker.queues.delivery import Reference
from amqpd.broker.queues.settled_seqs import SettledSeqs

# Takes an object from the collector's lists, for good.
_untrack: Final = ctypes.pythonapi.PyObject_GC_UnTrack
_untrack.argtypes = (ctypes.py_object,)
_untrack.restype = None


def new_line() -> deque[Reference]:
    """Return an empty line."""
    line: deque[Reference] = deque()
    _untrack(line)
    return line


def unstruck(line: deque[Reference], holes: SettledSeqs) -> deque[Reference]:
    """Return a line without the struck ones, whose seqs go to `holes`."""
    kept = new_line()
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
    kept = new_line()
    for reference in line:
        if int(reference.seq) in seqs:
            taken.append(reference)
        else:
            kept.append(reference)
    return kept
