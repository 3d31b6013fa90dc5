"""Which messages of a queue are settled though a log may not know it yet.

What is read back from a log must not bring them again. Stretches that are missing
between messages are ranges. What expires while it is cold are bits: thousands go at a
time, each alone and in any order, which would be thousands of ranges to be sorted.

It does not know what becomes of the others.
"""

from typing import final

from mypy_extensions import i64, mypyc_attr

from store.dead_seqs import DeadSeqs
from store.seq_ranges import SeqRanges


@final
@mypyc_attr(acyclic=True)
class SettledSeqs:
    """A set of seqs, some of which may be forgotten again: those below what is left."""

    __slots__ = ("_bits", "_ranges")

    def __init__(self) -> None:
        self._ranges = SeqRanges()
        self._bits: DeadSeqs | None = None

    @property
    def is_empty(self) -> bool:
        """Whether nothing is in the set."""
        return self._bits is None and self._ranges.is_empty

    def __contains__(self, seq: int) -> bool:
        bits = self._bits
        return (bits is not None and seq in bits) or seq in self._ranges

    def add(self, seq: i64) -> None:
        """Add one that stood in a line."""
        self._ranges.add(seq)

    def add_range(self, first: i64, last: i64) -> None:
        """Add what is missing between two."""
        self._ranges.add_range(first, last)

    def add_alone(self, seq: i64, lowest: i64) -> None:
        """Add one of many in any order, `lowest` or above, which tend to be near."""
        bits = self._bits
        if bits is None or seq < bits.base:
            bits = DeadSeqs(min(seq, lowest), bytearray())
            if self._bits is not None:
                old = self._bits
                bits.add_from(old, old.base, old.base + 8 * len(old.bits) - 1)
            self._bits = bits
        bits.add(seq, seq)

    def trim(self, first: i64) -> None:
        """Nothing below is asked for any more; what that makes cheap is forgotten."""
        if self._bits is not None:
            self._bits.trim(first)

    def prune(self, first: i64) -> None:
        """Nothing below is asked for any more: forget it."""
        self.trim(first)
        bits = self._bits
        if bits is not None and bits.base + 8 * len(bits.bits) <= first:
            self._bits = None
        ranges = self._ranges.take()
        for low, high in zip(ranges.firsts, ranges.lasts, strict=True):
            if high >= first:
                self._ranges.add_range(max(low, first), high)
