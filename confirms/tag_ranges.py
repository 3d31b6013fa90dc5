"""A set of numbers that arrive in runs, in no particular order.

Two dictionaries hold the runs: first number -> last, and last number -> first. A new
run finds its neighbours by their ends, so adding is O(1) and needs no sorted list:

    add(5, 6)    5..6
    add(9, 9)    5..6  9
    add(7, 8)    5..9             joined on both sides

The one question that is asked often, "which run starts here?", is one lookup. It does
not know what the numbers count.
"""

from typing import final

from mypy_extensions import i64


@final
class TagRanges:
    """Disjoint ranges of numbers above 0, each at most once."""

    __slots__ = ("_first_of", "_last_of", "count")

    def __init__(self) -> None:
        self._last_of: dict[int, int] = {}
        self._first_of: dict[int, int] = {}
        self.count: i64 = 0

    def add(self, first: i64, last: i64) -> None:
        """Put first..last in; none of them is in yet."""
        self.count += last - first + 1
        before: i64 = first - 1
        if before in self._first_of:
            first = self._first_of.pop(before)
            del self._last_of[first]
        after: i64 = last + 1
        if after in self._last_of:
            last = self._last_of.pop(after)
            del self._first_of[last]
        self._last_of[first] = last
        self._first_of[last] = first

    def take_from(self, first: i64) -> i64:
        """Remove the range that starts at `first`; return its last number, or 0."""
        if self.count == 0 or first not in self._last_of:
            return 0
        last: i64 = self._last_of.pop(first)
        del self._first_of[last]
        self.count -= last - first + 1
        return last

    def firsts(self) -> list[int]:
        """Return where each range starts, lowest first."""
        return sorted(self._last_of)
