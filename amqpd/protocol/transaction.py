"""The transaction of a channel: what it published and acked since the last commit.

Nothing of it takes effect before the commit. Then everything happens in one go on
the loop, so it lands in one batch of the log: after a crash all of it is there or none.
Messages are routed when they are published, as in RabbitMQ. Acked deliveries leave the
channel's ledger at once, so a second ack is an error, and come back on a rollback.
"""

from typing import final

from mypy_extensions import i64

from amqpd.broker.errors import ResourceError
from amqpd.broker.messages.message import Message
from amqpd.broker.queues.delivery import Reference
from amqpd.broker.queues.queue import Queue


@final
class Publication:
    """A message that waits for the commit, and where it will go."""

    __slots__ = ("mandatory", "message", "queues")

    def __init__(self, message: Message, queues: list[Queue], mandatory: bool) -> None:
        self.message = message
        self.queues = queues
        self.mandatory = mandatory


@final
class Answers:
    """Deliveries that were acked or rejected in one method."""

    __slots__ = ("outcome", "references")

    def __init__(self, references: list[Reference], outcome: i64) -> None:
        self.references = references
        # Whether they are acked, rejected or requeued (`amqpd.broker.queues.delivery`).
        self.outcome: i64 = outcome


@final
class Transaction:
    """What a channel has done since tx.select, or since the last commit or rollback."""

    def __init__(self, size_max: i64) -> None:
        self.publications: list[Publication] = []
        self.answers: list[Answers] = []
        self._size: i64 = 0
        self._size_max: i64 = size_max

    def add_publish(
        self, message: Message, queues: list[Queue], mandatory: bool
    ) -> None:
        """Remember a publish for the commit.

        Raises:
            ResourceError: the transaction would not fit one batch of the log.
        """
        self._size += message.size
        if self._size > self._size_max:
            raise ResourceError(
                f"transaction larger than tx_size_max ({self._size_max} octets); "
                "commit more often"
            )
        self.publications.append(Publication(message, queues, mandatory))

    def add_answers(self, references: list[Reference], outcome: i64) -> None:
        """Remember acks, rejections or returns for the commit."""
        self.answers.append(Answers(references, outcome))

    def clear(self) -> None:
        """Begin anew."""
        self.publications = []
        self.answers = []
        self._size = 0
