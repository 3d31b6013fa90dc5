"""Latencies in fixed memory: a log-linear histogram.

    value    0 ... 127 | 128 ... 255 | 256 ... 511 | 512 ... 1023 | ...
    width        1     |      1      |      2      |      4       |

Every octave has the same number of buckets, so a bucket is at most 1/128 as wide as
the values in it: a percentile is wrong by less than one percent, whether it is a
microsecond or a minute. Values are nanoseconds here, but the idea knows no unit.
"""

from typing import Final, final

from mypy_extensions import i64

_BITS: Final[i64] = 7
_HALF: Final[i64] = 128
_FULL: Final[i64] = 256
#: Above this (a quarter of an hour in nanoseconds, and more) a value is this.
VALUE_MAX: Final[i64] = (1 << 40) - 1
_BUCKETS: Final = 128 * 35


def _bucket(value: i64) -> i64:
    """The bucket of a value that is not negative and not above the most."""
    shift: i64 = 0
    # Two strides: most latencies are well above 2 ** 16 nanoseconds.
    while value >= 1 << 16:
        value >>= 8
        shift += 8
    while value >= _FULL:
        value >>= 1
        shift += 1
    return (shift << _BITS) + value


def _highest(bucket: i64) -> i64:
    """The highest value of a bucket."""
    if bucket < _FULL:
        return bucket
    shift = (bucket >> _BITS) - 1
    mantissa = bucket - (shift << _BITS)
    return ((mantissa + 1) << shift) - 1


@final
class Histogram:
    """How often which latency was seen."""

    def __init__(self) -> None:
        self._counts = [0] * _BUCKETS
        self.count: i64 = 0
        self.highest: i64 = 0

    def record(self, value: i64, count: i64) -> None:
        """That value was seen so many times; a negative one counts as 0."""
        if value < 0:
            value = 0
        elif value > VALUE_MAX:
            value = VALUE_MAX
        if value > self.highest:
            self.highest = value
        self.count += count
        self._counts[_bucket(value)] += count

    def percentile(self, percent: float) -> int:
        """The value that so many percent are not above; 0 if nothing was seen."""
        wanted = int(self.count) * percent / 100
        seen = 0
        for bucket, count in enumerate(self._counts):
            seen += count
            if count and seen >= wanted:
                return min(_highest(bucket), self.highest)
        return int(self.highest)

    def absorb(self, other: "Histogram") -> None:
        """Take over everything that another histogram has seen; it is empty then."""
        for bucket, count in enumerate(other._counts):
            if count:
                self._counts[bucket] += count
                other._counts[bucket] = 0
        self.count += other.count
        if other.highest > self.highest:
            self.highest = other.highest
        other.count = 0
        other.highest = 0
