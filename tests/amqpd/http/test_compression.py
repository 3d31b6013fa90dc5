"""Who takes gzip, what is packed, and that it is the same afterwards."""

import gzip

import pytest

from amqpd.http.answer import Answer
from amqpd.http.compression import (
    AT_ONCE_SIZE,
    SIZE_MAX,
    SIZE_MIN,
    is_accepted,
    is_worth_it,
    packed,
)


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("", False),
        ("identity", False),
        ("deflate, br", False),
        ("gzip", True),
        ("deflate, GZIP;q=1.0, *;q=0.5", True),
        ("gzip;q=0.5", True),
        ("gzip;q=0", False),
        ("x-gzip", True),
    ],
)
def test_gzip_is_accepted_by_who_says_so(said: str, expected: bool) -> None:
    assert is_accepted(said) == expected


def test_neither_little_nor_very_much_is_packed() -> None:
    sizes = (0, SIZE_MIN - 1, SIZE_MIN, SIZE_MAX, SIZE_MAX + 1)
    assert [is_worth_it(size) for size in sizes] == [False, False, True, True, False]


@pytest.mark.parametrize("size", [SIZE_MIN, AT_ONCE_SIZE + 1])
async def test_what_was_packed_is_the_same(size: int) -> None:
    assert gzip.decompress(await packed(Answer(b"x" * size))) == b"x" * size
    array = Answer(array=[b"1" * size, b"2"])
    assert gzip.decompress(await packed(array)) == b"[" + b"1" * size + b",2]"
