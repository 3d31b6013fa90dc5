"""Keeps the rules of one queue: how many, how long, how often, and what becomes of it.

    too long            drop from the front, or refuse what comes     (maxlen)
    its time is over    out, wherever it stands                       (expired)
    came back too often not again                                     (delivery_limit)
    came back           perhaps not at once                       (`delayed_retry`)
    rejected            not again                                     (rejected)

Each of these is a dead letter if the queue names an exchange for them, and gone if not.

The time to live of the queue is the same for all messages, so it is the front that
expires next: that needs no list. If the front is cold, it is read, whether or not
anybody consumes. Messages with a time of their own are in `Deadlines`. Time comes from
the broker's timers; a turn does a bounded number and comes back for the rest.

A message with no time at all (0) is delivered to a consumer that has room as soon as
all its queues have it, and expires if there is none; in the same way a queue that is
too long first gives its consumers what they can take.

Of a queue with priorities each level has a keeper, and what is too long are all levels
together: the first of the highest goes, as in RabbitMQ.
"""

from typing import Final, final

from mypy_extensions import i64

from amqpd.broker.delays.delayed_retry import DelayedRetry
from amqpd.broker.errors import ResourceError
from amqpd.broker.messages.death import (
    DELIVERY_LIMIT,
    EXPIRED,
    MAXLEN,
    REJECTED,
    with_delivery_count,
)
from amqpd.broker.messages.message import RECOVERED, Message
from amqpd.broker.queues.deadlines import Deadlines
from amqpd.broker.queues.delivery import Reference, ReferenceOwner
from amqpd.broker.queues.dispatch import VISIT_MESSAGES_MAX, VISIT_SIZE_MAX
from amqpd.broker.queues.keeper import Keeper, KeepersRound
from amqpd.broker.queues.limits import Overflow, RetryType
from amqpd.broker.queues.priority_queue import PriorityQueue
from amqpd.broker.queues.queue import Queue
from amqpd.broker.queues.queue_rules import QueueRules
from amqpd.broker.rules.dead_letters import DeadLetters
from amqpd.broker.rules.held_letters import HeldLetters
from amqpd.broker.timers import NEVER_MS, Clock, Ringing, Timers
from store.cold_deadlines import RunDeadlines
from store.record import Returned

# So many messages expire at a time: others want their turn too.
EXPIRE_MAX: Final[i64] = 256
# Cold ones that nobody wants to read; those that are read to be dead letters.
COLD_MAX: Final = 500
COLD_READ_MAX: Final = 64
# So many are ready again, and so many are dropped, at a time.
RETRY_COUNT_MAX: Final = 64
DROP_MAX: Final[i64] = 1000
# While the disk is full dead letters stay where they are, and are tried again.
RETRY_MS: Final[i64] = 1000


