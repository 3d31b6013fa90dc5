"""The waiting room of a delayed exchange: a queue that nobody sees.

    published > hot    in memory, by seq   --- due ---> back through the exchange
                cold   in a log only       --- due ---> read, some hundred at a time
                DueTimes                   for each, hot or cold: 16 octets

It has a queue's id in the logs and numbers its messages as a queue does, so they are as
durable, and leave memory as they do in any queue; but it has no name, no consumers and
no order but that of time. When a message is due it goes on (`DelayedMessages`).

When a message is due is said by the message: when it was published, and its header
`x-delay`. Nothing else is written down, so after a restart all that waits is read once,
in the background, window by window. What is due by then goes on as soon as it was read.
"""

import logging
from collections import deque
from typing import Final, final

from mypy_extensions import i64

from amqpd.broker.catalogue.catalogue import waiting_room_name
from amqpd.broker.delays.delayed_messages import DelayedMessages
from amqpd.broker.delays.due_times import NONE_DUE, DueTimes
from amqpd.broker.messages.delay import due_ms_of
from amqpd.broker.messages.message import RECOVERED, Message
from amqpd.broker.queues.cold_load import ColdLoad, LoadedWindow, message_of
from amqpd.broker.queues.delivery import Reference
from amqpd.broker.queues.dispatch import Dispatch
from amqpd.broker.queues.pager import IS_READ, PAGE_UNITS, Pager
from amqpd.broker.queues.queue import Queue
from amqpd.broker.queues.settled_seqs import SettledSeqs
from amqpd.broker.timers import NEVER_MS, Clock, Ringing, Timers
from store.cold_read import ColdRead
from store.replay import RecoveredQueue
from store.seq_ranges import ranges_of
from store.stored_message import StoredMessage

logger = logging.getLogger("amqpd.exchange")

# So many go on at a time: others want their turn too.
RELEASE_MAX: Final[i64] = 256
# So many are read at a time, if they are due; and while looking for what is.
READ_MAX: Final = 256
READ_SIZE: Final[i64] = 512 * 1024
# While the disk is full everything waits, and is tried again.
RETRY_MS: Final[i64] = 1000
# Lines are swept when more than this, and more than half, is not there any more.
VOID_MIN: Final = 256

_NO_HOLES: Final = SettledSeqs()
_NONE_RETURNED: Final[set[int]] = set()


