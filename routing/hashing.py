"""Hashes that are the same in every run and on every machine, and well mixed.

A message that went to a queue by a hash has to go there after a restart too, so
Python's own hash, which is salted for each process, will not do. CRC-32 is stable and
fast but keeps the likeness of its inputs (the checksums of `a1` and `a2` differ in few
bits); `mix` spreads that over all 32. Its constants are small enough for every product
to fit 63 bits: compiled integers do not grow.
"""

from typing import Final
from zlib import crc32

from mypy_extensions import i64

_MASK: Final = 0xFFFFFFFF
# Multipliers found by search for little bias (Wellons, "hash prospector").
_FIRST: Final = 0x2C1B3C6D
_SECOND: Final = 0x297A2D39


def mix(value: i64) -> i64:
    """Map 32 bits to 32 bits, one to one; every bit depends on every bit."""
    value ^= value >> 15
    value = (value * _FIRST) & _MASK
    value ^= value >> 12
    value = (value * _SECOND) & _MASK
    return value ^ (value >> 15)


def hash_octets(octets: bytes) -> i64:
    """Return 32 bits that depend on nothing but these octets."""
    return mix(i64(crc32(octets)))
