"""How the messages of one queue leave memory: in which order, and by way of which log.

    fold    what came back stands in its place again, if nobody has anything unacked
    drop    what is behind the cold ones goes, as far as a log has it
    page    what is in no log is given to the paging log first, in order
    drop    nobody consumes: the window goes as well, from its end

It knows the backlog and the queue's place in the logs, but neither consumers nor when
memory is short.
"""

from typing import final

from mypy_extensions import i64

from amqpd.broker.queues.backlog import Backlog
from amqpd.broker.queues.delivery import Reference
from amqpd.broker.queues.pager import PAGE_UNITS, Pager
from amqpd.broker.queues.queue_log import QueueLog


@final
class Leaving:
    """What one queue lets go of."""

    __slots__ = (
        "_is_fold_refused",
        "_log",
        "_page_upper",
        "_pager",
        "_ready",
        "is_head_paged",
        "refused",
    )

    def __init__(self, ready: Backlog, log: QueueLog, pager: Pager) -> None:
        self._ready = ready
        self._log = log
        self._pager = pager
        # What the disk refused while a consumer had it: its number says it is written.
        self.refused: set[int] = set()
        # The last message that the paging log was given: it takes them in order.
        self._page_upper: i64 = 0
        self.is_head_paged: bool = False
        # Whether something has come back that can be neither paged nor dropped.
        self._is_fold_refused: bool = False

    def fold_returned(self, next_seq: i64, is_anything_out: bool) -> None:
        """Nobody has anything of the queue: what came back may leave memory too."""
        ready = self._ready
        if not ready.has_returned:
            self._is_fold_refused = False
            return
        if is_anything_out or self._is_fold_refused:
            return
        if (self.refused and ready.contains_returned(self.refused)) or (
            self._page_upper and not ready.can_be_paged(self._page_upper)
        ):
            # They are looked at again when they are gone.
            self._is_fold_refused = True
            return
        self.refused.clear()
        ready.fold_returned(next_seq)
        self.is_head_paged = False

    def drop(self, units: i64) -> i64:
        """Let go of what is behind the window; return how many units that was."""
        ready = self._ready
        done = ready.drop_written(self._pager.written, units)
        return done + self._page_next(units - done)

    def drop_unread(self, units: i64) -> i64:
        """Nobody consumes: let go of what the log has, up to the first it has not."""
        ready = self._ready
        if not (ready.stored_cost and self.split(0)):
            return 0
        return ready.drop_written(self._pager.written, units)

    def split(self, window: i64) -> bool:
        """Keep a window, and what is behind it may go; False if there is no more."""
        ready = self._ready
        if not ready.is_split:
            if not ready.split(window):
                return False
            self.is_head_paged = False
        return True

    def _page_next(self, units: i64) -> i64:
        """Put what is in no log into the paging log, if it has to go."""
        ready = self._ready
        done: i64 = 0
        while done < units:
            reference = ready.next_to_leave()
            if reference is None:
                break
            if ready.is_stored(reference):
                if not ready.has_leaving:
                    # It will be written without our doing.
                    break
            elif not (self._page_head() and self._page(reference)):
                break
            ready.leave()
            done += PAGE_UNITS
        return done

    def _page_head(self) -> bool:
        """Page the window before anything behind it; return whether that is done."""
        if not self.is_head_paged:
            for reference in self._ready.unpaged_in_head():
                if not self._page(reference):
                    return False
            self.is_head_paged = True
        return True

    def _page(self, reference: Reference) -> bool:
        if reference.page >= 0:
            return True
        if not self._pager.page(reference, self._log.page_id):
            return False
        self._page_upper = reference.seq
        return True

    def drop_head(self, units: i64) -> i64:
        """Let go of the window; return how many units that was."""
        ready = self._ready
        written = self._pager.written
        done: i64 = 0
        self._page_head()
        while done < units and ready.drop_last_of_head(written):
            done += 1
        return done
