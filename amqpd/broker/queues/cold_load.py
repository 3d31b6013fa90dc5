"""Messages on their way back into memory: the next window of a queue's cold ones.

    load = ColdLoad(...)         on the loop: both logs have planned their part
    load.run()                   on the reader thread, or in place for basic.get; at
                                 once on the loop if it takes no disk;
                                 many at a time are read together (`ColdLoads`)
    found = LoadedWindow(...)    on the loop: what both logs have, up to where both go

A queue may have cold messages in the log and in the paging log, within one span. Each
log reads as far as its window goes; behind the nearer of the two ends there may be more
of the other, so that is where the next window begins.
"""

from typing import final

from mypy_extensions import i64

from amqpd.broker.messages.message import RECOVERED, Message
from amqpd.broker.queues.ages import NO_TIME
from amqpd.broker.queues.delivery import READ_BACK, Reference, ReferenceOwner
from amqpd.broker.queues.settled_seqs import SettledSeqs
from amqpd.wire.frames import HEAD_SIZE, read_u32
from amqpd.wire.properties import walk_properties
from store.cold_read import ColdRead
from store.cold_store import ReadResult
from store.shared_read import SharedRead
from store.stored_message import StoredMessage


@final
class ColdLoad:
    """A step that reads a queue's next window."""

    __slots__ = (
        "first",
        "generation",
        "is_look",
        "last",
        "owner",
        "paged",
        "stored",
        "window",
    )

    def __init__(
        self,
        owner: ReferenceOwner,
        generation: i64,
        first: i64,
        last: i64,
        stored: ColdRead | None,
        paged: ColdRead | None,
        window: i64,
    ) -> None:
        self.owner = owner
        # What the queue was when it was begun: a purge makes it another.
        self.generation = generation
        # The cold span.
        self.first = first
        self.last = last
        # Whether somebody wants to know the first message, and not to have it.
        self.is_look: bool = False
        self.stored = stored
        self.paged = paged
        # What it may take in memory, in octets.
        self.window = window

    def run(self) -> None:
        """Read; blocks, raises nothing."""
        if self.stored is not None:
            self.stored.run()
        if self.paged is not None:
            self.paged.run()

    def run_at_once(self) -> bool:
        """Read as far as that takes no disk; False: not to the end, `run` goes on."""
        if self.paged is None:
            return self.stored is None or self.stored.run_at_once()
        return self.stored is None and self.paged.run_at_once()


@final
class ColdLoads:
    """Loads that are read together: call `advance` until it returns False."""

    __slots__ = ("_parts", "loads")

    def __init__(self, loads: list[ColdLoad]) -> None:
        self.loads = loads
        stored: list[ColdRead] = []
        paged: list[ColdRead] = []
        for load in loads:
            if load.stored is not None:
                stored.append(load.stored)
            if load.paged is not None:
                paged.append(load.paged)
        self._parts = [SharedRead(reads) for reads in (stored, paged) if reads]

    def advance(self) -> bool:
        """Read some more; return whether there is more. Blocks, raises nothing."""
        if len(self.loads) == 1:
            # Who is alone has blocks read ahead for the next window.
            self.loads[0].run()
            return False
        parts = self._parts
        if parts and not parts[-1].advance():
            parts.pop()
        return bool(parts)


@final
class LoadedWindow:
    """What came of a load."""

    __slots__ = ("_paged", "_stored", "error", "next_first")

    def __init__(
        self, last: i64, stored: ReadResult | None, paged: ReadResult | None
    ) -> None:
        # Where the next window begins.
        self.next_first: i64 = last + 1
        self.error: Exception | None = None
        self._stored = stored
        self._paged = paged
        for result in (stored, paged):
            if result is None:
                continue
            if not result.is_end and result.next_seq < self.next_first:
                self.next_first = result.next_seq
            if result.error is not None:
                self.error = result.error

    @property
    def first_enqueued_ms(self) -> i64:
        """When the first one came, `NO_TIME` if nothing was found."""
        first: StoredMessage | None = None
        for result in (self._stored, self._paged):
            if result is not None and result.messages:
                message = result.messages[0]
                if first is None or message.seq < first.seq:
                    first = message
        return NO_TIME if first is None else first.enqueued_ms

    @property
    def stored(self) -> list[StoredMessage]:
        """What the log has, as it was read; what it had none of was not asked for."""
        return [] if self._stored is None else self._stored.messages

    @property
    def damaged_stored(self) -> list[int]:
        """Which messages the log has lost."""
        return [] if self._stored is None else self._stored.damaged_seqs

    @property
    def damaged_paged(self) -> list[int]:
        """Which messages the paging log has lost."""
        return [] if self._paged is None else self._paged.damaged_seqs

    def references(
        self,
        owner: ReferenceOwner,
        holes: SettledSeqs,
        delivered_seq: i64,
        returned: set[int],
    ) -> list[Reference]:
        """Return the queue's holds on them, in order.

        Those in `holes` are settled. Those up to `delivered_seq`, and those that were
        `returned` before a restart, were delivered before.
        """
        found: list[Reference] = []
        stored = [] if self._stored is None else self._stored.messages
        paged = [] if self._paged is None else self._paged.messages
        in_stored, in_paged = 0, 0
        has_holes = not holes.is_empty
        while in_stored < len(stored) or in_paged < len(paged):
            is_stored = in_paged == len(paged) or (
                in_stored < len(stored) and stored[in_stored].seq < paged[in_paged].seq
            )
            if is_stored:
                entry = stored[in_stored]
                in_stored += 1
            else:
                entry = paged[in_paged]
                in_paged += 1
            if entry.seq >= self.next_first:
                break
            if has_holes and int(entry.seq) in holes:
                continue
            reference = Reference(owner, message_of(entry), entry.seq)
            if is_stored:
                reference.message.number = RECOVERED
            else:
                reference.page = READ_BACK
            if entry.seq <= delivered_seq or (returned and int(entry.seq) in returned):
                reference.redelivered = True
            found.append(reference)
        return found


def message_of(entry: StoredMessage) -> Message:
    """Return a message that was read as what it was when it was published."""
    content = entry.content
    header_end = HEAD_SIZE + read_u32(content, 3)
    facts = walk_properties(content, HEAD_SIZE, header_end)
    message = Message(entry.envelope, content, entry.body, facts, entry.enqueued_ms)
    message.expires_ms = entry.expires_ms
    return message
