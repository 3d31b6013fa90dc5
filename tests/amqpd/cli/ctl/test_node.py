"""Limits, as they are written on the command line."""

from __future__ import annotations

import pytest

from amqpd.cli.ctl.errors import Failure
from amqpd.cli.ctl.node import limit_of, size_of


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("0", 0),
        ("500000000", 500_000_000),
        ("1k", 1024),
        ("1kB", 1000),
        ("1KiB", 1024),
        ("2MB", 2_000_000),
        ("2MiB", 2 * 1024**2),
        ("1.5GB", 1_500_000_000),
        ("1TiB", 1024**4),
    ],
)
def test_a_size_may_have_a_unit(text: str, size: int) -> None:
    assert size_of(text) == size


@pytest.mark.parametrize("text", ["", "B", "10XB", "-1", "nan", "inf", "1 GB!", "1MM"])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(Failure, match="not a size"):
        size_of(text)


@pytest.mark.parametrize(
    ("words", "limit"),
    [
        (["0.5"], {"relative": 0.5}),
        (["0"], {"relative": 0}),
        (["absolute", "2GB"], {"absolute": 2_000_000_000}),
    ],
)
def test_memory_is_limited_by_a_fraction_or_an_absolute_size(
    words: list[str], limit: dict[str, float]
) -> None:
    assert limit_of(words, "absolute") == limit


@pytest.mark.parametrize(
    ("words", "limit"),
    [
        (["2GB"], {"absolute": 2_000_000_000}),
        (["mem_relative", "1.5"], {"relative": 1.5}),
    ],
)
def test_disk_is_limited_by_a_size_or_a_multiple_of_memory(
    words: list[str], limit: dict[str, float]
) -> None:
    assert limit_of(words, "mem_relative") == limit


@pytest.mark.parametrize("words", [["1.1"], ["-0.5"], ["half"], ["nan"]])
def test_a_share_of_memory_is_between_0_and_1(words: list[str]) -> None:
    with pytest.raises(Failure):
        limit_of(words, "absolute")
