"""The three that meet at a delivery: a queue's hold on a message, a consumer, a queue.

They know each other, so they stand in one file: `Reference` is one queue's hold on
one message, `Consumer` is who it can be handed to, and `ReferenceOwner` is the queue as
those two see it. The channel behind a consumer lives in `amqpd.protocol`, which
inherits from `Consumer`; this module knows nothing of channels and connections.
"""

from typing import Final, final

from mypy_extensions import i64, mypyc_attr

from amqpd.broker.messages.message import Message
from amqpd.broker.queues.ages import DeliveryRun

# What a client says of a delivery.
ACKED: Final[i64] = 0
REQUEUED: Final[i64] = 1
REJECTED: Final[i64] = 2
# To be tried again, but it has failed: rejected with requeue, or lost with its channel.
FAILED: Final[i64] = 3

# Where a reference stands in the paging log, unless it has a number there.
NOT_PAGED: Final[i64] = -1
READ_BACK: Final[i64] = 0


class ReferenceOwner:
    """A queue, as far as its references, its consumers and dispatch need it."""

    def __init__(self) -> None:
        # Whether it stands in the line of queues to dispatch.
        self.is_dirty = False

    def dispatch(self, messages_max: i64, size_max: i64) -> bool:
        """Deliver a bounded run; return whether more could be delivered now."""
        raise NotImplementedError

    def settle(self, reference: "Reference") -> None:
        """An unacked reference is done with."""
        raise NotImplementedError

    def settle_run(self, references: "list[Reference]", start: i64, end: i64) -> None:
        """Its unacked references from `start` to before `end` are done with."""
        raise NotImplementedError

    def reject(self, reference: "Reference") -> None:
        """An unacked reference is not wanted: it may be a dead letter."""
        raise NotImplementedError

    def requeue(self, reference: "Reference", is_failed: bool = False) -> None:
        """An unacked reference goes back to its place, perhaps because it failed."""
        raise NotImplementedError

    def take_back(self, reference: "Reference") -> None:
        """The disk refused to have a message moved elsewhere: it is still here."""
        raise NotImplementedError

    def offer(self, consumer: "Consumer") -> None:
        """The consumer may have room again: it stands in line from now on."""
        raise NotImplementedError


@final
@mypyc_attr(acyclic=True)
class Reference:
    """One queue's hold on one message. Its `seq` is its place in that queue."""

    __slots__ = (
        "consumer",
        "delivery_tag",
        "is_struck",
        "message",
        "page",
        "queue",
        "redelivered",
        "run",
        "seq",
    )

    def __init__(self, queue: ReferenceOwner, message: Message, seq: i64) -> None:
        self.queue = queue
        self.message = message
        self.seq: i64 = seq
        self.redelivered: bool = False
        # It expired where it stood, and is passed over when its turn comes.
        self.is_struck: bool = False
        # Its number in the paging log; `READ_BACK` if it came from there.
        self.page: i64 = NOT_PAGED
        # Set while unacked: who has it, under which tag. None: basic.get took it.
        self.consumer: Consumer | None = None
        self.delivery_tag: i64 = 0
        # What it was delivered with, to be acked.
        self.run: DeliveryRun | None = None


class Consumer:
    """A subscription to one queue. The protocol inherits from it and can deliver."""

    def __init__(
        self,
        queue: ReferenceOwner,
        tag: str,
        no_ack: bool,
        exclusive: bool,
        priority: int,
        prefetch: i64,
        arguments: dict[str, object],
    ) -> None:
        self.queue = queue
        self.tag = tag
        self.no_ack = no_ack
        self.exclusive = exclusive
        self.priority = priority
        self.arguments = arguments
        # At most so many unacked at a time; 0: no limit. No-ack deliveries count not.
        self.prefetch: i64 = prefetch
        self.unacked_count: i64 = 0
        # Whether it stands in its queue's ring, waiting for its turn.
        self.in_ring = False
        # Whether something that it lacks (room, its channel) will offer it again.
        self.is_waiting = False
        self.is_cancelled = False

    def has_room(self) -> bool:
        """Whether it can take one more message now.

        When it says no, it has taken note of what it lacks and calls
        `ReferenceOwner.offer` as soon as that has changed.
        """
        raise NotImplementedError

    def deliver(self, reference: Reference) -> None:
        """Send a message; unless `no_ack` the reference is now the channel's."""
        raise NotImplementedError

    def pass_on(self, address: bytes, content: bytes, channel: i64) -> bool:
        """Send what no queue has ever held, if it wants no ack and can do so now.

        `content` is as it came on the publisher's `channel`. False: nothing was sent.
        """
        raise NotImplementedError

    def on_rules_changed(self) -> None:
        """The queue's rules are others now."""

    def on_queue_gone(self) -> None:
        """The queue was deleted: the client is told by basic.cancel if it can be."""
        raise NotImplementedError
