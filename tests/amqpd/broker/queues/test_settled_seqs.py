"""What is settled of a queue: ranges, and bits of what expired where it stood."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from amqpd.broker.queues.settled_seqs import SettledSeqs

SEQS = st.integers(1, 2000)


def test_nothing_is_in_an_empty_set() -> None:
    settled = SettledSeqs()
    assert settled.is_empty
    assert 1 not in settled
    settled.prune(10)
    settled.trim(10)
    assert settled.is_empty


def test_ranges_and_bits_are_one_set() -> None:
    settled = SettledSeqs()
    settled.add_range(3, 5)
    settled.add(9)
    settled.add_alone(20, 15)
    settled.add_alone(7, 15)
    assert [seq for seq in range(30) if seq in settled] == [3, 4, 5, 7, 9, 20]
    assert not settled.is_empty


def test_what_is_below_the_first_is_forgotten_and_what_is_above_stays() -> None:
    settled = SettledSeqs()
    settled.add_range(1, 10)
    settled.add_alone(20, 15)
    settled.prune(8)
    assert [seq for seq in range(30) if seq in settled] == [8, 9, 10, 20]
    settled.prune(100)
    assert settled.is_empty


def test_bits_before_the_first_that_is_asked_for_take_no_memory() -> None:
    settled = SettledSeqs()
    for seq in range(1, 100_000):
        settled.add_alone(seq, 1)
        settled.trim(seq)
    bits = settled._bits
    assert bits is not None
    assert len(bits.bits) < 1000


@given(st.lists(st.tuples(SEQS, st.booleans(), SEQS)), SEQS)
def test_it_agrees_with_a_set(added: list[tuple[int, bool, int]], first: int) -> None:
    settled = SettledSeqs()
    model: set[int] = set()
    for seq, is_alone, lowest in added:
        model.add(seq)
        if is_alone:
            settled.add_alone(seq, lowest)
        else:
            settled.add(seq)
    assert {seq for seq in range(2001) if seq in settled} == model
    settled.prune(first)
    kept = {seq for seq in range(first, 2001) if seq in settled}
    assert kept == {seq for seq in model if seq >= first}
