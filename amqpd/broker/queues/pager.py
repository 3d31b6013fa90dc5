"""Memory for messages: who holds how much, who must let go, who gets some back.

    used > budget    turn by turn, queue by queue, what a log has is dropped
    a short head     the queue wants its next window: a step for the reader

There are two budgets. What is also in the log (persistent messages of durable queues)
may take `cold_budget` in all queues together, since dropping it costs nothing but
reading it back. Everything together may take `total_budget`; beyond that transient
messages go too, by way of the paging log, which is never synced and does not outlive
the process. A transient message that stands among persistent ones is paged with them,
or it would keep them in memory.

What consumers have unacked stays in memory, counts with everything, and so makes
others go.

What the log has of a queue that nobody consumes goes long before that: what is written
anew should lie where the processor has just been, and not be spread over megabytes that
its caches do not hold (a million messages of 1 KiB took a sixth more of its time).

A window is a part of what is free of half the budget, within bounds: large where it
is emptied as soon as it is there, small where many queues keep theirs. Who stands in
line gets a window of the same size as the others, and all of them are read together;
who comes while many are out waits for the next time. The pager knows no consumers; how
a queue divides what it holds is `Backlog`'s.
"""

import logging
from collections import OrderedDict, deque
from typing import Final, cast, final

from mypy_extensions import i64

from amqpd.broker.messages.message import RECOVERED, REFERENCE_COST, Message
from amqpd.broker.ports import DurabilityWaiter, Step
from amqpd.broker.queues.backlog import Backlog
from amqpd.broker.queues.cold_load import ColdLoad, LoadedWindow, message_of
from amqpd.broker.queues.delivery import Reference, ReferenceOwner
from amqpd.broker.queues.memory_use import MemoryUse, Written
from amqpd.broker.queues.remains import Remains
from store.cold_read import ColdRead
from store.cold_store import ReadResult
from store.message_store import MessageStore
from store.sync_step import SyncStep

logger = logging.getLogger(__name__)

MIB: Final = 1024 * 1024

# Dropping a message takes 100 ns (uncompiled a microsecond), paging it four times that.
SLICE_UNITS: Final[i64] = 4_000
VISIT_UNITS: Final[i64] = 1_000
PAGE_UNITS: Final[i64] = 4
LOOK_UNITS: Final[i64] = 10
# What a deleted queue held goes in slices of so many: the last of what was filled
# together may give a MiB back to the system every ten references, 0.1 ms each.
REMAINS_UNITS: Final[i64] = 100
# When nobody has anything that may go, nobody is asked again for so long.
PAUSE_MS: Final[i64] = 10
RETRY_MS: Final[i64] = 1_000
# More than this on its way to the paging log would be memory of its own. It comes on
# top of the messages, so where those may take little it is a part of that.
PAGING_BEHIND_SIZE: Final[i64] = 8 * MIB
PAGING_BEHIND_PART: Final[i64] = 16

# What the log has of queues that nobody consumes may take this part of its budget, and
# a little for each: visits that find one message each would cost more than they bring.
UNREAD_PART: Final[i64] = 8
UNREAD_EACH: Final[i64] = 16 * 1024
# So many of them are visited each time that something has been written.
UNREAD_VISITS_MAX: Final[i64] = 64
# What such a queue says if it is not one: somebody consumes.
IS_READ: Final[i64] = -1

WINDOW_MIN: Final[i64] = 16 * 1024
WINDOW_MAX: Final[i64] = 512 * 1024
WINDOW_COUNT_MAX: Final[i64] = 1_300
# One window takes at most such a part of what is free.
WINDOW_PART: Final[i64] = 8
# Windows are read together, in the order in which they lie in the log: the more stand
# in line the better. So while many are out, others wait for them.
LOADS_MAX: Final = 32
TOGETHER_MAX: Final = 1024
# What is read together takes this much even if what was read before takes all there is.
TOGETHER_SIZE_MIN: Final[i64] = MIB


