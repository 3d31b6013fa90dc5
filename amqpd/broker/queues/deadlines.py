"""When messages with a time of their own expire, wherever they stand in their queue.

    in memory   a heap of (deadline, seq), and by seq the reference itself
    cold        per second an array of seqs: eight octets a message

What expires in memory expires to the millisecond, what is cold within a second of its
time. An entry is not taken out when a message is delivered or acked: it is found void
when its time comes, or when void ones are in the majority. A message that went cold and
came back has an entry in both.

It knows neither what expiring means nor what stands where.
"""

from array import array
from heapq import heapify, heappop, heappush
from typing import Final, final

from mypy_extensions import i64

from amqpd.broker.queues.delivery import Reference
from amqpd.broker.timers import NEVER_MS
from store.segment_index import second_of

_SECOND_MS: Final[i64] = 1000
_VOID_MIN: Final = 256


@final
class Deadlines:
    """The deadlines of one queue's messages."""

    __slots__ = ("_cold", "_cold_heap", "_heap", "_hot")

    def __init__(self) -> None:
        self._hot: dict[int, Reference] = {}
        self._heap: list[tuple[int, int]] = []
        # By the second that is over when they have expired.
        self._cold: dict[int, array[int]] = {}
        self._cold_heap: list[int] = []

    def add(self, reference: Reference, deadline_ms: i64) -> None:
        """A message in memory is ready and will expire."""
        seq = int(reference.seq)
        self._hot[seq] = reference
        heappush(self._heap, (int(deadline_ms), seq))
        if len(self._heap) > _VOID_MIN + 2 * len(self._hot):
            self._heap = [entry for entry in self._heap if entry[1] in self._hot]
            heapify(self._heap)

    def discard(self, seq: i64) -> None:
        """It is not ready any more."""
        self._hot.pop(int(seq), None)

    def on_cold(self, seq: i64, deadline_ms: i64, is_paged: bool) -> None:
        """It has left memory; the paging log has it, or the other."""
        if self._hot.pop(int(seq), None) is None:
            return
        self.add_cold(-seq if is_paged else seq, second_of(deadline_ms))

    def add_cold(self, noted: i64, second: i64) -> None:
        """A cold message (negative: in the paging log) expires before a second."""
        bucket = self._cold.get(int(second))
        if bucket is None:
            bucket = array("q")
            self._cold[int(second)] = bucket
            heappush(self._cold_heap, int(second))
        bucket.append(noted)

    @property
    def entry_count(self) -> int:
        """How many entries are kept for what is or was in memory."""
        return len(self._heap)

    @property
    def next_ms(self) -> i64:
        """When the next one expires, `NEVER_MS` if none does."""
        heap = self._heap
        while heap and heap[0][1] not in self._hot:
            heappop(heap)
        next_ms = NEVER_MS
        if heap:
            next_ms = heap[0][0]
        if self._cold_heap:
            next_ms = min(next_ms, self._cold_heap[0] * _SECOND_MS)
        return next_ms

    def take_due(self, now_ms: i64) -> Reference | None:
        """Take the first one in memory whose time has come."""
        heap = self._heap
        while heap and heap[0][0] <= now_ms:
            reference = self._hot.pop(heappop(heap)[1], None)
            if reference is not None:
                return reference
        return None

    def take_due_cold(self, now_ms: i64, count_max: int) -> list[int]:
        """Take some of the cold ones whose time has come.

        Those that only the paging log has come with their seqs negative. Not every one
        needs still be there, and some may be in memory again.
        """
        heap = self._cold_heap
        if not heap or heap[0] * _SECOND_MS > now_ms:
            return []
        bucket = self._cold[heap[0]]
        due = bucket[-count_max:].tolist()
        del bucket[-count_max:]
        if not bucket:
            del self._cold[heappop(heap)]
        return due

    def clear(self) -> None:
        """The queue is empty."""
        self._hot = {}
        self._heap = []
        self._cold = {}
        self._cold_heap = []
