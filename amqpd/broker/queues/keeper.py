"""What a queue asks of whoever keeps its rules: limits, deadlines, dead letters.

The queue knows this face only; `queue_keeper` has what is behind it. What a message
that has just come leads to must wait until all its queues have it, since each of
them adds itself to what the log was given last:

    queue.publish      marks the queue in the round
    round.run()        by whoever published, afterwards: too long? expired?
"""

from typing import final

from mypy_extensions import i64

from amqpd.broker.messages.message import Message
from amqpd.broker.queues.delivery import Reference, ReferenceOwner
from amqpd.broker.queues.queue_rules import NO_RULES, QueueRules
from store.cold_deadlines import RunDeadlines
from store.record import Returned


class Keeper:
    """Keeps the rules of one queue."""

    def __init__(self) -> None:
        # Whether it is marked in the round.
        self.is_marked = False
        # Of all levels, if the queue has priorities.
        self.rules = NO_RULES
        # Dead letters that are here until others take them, and octets of their bodies.
        self.held_count: i64 = 0
        self.held_size: i64 = 0

    def change_rules(self, rules: QueueRules) -> None:
        """Keep other rules from now on, also for what is in the queue already."""
        raise NotImplementedError

    def for_level(self, level: ReferenceOwner) -> "Keeper":
        """Return a keeper for a level of the queue: the lengths are those of all."""
        raise NotImplementedError

    def drop(self, reference: Reference) -> None:
        """The first of too many was taken out."""
        raise NotImplementedError

    def on_published(self, message: Message, reference: Reference) -> None:
        """A message is the last one of the queue now."""
        raise NotImplementedError

    def look(self) -> None:
        """Do what the messages that have come lead to."""
        raise NotImplementedError

    def refuses(self, message: Message) -> bool:
        """Whether the queue has no room for one more, and refuses it."""
        raise NotImplementedError

    def on_refused(self, message: Message) -> None:
        """The queue has refused a message: it may be a dead letter all the same."""
        raise NotImplementedError

    def expire(self) -> bool:
        """Take out what has expired, a bounded number of messages.

        Returns False if what is first has, and cannot be taken out now.
        """
        raise NotImplementedError

    def may_deliver(self, reference: Reference) -> bool:
        """Whether one that was taken from the front has not expired.

        One that has is dealt with.
        """
        raise NotImplementedError

    def on_settled(self, reference: Reference) -> None:
        """An unacked one is done with."""
        raise NotImplementedError

    def reject(self, reference: Reference) -> None:
        """Settle an unacked one that is not wanted: it may be a dead letter."""
        raise NotImplementedError

    def may_return(self, reference: Reference, is_failed: bool) -> bool:
        """Whether an unacked one goes back to the queue now.

        One that does not is settled, or waits and comes later. Its message tells from
        now on how often it came back, if that is counted.
        """
        raise NotImplementedError

    def on_returned(self, reference: Reference) -> None:
        """An unacked one is ready again."""
        raise NotImplementedError

    def on_removed(self, references: list[Reference]) -> None:
        """Ready ones were taken out, and are nothing any more."""
        raise NotImplementedError

    def on_loaded(self, references: list[Reference]) -> None:
        """These are about to be in memory again."""
        raise NotImplementedError

    def on_window(self) -> None:
        """A window has been read."""
        raise NotImplementedError

    def wants_window(self) -> bool:
        """Whether the front is to be read although nobody consumes."""
        raise NotImplementedError

    def on_deadlines_found(self, found: RunDeadlines, first: i64, end: i64) -> None:
        """These of a segment's deadlines are of messages that were there at a start."""
        raise NotImplementedError

    def on_purged(self) -> int:
        """Nothing is ready any more: drop what waits, too; return how many did."""
        raise NotImplementedError

    def waiting_count(self) -> int:
        """How many came back and are not ready yet, of all levels."""
        raise NotImplementedError

    def held_seqs(self) -> list[int]:
        """The dead letters that are here until others take them."""
        raise NotImplementedError

    def restore_counts(self, returned: dict[int, Returned]) -> None:
        """Begin with what had come back, or died, before the broker was started."""
        raise NotImplementedError


def held_count_of(keeper: Keeper | None) -> int:
    """How many dead letters are in a queue until others take them."""
    return 0 if keeper is None else int(keeper.held_count)


@final
class KeepersRound:
    """The keepers that have to look after their queues."""

    def __init__(self) -> None:
        self.has_work = False
        self._marked: list[Keeper] = []
        self._is_running = False

    def mark(self, keeper: Keeper) -> None:
        """Messages have come."""
        if not keeper.is_marked:
            keeper.is_marked = True
            self._marked.append(keeper)
            self.has_work = True

    def run(self) -> None:
        """Let each look, and those that this leads to."""
        if self._is_running:
            return
        self._is_running = True
        try:
            # What is dropped here may be published there: the list grows.
            for keeper in self._marked:
                keeper.is_marked = False
                keeper.look()
        finally:
            self._marked = []
            self.has_work = False
            self._is_running = False
