"""Random numbers for exchanges that choose at random.

All exchanges of a router draw from one row of numbers: with a row each, two of them in
a line could draw alike, and what the first one chose would decide what the second does.
The row depends on its seed alone, so a test can repeat it.
"""

from typing import Final, final

from mypy_extensions import i64

from routing.hashing import mix

_MASK: Final = 0xFFFFFFFF
# Odd, so every state comes before one comes again; far from simple fractions.
_STEP: Final = 0x9E3779B9


@final
class Dice:
    """A row of random numbers. Not for secrets."""

    def __init__(self, seed: i64) -> None:
        self._state: i64 = seed & _MASK

    def draw(self, count: i64) -> i64:
        """Return one of 0 .. count - 1, each as likely as the others."""
        self._state = (self._state + _STEP) & _MASK
        # The high bits of the product, and not a remainder: see Lemire, "Fast Random
        # Integer Generation in an Interval". `count` has less than 31 bits.
        return (mix(self._state) * count) >> 32
