"""Messages that were appended and are not yet in a batch.

Each gets the next append number, so a number says where a message is: below
`base` it went into a batch (or was elided), from `base` on it stands in the list
at `number - base`. A destination that is settled here is elided: it is never
written, and a message without destinations leaves no trace at all.

It does not know the file; `write` hands each message to a batch.
"""

from typing import Final, final

from mypy_extensions import i64, mypyc_attr

from store.batch import BatchWriter
from store.record import DESTINATION_SIZE, MESSAGE_OVERHEAD
from store.statistics import StoreStatistics

_ELIDED: Final[i64] = -1


@final
@mypyc_attr(acyclic=True)
class WaitingDestination:
    """One more queue that a waiting message goes to."""

    __slots__ = ("lane", "queue_id", "seq")

    def __init__(self, queue_id: i64, seq: i64, lane: i64) -> None:
        self.queue_id = queue_id
        self.seq = seq
        self.lane = lane


@final
@mypyc_attr(acyclic=True)
class WaitingMessage:
    """A message and the destinations it still has.

    The first destination stands in the message itself, since most have no other.
    """

    __slots__ = (
        "body",
        "content",
        "enqueued_ms",
        "envelope",
        "expires_ms",
        "lane",
        "live",
        "others",
        "queue_id",
        "seq",
        "size",
    )

    def __init__(
        self,
        envelope: bytes,
        content: bytes,
        body: bytes | None,
        enqueued_ms: i64,
        expires_ms: i64,
        queue_id: i64,
        seq: i64,
        lane: i64,
    ) -> None:
        self.envelope = envelope
        self.content = content
        self.body = body
        self.enqueued_ms = enqueued_ms
        self.expires_ms = expires_ms
        self.queue_id = queue_id
        self.seq = seq
        self.lane = lane
        self.live: i64 = 1
        self.others: WaitingDestinations | None = None
        size: i64 = MESSAGE_OVERHEAD + DESTINATION_SIZE
        size += len(envelope) + len(content)
        if body is not None:
            size += len(body)
        self.size = size

    def write(self, writer: BatchWriter) -> None:
        """Write the message with the destinations it still has into a batch."""
        writer.begin_message(
            self.enqueued_ms,
            self.expires_ms,
            self.envelope,
            self.content,
            self.body,
            self.live,
        )
        if self.queue_id != _ELIDED:
            writer.destination(self.queue_id, self.seq, self.lane)
        if self.others is not None:
            for other in self.others.destinations:
                if other.queue_id != _ELIDED:
                    writer.destination(other.queue_id, other.seq, other.lane)
        writer.end_message(self.envelope, self.content, self.body)

    def elide(self, queue_id: i64) -> bool:
        """Take a destination away; return whether none is left."""
        if self.queue_id == queue_id:
            self.queue_id = _ELIDED
            self.live -= 1
        elif self.others is not None and self.others.elide(queue_id):
            self.live -= 1
        return self.live == 0


@final
@mypyc_attr(acyclic=True)
class WaitingDestinations:
    """The destinations of a fan-out after the first."""

    __slots__ = ("_cursor", "destinations")

    def __init__(self) -> None:
        self.destinations: list[WaitingDestination] = []
        # Queues settle a fan-out in about the order it was enqueued: the search
        # goes on where the last one ended, or a fan-out to N costs N * N / 2.
        self._cursor: i64 = 0

    def elide(self, queue_id: i64) -> bool:
        """Mark a destination as elided; return whether it was there."""
        count: i64 = len(self.destinations)
        i: i64 = 0
        while i < count:
            at = self._cursor + i
            if at >= count:
                at -= count
            found = self.destinations[at]
            if found.queue_id == queue_id:
                found.queue_id = _ELIDED
                self._cursor = at
                return True
            i += 1
        return False


@final
class WaitingMessages:
    """The list of the waiting, and how much they would take in the log."""

    __slots__ = ("_statistics", "base", "bytes_waiting", "messages")

    def __init__(self, statistics: StoreStatistics) -> None:
        self._statistics = statistics
        self.base: i64 = 1
        self.bytes_waiting: i64 = 0
        # None stands for a message whose destinations were all elided.
        self.messages: list[WaitingMessage | None] = []

    def append(self, message: WaitingMessage) -> i64:
        """Add a message and return its number."""
        number = self.base + len(self.messages)
        self.messages.append(message)
        self.bytes_waiting += message.size
        return number

    def add_destination(self, queue_id: i64, seq: i64, lane: i64) -> None:
        """Give the message appended last one more destination."""
        message = self.messages[-1]
        assert message is not None, "destinations are added before any is settled"
        if message.others is None:
            message.others = WaitingDestinations()
        message.others.destinations.append(WaitingDestination(queue_id, seq, lane))
        message.live += 1
        message.size += DESTINATION_SIZE
        self.bytes_waiting += DESTINATION_SIZE

    def settle(self, number: i64, queue_id: i64) -> None:
        """Elide a destination of a message that is still waiting."""
        index = number - self.base
        message = self.messages[index]
        if message is None:
            return
        before = message.live
        is_gone = message.elide(queue_id)
        self._statistics.elided += before - message.live
        if is_gone:
            self.messages[index] = None
            self.bytes_waiting -= message.size

    def elide_queue(self, queue_id: i64) -> None:
        """Elide everything that goes to a queue."""
        for i in range(len(self.messages)):
            message = self.messages[i]
            if message is not None and seq_in(message, queue_id) >= 0:
                self.settle(self.base + i, queue_id)

    def take(self) -> list[WaitingMessage | None]:
        """Return all of them; later numbers go into an empty list."""
        messages = self.messages
        self.base += len(messages)
        self.messages = []
        self.bytes_waiting = 0
        return messages


def seq_in(message: WaitingMessage, queue_id: i64) -> i64:
    """Return the seq a message has in a queue, -1 if it does not go there."""
    if message.queue_id == queue_id:
        return message.seq
    if message.others is not None:
        for other in message.others.destinations:
            if other.queue_id == queue_id:
                return other.seq
    return -1
