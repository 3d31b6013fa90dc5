"""Which seqs of a run are not needed: one bit each, set once, counted as it is set.

    base 40     bits  0 1 1 0 1 0 0 0  0 ...     41, 42 and 44 are dead

A seq beyond the end of the bits is alive. It does not know runs or queues.
"""

from typing import Final, final

from mypy_extensions import i64

_BIT_COUNTS: Final = bytes(bin(byte).count("1") for byte in range(256))
_ALL: Final = 0xFF


@final
class DeadSeqs:
    """A set of seqs from `base` on."""

    __slots__ = ("base", "bits")

    def __init__(self, base: i64, bits: bytearray) -> None:
        # Seq of the first bit; a multiple of nothing in particular.
        self.base = base
        self.bits = bits

    def add(self, first: i64, last: i64) -> i64:
        """Add all seqs of a range, not below `base`; return how many are new."""
        if last < first:
            return 0
        bits = self.bits
        at = (first - self.base) >> 3
        end = (last - self.base) >> 3
        if end >= len(bits):
            bits.extend(bytes(end + 1 - len(bits)))
        added: i64 = 0
        while at <= end:
            mask = self._mask(at, first, last)
            old: i64 = bits[at]
            new = mask & ~old
            if new:
                added += _BIT_COUNTS[new]
                bits[at] = int(old | mask)
            at += 1
        return added

    def count(self, first: i64, last: i64) -> i64:
        """Return how many seqs of a range are in the set."""
        bits = self.bits
        at: i64 = max(0, (first - self.base) >> 3)
        end: i64 = min((last - self.base) >> 3, len(bits) - 1)
        found: i64 = 0
        while at <= end:
            found += _BIT_COUNTS[bits[at] & self._mask(at, first, last)]
            at += 1
        return found

    def _mask(self, at: i64, first: i64, last: i64) -> i64:
        """Return the bits of one byte that lie in a range."""
        low = first - self.base - at * 8
        high = last - self.base - at * 8
        mask: i64 = _ALL
        if low > 0:
            mask = (mask << low) & _ALL
        if high < 7:
            mask &= _ALL >> (7 - high)
        return mask

    def __contains__(self, seq: int) -> bool:
        bit: i64 = i64(seq) - self.base
        if bit < 0 or bit >> 3 >= len(self.bits):
            return False
        return self.bits[bit >> 3] >> (bit & 7) & 1 != 0

    def next_alive(self, seq: i64) -> i64:
        """Return the first seq from `seq` on that is not in the set."""
        bits = self.bits
        bit = seq - self.base
        while bit >> 3 < len(bits):
            byte: i64 = bits[bit >> 3]
            if bit & 7 == 0 and byte == _ALL:
                bit += 8
            elif byte >> (bit & 7) & 1:
                bit += 1
            else:
                break
        return self.base + bit

    def last_alive(self, seq: i64) -> i64:
        """Return the last seq up to `seq`, below `base` if need be, not in the set."""
        bits = self.bits
        bit = seq - self.base
        while bit >= 0:
            if bit >> 3 >= len(bits):
                break
            byte: i64 = bits[bit >> 3]
            if bit & 7 == 7 and byte == _ALL:
                bit -= 8
            elif byte >> (bit & 7) & 1:
                bit -= 1
            else:
                break
        return self.base + bit

    def trim(self, first: i64) -> None:
        """Forget what lies below `first`, once that is half of the bits."""
        spare = (first - self.base) >> 3
        if spare > 64 and spare * 2 > len(self.bits):
            del self.bits[:spare]
            self.base += spare * 8
