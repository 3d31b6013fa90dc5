"""The messages of a queue that are ready to be delivered, in order of `seq`.

    returned  |  head  |  cold  |  leaving  |  tail
     a heap     in memory  on disk   being paged   in memory, newest

Fresh messages come in at the end with rising `seq`. One that comes back (nack with
requeue, a lost channel) goes to its original place; it was taken from the front, so it
stands before everything else. As long as memory suffices there is only a head: the
backlog is not *split*, and is a deque. When memory runs short it is split: the head
keeps a window, everything behind it becomes the tail, and what stands at the front of
the tail may be dropped once its bytes are in a log: then the log is the only one who
has it. All that is known of it here is one span of seqs with counts:

    cold   first seq .. last seq, so many in the log, so many in the paging log

Nothing within that span is in memory, nothing of it is unacked. It grows at its end
(from the tail) and at its beginning (from a head that nobody consumes), and is loaded
from its beginning, window by window. Messages that are in no log (`leaving`) are put
into the paging log first. When nothing is cold any more the parts are joined again.

One that expires in the middle is *struck*: not counted from then on, and passed over.
It holds no message any more, and the lines are swept before they fill up with such.

It knows no logs: what may be dropped is told by `Written`.
"""

from collections import deque
from heapq import heapify, heappop, heappush
from typing import Final, final

from mypy_extensions import i64

from amqpd.broker.messages.message import RECOVERED, Message
from amqpd.broker.queues.ages import NO_TIME
from amqpd.broker.queues.deadlines import Deadlines
from amqpd.broker.queues.delivery import Reference
from amqpd.broker.queues.memory_use import MemoryUse, Written
from amqpd.broker.queues.reference_lines import new_line, unstruck, without
from amqpd.broker.queues.settled_seqs import SettledSeqs

# The lines are swept when more than this are struck, and more than are left.
STRUCK_MIN: Final[i64] = 64

# What a message takes in the log besides its body, at least.
ENTRY_OVERHEAD: Final[i64] = 100

_SEQ_MAX: Final[i64] = 1 << 62

# What a struck reference holds.
_NOTHING: Final = Message(b"", bytes(19), None, 0, 0)


