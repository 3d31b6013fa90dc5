"""Sets of numbers kept as ranges."""

from confirms.tag_ranges import TagRanges


def ranges_of(ranges: TagRanges) -> list[tuple[int, int]]:
    """Take everything out, lowest first."""
    return [(first, ranges.take_from(first)) for first in ranges.firsts()]


def test_ranges_that_do_not_touch_stay_apart() -> None:
    ranges = TagRanges()
    ranges.add(5, 6)
    ranges.add(1, 3)
    assert ranges.count == 5
    assert ranges_of(ranges) == [(1, 3), (5, 6)]


def test_a_range_joins_the_one_below_it() -> None:
    ranges = TagRanges()
    ranges.add(1, 3)
    ranges.add(4, 6)
    assert ranges_of(ranges) == [(1, 6)]


def test_a_range_joins_the_one_above_it() -> None:
    ranges = TagRanges()
    ranges.add(4, 6)
    ranges.add(1, 3)
    assert ranges_of(ranges) == [(1, 6)]


def test_a_range_that_fills_a_gap_joins_both_sides() -> None:
    ranges = TagRanges()
    ranges.add(5, 6)
    ranges.add(9, 9)
    ranges.add(7, 8)
    assert ranges.count == 5
    assert ranges_of(ranges) == [(5, 9)]


def test_a_range_is_taken_by_its_first_number_only() -> None:
    ranges = TagRanges()
    ranges.add(5, 6)
    assert ranges.take_from(6) == 0
    assert ranges.take_from(5) == 6
    assert ranges.take_from(5) == 0
    assert ranges.count == 0


def test_a_taken_range_leaves_nothing_to_join() -> None:
    ranges = TagRanges()
    ranges.add(5, 6)
    ranges.take_from(5)
    ranges.add(7, 7)
    ranges.add(4, 4)
    assert ranges_of(ranges) == [(4, 4), (7, 7)]
