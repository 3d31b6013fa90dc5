"""The messages of a queue that are ready to be delivered, in order.

Fresh messages come in at the end with rising `seq`. A message that comes back (nack
with requeue, a lost channel) goes to its original place. Whatever comes back was
taken from the front before, so it stands before every fresh message:

    returned (a heap by seq)   3 7 8  |  fresh (a list with a head)   . . 12 13 14 ...

`count` and `size` cover both. The fresh ones lie in a list whose used-up front is cut
off now and then: a deque costs two calls through the interpreter per message, a list
none (measured: 5 % of the instructions of a transient message).
"""

from heapq import heappop, heappush
from typing import Final, final

from mypy_extensions import i64

from amqpd.broker.delivery import Reference

# The used-up front is cut off when it is this long and the greater part of the list.
FRONT_MIN: Final[i64] = 64


@final
class ReadyList:
    """References in the order of `seq`, cheap at both ends."""

    __slots__ = ("_by_seq", "_fresh", "_head", "_returned", "count", "size")

    def __init__(self) -> None:
        self._fresh: list[Reference | None] = []
        self._head: i64 = 0
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
            reference = self._pop_fresh()
        self.count -= 1
        self.size -= reference.message.size
        return reference

    def take_all(self) -> list[Reference]:
        """Take everything, in order."""
        references = [self._by_seq[seq] for seq in sorted(self._returned)]
        references.extend(self._stay())
        self._returned.clear()
        self._by_seq.clear()
        self._fresh = []
        self._head = 0
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
        stay: list[Reference | None] = []
        for reference in self._stay():
            if int(reference.seq) in seqs:
                taken.append(reference)
            else:
                stay.append(reference)
        self._fresh = stay
        self._head = 0
        for reference in taken:
            self.count -= 1
            self.size -= reference.message.size
        return taken

    def _pop_fresh(self) -> Reference:
        fresh = self._fresh
        head = self._head
        reference = fresh[head]
        assert reference is not None
        fresh[head] = None
        head += 1
        if head >= FRONT_MIN and head * 2 >= len(fresh):
            del fresh[:head]
            head = 0
        self._head = head
        return reference

    def _stay(self) -> list[Reference]:
        """The fresh ones that have not been popped."""
        return [reference for reference in self._fresh if reference is not None]
