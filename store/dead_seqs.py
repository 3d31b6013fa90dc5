"""Which seqs of a run are not needed: one bit each, set once, counted as it is set.

    base 40     bits  0 1 1 0 1 0 0 0  0 ...     41, 42 and 44 are dead

A seq beyond the end of the bits is alive. It does not know runs or queues.
"""

from typing import Final, final

from mypy_extensions import i64

_BIT_COUNTS: Final = bytes(bin(byte).count("1") for byte in range(256))
_ALL: Final = 0xFF
_MANY: Final = b"\xff" * 64


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

    def add_from(self, other: "DeadSeqs", first: i64, last: i64) -> None:
        """Add what another set has of a range that begins above all in this one.

        As one long number: bit by bit, a run of a million would hold up the loop.
        """
        number: int = int.from_bytes(other.bits, "little") >> int(first - other.base)
        number &= (1 << int(last - first + 1)) - 1
        if number == 0:
            return
        bit = first - self.base
        at = bit >> 3
        number <<= int(bit & 7)
        piece = number.to_bytes((number.bit_length() + 7) // 8, "little")
        bits = self.bits
        missing = at + len(piece) - len(bits)
        if missing > 0:
            bits.extend(bytes(missing))
        before: i64 = bits[at]
        bits[at : at + len(piece)] = piece
        bits[at] = int(before | piece[0])

    def count(self, first: i64, last: i64) -> i64:
        """Return how many seqs of a range are in the set."""
        bits = self.bits
        at: i64 = max(0, (first - self.base) >> 3)
        end: i64 = min((last - self.base) >> 3, len(bits) - 1)
        if at > end:
            return 0
        found: i64 = _BIT_COUNTS[bits[at] & self._mask(at, first, last)]
        if end > at:
            found += _BIT_COUNTS[bits[end] & self._mask(end, first, last)]
            # A merged run may be long: the processor counts what lies between.
            found += int.from_bytes(bits[at + 1 : end], "little").bit_count()
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
                bit = self._skip(bit >> 3) << 3
            elif byte >> (bit & 7) & 1:
                bit += 1
            else:
                break
        return self.base + bit

    def _skip(self, at: i64) -> i64:
        """Return a byte behind one of dead seqs only, with nothing else between."""
        bits = self.bits
        # The processor compares many at once: most of a merged run is dead.
        while bits[at : at + 64] == _MANY:
            at += 64
        while at < len(bits) and bits[at] == _ALL:
            at += 1
        return at

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