@final
class DelayQueue(Queue, Ringing):
    """What waits at one exchange."""

    def __init__(
        self,
        queue_id: i64,
        exchange: str,
        vhost_name: str,
        durable: bool,
        dispatch: Dispatch,
        pager: Pager,
        messages: DelayedMessages,
        timers: Timers,
    ) -> None:
        super().__init__(
            queue_id,
            waiting_room_name(exchange),
            vhost_name,
            durable,
            False,
            None,
            {},
            b"",
            dispatch,
            pager,
        )
        # All that waits.
        self.delayed_count: i64 = 0
        self._exchange = exchange
        self._messages = messages
        self._timers = timers
        self._clock = Clock(self)
        self._due_ms: i64 = NEVER_MS
        # An entry is twice the seq, and one more for what only the paging log may have.
        self._due_times = DueTimes()
        self._hot: dict[int, Reference] = {}
        # Hot ones as they came: for the log, for none, and on their way to paging.
        self._stored: deque[int] = deque()
        self._unpaged: deque[int] = deque()
        self._paged: deque[int] = deque()
        # The last that the paging log was given: it takes them in order.
        self._page_upper: i64 = 0
        # What the disk refused while it was being read.
        self._refused: set[int] = set()
        # What is due and not sent on, in order: something before it is cold. What of it
        # is being read, and what of that was in memory all the same.
        self._due: deque[int] = deque()
        self._reading: deque[int] = deque()
        self._at_hand: dict[int, Reference] = {}
        # After a restart: what was not looked at yet.
        self._scan_first: i64 = 1
        self._scan_last: i64 = 0
        self._unscanned_count: i64 = 0

    # -- messages come --------------------------------------------------------

    def publish(self, message: Message) -> None:
        """Let a message wait for as long as it says."""
        seq = self.next_seq
        self.next_seq = seq + 1
        self.log.append(message, seq)
        self.delayed_count += 1
        due_ms = due_ms_of(message.content, message.enqueued_ms)
        self._keep(Reference(self, message, seq), due_ms)

    def restore(self, found: RecoveredQueue) -> None:
        """Begin with what the log has; when it is due is found out by and by."""
        self.next_seq = found.next_seq
        self.delayed_count = found.count
        self._unscanned_count = found.count
        if found.count:
            self._scan_first = found.first_seq
            self._scan_last = found.next_seq - 1
            self._want()

    def take_back(self, reference: Reference) -> None:
        """The disk refused to have a message moved on: it waits a little longer."""
        if not self.is_deleted:
            self.delayed_count += 1
            self._keep(reference, self._timers.now_ms + RETRY_MS)

    def drop_refused(self, seqs: set[int]) -> None:
        """Forget new messages that the disk refused."""
        for seq in seqs:
            reference = self._hot.pop(seq, None)
            if reference is not None:
                self._release(reference.message)
            else:
                reference = self._at_hand.pop(seq, None)
            if reference is not None:
                self._refused.add(seq)
                self.delayed_count -= 1

    def _keep(self, reference: Reference, due_ms: i64) -> None:
        message = reference.message
        seq = int(reference.seq)
        is_stored = self.log.is_stored(message)
        if is_stored:
            self._pager.use.stored += message.cost
            self._stored = self._with(self._stored, seq)
        else:
            self._pager.use.unstored += message.cost
            if reference.page < 0:
                self._unpaged = self._with(self._unpaged, seq)
        self._hot[seq] = reference
        if not self.is_held:
            self._pager.hold(self)
        self._plan(due_ms, seq, is_stored)

    @property
    def line_count(self) -> int:
        """How long the lines are of what is or was in memory."""
        return len(self._stored) + len(self._unpaged) + len(self._paged)

    def _with(self, line: deque[int], seq: int) -> deque[int]:
        """A line with one more; if most of it is void, another one."""
        line.append(seq)
        if len(line) > VOID_MIN + 2 * len(self._hot):
            return deque([each for each in line if each in self._hot or each == seq])
        return line

    def _plan(self, due_ms: i64, seq: i64, is_stored: bool) -> None:
        self._due_times.add(due_ms, seq * 2 + (0 if is_stored else 1))
        self._ring_at(due_ms)

    def _ring_at(self, due_ms: i64) -> None:
        if due_ms < self._due_ms:
            self._due_ms = due_ms
            self._timers.start(self._clock)

    def _release(self, message: Message) -> None:
        """It is not in memory any more."""
        if self.log.is_stored(message):
            self._pager.use.stored -= message.cost
        else:
            self._pager.use.unstored -= message.cost

    # -- messages go ----------------------------------------------------------

    def has_way(self, message: Message) -> bool:
        """Whether a message would go anywhere if its delay were over now."""
        return self._messages.has_way(self._exchange, message)

    def ring_ms(self) -> i64:
        """When the clock is to ring."""
        return self._due_ms

    def on_due(self, now_ms: i64) -> i64:
        """The clock rings: send on what is due; return when it shall ring again."""
        self._due_ms = NEVER_MS
        if self.is_deleted:
            return NEVER_MS
        next_ms = now_ms + RETRY_MS
        if not self.log.is_disk_full:
            self._line_up(now_ms)
            self._advance(now_ms)
            # What is left of now has its turn when others have had theirs; or, if
            # something must be read first, when it was.
            next_ms = max(self._due_times.next_ms, now_ms + 1)
            if self._due:
                next_ms = NEVER_MS
        self._due_ms = min(self._due_ms, next_ms)
        return self._due_ms

    def _line_up(self, now_ms: i64) -> None:
        """What is due stands in line, unless the line is long already."""
        while len(self._due) < RELEASE_MAX:
            entry = self._due_times.take_due(now_ms)
            if entry == NONE_DUE:
                break
            self._due.append(entry)

    def _advance(self, now_ms: i64) -> None:
        """Send on what is in memory of the line's beginning; ask for what is not."""
        while self._due and not self._reading:
            reference = self._hot.pop(self._due[0] >> 1, None)
            if reference is None:
                self._want()
                break
            self._due.popleft()
            self._release(reference.message)
            self._send(reference, now_ms)

    def _send(self, reference: Reference, now_ms: i64) -> None:
        """One that is in no line any more goes on."""
        if self.log.is_disk_full:
            self._keep(reference, now_ms + RETRY_MS)
            return
        self.delayed_count -= 1
        self._messages.move(self._exchange, self, reference, now_ms)

    def delete(self) -> int:
        """Drop everything; return how many waited."""
        self.is_deleted = True
        for reference in self._hot.values():
            self._release(reference.message)
        self._hot = {}
        self._at_hand = {}
        for line in (self._stored, self._unpaged, self._paged, self._due):
            line.clear()
        self._due_times.clear()
        self._pager.forget(self)
        self.log.forget_queue()
        count = int(self.delayed_count)
        self.delayed_count = 0
        return count

    # -- out of memory --------------------------------------------------------

    def has_memory(self) -> bool:
        """Whether anything is in memory."""
        return bool(self._hot)

    def page_out(self, units: i64, is_all_over: bool) -> i64:
        """Let go of messages; return how many units of work that was.

        Unless `is_all_over`, only what is in the log has to go.
        """
        done = self._drop(self._stored, units)
        if is_all_over:
            done += self._page_next(units - done)
            done += self._drop(self._paged, units - done)
        return done

    def drop_unread(self, units: i64) -> i64:
        """What waits for its time stays as long as there is room."""
        return IS_READ

    def _drop(self, line: deque[int], units: i64) -> i64:
        """Drop the first ones that a log has."""
        done: i64 = 0
        while line and done < units:
            reference = self._hot.get(line[0])
            if reference is not None:
                if not self._pager.written.has(reference, self.durable):
                    break
                del self._hot[line[0]]
                self._release(reference.message)
            line.popleft()
            done += 1
        return done

    def _page_next(self, units: i64) -> i64:
        """Put what is in no log into the paging log, in the order in which it came."""
        done: i64 = 0
        while self._unpaged and done < units:
            seq = self._unpaged[0]
            reference = self._hot.get(seq)
            if reference is not None and seq > self._page_upper:
                if not self._page(reference):
                    break
                self._paged.append(seq)
            self._unpaged.popleft()
            done += PAGE_UNITS
        return done

    def _page(self, reference: Reference) -> bool:
        if reference.page >= 0:
            return True
        if not self._pager.page(reference, self.log.page_id):
            return False
        self._page_upper = reference.seq
        return True

    # -- and back -------------------------------------------------------------

    def _want(self) -> None:
        if not (self.is_wanting or self.is_loading):
            self._pager.want(self)

    def begin_load(self) -> ColdLoad | None:
        """Plan to read what is due, else what was not looked at; None for neither."""
        if self.is_deleted or self.is_loading:
            return None
        # What was read in vain, if it was, is to be read again.
        self._line_up_again()
        if self._due:
            load = self._plan_due()
        elif self._scan_first <= self._scan_last:
            load = self._plan_scan()
        else:
            self._pager.end_draining(self)
            return None
        self.is_loading = True
        return load

    def _line_up_again(self) -> None:
        """What was being read has not come."""
        self._due.extendleft(reversed(self._reading))
        self._reading.clear()

    def _plan_due(self) -> ColdLoad:
        cold: list[int] = []
        while self._due and len(self._reading) < READ_MAX:
            entry = self._due.popleft()
            self._reading.append(entry)
            seq = entry >> 1
            reference = self._hot.pop(seq, None)
            if reference is not None:
                self._release(reference.message)
                self._at_hand[seq] = reference
            elif seq not in self._at_hand:
                cold.append(entry)
        stored = [entry >> 1 for entry in cold if not entry & 1]
        paged = [entry >> 1 for entry in cold if entry & 1]
        return ColdLoad(
            self,
            0,
            min(entry >> 1 for entry in self._reading),
            max(entry >> 1 for entry in self._reading),
            self._read(self.id, stored, False),
            self._read(self.log.page_id, paged, True),
            READ_SIZE,
        )

    def _read(self, log_id: i64, seqs: list[int], is_paged: bool) -> ColdRead | None:
        log = self._pager.paging if is_paged else self._pager.store
        if not seqs or log is None:
            return None
        seqs.sort()
        return log.begin_read(
            log_id, seqs[0], seqs[-1], READ_MAX, READ_SIZE, False, ranges_of(seqs)
        )

    def _plan_scan(self) -> ColdLoad:
        last = self._scan_last
        read = self._pager.store.begin_read(
            self.id, self._scan_first, last, READ_MAX, READ_SIZE
        )
        return ColdLoad(self, 0, self._scan_first, last, read, None, READ_SIZE)

    def complete_load(self, load: ColdLoad, found: LoadedWindow) -> bool:
        """Send on what was read and is due; return False if nothing could be read."""
        self.is_loading = False
        if self.is_deleted:
            return True
        if found.error is not None:
            self._line_up_again()
            return False
        if self._reading:
            references = found.references(self, _NO_HOLES, 0, _NONE_RETURNED)
            self._take_due(references, found.next_first)
        else:
            self._take_scanned(found.stored, found.next_first)
        self._want()
        return True

    def _take_due(self, references: list[Reference], next_first: i64) -> None:
        read = {int(reference.seq): reference for reference in references}
        come: deque[int] = deque()
        unread: list[int] = []
        for entry in self._reading:
            seq = entry >> 1
            if seq in read or seq in self._at_hand or seq < next_first:
                come.append(entry)
            else:
                unread.append(entry)
        self._due.extendleft(reversed(unread))
        self._reading = come
        while come:
            # Each once, whatever may be raised: the others are lined up again then.
            seq = come.popleft() >> 1
            reference = self._at_hand.pop(seq, None) or read.get(seq)
            if reference is not None:
                self._send(reference, self._timers.now_ms)
            elif seq in self._refused:
                self._refused.discard(seq)
            else:
                # Damaged: the pager has told of it.
                self.delayed_count -= 1
        self._ring_at(self._timers.now_ms)

    def _take_scanned(self, entries: list[StoredMessage], next_first: i64) -> None:
        now_ms = self._timers.now_ms
        for entry in entries:
            # Each once, whatever may be raised: the next scan begins behind it.
            self._scan_first = entry.seq + 1
            self._unscanned_count -= 1
            due_ms = due_ms_of(entry.content, entry.enqueued_ms)
            if due_ms <= now_ms:
                message = message_of(entry)
                message.number = RECOVERED
                self._send(Reference(self, message, entry.seq), now_ms)
            else:
                self._plan(due_ms, entry.seq, True)
        self._scan_first = next_first
        if self._scan_first > self._scan_last and self._unscanned_count:
            logger.error(
                "%s in vhost '%s': %d are not in the log",
                self.name,
                self.vhost_name,
                self._unscanned_count,
            )
            self.delayed_count -= self._unscanned_count
            self._unscanned_count = 0


def only_wait(queues: list[Queue]) -> bool:
    """Whether a message goes nowhere but to where it waits."""
    return all(isinstance(queue, DelayQueue) for queue in queues)


def with_a_way(queues: list[Queue], message: Message) -> list[Queue]:
    """Return the queues without those where a message would wait for nothing."""
    return [
        queue
        for queue in queues
        if not isinstance(queue, DelayQueue) or queue.has_way(message)
    ]
