"""Between the log and those who wait for it: what happens when a sync comes back.

The loop's ticker begins steps and brings them back; here the confirms, commits and
purges that waited are told, and messages that the disk would not take leave their
queues. Nothing here blocks.
"""

from collections.abc import Callable
from typing import cast, final

from mypy_extensions import i64

from amqpd.broker.ports import DurabilityWaiter, Step
from amqpd.broker.queues.delivery import Reference
from amqpd.broker.queues.pager import Pager
from amqpd.broker.queues.queue import Queue
from routing.deduplication import Ledger
from store.message_store import MessageStore
from store.sync_step import SyncStep


@final
class Durability:
    """The broker's syncs."""

    def __init__(
        self,
        pager: Pager,
        find_queue: Callable[[int], Queue | None],
        ledger: Ledger,
    ) -> None:
        self._store: MessageStore[DurabilityWaiter] = pager.store
        self._find_queue = find_queue
        self._ledger = ledger

    @property
    def is_wanted(self) -> bool:
        """Whether a client waits for a sync."""
        return self._store.is_wanted

    @property
    def waiting_count(self) -> i64:
        """How many confirms, commits and purges wait, also those in a sync."""
        return self._store.waiting_count

    @property
    def confirms_early(self) -> bool:
        """Whether a write is enough for those who wait."""
        return self._store.confirms_early

    @property
    def has_work(self) -> bool:
        """Whether anything waits to be written, with somebody waiting or not."""
        return self._store.has_work

    @property
    def bytes_waiting(self) -> i64:
        """Octets that no step has taken yet."""
        return self._store.bytes_waiting

    @property
    def bytes_in_flight(self) -> i64:
        """Octets in steps that have not come back."""
        return self._store.bytes_in_flight

    def wait(self, waiter: DurabilityWaiter, first: i64, last: i64) -> None:
        """Tell the waiter when everything that was done so far is on the disk."""
        self._store.wait(waiter, first, last)

    def begin(self, sync: bool, now_ms: i64) -> Step | None:
        """Take what waits into a step; None when there is nothing to do."""
        return self._store.begin(sync, now_ms)

    def complete(self, step: Step) -> BaseException | None:
        """Tell everybody what became of a step.

        Returns what makes the log unusable, if anything: the caller ends the process.
        """
        result = self._store.complete(cast(SyncStep[DurabilityWaiter], step))
        if result.refused:
            # Their publishers try again.
            self._ledger.forget_all()
        if result.lost:
            self._drop_lost(result.lost)
        for token in result.kept:
            assert isinstance(token, Reference)
            token.queue.take_back(token)
        for waiting in result.refused:
            waiting.token.on_refused(waiting.first, waiting.last)
        for waiting in result.durable:
            waiting.token.on_durable(waiting.first, waiting.last)
        return result.fatal

    def _drop_lost(self, lost: list[tuple[int, int]]) -> None:
        seqs: dict[int, set[int]] = {}
        for queue_id, seq in lost:
            seqs.setdefault(queue_id, set()).add(seq)
        for queue_id, refused in seqs.items():
            queue = self._find_queue(queue_id)
            if queue is not None:
                queue.part(queue_id).drop_refused(refused)