@final
class MemoryBudgets:
    """How much memory messages may take, in octets."""

    __slots__ = ("_cold_given", "_total_given", "cold", "total")

    def __init__(self, cold: i64, total: i64) -> None:
        # For what is also in the log.
        self.cold: i64 = cold
        # For everything.
        self.total: i64 = total
        self._cold_given: i64 = cold
        self._total_given: i64 = total

    def fit(self, limit: i64, is_short: bool) -> None:
        """Stay below the limit of the whole process, well below while that is short.

        Messages are not all that takes memory, so they may have two thirds of it.
        """
        share = max(MIB, limit // 4 if is_short else limit * 2 // 3)
        self.cold = min(self._cold_given, share)
        self.total = min(self._total_given, share)


class PagedQueue(ReferenceOwner):
    """A queue, as far as the pager needs it."""

    def __init__(self, queue_id: i64) -> None:
        super().__init__()
        self.id: i64 = queue_id
        # Whether the pager knows that it may hold something in memory.
        self.is_held = False
        # Whether it stands in line for its next window.
        self.is_wanting = False
        # Whether somebody wants to know its first cold message.
        self.is_looking = False
        # Whether its next window is on the way. One of an earlier generation is not for
        # what is cold now.
        self.is_loading = False
        self.generation: i64 = 0
        # Whether it has cold messages and somebody who wants them.
        self.is_draining = False

    def page_out(self, units: i64, is_all_over: bool) -> i64:
        """Let go of messages; return how many units of work that was.

        Unless `is_all_over`, only what is in the log has to go.
        """
        raise NotImplementedError

    def drop_unread(self, units: i64) -> i64:
        """Let go of what the log has; return how many units of work that was.

        `IS_READ` if messages are to stay, since somebody will want them soon.
        """
        return IS_READ

    def has_memory(self) -> bool:
        """Whether any message that is ready is in memory."""
        raise NotImplementedError

    def begin_load(self) -> ColdLoad | None:
        """Plan to read the next window; None if it is not wanted any more."""
        raise NotImplementedError

    def begin_look(self) -> ColdLoad | None:
        """Plan to look at the first cold message; None if it is of no interest."""
        raise NotImplementedError

    def complete_load(self, load: ColdLoad, found: LoadedWindow) -> bool:
        """Take a window in; return False if it is to be tried again later.

        Should it raise, the window is as cold as before.
        """
        raise NotImplementedError


@final
class Pager:
    """Keeps what is ready within the budgets."""

    def __init__(
        self,
        store: MessageStore[DurabilityWaiter],
        paging: MessageStore[DurabilityWaiter] | None,
        budgets: MemoryBudgets,
    ) -> None:
        self.store = store
        # None: what is in no log stays in memory.
        self.paging = paging
        self.use = MemoryUse()
        self.written = Written()
        # Whether the next turn has something to do here.
        self.has_work = False
        # Our own: they follow the limit of the process.
        self.budgets = MemoryBudgets(budgets.cold, budgets.total)
        self._remains = Remains(self.use)
        # Queues that hold something, in the order of their turns.
        self._held: OrderedDict[int, PagedQueue] = OrderedDict()
        # Those of them that nobody consumes, as far as they were looked at.
        self._unread: OrderedDict[int, PagedQueue] = OrderedDict()
        # How many of them may still have some of what was written before this number.
        self._unread_visits: i64 = 0
        self._unread_base: i64 = 0
        self._wanting: deque[PagedQueue] = deque()
        self._looking: list[PagedQueue] = []
        self._loads_out = 0
        # What those may take.
        self._loading_size: i64 = 0
        # What of the log's a queue is given at a time now.
        self._stored_window: i64 = WINDOW_MIN
        self._draining_count: i64 = 0
        self._failed: list[PagedQueue] = []
        self._retry_ms: i64 = 0
        self._pause_ms: i64 = 0
        # So much may be on its way to the paging log.
        self._behind_max: i64 = PAGING_BEHIND_SIZE
        # How many visits in a row found nothing that could go.
        self._fruitless_count: i64 = 0

    # -- what queues say ------------------------------------------------------

    def hold(self, queue: PagedQueue) -> None:
        """The queue may hold something in memory from now on."""
        queue.is_held = True
        key = int(queue.id)
        self._held[key] = queue
        self._unread[key] = queue

    def end_reading(self, queue: PagedQueue) -> None:
        """Nobody consumes the queue any more."""
        self.end_draining(queue)
        if queue.is_held:
            self._unread[int(queue.id)] = queue

    def want(self, queue: PagedQueue) -> None:
        """The queue would like its next window; it must not be in line."""
        queue.is_wanting = True
        self._wanting.append(queue)
        if not queue.is_draining:
            queue.is_draining = True
            self._draining_count += 1

    def look(self, queue: PagedQueue) -> None:
        """The queue would like to know its first cold message; not twice at a time."""
        queue.is_looking = True
        self._looking.append(queue)

    def end_draining(self, queue: PagedQueue) -> None:
        """Nothing of the queue is cold any more, or nobody wants it."""
        if queue.is_draining:
            queue.is_draining = False
            self._draining_count -= 1

    def forget(self, queue: PagedQueue) -> None:
        """The queue is gone."""
        self.end_draining(queue)
        if queue.is_held:
            self._let_be(int(queue.id), queue)

    def let_go(self, lines: list[deque[Reference]], is_durable: bool) -> None:
        """A queue is gone that held these lines: let go of them turn by turn."""
        count: i64 = 0
        for line in lines:
            count += len(line)
            self._remains.add(line, is_durable)
        if count <= REMAINS_UNITS:
            self._remains.let_go(count)
        if self._remains.has_work:
            self.has_work = True

    def _let_be(self, key: int, queue: PagedQueue) -> None:
        """The queue holds nothing."""
        queue.is_held = False
        self._held.pop(key, None)
        self._unread.pop(key, None)

    def window(self) -> i64:
        """What a queue may keep in memory while it is drained, in octets."""
        share = self.budgets.cold // 2
        if self._draining_count:
            share = share // self._draining_count
        return max(WINDOW_MIN, min(share, WINDOW_MAX))

    def _load_window(self, count: i64) -> i64:
        """What of the log's each of so many queues is given at a time, in octets."""
        taken = self.use.loaded + self._loading_size
        parts: i64 = max(WINDOW_PART, 2 * count)
        part = (self.budgets.cold // 2 - taken) // parts
        return max(WINDOW_MIN, min(part, WINDOW_MAX))

    # -- letting go -----------------------------------------------------------

    @property
    def is_over(self) -> bool:
        """Whether too much is in memory."""
        use = self.use
        if use.total > self.budgets.total:
            return True
        return use.stored > self._cold_limit()

    def _cold_limit(self) -> i64:
        """What the log's messages may take now.

        While queues are drained the cache of segment blocks takes memory, too: then
        only a quarter is for what was not read back.
        """
        cold = self.budgets.cold
        if not self._draining_count:
            return cold
        return cold // 4 + min(self.use.loaded, cold - cold // 4)

    @property
    def is_waiting(self) -> bool:
        """Whether something is to be tried again later."""
        return bool(self._failed) or bool(self._looking) or self.is_over

    def turn(self, now_ms: i64) -> None:
        """Let go of what is left of queues that are gone, and of what is too much.

        It is a slice of half a millisecond.
        """
        self._remains.let_go(REMAINS_UNITS)
        self.has_work = self._remains.has_work
        if self._unread and not self._drop_unread():
            self.has_work = True
            return
        if not self.is_over or now_ms < self._pause_ms:
            return
        self.written.stored_base = self.store.written_base
        if self.paging is not None:
            self.written.paged_base = self.paging.written_base
            part = max(MIB, self.budgets.total // PAGING_BEHIND_PART)
            self._behind_max = min(part, PAGING_BEHIND_SIZE)
        units = SLICE_UNITS
        while units > 0 and self.is_over:
            if self._fruitless_count >= len(self._held):
                self._fruitless_count = 0
                self._pause_ms = now_ms + PAUSE_MS
                return
            done = self._visit_next(min(units, VISIT_UNITS))
            units -= done + LOOK_UNITS
            self._fruitless_count = 0 if done else self._fruitless_count + 1
        self.has_work = self.has_work or self.is_over

    def _visit_next(self, units: i64) -> i64:
        key, queue = self._held.popitem(last=False)
        done = queue.page_out(units, self.use.total > self.budgets.total)
        if queue.has_memory():
            self._held[key] = queue
        else:
            self._let_be(key, queue)
        return done

    def _drop_unread(self) -> bool:
        """Drop what has been written of queues that nobody consumes: a slice of it.

        Returns False if there is more; that is for the next turn.
        """
        unread = self._unread
        cold = self.budgets.cold
        kept = min(cold, cold // UNREAD_PART + len(unread) * UNREAD_EACH)
        base = self.store.written_base
        if base != self._unread_base:
            self._unread_base = base
            self._unread_visits = min(len(unread), UNREAD_VISITS_MAX)
        self.written.stored_base = base
        units = SLICE_UNITS
        while self._unread_visits and unread and self.use.stored > kept:
            if units <= 0:
                return False
            units -= self._visit_unread(min(units, VISIT_UNITS)) + LOOK_UNITS
        return True

    def _visit_unread(self, units: i64) -> i64:
        key, queue = self._unread.popitem(last=False)
        done = queue.drop_unread(units)
        if done < units:
            self._unread_visits -= 1
        if done == IS_READ:
            return 0
        if queue.has_memory():
            self._unread[key] = queue
        else:
            self._let_be(key, queue)
        return done

    def page(self, reference: Reference, page_id: i64) -> bool:
        """Put a message into the paging log; return False if that must wait.

        A queue's messages must come in order.
        """
        paging = self.paging
        if paging is None or paging.is_disk_full:
            return False
        if paging.bytes_waiting + paging.bytes_in_flight > self._behind_max:
            return False
        message = reference.message
        reference.page = paging.append(
            message.address,
            message.content,
            message.body,
            message.enqueued_ms,
            message.expires_ms,
            page_id,
            reference.seq,
            0,
        )
        return True

    def begin_paging(self, now_ms: i64) -> Step | None:
        """Take what waits for the paging log into a step; None if nothing does."""
        if self.paging is None or not self.paging.has_work:
            return None
        return self.paging.begin(True, now_ms)

    def complete_paging(self, step: Step) -> BaseException | None:
        """Take a step of the paging log back; return what makes the log unusable."""
        assert self.paging is not None
        result = self.paging.complete(cast(SyncStep[DurabilityWaiter], step))
        if result.lost_numbers:
            logger.warning(
                "no room on the disk for %d messages that memory has none for",
                len(result.lost_numbers),
            )
            self.written.lost_pages.update(result.lost_numbers)
        return result.fatal

    # -- getting back ---------------------------------------------------------

    def begin_loads(self, now_ms: i64) -> list[ColdLoad]:
        """Plan the next windows that are wanted: steps for the reader.

        Each of them is to be completed.
        """
        wanting = self._wanting
        if self._failed and now_ms >= self._retry_ms:
            wanting.extend(self._failed)
            self._failed = []
        loads: list[ColdLoad] = []
        while self._looking and self._loads_out < LOADS_MAX:
            queue = self._looking.pop()
            queue.is_looking = False
            self._add_load(loads, queue.begin_look())
        if self._loads_out < LOADS_MAX:
            self._begin_together(loads)
        return loads

    def _begin_together(self, loads: list[ColdLoad]) -> None:
        """Plan a window of the same size for everybody in line."""
        wanting = self._wanting
        self._stored_window = self._load_window(len(wanting))
        room: i64 = max(TOGETHER_SIZE_MIN, self.budgets.cold - self.use.loaded)
        while wanting and self._loads_out < TOGETHER_MAX:
            if self._loads_out and self._loading_size >= room:
                # Who is in line goes on when those are there.
                return
            queue = wanting.popleft()
            queue.is_wanting = False
            self._add_load(loads, queue.begin_load())

    def _add_load(self, loads: list[ColdLoad], load: ColdLoad | None) -> None:
        if load is not None:
            self._loads_out += 1
            self._loading_size += load.window
            loads.append(load)

    def plan_load(
        self,
        owner: PagedQueue,
        generation: i64,
        backlog: Backlog,
        page_id: i64,
        is_in_place: bool,
        count_max: i64,
    ) -> ColdLoad:
        """Plan to read a window of a queue that has something cold."""
        window = WINDOW_MIN
        if not is_in_place:
            window = self.window() if backlog.cold_paged else self._stored_window
        average = backlog.cold_size // backlog.cold_count + REFERENCE_COST
        count = max(1, min(window // average, count_max))
        first, last = backlog.cold_first, backlog.cold_last
        stored: ColdRead | None = None
        paged: ColdRead | None = None
        if backlog.cold_stored > 0:
            stored = self.store.begin_read(
                owner.id, first, last, count, window, is_in_place
            )
        if backlog.cold_paged > 0:
            assert self.paging is not None
            paged = self.paging.begin_read(
                page_id, first, last, count, window, is_in_place
            )
        # Of large messages a window is one of them.
        size: i64 = max(window, average)
        return ColdLoad(owner, generation, first, last, stored, paged, size)

    def read_one(self, log_id: i64, seq: i64, is_paged: bool) -> Message | None:
        """Read one cold message in place, from one log or the other."""
        log = self.paging if is_paged else self.store
        assert log is not None
        read = log.begin_read(log_id, seq, seq, 1, WINDOW_MIN, True)
        read.run()
        result = log.complete_read(read)
        _report(result)
        if not result.messages:
            return None
        message = message_of(result.messages[0])
        if not is_paged:
            message.number = RECOVERED
        return message

    def finish_load(self, load: ColdLoad) -> LoadedWindow:
        """Return what came of a load that has run; each must come here once."""
        stored: ReadResult | None = None
        paged: ReadResult | None = None
        if load.stored is not None:
            stored = self.store.complete_read(load.stored)
            _report(stored)
        if load.paged is not None:
            assert self.paging is not None
            paged = self.paging.complete_read(load.paged)
            _report(paged)
        return LoadedWindow(load.last, stored, paged)

    def complete_load(self, step: Step, now_ms: i64) -> None:
        """Give a window that was read to its queue."""
        load = cast(ColdLoad, step)
        self._loads_out -= 1
        self._loading_size -= load.window
        queue = load.owner
        assert isinstance(queue, PagedQueue)
        try:
            is_loaded = queue.complete_load(load, self.finish_load(load))
        except Exception:
            # Ours to mend; but neither this queue nor the others may wait for ever.
            logger.exception("messages that were read cannot be used, retrying")
            is_loaded = load.is_look or load.generation != queue.generation
            queue.is_loading = queue.is_loading and is_loaded
        if not is_loaded and not queue.is_wanting:
            # In line, so that it does not ask again before.
            queue.is_wanting = True
            self._failed.append(queue)
            self._retry_ms = now_ms + RETRY_MS


def _report(result: ReadResult) -> None:
    for damaged in result.damaged:
        logger.error("a message is lost: %s", damaged.report)
    if result.error is not None:
        logger.error("messages cannot be read, retrying: %s", result.error)
