"""`page`, `page_size`, `name`, `use_regex`: one page of a long list.

Without `page` the answer is a plain array of everything, and nothing is filtered: that
is what clients rely on who know no pages.

A regular expression comes from a stranger, and Python's can take for ever while it
holds the loop. So a pattern may have few open repetitions and choices, and none of a
group, which bounds one name, and the time of all names together is measured.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from amqpd.http.errors import BadRequest, InvalidPagination, PageOutOfRange

PAGE_SIZE: Final = 100
PAGE_SIZE_MAX: Final = 500
PATTERN_SIZE_MAX: Final = 200
#: The work for a name of n characters grows with n to the power of one more.
REPEATS_MAX: Final = 2
#: Each choice doubles it; a repetition is worth so many of them.
CHOICES_MAX: Final = 10
CHOICES_PER_REPEAT: Final = 4
#: A question mark behind one of these is none: `(?:`, `*?`.
_NO_CHOICE: Final = ("(", "*", "+", "?", "}")
FILTER_SECONDS_MAX: Final = 1.0


@dataclass(frozen=True)
class Page:
    """Which page, and of what."""

    number: int
    size: int
    name: str
    is_pattern: bool

    def bounds(self, count: int) -> tuple[int, int]:
        """Return where in a list of `count` items the page begins and ends.

        Raises:
            PageOutOfRange: there is no such page.
        """
        start = (self.number - 1) * self.size
        if start > count:
            raise PageOutOfRange(
                f"Page out of range, page: {self.number} page size: {self.size}, "
                f"len: {count}"
            )
        return start, min(count, start + self.size)

    def frame(self, total: int, filtered: int) -> dict[str, int]:
        """Return what is said around the items of the page."""
        start, end = self.bounds(filtered)
        return {
            "filtered_count": filtered,
            "item_count": end - start,
            "page": self.number,
            "page_count": (filtered + self.size - 1) // self.size,
            "page_size": self.size,
            "total_count": total,
        }

    def name_filter(self) -> Callable[[str], bool] | None:
        """Return what says whether a name is wanted; None: every one is.

        Raises:
            BadRequest: the expression is none, or one that could take for ever.
        """
        if not self.name:
            return None
        if self.is_pattern:
            return BoundedPattern(self.name).matches
        wanted = self.name.lower()
        return lambda name: wanted in name.lower()


class BoundedPattern:
    """A regular expression of a stranger, and the time that it may take.

    Raises:
        BadRequest: it does not compile, or could take for ever.
    """

    def __init__(self, pattern: str) -> None:
        if len(pattern) > PATTERN_SIZE_MAX or is_costly(pattern):
            raise BadRequest("the regular expression is too complex")
        try:
            self._pattern = re.compile(pattern, re.IGNORECASE)
        except (re.error, OverflowError, RecursionError) as error:
            raise BadRequest(f"invalid regular expression: {error}") from None
        self._seconds = 0.0

    def matches(self, name: str) -> bool:
        """Say whether it is somewhere in the name.

        Raises:
            BadRequest: all names together have taken too long.
        """
        started = time.perf_counter()
        found = self._pattern.search(name) is not None
        self._seconds += time.perf_counter() - started
        if self._seconds > FILTER_SECONDS_MAX:
            raise BadRequest("the regular expression takes too long")
        return found


def page_of(query: Mapping[str, str]) -> Page | None:
    """Return the page that a query asks for; None: it asks for everything.

    Raises:
        BadRequest: what should be a number is none.
        InvalidPagination: a number is out of bounds.
    """
    try:
        number = _number(query.get("page"))
        size = _number(query.get("page_size"))
    except ValueError:
        raise BadRequest("Pagination parameters are invalid") from None
    if number is None:
        return None
    if number < 1 or (size is not None and not 0 < size <= PAGE_SIZE_MAX):
        raise InvalidPagination(
            f"Invalid pagination parameters: page number {number}, page size "
            f"{'undefined' if size is None else size}"
        )
    return Page(
        number,
        PAGE_SIZE if size is None else size,
        query.get("name", ""),
        query.get("use_regex") == "true",
    )


def _number(text: str | None) -> int | None:
    return None if text is None else int(text)


def is_costly(pattern: str) -> bool:
    """Say whether there are many repetitions and choices, or one of a group."""
    repeats = choices = 0
    #: Of each open group, and of what is around all: so many bars.
    bars = [0]
    before = ""
    index = 0
    while index < len(pattern):
        sign = pattern[index]
        if sign in "*+{":
            repeats += 1
            if before == ")" or repeats > REPEATS_MAX:
                return True
        elif sign == "?" and before not in _NO_CHOICE:
            choices += 1
        elif sign == "(":
            bars.append(0)
        elif sign == ")" and len(bars) > 1:
            bars.pop()
        elif sign == "|":
            bars[-1] += 1
            # Two ways are one choice, four are two.
            choices += not bars[-1] & (bars[-1] - 1)
        if sign == "\\":
            index += 1
        elif sign == "[":
            index = _class_end(pattern, index)
        before = sign
        index += 1
    return choices + CHOICES_PER_REPEAT * repeats > CHOICES_MAX


def _class_end(pattern: str, index: int) -> int:
    """Return where the set of characters ends that begins here."""
    index += 1
    if pattern[index : index + 1] == "^":
        index += 1
    if pattern[index : index + 1] == "]":
        index += 1
    while index < len(pattern) and pattern[index] != "]":
        index += 2 if pattern[index] == "\\" else 1
    return index
