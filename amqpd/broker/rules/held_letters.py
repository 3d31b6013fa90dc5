"""Dead letters that stay in their queue until others have them: at-least-once.

    dies ---> tried at once --- all queues take it ---> gone, in one batch of the log
                   |                                     ^
      nobody can have it, or one refuses it              |
                   v                                     |
             held, in order  --- tried again, 32 at most +

What is held is not ready: no consumer gets it, and neither purging nor time takes it
away. It counts for the length of its queue, and goes with the queue. Unlike RabbitMQ,
which sends a letter to those that have room and later once more to the others, all get
it or none: it is in its queue or in theirs, and nowhere twice.

They are tried again as soon as exchanges, bindings, queues or rules have changed, else
after a while that doubles as long as nothing moves: a queue with room does not call.
While the first 32 are stuck the others are not looked at, which is RabbitMQ's prefetch.
If the queue is told to send them at most once, they go like that, or are gone.

The log has a held message as any other that is not settled, with a note that it is
dead, why and since when. So after a restart it is where it was. Of those beyond the
first 32 nothing but that stays in memory once the log has them.
"""

import logging
from collections import deque
from typing import Final, final

from mypy_extensions import i64

from amqpd.broker.messages.death import DELIVERY_LIMIT, EXPIRED, MAXLEN, REJECTED
from amqpd.broker.messages.message import Message
from amqpd.broker.queues.delivery import Reference, ReferenceOwner
from amqpd.broker.queues.keeper import Keeper
from amqpd.broker.queues.limits import Limits
from amqpd.broker.queues.queue import Queue
from amqpd.broker.rules.dead_letters import DeadLetters, Waiting
from amqpd.broker.timers import NEVER_MS, Clock, Ringing, Timers
from store.record import Returned

logger = logging.getLogger("amqpd.queue")

# So many that are stuck are tried before the others are left alone.
WINDOW_COUNT: Final = 32
# Those may take so much memory, if the log has them.
HOT_COST_MAX: Final[i64] = 4 * 1024 * 1024
# So many go at a time: others want their turn too.
TRY_MAX: Final = 256
# From one time that they are tried to the next, as long as nothing moves.
PAUSE_MIN_MS: Final[i64] = 100
PAUSE_MAX_MS: Final[i64] = 5000
# While the disk is full everything stays.
DISK_PAUSE_MS: Final[i64] = 1000
# What is in the way is told so often at most, unless it is something else.
TELL_PAUSE_MS: Final[i64] = 60_000

_REASONS: Final = (REJECTED, EXPIRED, DELIVERY_LIMIT, MAXLEN)
# A mark has so many bits for the reason.
_REASON_BITS: Final = 3


@final
class HeldLetter:
    """One of them."""

    __slots__ = ("died_ms", "number", "reason", "reference", "seq", "size")

    def __init__(
        self, number: int, seq: i64, reason: str, died_ms: i64, size: i64
    ) -> None:
        # Its place in the line.
        self.number = number
        self.seq: i64 = seq
        self.reason = reason
        self.died_ms: i64 = died_ms
        # Octets of its body; of what was there at a start: about.
        self.size: i64 = size
        # None: only the log has it.
        self.reference: Reference | None = None


