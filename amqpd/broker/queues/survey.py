"""After a start: the deadlines of messages that are on the disk, so that they expire.

Queues begin with counts and nothing in memory. Segment by segment the reader thread
brings what the index files say about times to live, and slices of it go to the queues:

    begin       a step if there is a segment left, and nothing of the last one
    complete    its deadlines wait
    advance     a slice of them: a fraction of a millisecond

Until that is done, a second for some millions of messages, what expires on the disk is
found out when it is read. It knows neither threads nor what expiring means.
"""

from collections.abc import Callable
from typing import Final, cast, final

from mypy_extensions import i64

from amqpd.broker.ports import DurabilityWaiter, Step
from amqpd.broker.queues.queue import Queue
from store.cold_deadlines import DeadlineRead, RunDeadlines
from store.message_store import MessageStore

# How many deadlines are handed over at a time.
SLICE_COUNT: Final[i64] = 2_000
RETRY_MS: Final[i64] = 10_000


@final
class Survey:
    """The deadlines that a start has found."""

    def __init__(
        self,
        store: MessageStore[DurabilityWaiter],
        find_queue: Callable[[int], Queue | None],
    ) -> None:
        self._store = store
        self._find_queue = find_queue
        self._is_reading = False
        # After a failure: when to try again.
        self._retry_ms: i64 = 0
        self._waiting: list[RunDeadlines] = []
        # How many of the last one have been handed over.
        self._done: i64 = 0

    @property
    def has_slice(self) -> bool:
        """Whether `advance` has something to do."""
        return bool(self._waiting)

    @property
    def has_work(self) -> bool:
        """Whether not everything has been read and handed over."""
        return self.has_slice or self._store.cold.has_deadlines

    def begin(self, now_ms: i64) -> Step | None:
        """Return the next step for the reader; None if there is none now."""
        if self._is_reading or self._waiting or now_ms < self._retry_ms:
            return None
        step = self._store.cold.begin_deadlines()
        if step is not None:
            self._is_reading = True
            step.epoch = self._store.maintenance.read_begun()
        return step

    def complete(self, step: Step, now_ms: i64) -> Exception | None:
        """Take a step back that has run.

        Returns why it failed, if it did: it is tried again, a while later.
        """
        read = cast(DeadlineRead, step)
        self._is_reading = False
        self._store.maintenance.read_ended(read.epoch)
        self._store.cold.complete_deadlines(read)
        self._waiting = read.runs
        if read.error is not None:
            self._retry_ms = now_ms + RETRY_MS
        return read.error

    def advance(self) -> None:
        """Hand a slice over."""
        left = SLICE_COUNT
        while self._waiting and left > 0:
            run = self._waiting[-1]
            end = min(run.count, self._done + left)
            queue = self._find_queue(int(run.queue_id))
            if queue is None:
                end = run.count
            else:
                keeper = queue.part(run.queue_id).keeper
                if keeper is not None:
                    keeper.on_deadlines_found(run, self._done, end)
                left -= end - self._done
            self._done = end
            if end == run.count:
                self._waiting.pop()
                self._done = 0
