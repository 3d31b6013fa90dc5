"""A set of seqs as ranges, made for seqs that mostly come one after the other.

    add 5, 6, 7, 3, 4, 9   ->   3-7, 9-9

The range that grew last is kept open in two numbers, so that adding the next
seq is a compare and an increment; whatever does not touch it closes it and opens
another. Closed ranges are sorted and joined only when somebody looks.

It does not know whose seqs they are.
"""

from bisect import bisect_right
from typing import Final, final

from mypy_extensions import i64, mypyc_attr

_NOTHING: Final = -2


@final
@mypyc_attr(acyclic=True)
class Ranges:
    """Ranges in rising order, apart from each other; both ends belong to them."""

    __slots__ = ("firsts", "lasts")

    def __init__(self, firsts: list[int], lasts: list[int]) -> None:
        self.firsts = firsts
        self.lasts = lasts


def ranges_of(seqs: list[int]) -> Ranges:
    """Return the ranges that hold exactly these seqs, given in any order."""
    collected = SeqRanges()
    for seq in seqs:
        collected.add(seq)
    return collected.take()


@final
@mypyc_attr(acyclic=True)
class SeqRanges:
    """A growing set of seqs (each 0 or more)."""

    __slots__ = ("_first", "_firsts", "_is_sorted", "_last", "_lasts")

    def __init__(self) -> None:
        self._first: i64 = 0
        self._last: i64 = _NOTHING
        self._is_sorted = True
        self._firsts: list[int] = []
        self._lasts: list[int] = []

    @property
    def is_empty(self) -> bool:
        """Say whether no seq is in the set."""
        return self._last == _NOTHING

    def add(self, seq: i64) -> None:
        """Add one seq."""
        if seq == self._last + 1:
            self._last = seq
        else:
            self.add_range(seq, seq)

    def add_range(self, first: i64, last: i64) -> None:
        """Add every seq from `first` to `last`."""
        if self._last == _NOTHING:
            self._first = first
            self._last = last
        elif first == self._last + 1:
            self._last = last
        elif last == self._first - 1:
            self._first = first
        else:
            self._close_range()
            self._first = first
            self._last = last

    def __contains__(self, seq: int) -> bool:
        if self._first <= seq <= self._last:
            return True
        if not self._is_sorted:
            self._sort()
        index = bisect_right(self._firsts, seq) - 1
        return index >= 0 and seq <= self._lasts[index]

    def discard(self, seq: int) -> bool:
        """Take one seq out; return whether it was in."""
        if seq not in self:
            return False
        ranges = self.take()
        for first, last in zip(ranges.firsts, ranges.lasts, strict=True):
            if not first <= seq <= last:
                self.add_range(first, last)
                continue
            if first < seq:
                self.add_range(first, seq - 1)
            if seq < last:
                self.add_range(seq + 1, last)
        return True

    def take(self) -> Ranges:
        """Return everything that is in the set and leave it empty."""
        if self._last != _NOTHING:
            self._close_range()
        if not self._is_sorted:
            self._sort()
        ranges = Ranges(self._firsts, self._lasts)
        self._firsts = []
        self._lasts = []
        self._last = _NOTHING
        return ranges

    def _close_range(self) -> None:
        if self._lasts and self._first <= self._lasts[-1] + 1:
            self._is_sorted = False
        self._firsts.append(self._first)
        self._lasts.append(self._last)

    def _sort(self) -> None:
        pairs = sorted(zip(self._firsts, self._lasts, strict=True))
        firsts: list[int] = []
        lasts: list[int] = []
        for first, last in pairs:
            if lasts and first <= lasts[-1] + 1:
                lasts[-1] = max(lasts[-1], last)
            else:
                firsts.append(first)
                lasts.append(last)
        self._firsts = firsts
        self._lasts = lasts
        self._is_sorted = True
