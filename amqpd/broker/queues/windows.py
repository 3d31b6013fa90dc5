"""One queue's messages on their way back into memory, window by window.

    begin       a window is asked for: the queue has a load in flight
    take        it is there: its messages stand at the front again
    end         nobody wants it any more: what is in flight belongs to no generation

A *look* is a window of one message of which only the time is taken. What is read in
place comes first: a load in flight would bring the same.

It knows the backlog and the queue's place in the logs, not who consumes.
"""

import logging
from typing import Final, final

from mypy_extensions import i64

from amqpd.broker.queues.ages import NO_TIME
from amqpd.broker.queues.backlog import Backlog
from amqpd.broker.queues.cold_load import ColdLoad, LoadedWindow
from amqpd.broker.queues.keeper import Keeper
from amqpd.broker.queues.pager import WINDOW_COUNT_MAX, PagedQueue, Pager
from amqpd.broker.queues.queue_log import QueueLog

logger = logging.getLogger("amqpd.broker.queues.queue")

_ONE: Final[i64] = 1


@final
class Windows:
    """What one queue gets back."""

    __slots__ = (
        "_log",
        "_pager",
        "_queue",
        "_ready",
        "_title",
        "delivered_seq",
        "low_count",
        "returned",
    )

    def __init__(
        self,
        queue: PagedQueue,
        title: tuple[str, str],
        ready: Backlog,
        log: QueueLog,
        pager: Pager,
    ) -> None:
        self._queue = queue
        # The names of the queue and of its virtual host.
        self._title = title
        self._ready = ready
        self._log = log
        self._pager = pager
        # Messages up to here have been delivered once; the log knows of those it has.
        self.delivered_seq: i64 = 0
        # What came back to the queue before the broker was started.
        self.returned: set[int] = set()
        # The next window is asked for when fewer than this are at hand.
        self.low_count: i64 = 1

    def begin(self) -> ColdLoad:
        """Plan to read the next window; something must be cold."""
        self._queue.is_loading = True
        return self._plan(False, WINDOW_COUNT_MAX)

    def begin_in_place(self) -> ColdLoad:
        """Plan to read a small window at once."""
        return self._plan(True, WINDOW_COUNT_MAX)

    def begin_look(self) -> ColdLoad | None:
        """Plan to look at the first cold message; None if its time is known."""
        ready = self._ready
        is_known = ready.cold_first_ms != NO_TIME and not ready.is_first_passed
        if not ready.cold_count or is_known:
            return None
        look = self._plan(False, _ONE)
        look.is_look = True
        return look

    def _plan(self, is_in_place: bool, count_max: i64) -> ColdLoad:
        return self._pager.plan_load(
            self._queue,
            self._queue.generation,
            self._ready,
            self._log.page_id,
            is_in_place,
            count_max,
        )

    def is_wanted(self, load: ColdLoad) -> bool:
        """Whether what is cold is still what it was when a load was begun."""
        return load.generation == self._queue.generation

    def take_look(self, load: ColdLoad, found: LoadedWindow) -> None:
        """A look is over."""
        ready = self._ready
        if self.is_wanted(load) and found.error is None:
            ready.lose_cold(found.damaged_stored, found.damaged_paged)
            if load.first <= ready.cold_first:
                # What has been dropped since was older.
                ready.cold_first_ms = found.first_enqueued_ms
                ready.is_first_passed = load.first < ready.cold_first

    def take(self, found: LoadedWindow, keeper: Keeper | None) -> bool:
        """Take a window in; return False if it could not be read."""
        ready = self._ready
        if found.error is not None or found.next_first <= ready.cold_first:
            return False
        references = found.references(
            self._queue,
            ready.holes,
            self.delivered_seq,
            self.returned,
        )
        if keeper is not None:
            keeper.on_loaded(references)
        ready.lose_cold(found.damaged_stored, found.damaged_paged)
        ready.load(references, found.next_first)
        self.low_count = max(1, len(references) // 2)
        if not self._queue.is_held:
            self._pager.hold(self._queue)
        if ready.is_cold_over:
            if ready.cold_count:
                logger.error(
                    "queue '%s' in vhost '%s': %d messages are not in the log",
                    *self._title,
                    ready.cold_count,
                )
            ready.join()
            self._pager.end_draining(self._queue)
        return True

    def drop_first(self) -> bool:
        """Drop the first cold message unread; return False if that cannot be done."""
        ready = self._ready
        if ready.cold_paged or not ready.cold_stored:
            return False
        seq = self._log.next_cold(ready.cold_first)
        while seq and seq <= ready.cold_last and not ready.has_cold(int(seq)):
            seq = self._log.next_cold(seq + 1)
        if not seq or seq > ready.cold_last:
            return False
        if self._queue.is_loading:
            self.void()
        ready.strike_cold(int(seq), False)
        ready.cold_first = seq + 1
        ready.is_first_passed = True
        self._log.forget_cold(int(seq), False)
        return True

    def void(self) -> None:
        """Whatever is in flight brings what somebody else takes, or nobody."""
        self._queue.generation += 1
        self._queue.is_loading = False
