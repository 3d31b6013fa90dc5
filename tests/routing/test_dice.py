"""Random numbers that a seed repeats."""

from collections import Counter

from routing.dice import Dice


def row(seed: int, count: int, length: int) -> list[int]:
    dice = Dice(seed)
    return [int(dice.draw(count)) for _ in range(length)]


def test_the_same_seed_gives_the_same_row_and_another_another() -> None:
    assert row(5, 1000, 20) == row(5, 1000, 20)
    assert row(5, 1000, 20) != row(6, 1000, 20)


def test_every_number_comes_as_often_as_the_others() -> None:
    counts = Counter(row(1, 7, 70_000))
    assert sorted(counts) == list(range(7))
    assert all(9_500 < count < 10_500 for count in counts.values())


def test_what_comes_next_does_not_depend_on_what_came() -> None:
    numbers = row(2, 4, 80_000)
    pairs = Counter(zip(numbers[::2], numbers[1::2], strict=True))
    assert len(pairs) == 16
    assert all(2_250 < count < 2_750 for count in pairs.values())


def test_of_one_it_is_the_only_one() -> None:
    assert row(3, 1, 5) == [0] * 5
