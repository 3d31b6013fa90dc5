"""The messages of a queue that are ready to be delivered, in order.

Fresh messages come in at the end with rising `seq`. A message that comes back (nack
with requeue, a lost channel) goes to its original place. Whatever comes back was
taken from the front before, so it stands before every fresh message:

    returned (a heap by seq)   3 7 8  |  fresh (a deque)   12 13 14 ...

`count` and `size` cover both. Why a deque, although its two calls are 5 % of the
instructions of a transient message: a list is copied when it grows, and a thousand
queues of one length all grow at the same message (a stall of 30 ms); lists of a page
each are new to the garbage collector again and again, which then visits every
reference in them (170 ms). See tests/bench/fairness.
"""

from collections import deque
from heapq import heappop, heappush
from typing import final

from mypy_extensions import i64

from amqpd.broker.delivery import Reference


@final
class ReadyList:
    """References in the order of `seq`, cheap at both ends."""

    __slots__ = ("_by_seq", "_fresh", "_returned", "count", "size")

    def __init__(self) -> None:
        self._fresh: deque[Reference] = deque()
        self._returned: list[int] = []
        self._by_seq: dict[int, Reference] = {}
        self.count: i64 = 0
        self.size: i64 = 0

    def append(self, reference: Reference) -> None:
        """Add a fresh reference: its seq is higher than any before."""
        self._fresh.append(reference)
        self.count += 1
        self.size += reference.message.size

    def put_back(self, reference: Reference) -> None:
        """Return a reference that was popped to its original place."""
        seq = int(reference.seq)
        heappush(self._returned, seq)
        self._by_seq[seq] = reference
        self.count += 1
        self.size += reference.message.size

    def pop(self) -> Reference:
        """Take the first one; `count` must not be 0."""
        if self._returned:
            reference = self._by_seq.pop(heappop(self._returned))
        else:
            reference = self._fresh.popleft()
        self.count -= 1
        self.size -= reference.message.size
        return reference

    def take_all(self) -> list[Reference]:
        """Take everything, in order."""
        references = [self._by_seq[seq] for seq in sorted(self._returned)]
        references.extend(self._fresh)
        self._returned.clear()
        self._by_seq.clear()
        self._fresh = deque()
        self.count = 0
        self.size = 0
        return references

    def remove(self, seqs: set[int]) -> list[Reference]:
        """Take out those of the given seqs that are here, in order."""
        returned = self._returned
        self._returned = []
        taken = [self._by_seq.pop(seq) for seq in sorted(returned) if seq in seqs]
        for seq in returned:
            if seq not in seqs:
                heappush(self._returned, seq)
        fresh = self._fresh
        self._fresh = deque()
        for reference in fresh:
            if int(reference.seq) in seqs:
                taken.append(reference)
            else:
                self._fresh.append(reference)
        for reference in taken:
            self.count -= 1
            self.size -= reference.message.size
        return taken