@final
class QueueKeeper(Keeper, Ringing):
    """The keeper of one queue."""

    def __init__(
        self,
        queue: Queue,
        rules: QueueRules,
        dead_letters: DeadLetters,
        timers: Timers,
        keepers: KeepersRound,
        face: Queue | None = None,
    ) -> None:
        super().__init__()
        self._queue = queue
        # All levels together, if the queue is one of several.
        self._whole: Queue = queue if face is None else face
        self._limits = rules.limits
        self._dead_letters = dead_letters
        self._timers = timers
        self._keepers = keepers
        self._deadlines = Deadlines()
        self._clock = Clock(self)
        # When the clock rings at the latest.
        self._due_ms: i64 = NEVER_MS
        self._is_ringing = False
        # How often messages came back, by seq.
        self._counts: dict[int, int] = {}
        # Who waits before they are ready again, once somebody does; and from before the
        # broker was started, those who may be found ready too early.
        self._retry: DelayedRetry | None = None
        self._not_before_ms: dict[int, int] = {}
        # Dead letters that stay until others have them, once that was asked for.
        self._held: HeldLetters | None = None
        # Whether the queue is delivering or expiring: neither begins within the other.
        self._is_busy = False
        self._is_dead_lettering = False
        # Whether nothing needs to be known of a message that is dropped for length.
        self._drops_unread: bool = False
        # Whether more is too much than was dropped at once.
        self._is_shortening = False
        self._adopt(rules)

    def _adopt(self, rules: QueueRules) -> None:
        queue = self._queue
        limits = rules.limits
        self.rules = rules
        self._limits = limits
        self._is_dead_lettering = limits.dead_letter_exchange is not None
        self._drops_unread = not self._is_dead_lettering and limits.size_max < 0
        if limits.falls_back:
            self._dead_letters.tell_fallback(self._queue)
        if self._held is not None:
            self._held.adopt(limits)
        queue.can_refuse = queue.seen_ids is not None or (
            limits.has_length and limits.overflow is not Overflow.DROP_HEAD
        )
        queue.is_ruled = (
            limits.has_length
            or limits.ttl_ms >= 0
            or limits.counts_deliveries
            or self._is_dead_lettering
        )
        queue.has_deadlines = limits.ttl_ms >= 0 or self._deadlines.next_ms < NEVER_MS
        queue.ready.count_bodies(limits.size_max >= 0)
        if not limits.counts_deliveries:
            self._counts.clear()
        if limits.ttl_ms >= 0:
            # What is there already: the front is looked at when the clock starts.
            self._due_ms = NEVER_MS
            self._timers.start(self._clock)

    def change_rules(self, rules: QueueRules) -> None:
        """Keep other rules from now on, also for what is in the queue already."""
        self._adopt(rules)
        if self._whole is not self._queue:
            return
        for part in self._parts():
            if part is not self._queue and part.keeper is not None:
                part.keeper.change_rules(rules)
        if rules.limits.has_length:
            self._keepers.mark(self)

    def for_level(self, level: ReferenceOwner) -> Keeper:
        """Return a keeper for a level of the queue: the lengths are those of all."""
        assert isinstance(level, Queue)
        return QueueKeeper(
            level,
            self.rules,
            self._dead_letters,
            self._timers,
            self._keepers,
            self._queue,
        )

    def _parts(self) -> list[Queue]:
        whole = self._whole
        return whole.parts() if isinstance(whole, PriorityQueue) else [whole]

    # -- messages that come ---------------------------------------------------

    def on_published(self, message: Message, reference: Reference) -> None:
        """A message is the last one of the queue now."""
        if message.expires_ms:
            self._follow(reference, message)
        limits = self._limits
        deadline_ms = self._limits.deadline_ms(message)
        if deadline_ms < NEVER_MS:
            self._ring_at(deadline_ms)
        if limits.has_length or deadline_ms <= message.enqueued_ms:
            self._keepers.mark(self)

    def look(self) -> None:
        """Drop what is too much, after consumers had what they can take."""
        queue = self._queue
        if queue.is_deleted:
            return
        if not self._is_busy:
            if self._is_too_long(0, 0) or self._has_timeless():
                self._deliver()
            if queue.has_deadlines:
                self.expire()
        self._shorten()

    def _deliver(self) -> None:
        """Give consumers what they can take, as if it had never been in the queue."""
        if self._is_busy:
            return
        self._is_busy = True
        try:
            # A visit is of one level.
            for _ in self._parts():
                if not self._whole.dispatch(VISIT_MESSAGES_MAX, VISIT_SIZE_MAX):
                    break
        finally:
            self._is_busy = False

    def refuses(self, message: Message) -> bool:
        """Whether the queue has no room for one more, and refuses it."""
        if self._limits.overflow is Overflow.DROP_HEAD:
            return False
        size = message.body_size()
        if self._is_too_long(1, size):
            self._deliver()
        return self._is_too_long(1, size)

    def on_refused(self, message: Message) -> None:
        """The queue has refused a message: it may be a dead letter all the same."""
        if self._limits.overflow is Overflow.REJECT_PUBLISH_DLX:
            self._dead_letters.send(self._queue, message, MAXLEN, self._limits)
            self._keepers.run()

    def _has_timeless(self) -> bool:
        """Whether something may be ready that is to be delivered now or never."""
        queue = self._queue
        return queue.has_deadlines and self._due_ms <= self._timers.now_ms

    def _is_too_long(self, more: i64, size: i64) -> bool:
        limits = self._limits
        more += self.held_count
        size += self.held_size
        if limits.retry_type is not RetryType.DISABLED:
            # What waits is not ready, but has its room in the queue.
            more += self.waiting_count()
            size += self._waiting_size()
        if 0 <= limits.length_max < self._whole.ready_count + more:
            return True
        if limits.size_max < 0:
            return False
        for part in self._parts():
            size += part.ready.body_size + part.ready.cold_body_size
        return size > limits.size_max

    def waiting_count(self) -> int:
        """How many came back and are not ready yet, of all levels."""
        count = 0
        for keeper in self._keepers_of_levels():
            if keeper._retry is not None:
                count += int(keeper._retry.count)
        return count

    def _waiting_size(self) -> i64:
        size: i64 = 0
        for keeper in self._keepers_of_levels():
            if keeper._retry is not None:
                size += keeper._retry.body_size
        return size

    def _keepers_of_levels(self) -> "list[QueueKeeper]":
        keepers: list[QueueKeeper] = []
        for part in self._parts():
            if isinstance(part.keeper, QueueKeeper):
                keepers.append(part.keeper)
        return keepers

    def _shorten(self) -> None:
        if self._limits.overflow is not Overflow.DROP_HEAD:
            return
        left = DROP_MAX
        self._is_shortening = False
        while self._is_too_long(0, 0) and self._whole.ready_count:
            if left == 0:
                # Only after a limit was lowered: the rest when others had their turn.
                self._is_shortening = True
                self._ring_at(self._timers.now_ms + 1)
                return
            left -= 1
            if self._is_stuck or not self._drop_first():
                return

    def _drop_first(self) -> bool:
        """Drop the first of the highest level; return False if it cannot be read."""
        for part in self._parts():
            if part.ready.count:
                if self._drops_unread and part.drop_first_unread():
                    return True
                try:
                    part.read_in_place()
                except ResourceError:
                    return False
                if part.ready.at_hand and part.keeper is not None:
                    part.keeper.drop(part.ready.pop())
                    return True
        return False

    def drop(self, reference: Reference) -> None:
        """The first of too many was taken out."""
        self._deadlines.discard(reference.seq)
        self._end(reference, reference.message, MAXLEN)

    # -- messages that expire -------------------------------------------------

    def expire(self) -> bool:
        """Take out what has expired, a bounded number of messages.

        Returns False if what is first has, and cannot be taken out now.
        """
        if self._is_busy:
            return True
        now_ms = self._timers.now_ms
        if self._is_stuck:
            ready = self._queue.ready
            self._ring_at(now_ms + RETRY_MS)
            return not ready.at_hand or (
                self._limits.deadline_ms(ready.first().message) > now_ms
            )
        self._is_busy = True
        try:
            self._expire(now_ms)
        finally:
            self._is_busy = False
        return True

    @property
    def _is_stuck(self) -> bool:
        """Whether dead letters have nowhere to go: the disk is full."""
        return self._is_dead_lettering and self._queue.log.is_disk_full

    def may_deliver(self, reference: Reference) -> bool:
        """Whether one that was taken from the front has not expired."""
        message = reference.message
        self._deadlines.discard(reference.seq)
        deadline_ms = self._limits.deadline_ms(message)
        now_ms = self._timers.now_ms
        if deadline_ms > now_ms or (
            # Now or never, and now it is.
            deadline_ms <= message.enqueued_ms and not reference.redelivered
        ):
            return not (self._not_before_ms and self._waits_still(reference))
        was_busy = self._is_busy
        self._is_busy = True
        try:
            self._end(reference, message, EXPIRED)
        finally:
            self._is_busy = was_busy
        return False

    def on_due(self, now_ms: i64) -> i64:
        """The clock rings: return when it shall ring again."""
        self._due_ms = NEVER_MS
        if self._queue.is_deleted:
            return NEVER_MS
        self._is_ringing = True
        try:
            self.expire()
            if self._retry is not None:
                self._put_back_due(self._retry, now_ms)
            if self._is_shortening:
                self._shorten()
        finally:
            self._is_ringing = False
        self._whole.wake()
        return self._due_ms

    def _expire(self, now_ms: i64) -> None:
        left = EXPIRE_MAX
        ready = self._queue.ready
        if self._limits.ttl_ms >= 0:
            while left and ready.at_hand:
                first = ready.first()
                if self._limits.deadline_ms(first.message) > now_ms:
                    break
                left -= 1
                self._deadlines.discard(first.seq)
                reference = ready.pop()
                self._end(reference, reference.message, EXPIRED)
        while left:
            due = self._deadlines.take_due(now_ms)
            if due is None:
                break
            left -= 1
            message = ready.strike(due)
            self._end(due, message, EXPIRED)
        self._expire_cold(now_ms)
        self._plan(now_ms, left == 0)

    def _expire_cold(self, now_ms: i64) -> None:
        queue = self._queue
        ready = queue.ready
        count_max = COLD_READ_MAX if self._is_dead_lettering else COLD_MAX
        for noted in self._deadlines.take_due_cold(now_ms, count_max):
            seq, is_paged = abs(noted), noted < 0
            if not ready.has_cold(seq) or not queue.log.is_cold_live(seq, is_paged):
                continue
            reference: Reference | None = None
            if self._is_dead_lettering:
                reference = queue.log.read_cold(seq, is_paged)
                if reference is None:
                    # It cannot be read now; when it can, it is seen to have expired.
                    continue
            ready.strike_cold(seq, is_paged)
            if reference is None:
                queue.log.forget_cold(seq, is_paged)
            else:
                self._end(reference, reference.message, EXPIRED)

    def _plan(self, now_ms: i64, has_more: bool) -> None:
        """Say when the clock is to ring next."""
        ready = self._queue.ready
        next_ms = now_ms if has_more else self._deadlines.next_ms
        if self._limits.ttl_ms >= 0:
            if ready.behind and not ready.at_hand:
                # What is not cold is at hand at once, else it is when it has been read.
                self._queue.refill()
            if ready.at_hand:
                next_ms = min(next_ms, self._limits.deadline_ms(ready.first().message))
        if next_ms < NEVER_MS:
            # What is left of now has its turn when others have had theirs.
            self._ring_at(max(next_ms, now_ms + 1))

    def _ring_at(self, due_ms: i64) -> None:
        if due_ms < self._due_ms:
            self._due_ms = due_ms
            if not self._is_ringing:
                self._timers.start(self._clock)

    def ring_ms(self) -> i64:
        """When the clock is to ring."""
        if self._due_ms == NEVER_MS and self._limits.ttl_ms >= 0:
            # A queue that has just been made: at once.
            return 0
        return self._due_ms

    def _follow(self, reference: Reference, message: Message) -> None:
        queue = self._queue
        queue.has_deadlines = True
        queue.ready.deadlines = self._deadlines
        self._deadlines.add(reference, message.expires_ms)

    def on_loaded(self, references: list[Reference]) -> None:
        """These are about to be in memory again."""
        for reference in references:
            message = reference.message
            if message.expires_ms:
                self._follow(reference, message)
                self._ring_at(message.expires_ms)
        for reference in references if self._counts else []:
            count = self._counts.get(int(reference.seq), 0)
            if count:
                reference.message = with_delivery_count(reference.message, count)

    def on_deadlines_found(self, found: RunDeadlines, first: i64, end: i64) -> None:
        """These of a segment's deadlines are of messages that were there at a start."""
        queue = self._queue
        if not queue.ready.cold_count:
            return
        queue.has_deadlines = True
        queue.ready.deadlines = self._deadlines
        for at in range(first, end):
            self._deadlines.add_cold(found.seq(at), found.second(at))
        self._ring_at(self._deadlines.next_ms)

    def on_window(self) -> None:
        """A window has been read: its front may have expired."""
        if self._queue.has_deadlines:
            self._ring_at(self._timers.now_ms)

    def wants_window(self) -> bool:
        """Whether the front is to be read although nobody consumes."""
        return self._limits.ttl_ms >= 0

    def on_purged(self) -> int:
        """Nothing is ready any more: drop what waits, too; return how many did."""
        self._deadlines.clear()
        if self._held is not None and self._queue.is_deleted:
            self._held.clear()
        if self._retry is None:
            return 0
        seqs = self._retry.clear()
        for seq in seqs:
            self._counts.pop(seq, None)
        return len(seqs)

    # -- messages that come back, or do not -----------------------------------

    def on_settled(self, reference: Reference) -> None:
        """An unacked one is done with."""
        if self._counts:
            self._counts.pop(int(reference.seq), None)

    def reject(self, reference: Reference) -> None:
        """Settle an unacked one that is not wanted: it may be a dead letter."""
        self._end(reference, reference.message, REJECTED)

    def may_return(self, reference: Reference, is_failed: bool) -> bool:
        """Whether an unacked one goes back to the queue now.

        One that does not is settled, or waits and comes later. Its message tells from
        now on how often it came back, if that is counted.
        """
        limits = self._limits
        if not limits.counts_deliveries:
            return True
        seq = int(reference.seq)
        count = self._counts.get(seq, 0) + 1
        if 0 <= limits.delivery_max < count:
            self._end(reference, reference.message, DELIVERY_LIMIT)
            return False
        self._counts[seq] = count
        reference.message = with_delivery_count(reference.message, count)
        delay_ms = limits.retry_delay_ms(count, is_failed)
        due_ms: i64 = self._timers.now_ms + delay_ms if delay_ms else 0
        self._queue.log.note_returned(reference, count, due_ms)
        if delay_ms:
            self._wait(reference, due_ms)
            self._shorten()
        return not delay_ms

    def _wait(self, reference: Reference, due_ms: i64) -> None:
        """Let one wait that is in no line any more, but not beyond its time."""
        if self._retry is None:
            self._retry = DelayedRetry(self._queue.log, self._queue.log.use)
        self._retry.wait(
            reference, min(due_ms, self._limits.deadline_ms(reference.message))
        )
        self._ring_at(self._retry.next_ms)

    def _waits_still(self, reference: Reference) -> bool:
        """Let one that waited when the broker was stopped wait for the rest of it."""
        due_ms = self._not_before_ms.pop(int(reference.seq), 0)
        if due_ms <= self._timers.now_ms:
            return False
        self._wait(reference, due_ms)
        return True

    def _put_back_due(self, retry: DelayedRetry, now_ms: i64) -> None:
        left = RETRY_COUNT_MAX
        while left:
            reference = retry.take_due(now_ms)
            if reference is None:
                break
            left -= 1
            if reference.message.number == RECOVERED:
                # The log has it as it was published.
                count = self._counts.get(int(reference.seq), 0)
                reference.message = with_delivery_count(reference.message, count)
            self._queue.take_back(reference)
        if retry.count:
            # What is left of now has its turn when others have had theirs.
            self._ring_at(max(retry.next_ms, now_ms + 1))

    def on_returned(self, reference: Reference) -> None:
        """An unacked one is ready again: it may have expired, or be too much."""
        message = reference.message
        if message.expires_ms:
            self._follow(reference, message)
        deadline_ms = self._limits.deadline_ms(message)
        if deadline_ms < NEVER_MS:
            self._ring_at(deadline_ms)
            if deadline_ms <= self._timers.now_ms:
                self.expire()
        self._shorten()

    def on_removed(self, references: list[Reference]) -> None:
        """Ready ones were taken out, and are nothing any more."""
        for reference in references:
            self._deadlines.discard(reference.seq)

    def held_seqs(self) -> list[int]:
        """The dead letters that are here until others take them."""
        return [] if self._held is None else self._held.seqs()

    def _holding(self) -> HeldLetters:
        if self._held is None:
            self._held = HeldLetters(
                self._queue, self, self._dead_letters, self._timers
            )
        return self._held

    def restore_counts(self, returned: dict[int, Returned]) -> None:
        """Begin with what had come back, or died, before the broker was started."""
        dead = [one for one in returned.values() if one.not_before_ms < 0]
        if dead:
            self._holding().restore(dead)
        if self._limits.counts_deliveries:
            for seq, one in returned.items():
                if one.not_before_ms < 0:
                    continue
                self._counts[seq] = int(one.delivery_count)
                if one.not_before_ms:
                    self._not_before_ms[seq] = int(one.not_before_ms)
                    # They are asked about when their turn comes.
                    self._queue.has_deadlines = True

    def _end(self, reference: Reference, message: Message, reason: str) -> None:
        """One that is in no line any more: on to the exchange, or gone."""
        if self._counts:
            self._counts.pop(int(reference.seq), None)
        if self._limits.is_at_least_once:
            self._holding().end(reference, message, reason)
        elif self._is_dead_lettering:
            self._dead_letters.move(
                self._queue, reference, message, reason, self._limits
            )
        else:
            self._queue.log.forget(reference, message)
