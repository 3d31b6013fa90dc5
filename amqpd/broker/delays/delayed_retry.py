"""Messages that came back to their queue and wait before they are ready again.

    unacked --- came back ---> waiting --- due ---> ready, at its place
                                  |
                          beyond 4 MiB: in the log only, and read when it is due

How long a message waits grows with how often it came back; the log knows both, so a
restart shortens nothing. Who waits is neither ready nor unacked. What it takes in
memory is charged like what is unacked, so that others leave in its stead: beyond a
bound only those stay that the log has not.

It knows one queue, or one level of a queue with priorities; who decides what waits, and
for how long, is the queue's keeper.
"""

from typing import Final, final

from mypy_extensions import i64

from amqpd.broker.delays.due_times import NONE_DUE, DueTimes
from amqpd.broker.queues.delivery import Reference
from amqpd.broker.queues.memory_use import MemoryUse
from amqpd.broker.queues.queue_log import QueueLog

# Those that wait may take so much memory in one queue, if the log has them.
HOT_COST_MAX: Final[i64] = 4 * 1024 * 1024
# What cannot be read is tried again.
RETRY_MS: Final[i64] = 1000


@final
class DelayedRetry:
    """What waits at one queue."""

    def __init__(self, log: QueueLog, use: MemoryUse) -> None:
        self.count: i64 = 0
        # Octets of bodies of all that waits.
        self.body_size: i64 = 0
        self._log = log
        self._use = use
        self._due_times = DueTimes()
        self._hot: dict[int, Reference] = {}
        self._hot_cost: i64 = 0
        # The size of the body of each that only the log has.
        self._cold: dict[int, int] = {}

    @property
    def next_ms(self) -> i64:
        """When the next one is due, `NEVER_MS` if none is."""
        return self._due_times.next_ms

    def wait(self, reference: Reference, due_ms: i64) -> None:
        """Let a message wait that came back."""
        message = reference.message
        seq = int(reference.seq)
        self.count += 1
        self.body_size += message.body_size()
        self._due_times.add(due_ms, seq)
        if self._hot_cost + message.cost > HOT_COST_MAX and self._log.is_written(
            message
        ):
            self._cold[seq] = int(message.body_size())
            return
        self._hot[seq] = reference
        self._charge(message.cost)

    def take_due(self, now_ms: i64) -> Reference | None:
        """Take the first one whose time has come.

        One that the log has lost is passed over, one that cannot be read waits on.
        """
        while True:
            seq = int(self._due_times.take_due(now_ms))
            if seq == NONE_DUE:
                return None
            reference = self._hot.pop(seq, None)
            if reference is not None:
                self._charge(-reference.message.cost)
                self._forget(reference.message.body_size())
                return reference
            reference = self._read(seq, now_ms)
            if reference is not None:
                return reference

    def _read(self, seq: int, now_ms: i64) -> Reference | None:
        reference = self._log.read_cold(seq, False)
        if reference is None and self._log.has(seq):
            self._due_times.add(now_ms + RETRY_MS, seq)
            return None
        self._forget(self._cold.pop(seq))
        if reference is not None:
            reference.redelivered = True
        return reference

    def _forget(self, body_size: i64) -> None:
        self.count -= 1
        self.body_size -= body_size

    def _charge(self, cost: i64) -> None:
        self._hot_cost += cost
        self._use.unacked += cost

    def clear(self) -> list[int]:
        """The queue is done with all of them; return their seqs."""
        seqs = [*self._hot, *self._cold]
        for reference in self._hot.values():
            self._log.forget(reference, reference.message)
        for seq in self._cold:
            self._log.forget_cold(seq, False)
        self._due_times.clear()
        self._hot = {}
        self._cold = {}
        self._charge(-self._hot_cost)
        self.count = 0
        self.body_size = 0
        return seqs
