"""One turn of writing: the batch it carries, and what becomes of a refused one.

A batch keeps its messages until the disk has taken them, and its facts until a
sync covers it (then the index is told) or the disk refused it. The messages of a
refused batch are *lost*: they were never written, and whoever appended them is
told, but for those that were settled meanwhile.
"""

from typing import Generic, TypeVar, final

from mypy_extensions import i64

from store.queue_facts import BegunFacts, FactsTable
from store.segment_set import LogWrite
from store.syncer import SyncResult, Waiting
from store.waiting import WaitingMessage

T = TypeVar("T")


@final
class Move:
    """A settle that holds only if a message that was appended for it is written.

    `token` is what its owner gets back if the disk refuses the message: the original
    is not settled then.
    """

    __slots__ = ("copy_number", "queue_id", "seq", "token")

    def __init__(
        self, copy_number: i64, queue_id: i64, seq: i64, token: object
    ) -> None:
        self.copy_number = copy_number
        self.queue_id = queue_id
        self.seq = seq
        self.token = token


@final
class Batch:
    """What one batch holds, until it is durable or refused."""

    __slots__ = (
        "base",
        "end",
        "facts",
        "messages",
        "moves",
        "number",
        "segment",
        "upper",
    )

    def __init__(self, segment: i64, number: i64, base: i64) -> None:
        self.segment = segment
        self.number = number
        # The append number of the first message.
        self.base = base
        # One above the last, once it is written.
        self.upper = base
        # Where it ends in its segment, then.
        self.end: i64 = 0
        self.messages: list[WaitingMessage | None] = []
        self.facts: list[BegunFacts] = []
        self.moves: list[Move] = []


@final
class SyncStep(Generic[T]):
    """One turn of writing: call `run` once, then hand it to `complete`."""

    __slots__ = ("batch", "now_ms", "refused", "waiting", "write")

    def __init__(self, write: LogWrite, now_ms: i64) -> None:
        self.write = write
        self.now_ms = now_ms
        self.batch: Batch | None = None
        self.waiting: list[Waiting[T]] = []
        # Messages that were not written because the disk is full.
        self.refused: Batch | None = None

    def run(self) -> None:
        """Make the system calls; blocks, raises nothing."""
        self.write.run()


def note_written(
    message: WaitingMessage, table: FactsTable, offset: i64, size: i64
) -> None:
    """Note where in its segment a message lies that is in a batch now."""
    if message.queue_id >= 0:
        facts = table.touch(message.queue_id)
        facts.note_written(message.seq, offset, size)
        if message.expires_ms:
            facts.note_deadline(message.seq, message.expires_ms)
    if message.others is not None:
        for other in message.others.destinations:
            if other.queue_id >= 0:
                facts = table.touch(other.queue_id)
                facts.note_written(other.seq, offset, size)
                if message.expires_ms:
                    facts.note_deadline(other.seq, message.expires_ms)


def lose(batch: Batch, facts: FactsTable) -> None:
    """Note that the messages of a batch were never written."""
    for message in batch.messages:
        if message is not None:
            facts.lose(message.queue_id, message.seq)
            if message.others is not None:
                for other in message.others.destinations:
                    facts.lose(other.queue_id, other.seq)


def tell_lost(batch: Batch, facts: FactsTable, result: SyncResult[T]) -> None:
    """Tell which of the lost messages still matter: those nobody settled since."""
    for i in range(len(batch.messages)):
        message = batch.messages[i]
        if message is not None:
            result.lost_numbers.append(batch.base + i)
            if facts.is_lost(message.queue_id, message.seq):
                result.lost.append((message.queue_id, message.seq))
            if message.others is not None:
                for other in message.others.destinations:
                    if facts.is_lost(other.queue_id, other.seq):
                        result.lost.append((other.queue_id, other.seq))


def undo_moves(batch: Batch, facts: FactsTable, result: SyncResult[T]) -> list[Move]:
    """Tell whose message was lost, and return those moves: their settles are void.

    A message that was settled meanwhile did its duty: that move stands.
    """
    undone: list[Move] = []
    for move in batch.moves:
        message = batch.messages[move.copy_number - batch.base]
        if message is not None and _is_lost(message, facts):
            undone.append(move)
            result.kept.append(move.token)
    return undone


def _is_lost(message: WaitingMessage, facts: FactsTable) -> bool:
    if facts.is_lost(message.queue_id, message.seq):
        return True
    if message.others is not None:
        for other in message.others.destinations:
            if facts.is_lost(other.queue_id, other.seq):
                return True
    return False
