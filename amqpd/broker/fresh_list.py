"""The references that have never left their queue, first in, first out, in pages.

    first          middle (full pages)         last
    . . c d e f    [g h i j] [k l m n]         o p
        ^ head                                     ^ append

One list would have to be copied each time it grows: with a thousand queues of the same
length, all of them at the same message, which is a stall of tens of milliseconds. A
deque does not copy, but costs two calls through the interpreter per message (5 % of
the instructions of a transient message); lists of a page cost none.
"""

from collections import deque
from typing import Final, final

from mypy_extensions import i64

from amqpd.broker.delivery import Reference

PAGE_SIZE: Final[i64] = 512
# Used-up slots that a single page may keep before it is cleared.
SLOTS_KEPT_MAX: Final[i64] = 64


@final
class FreshList:
    """A queue of references. It does not count them; its owner does."""

    __slots__ = ("_first", "_head", "_last", "_middle")

    def __init__(self) -> None:
        self._first: list[Reference | None] = []
        self._middle: deque[list[Reference | None]] = deque()
        # The same page as the first one while there is only one.
        self._last = self._first
        self._head: i64 = 0

    def append(self, reference: Reference) -> None:
        """Add one at the end."""
        last = self._last
        if len(last) >= PAGE_SIZE:
            if last is not self._first:
                self._middle.append(last)
            last = []
            self._last = last
        last.append(reference)

    def pop(self) -> Reference:
        """Take the first one; there must be one."""
        first = self._first
        head = self._head
        reference = first[head]
        assert reference is not None
        first[head] = None
        head += 1
        if head == len(first):
            if first is not self._last:
                self._first = self._middle.popleft() if self._middle else self._last
                head = 0
            elif head >= SLOTS_KEPT_MAX:
                first.clear()
                head = 0
        self._head = head
        return reference

    def take_all(self) -> list[Reference]:
        """Take all of them, in order."""
        pages = [self._first, *self._middle]
        if self._last is not self._first:
            pages.append(self._last)
        self._first = []
        self._middle.clear()
        self._last = self._first
        self._head = 0
        # What was popped has left None behind.
        return [one for page in pages for one in page if one is not None]
