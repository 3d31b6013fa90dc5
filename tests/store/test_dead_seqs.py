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
    last = dead.last_alive(start)
    assert last == next(
        seq for seq in range(start, -1, -1) if seq not in model or seq < base
    ) or (last == base - 1 and all(s in model for s in range(base, start + 1)))


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
