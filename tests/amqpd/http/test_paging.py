"""Pages: which, how many, of what; and patterns that could take for ever."""

import pytest

from amqpd.http.errors import BadRequest, InvalidPagination, PageOutOfRange
from amqpd.http.paging import (
    FILTER_SECONDS_MAX,
    BoundedPattern,
    Page,
    is_costly,
    page_of,
)


def test_without_a_page_there_is_none() -> None:
    assert page_of({}) is None
    assert page_of({"page_size": "10", "name": "x"}) is None


def test_a_page_has_a_hundred_items_unless_said_otherwise() -> None:
    assert page_of({"page": "2"}) == Page(2, 100, "", False)
    query = {"page": "1", "page_size": "500", "name": "x", "use_regex": "true"}
    assert page_of(query) == Page(1, 500, "x", True)


@pytest.mark.parametrize("query", [{"page": "x"}, {"page": "1", "page_size": ""}])
def test_a_number_that_is_none_is_refused(query: dict[str, str]) -> None:
    with pytest.raises(BadRequest, match="Pagination parameters are invalid"):
        page_of(query)


@pytest.mark.parametrize(
    "query",
    [
        {"page": "0"},
        {"page": "-1"},
        {"page": "1", "page_size": "0"},
        {"page": "1", "page_size": "501"},
    ],
)
def test_a_number_out_of_bounds_is_refused(query: dict[str, str]) -> None:
    with pytest.raises(InvalidPagination):
        page_of(query)


@pytest.mark.parametrize(
    ("number", "count", "bounds"),
    [(1, 0, (0, 0)), (1, 5, (0, 5)), (2, 15, (10, 15)), (2, 10, (10, 10))],
)
def test_bounds_are_within_the_list(
    number: int, count: int, bounds: tuple[int, int]
) -> None:
    assert Page(number, 10, "", False).bounds(count) == bounds


def test_a_page_behind_the_end_is_refused() -> None:
    with pytest.raises(PageOutOfRange) as refused:
        Page(2, 10, "", False).bounds(9)
    assert refused.value.reason == "Page out of range, page: 2 page size: 10, len: 9"


def test_the_frame_counts_pages_of_what_was_filtered() -> None:
    assert Page(2, 10, "x", False).frame(100, 25) == {
        "filtered_count": 25,
        "item_count": 10,
        "page": 2,
        "page_count": 3,
        "page_size": 10,
        "total_count": 100,
    }


@pytest.mark.parametrize(
    ("page", "name", "found"),
    [
        (Page(1, 1, "B.C", False), "ab.cd", True),
        (Page(1, 1, "B.C", False), "abxcd", False),
        (Page(1, 1, "^B.C", True), "bxcd", True),
        (Page(1, 1, "^b", True), "ab", False),
        (Page(1, 1, r"^[]*)+]{1}\(a*$", True), "*(aa", True),
    ],
)
def test_names_are_filtered_by_text_or_pattern(
    page: Page, name: str, found: bool
) -> None:
    wanted = page.name_filter()
    assert wanted is not None
    assert wanted(name) is found


def test_no_name_wants_everything() -> None:
    assert Page(1, 1, "", True).name_filter() is None


@pytest.mark.parametrize(
    "pattern",
    [
        "(a+)+",
        "(a|a)*",
        "(ab){2,}",
        ".*.*.*",
        "a" * 201,
        r"[\]]*b+c{2,}",
        "a?" * 30 + "a" * 30,
        "(a|aa)" * 11,
        "(a|aa|b|c)" * 6,
        r"\*?[ab]?.?.*.*",
    ],
)
def test_a_pattern_that_could_take_for_ever_is_refused(pattern: str) -> None:
    with pytest.raises(BadRequest, match="too complex"):
        BoundedPattern(pattern)


@pytest.mark.parametrize(
    "pattern",
    [
        "^(?:a|b|c|d|e|f|g|h|i|j|k|l|m|n)$",
        "a|b|c|d|e|f|g|h|i|j|k|l|m|n",
        "^(?!amq)x*?y*$",
        "(a|b)(c|d).*",
        "(?i)a?b?[|?*]",
        ")|",
    ],
)
def test_a_pattern_that_takes_little_is_not_costly(pattern: str) -> None:
    assert not is_costly(pattern)


@pytest.mark.parametrize("pattern", ["(", "*a", "[", "a{2,1}"])
def test_a_pattern_that_is_none_is_refused(pattern: str) -> None:
    with pytest.raises(BadRequest, match="invalid regular expression"):
        BoundedPattern(pattern)


def test_a_pattern_that_takes_too_long_with_all_names_is_cut_short() -> None:
    pattern = BoundedPattern(".*x.*y")
    pattern._seconds = FILTER_SECONDS_MAX
    with pytest.raises(BadRequest, match="takes too long"):
        pattern.matches("a")
