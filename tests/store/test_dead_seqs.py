"""Dead seqs against a set of numbers."""

from hypothesis import given
from hypothesis import strategies as st

from store.dead_seqs import DeadSeqs

RANGES = st.lists(st.tuples(st.integers(0, 200), st.integers(0, 60)), max_size=12)


@given(st.integers(0, 20), RANGES, st.integers(0, 260), st.integers(0, 260))
def test_dead_seqs_agree_with_a_set(
    base: int, ranges: list[tuple[int, int]], low: int, high: int
) -> None:
    dead, model = DeadSeqs(base, bytearray()), set[int]()
    for first, size in ranges:
        seqs = set(range(base + first, base + first + size + 1))
        assert dead.add(base + first, base + first + size) == len(seqs - model)
        model |= seqs
    assert [seq for seq in range(300) if seq in dead] == sorted(model)
    between = [seq for seq in model if low <= seq <= high]
    assert dead.count(low, high) == len(between)
    start = base + low
    assert dead.next_alive(start) == next(
        seq for seq in range(start, 1000) if seq not in model
    )
    # Below the base nobody is known to be dead.
    assert dead.last_alive(start) == max(
        seq for seq in range(base - 1, start + 1) if seq not in model
    )


def test_an_empty_range_adds_nothing() -> None:
    assert DeadSeqs(5, bytearray()).add(9, 8) == 0


def test_what_lies_below_is_forgotten_once_it_is_half() -> None:
    dead = DeadSeqs(0, bytearray())
    dead.add(0, 1_999)
    dead.trim(100)
    assert (dead.base, len(dead.bits)) == (0, 250)
    dead.trim(1_990)
    assert dead.base == 1_984
    assert (1_999 in dead, 2_000 in dead) == (True, False)


@given(st.integers(0, 20), st.integers(0, 20), RANGES, RANGES, st.integers(0, 90))
def test_what_is_taken_over_from_another_set_is_what_it_has_of_the_range(
    base: int,
    other_base: int,
    ranges: list[tuple[int, int]],
    others: list[tuple[int, int]],
    length: int,
) -> None:
    dead, model = DeadSeqs(base, bytearray()), set[int]()
    for first, size in ranges:
        dead.add(base + first, base + first + size)
        model |= set(range(base + first, base + first + size + 1))
    begin = max(model, default=base) + 1
    # What lies before the range, and behind it, is not taken.
    start = max(0, begin - other_base)
    other, other_model = DeadSeqs(start, bytearray()), set[int]()
    for first, size in others:
        other.add(start + first, start + first + size)
        other_model |= set(range(start + first, start + first + size + 1))

    dead.add_from(other, begin, begin + length)

    model |= {seq for seq in other_model if begin <= seq <= begin + length}
    assert [seq for seq in range(900) if seq in dead] == sorted(model)


@given(st.integers(0, 3_000), st.integers(0, 3_000))
def test_a_long_dead_stretch_is_skipped_to_its_end(first: int, size: int) -> None:
    dead = DeadSeqs(7, bytearray())
    dead.add(7 + first, 7 + first + size)
    dead.add(9_000, 9_000)

    assert dead.next_alive(7 + first) == 7 + first + size + 1
    assert dead.next_alive(7 + first + size // 2) == 7 + first + size + 1