@final
class HeldLetters(Waiting, Ringing):
    """The dead letters of one queue."""

    def __init__(
        self, queue: Queue, keeper: Keeper, dead_letters: DeadLetters, timers: Timers
    ) -> None:
        self._queue = queue
        self._keeper = keeper
        self._limits = keeper.rules.limits
        self._dead_letters = dead_letters
        self._timers = timers
        self._clock = Clock(self)
        self._due_ms: i64 = NEVER_MS
        self._pause_ms: i64 = PAUSE_MIN_MS
        self._tried_ms: i64 = 0
        self._number = 0
        self._line: deque[HeldLetter] = deque()
        # Those that leave memory as soon as the log has them.
        self._cooling: deque[HeldLetter] = deque()
        self._hot_cost: i64 = 0
        self._told = ""
        self._told_ms: i64 = 0

    # -- they come ------------------------------------------------------------

    def end(self, reference: Reference, message: Message, reason: str) -> None:
        """One has died that is in no line of the queue any more."""
        counts = self._dead_letters.held_counts
        counts[reason] = counts.get(reason, 0) + 1
        letter = self._letter(
            reference.seq, reason, self._timers.now_ms, message.body_size()
        )
        kept = Reference(self._queue, message, reference.seq)
        kept.page = reference.page
        is_first = not self._keeper.held_count
        if is_first and not self._queue.log.is_disk_full and self._sends(letter, kept):
            return
        self._count(letter, 1)
        self._queue.log.note_returned(kept, 0, mark_of(letter))
        self._line.append(letter)
        self._keep(letter, kept)
        self._cool()
        if self._keeper.held_count <= WINDOW_COUNT:
            self._ring_at(max(self._timers.now_ms, self._tried_ms + PAUSE_MIN_MS))

    def restore(self, found: list[Returned]) -> None:
        """Begin with those that had died before the broker was started."""
        ready = self._queue.ready
        for one in sorted(found, key=_time_of_death):
            if not ready.has_cold(one.seq):
                continue
            size = ready.cold_body_size // ready.cold_count
            ready.strike_cold(one.seq, False)
            reason, died_ms = reason_and_time(one.not_before_ms)
            letter = self._letter(one.seq, reason, died_ms, size)
            self._count(letter, 1)
            self._line.append(letter)
        if self._line:
            self._ring_at(self._timers.now_ms)

    def _letter(self, seq: i64, reason: str, died_ms: i64, size: i64) -> HeldLetter:
        self._number += 1
        return HeldLetter(self._number, seq, reason, died_ms, size)

    def take_back(self, letter: HeldLetter, reference: Reference) -> None:
        """The disk refused to have one moved: it has its place again."""
        if self._queue.is_deleted:
            return
        kept = Reference(self._queue, reference.message, reference.seq)
        self._count(letter, 1)
        self._queue.log.note_returned(kept, 0, mark_of(letter))
        self._keep(letter, kept)
        at = 0
        while at < len(self._line) and self._line[at].number < letter.number:
            at += 1
        self._line.insert(at, letter)
        self._ring_at(self._timers.now_ms + DISK_PAUSE_MS)

    # -- they are tried -------------------------------------------------------

    def adopt(self, limits: Limits) -> None:
        """The queue has other rules."""
        self._limits = limits
        self.try_soon()

    def try_soon(self) -> None:
        """There has been a change: it may be theirs."""
        if self._keeper.held_count:
            self._pause_ms = PAUSE_MIN_MS
            self._ring_at(max(self._timers.now_ms, self._tried_ms + PAUSE_MIN_MS))

    def _ring_at(self, due_ms: i64) -> None:
        if due_ms < self._due_ms:
            self._due_ms = due_ms
            self._timers.start(self._clock)

    def ring_ms(self) -> i64:
        """When the clock is to ring."""
        return self._due_ms

    def on_due(self, now_ms: i64) -> i64:
        """The clock rings: try them; return when it shall ring again."""
        self._due_ms = NEVER_MS
        next_ms = now_ms + DISK_PAUSE_MS
        if not self._queue.log.is_disk_full:
            next_ms = self._try_all(now_ms)
        self._due_ms = min(self._due_ms, next_ms)
        return self._due_ms

    def _try_all(self, now_ms: i64) -> i64:
        """Try the first ones; return when to do so again."""
        line = self._line
        stuck: list[HeldLetter] = []
        left = TRY_MAX
        moved = False
        try:
            while line and left and len(stuck) < WINDOW_COUNT:
                left -= 1
                # Whatever may be raised, each keeps its place.
                stuck.append(line.popleft())
                if self._try(stuck[-1]):
                    stuck.pop()
                    moved = True
        finally:
            line.extendleft(reversed(stuck))
        self._tried_ms = now_ms
        self._cool()
        if not line:
            return NEVER_MS
        if not left:
            # What is left of now has its turn when others have had theirs.
            return now_ms + 1
        self._pause_ms = PAUSE_MIN_MS if moved else self._pause_ms * 2
        self._pause_ms = min(self._pause_ms, PAUSE_MAX_MS)
        return now_ms + self._pause_ms

    def _try(self, letter: HeldLetter) -> bool:
        """Whether one is not here any more."""
        log = self._queue.log
        reference = letter.reference or log.read_cold(int(letter.seq), False)
        if reference is None:
            if log.has(int(letter.seq)):
                # It cannot be read now.
                return False
            # Damaged: the pager has told of it.
            self._count(letter, -1)
            return True
        # It counts while it is tried: where it goes may be where it is.
        if not self._sends(letter, reference):
            if letter.reference is None and self._has_place(reference):
                self._keep(letter, reference)
            return False
        if letter.reference is not None:
            self._let_go(letter, letter.reference)
        self._count(letter, -1)
        return True

    def _sends(self, letter: HeldLetter, reference: Reference) -> bool:
        """Send one on, if its way is free."""
        limits = self._limits
        if not limits.is_at_least_once:
            self._dead_letters.move(
                self._queue,
                reference,
                reference.message,
                letter.reason,
                limits,
            )
            return True
        obstacle = self._dead_letters.hand_over(
            self._queue,
            reference,
            letter.reason,
            limits,
            letter.died_ms,
            MovedLetter(self, letter),
        )
        if obstacle:
            self._tell(obstacle)
        return not obstacle

    def _tell(self, obstacle: str) -> None:
        now_ms = self._timers.now_ms
        if obstacle == self._told and now_ms < self._told_ms + TELL_PAUSE_MS:
            return
        self._told = obstacle
        self._told_ms = now_ms
        logger.warning(
            "dead letters of queue '%s' in vhost '%s' are kept there: %s",
            self._queue.name,
            self._queue.vhost_name,
            obstacle,
        )

    # -- they are counted, and in memory or not -------------------------------

    def seqs(self) -> list[int]:
        """All of them."""
        return [int(letter.seq) for letter in self._line]

    def clear(self) -> None:
        """The queue is gone, and the log knows."""
        for letter in self._line:
            if letter.reference is not None:
                self._let_go(letter, letter.reference)
            self._count(letter, -1)
        self._line.clear()
        self._cooling.clear()

    def _count(self, letter: HeldLetter, by: i64) -> None:
        self._keeper.held_count += by
        self._keeper.held_size += letter.size * by
        if self._keeper.held_count:
            self._dead_letters.waiting[self] = None
        else:
            self._dead_letters.waiting.pop(self, None)

    def _has_place(self, reference: Reference) -> bool:
        """Whether one stays in memory: it is among the first."""
        if self._keeper.held_count > WINDOW_COUNT:
            return False
        return self._hot_cost + reference.message.cost <= HOT_COST_MAX

    def _keep(self, letter: HeldLetter, reference: Reference) -> None:
        if not self._has_place(reference):
            self._cooling.append(letter)
        letter.reference = reference
        self._charge(reference.message.cost)

    def _let_go(self, letter: HeldLetter, reference: Reference) -> None:
        letter.reference = None
        self._charge(-reference.message.cost)

    def _charge(self, cost: i64) -> None:
        self._hot_cost += cost
        self._queue.log.use.unacked += cost

    def _cool(self) -> None:
        """Let go of what the log has by now."""
        log = self._queue.log
        while self._cooling:
            letter = self._cooling[0]
            reference = letter.reference
            if reference is not None and log.is_stored(reference.message):
                if not log.is_written(reference.message):
                    return
                self._let_go(letter, reference)
            # What no log will ever have stays.
            self._cooling.popleft()


@final
class MovedLetter(ReferenceOwner):
    """Who gets a letter back if the disk refuses that it was moved."""

    def __init__(self, letters: HeldLetters, letter: HeldLetter) -> None:
        super().__init__()
        self._letters = letters
        self._letter = letter

    def take_back(self, reference: Reference) -> None:
        """It is still here."""
        self._letters.take_back(self._letter, reference)


def mark_of(letter: HeldLetter) -> i64:
    """How the log notes a death, where it notes when a message is due: a negative.

    Reason and time are in it.
    """
    reason = _REASONS.index(letter.reason) + 1
    return -((letter.died_ms << _REASON_BITS) + reason)


def reason_and_time(mark: int) -> tuple[str, int]:
    """What a mark tells."""
    number = -mark
    reason = number & ((1 << _REASON_BITS) - 1)
    return _REASONS[reason - 1], number >> _REASON_BITS


def _time_of_death(one: Returned) -> tuple[int, int]:
    return reason_and_time(one.not_before_ms)[1], one.seq
