"""Headers exchanges against a matcher that compares every binding."""

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from routing.headers import HeadersTable
from tests.support.routing import NamedTable

names = st.sampled_from(["a", "b", "c", "x-a", "x-b"])
values = st.sampled_from([None, 1, True, 1.0, "1"])
tables = st.dictionaries(names, values, max_size=4)
modes = st.sampled_from([None, "all", "any", "all-with-x", "any-with-x"])


def with_mode(arguments: dict[str, object], mode: str | None) -> dict[str, object]:
    return arguments if mode is None else {"x-match": mode, **arguments}


def naive_match(arguments: dict[str, object], headers: dict[str, object]) -> bool:
    mode = str(arguments.get("x-match", "all"))
    verdicts = [
        name in headers
        and (
            value is None
            or (type(value), value) == (type(headers[name]), headers[name])
        )
        for name, value in arguments.items()
        if name != "x-match" and ("with-x" in mode or not name.startswith("x-"))
    ]
    return all(verdicts) if mode.startswith("all") else any(verdicts)


@given(
    st.lists(st.builds(with_mode, tables, modes), min_size=1, max_size=8),
    st.lists(tables, min_size=1, max_size=4),
    st.randoms(),
)
def test_the_table_finds_what_the_naive_matcher_finds(
    bound: list[dict[str, object]], asked: list[dict[str, object]], random: Random
) -> None:
    table = NamedTable(HeadersTable({}))
    entries = [
        (str(number), table.add(str(number), arguments=arguments))
        for number, arguments in enumerate(bound)
    ]
    random.shuffle(entries)
    while entries:
        for headers in asked:
            expected = {
                name
                for name, binding in entries
                if naive_match(binding.arguments, headers)
            }
            assert set(table.match(b"", headers=headers)) == expected
        _, binding = entries.pop()
        table.table.remove(binding)