@final
class Backlog:
    """References in the order of `seq`, cheap at both ends, cold in the middle."""

    __slots__ = (
        "_by_seq",
        "_durable",
        "_fresh",
        "_head",
        "_leaving",
        "_returned",
        "_tail",
        "_use",
        "at_hand",
        "behind",
        "body_size",
        "cold_body_size",
        "cold_first",
        "cold_first_ms",
        "cold_last",
        "cold_paged",
        "cold_size",
        "cold_stored",
        "counts_bodies",
        "deadlines",
        "holes",
        "is_first_passed",
        "is_split",
        "size",
        "stored_cost",
        "struck_count",
    )

    def __init__(self, durable: bool, use: MemoryUse) -> None:
        # Whether the numbers of messages are numbers in this queue's log.
        self._durable = durable
        self._use = use
        self._returned: list[int] = []
        self._by_seq: dict[int, Reference] = {}
        self._head = new_line()
        self._leaving = new_line()
        self._tail = new_line()
        # Where fresh ones go: the tail if it is split, else the head.
        self._fresh = self._head
        self.is_split = False
        # Returned and head: what can be taken now.
        self.at_hand: i64 = 0
        # Cold, leaving and tail.
        self.behind: i64 = 0
        # Octets of all that is ready. Of what was recovered the log knows it about.
        self.size: i64 = 0
        self.cold_first: i64 = 0
        self.cold_last: i64 = 0
        # When the first of them came, or a little earlier.
        self.cold_first_ms: i64 = NO_TIME
        # Whether it was dropped unread, so that the first may be a later one.
        self.is_first_passed = False
        self.cold_stored: i64 = 0
        self.cold_paged: i64 = 0
        self.cold_size: i64 = 0
        # Seqs among the folded ones that are settled, though a log may not know it yet.
        self.holes = SettledSeqs()
        # The share of this queue in `MemoryUse.stored`.
        self.stored_cost: i64 = 0
        # Octets of bodies in memory and cold, if somebody wants to know.
        self.counts_bodies = False
        self.body_size: i64 = 0
        self.cold_body_size: i64 = 0
        # To be told of messages that expire and leave memory.
        self.deadlines: Deadlines | None = None
        # How many stand in the lines and are not there.
        self.struck_count: i64 = 0

    @property
    def count(self) -> i64:
        """How many are ready, wherever they are."""
        return self.at_hand + self.behind

    @property
    def cold_count(self) -> i64:
        """How many are on disk only."""
        return self.cold_stored + self.cold_paged

    @property
    def has_memory(self) -> bool:
        """Whether any reference is in memory."""
        self._sweep_if_struck()
        return self.at_hand > 0 or bool(self._leaving) or bool(self._tail)

    @property
    def has_returned(self) -> bool:
        """Whether anything has come back and is still here."""
        return bool(self._returned)

    @property
    def first_enqueued_ms(self) -> i64:
        """When the first one came, `NO_TIME` if that is not known."""
        if self.at_hand:
            return self.first().message.enqueued_ms
        if self.cold_count:
            return self.cold_first_ms
        self._sweep_if_struck()
        line = self._leaving or self._tail
        return line[0].message.enqueued_ms if line else NO_TIME

    # -- messages come and go -------------------------------------------------

    def append(self, reference: Reference) -> None:
        """Add a fresh reference: its seq is higher than any before."""
        self._fresh.append(reference)
        if self.is_split:
            self.behind += 1
        else:
            self.at_hand += 1
        message = reference.message
        self.size += message.size
        self._charge(message)

    def put_back(self, reference: Reference) -> None:
        """Return a reference that was popped to its original place."""
        seq = int(reference.seq)
        heappush(self._returned, seq)
        self._by_seq[seq] = reference
        self.at_hand += 1
        message = reference.message
        self.size += message.size
        self._charge(message)

    def pop(self) -> Reference:
        """Take the first one; `at_hand` must not be 0."""
        if self._returned:
            reference = self._by_seq.pop(heappop(self._returned))
        else:
            reference = self._head.popleft()
            if self.struck_count:
                reference = self._behind_struck(reference)
        self.at_hand -= 1
        message = reference.message
        self.size -= message.size
        self._release(message)
        return reference

    def first(self) -> Reference:
        """The first one; `at_hand` must not be 0."""
        if self._returned:
            return self._by_seq[self._returned[0]]
        head = self._head
        while head[0].is_struck:
            head.popleft()
            self.struck_count -= 1
        return head[0]

    def strike(self, reference: Reference) -> Message:
        """Take out one that is in memory, wherever it stands; return its message."""
        message = reference.message
        seq = int(reference.seq)
        self.size -= message.size
        self._release(message)
        if seq in self._by_seq:
            del self._by_seq[seq]
            self._returned.remove(seq)
            heapify(self._returned)
            self.at_hand -= 1
            return message
        if not self.is_split or (self._head and seq <= self._head[-1].seq):
            self.at_hand -= 1
        else:
            self.behind -= 1
        reference.is_struck = True
        reference.message = _NOTHING
        self.struck_count += 1
        if self.struck_count > STRUCK_MIN and self.struck_count > self.count:
            self._sweep()
            self._prune_holes()
        return message

    def has_cold(self, seq: int) -> bool:
        """Whether one that was cold when it was last seen is so still."""
        if not self.cold_count or not self.cold_first <= seq <= self.cold_last:
            return False
        return seq not in self.holes

    def strike_cold(self, seq: int, is_paged: bool) -> None:
        """Take out one that is cold."""
        self.holes.add_alone(seq, self.cold_first)
        size = self.cold_size // self.cold_count
        bodies = self.cold_body_size // self.cold_count
        if is_paged:
            self.cold_paged -= 1
        else:
            self.cold_stored -= 1
        self.behind -= 1
        self.size -= size
        self.cold_size -= size
        self.cold_body_size -= bodies

    def _behind_struck(self, reference: Reference) -> Reference:
        while reference.is_struck:
            self.struck_count -= 1
            reference = self._head.popleft()
        return reference

    def _sweep_if_struck(self) -> None:
        if self.struck_count:
            self._sweep()

    def _sweep(self) -> None:
        """Take the struck ones out of the lines: the log may not know it yet."""
        self._head = unstruck(self._head, self.holes)
        self._leaving = unstruck(self._leaving, self.holes)
        self._tail = unstruck(self._tail, self.holes)
        self._fresh = self._tail if self.is_split else self._head
        self.struck_count = 0

    def _prune_holes(self) -> None:
        """Forget holes before everything that is ready: nothing is read from there."""
        first = self._fresh_seq(_SEQ_MAX)
        if self._returned and self._returned[0] < first:
            first = self._returned[0]
        self.holes.prune(first)

    def take_all(self) -> list[Reference]:
        """Take everything that is in memory, in order; forget what is cold."""
        self._sweep_if_struck()
        references = [reference for line in self.take_lines() for reference in line]
        for reference in references:
            self._release(reference.message)
        return references

    def take_lines(self) -> list[deque[Reference]]:
        """Take the lines of all that is in memory, in order; forget what is cold.

        They are the caller's with the struck ones in them, and memory is not told.
        """
        returned = new_line()
        returned.extend([self._by_seq[seq] for seq in sorted(self._returned)])
        lines = [returned, self._head, self._leaving, self._tail]
        self._returned.clear()
        self._by_seq.clear()
        self._head = new_line()
        self._leaving = new_line()
        self._tail = new_line()
        self._fresh = self._head
        self.is_split = False
        self.at_hand = self.behind = self.size = 0
        self.struck_count = 0
        self._clear_cold()
        return lines

    def remove(self, seqs: set[int]) -> list[Reference]:
        """Take out those of the given seqs that are in memory, in order."""
        self._sweep_if_struck()
        taken: list[Reference] = []
        returned = self._returned
        self._returned = []
        for seq in sorted(returned):
            if seq in seqs:
                taken.append(self._by_seq.pop(seq))
            else:
                self._returned.append(seq)
        self._head = without(self._head, seqs, taken)
        self.at_hand -= len(taken)
        at_hand_taken = len(taken)
        self._leaving = without(self._leaving, seqs, taken)
        self._tail = without(self._tail, seqs, taken)
        self.behind -= len(taken) - at_hand_taken
        self._fresh = self._tail if self.is_split else self._head
        for reference in taken:
            self.size -= reference.message.size
            self._release(reference.message)
        return taken

    def contains_returned(self, seqs: set[int]) -> bool:
        """Whether any of the given seqs has come back and is still here."""
        return not seqs.isdisjoint(self._by_seq)

    def can_be_paged(self, page_upper: i64) -> bool:
        """Whether all that has come back is in a log, or can still be paged.

        The paging log takes a queue's messages in order: up to `page_upper` it has
        those that it will ever have.
        """
        for reference in self._by_seq.values():
            is_unpaged = reference.page < 0 and not self.is_stored(reference)
            if is_unpaged and reference.seq <= page_upper:
                return False
        return True

    # -- leaving memory -------------------------------------------------------

    def fold_returned(self, next_seq: i64) -> None:
        """Let what has come back be as what never left; nothing may be unacked.

        Otherwise the cold span could hold an unacked one. What is missing between
        them is settled; until that is durable, a log would give it back.
        """
        self._sweep_if_struck()
        seqs = sorted(self._returned)
        folded: list[Reference] = []
        for i in range(len(seqs)):
            folded.append(self._by_seq[seqs[i]])
            following = seqs[i + 1] if i + 1 < len(seqs) else self._fresh_seq(next_seq)
            if following > seqs[i] + 1:
                self.holes.add_range(seqs[i] + 1, following - 1)
        self._head.extendleft(reversed(folded))
        self._returned.clear()
        self._by_seq.clear()

    def _fresh_seq(self, next_seq: i64) -> int:
        """The first seq behind what has come back."""
        if self._head:
            return int(self._head[0].seq)
        if self.cold_count:
            return int(self.cold_first)
        line = self._leaving or self._tail
        return int(line[0].seq) if line else int(next_seq)

    def split(self, cost_max: i64) -> bool:
        """Keep a window of about this cost as the head; return whether it is split.

        It stays in one piece when there is nothing more than the window. A window
        has one message at least; a cost of 0 means none.
        """
        if self.is_split:
            return True
        self._sweep_if_struck()
        kept = new_line()
        rest = self._head
        cost: i64 = 0
        while rest:
            cost += rest[0].message.cost
            if cost > cost_max and (kept or not cost_max):
                break
            kept.append(rest.popleft())
        if not rest:
            self._head = kept
            self._fresh = kept
            return False
        self._head = kept
        self._tail = rest
        self._fresh = rest
        self.is_split = True
        self.behind = len(rest)
        self.at_hand -= self.behind
        return True

    def drop_written(self, written: Written, units: i64) -> i64:
        """Drop those behind the cold ones that a log has; return how many."""
        self._sweep_if_struck()
        for done in range(units):
            line = self._leaving or self._tail
            if not line or not written.has(line[0], self._durable):
                return done
            reference = line.popleft()
            if not self.cold_count:
                self.cold_first = reference.seq
                self._note_first(reference)
            self.cold_last = reference.seq
            self._note_cold(reference)
        return units

    def drop_last_of_head(self, written: Written) -> bool:
        """Drop the one before the cold ones, if a log has it; return whether."""
        self._sweep_if_struck()
        if not self._head or not written.has(self._head[-1], self._durable):
            return False
        reference = self._head.pop()
        if not self.cold_count:
            self.cold_last = reference.seq
        self.cold_first = reference.seq
        self._note_first(reference)
        self.at_hand -= 1
        self.behind += 1
        self._note_cold(reference)
        return True

    def unpaged_in_head(self) -> list[Reference]:
        """Those of the head that are in no log, in order."""
        self._sweep_if_struck()
        return [
            reference
            for reference in self._head
            if reference.page < 0 and not self.is_stored(reference)
        ]

    def next_to_leave(self) -> Reference | None:
        """The first of the tail, to be paged if no log will have it."""
        self._sweep_if_struck()
        return self._tail[0] if self._tail else None

    def leave(self) -> None:
        """The first of the tail is on its way into a log."""
        self._leaving.append(self._tail.popleft())

    @property
    def has_leaving(self) -> bool:
        """Whether something is on its way into a log."""
        return bool(self._leaving)

    def is_stored(self, reference: Reference) -> bool:
        """Whether the log has the message, or will have it: paging is not needed."""
        return self._durable and reference.message.number >= 0

    # -- coming back ----------------------------------------------------------

    def restore(self, first: i64, last: i64, count: i64, size: i64) -> None:
        """Begin with so many that the log has, and nothing in memory."""
        self.is_split = True
        self._fresh = self._tail
        self.behind = count
        self.size = size
        self.cold_first = first
        self.cold_last = last
        self.cold_stored = count
        self.cold_size = size
        # Like the size, about what the log says, until they are read.
        self.cold_body_size = max(0, size - count * ENTRY_OVERHEAD)

    def load(self, references: list[Reference], next_first: i64) -> None:
        """Take back the first of the cold ones; the next begins at `next_first`."""
        for reference in references:
            message = reference.message
            self._head.append(reference)
            if self._durable and message.number >= 0:
                self.cold_stored -= 1
            else:
                self.cold_paged -= 1
            self.cold_size -= message.size
            if self.counts_bodies:
                self.cold_body_size -= message.body_size()
            self._charge(message)
        count: i64 = len(references)
        if count:
            # The next one came then, or later.
            self._note_first(references[-1])
        self.at_hand += count
        self.behind -= count
        self.cold_first = next_first
        self.holes.trim(next_first)

    def lose_cold(self, stored: list[int], paged: list[int]) -> None:
        """These of the cold ones are not in their log: it was damaged.

        A log tells of them again as long as it does not know that they are settled,
        and so does a look that ends after the window.
        """
        before = self.cold_count
        for seq in stored:
            if self.has_cold(seq):
                self.holes.add(seq)
                self.cold_stored -= 1
        for seq in paged:
            if self.has_cold(seq):
                self.holes.add(seq)
                self.cold_paged -= 1
        self.behind -= before - self.cold_count

    @property
    def is_cold_over(self) -> bool:
        """Whether everything that was cold has been loaded."""
        return self.cold_count <= 0 or self.cold_first > self.cold_last

    def join(self) -> None:
        """Be one piece again: nothing is cold any more."""
        self.behind -= self.cold_count
        self.size -= self.cold_size
        self._clear_cold()
        # What stands before the tail is a window, and what is being written.
        self._tail.extendleft(reversed(self._leaving))
        self._tail.extendleft(reversed(self._head))
        self._head = self._tail
        self._fresh = self._head
        self._leaving = new_line()
        self._tail = new_line()
        self.is_split = False
        self.at_hand += self.behind
        self.behind = 0
        if not self.holes.is_empty:
            self._prune_holes()

    # -- counting -------------------------------------------------------------

    def count_bodies(self, is_wanted: bool) -> None:
        """Know how many octets the bodies have, from now on, or know it no more."""
        if is_wanted == self.counts_bodies:
            return
        self.counts_bodies = is_wanted
        self.body_size = 0
        if not is_wanted:
            return
        self._sweep_if_struck()
        for line in (self._head, self._leaving, self._tail, self._by_seq.values()):
            for reference in line:
                self.body_size += reference.message.body_size()
        # Like that of what was recovered: about.
        self.cold_body_size = max(0, self.cold_size - self.cold_count * ENTRY_OVERHEAD)

    def _clear_cold(self) -> None:
        self.cold_first = 0
        self.cold_last = 0
        self.cold_first_ms = NO_TIME
        self.cold_stored = 0
        self.cold_paged = 0
        self.cold_size = 0
        self.cold_body_size = 0

    def _note_first(self, reference: Reference) -> None:
        self.cold_first_ms = reference.message.enqueued_ms
        self.is_first_passed = False

    def _note_cold(self, reference: Reference) -> None:
        message = reference.message
        is_paged = not (self._durable and message.number >= 0)
        if is_paged:
            self.cold_paged += 1
        else:
            self.cold_stored += 1
        self.cold_size += message.size
        if self.counts_bodies:
            self.cold_body_size += message.body_size()
        if self.deadlines is not None and message.expires_ms:
            self.deadlines.on_cold(reference.seq, message.expires_ms, is_paged)
        self._release(message)

    def _charge(self, message: Message) -> None:
        cost = message.cost
        if self.counts_bodies:
            self.body_size += message.body_size()
        if self._durable and message.number >= 0:
            self.stored_cost += cost
            self._use.stored += cost
            if message.number == RECOVERED:
                self._use.loaded += cost
        else:
            self._use.unstored += cost

    def _release(self, message: Message) -> None:
        cost = message.cost
        if self.counts_bodies:
            self.body_size -= message.body_size()
        if self._durable and message.number >= 0:
            self.stored_cost -= cost
            self._use.stored -= cost
            if message.number == RECOVERED:
                self._use.loaded -= cost
        else:
            self._use.unstored -= cost
