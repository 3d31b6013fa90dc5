"""Hashes that stay as they are, in every run and on both builds."""

from collections import Counter

from routing.hashing import hash_octets, mix


def test_the_numbers_are_these_for_ever() -> None:
    # Queues that consistent hashing fills would get other messages after an upgrade.
    assert [mix(0), mix(1), mix(0xFFFFFFFF)] == [0, 3_979_630_085, 624_041_220]
    assert [hash_octets(b""), hash_octets(b"a1")] == [0, 966_578_585]


def test_mixing_loses_nothing() -> None:
    assert len({int(mix(value << 8)) for value in range(50_000)}) == 50_000


def test_every_bit_of_the_input_moves_about_half_of_the_output() -> None:
    moved = Counter[int]()
    for value in range(200):
        for bit in range(32):
            moved[bit] += bin(mix(value) ^ mix(value ^ (1 << bit))).count("1")
    assert all(14 < count / 200 < 18 for count in moved.values())
