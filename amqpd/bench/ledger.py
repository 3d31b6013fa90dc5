"""What arrived of what one producer sent to one queue: nothing, once, or twice.

    sequence number   0 ........ 65535 | 65536 ...... | 131072 ....
    chunk                  full: gone  |  8 KiB bits  |  8 KiB bits

One bit a message, in chunks; a chunk with all its messages is not needed any more. So
memory stands still while nothing is lost, and grows by an octet for eight messages
behind a loss, which has to be remembered until the end.

Order is another question, and not asked here: two consumers of a queue are read in
turns, so only what one consumer has seen has an order (`Order`).
"""

from typing import Final, final

from mypy_extensions import i64, u8

_SHIFT: Final[i64] = 16
_CHUNK: Final[i64] = 65536
_CHUNK_OCTETS: Final = 8192
_MASK: Final[i64] = 65535


@final
class _Chunk:
    """Which of 65,536 messages have arrived."""

    __slots__ = ("bits", "count")

    def __init__(self) -> None:
        self.bits = bytearray(_CHUNK_OCTETS)
        self.count: i64 = 0


@final
class Arrivals:
    """Which messages of one producer have arrived from one queue."""

    def __init__(self) -> None:
        self.count: i64 = 0
        # Chunks below it are complete.
        self._complete: i64 = 0
        self._chunks: dict[int, _Chunk] = {}

    @property
    def chunks_kept(self) -> int:
        """How many chunks are held in memory."""
        return len(self._chunks)

    def is_new(self, number: i64) -> bool:
        """Note that a message has arrived; say whether it is the first time."""
        index = number >> _SHIFT
        if index < self._complete:
            return False
        chunk = self._chunks.get(index)
        if chunk is None:
            chunk = _Chunk()
            self._chunks[index] = chunk
        at = (number & _MASK) >> 3
        bit: i64 = 1 << (number & 7)
        octet = i64(chunk.bits[at])
        if octet & bit:
            return False
        chunk.bits[at] = u8(octet | bit)
        chunk.count += 1
        self.count += 1
        if chunk.count == _CHUNK and index == self._complete:
            self._drop_complete()
        return True

    def missing(self, sent: i64) -> list[int]:
        """Return which of the first `sent` messages have not arrived."""
        numbers: list[int] = []
        number = self._complete << _SHIFT
        while number < sent:
            chunk = self._chunks.get(number >> _SHIFT)
            end = min(sent, ((number >> _SHIFT) + 1) << _SHIFT)
            while number < end:
                if chunk is None or not _is_set(chunk, number & _MASK):
                    numbers.append(number)
                number += 1
        return numbers

    def _drop_complete(self) -> None:
        chunk = self._chunks.get(self._complete)
        while chunk is not None and chunk.count == _CHUNK:
            del self._chunks[self._complete]
            self._complete += 1
            chunk = self._chunks.get(self._complete)


def _is_set(chunk: _Chunk, place: i64) -> bool:
    return (i64(chunk.bits[place >> 3]) >> (place & 7)) & 1 == 1


@final
class QueueLedger:
    """What arrived from one queue, by producer."""

    def __init__(self, producers: list[int]) -> None:
        self.arrivals: dict[int, Arrivals] = {}
        for producer in producers:
            self.arrivals[producer] = Arrivals()


@final
class Order:
    """Whether one consumer sees each producer's messages in the order of sending."""

    def __init__(self) -> None:
        self._last: dict[int, int] = {}

    def is_kept(self, producer: i64, number: i64) -> bool:
        """Note the next message; say whether it comes after the one before it."""
        last = self._last.get(producer, -1)
        if number <= last:
            return False
        self._last[producer] = number
        return True
