"""What has passed: counts of one channel, or of all that there have been.

    channel 1   [ traffic ]                       counted as things pass, one addition
    channel 2   [ traffic ]      scrape: added up, with what closed channels left
    closed      [ traffic ]

Counts only rise. What can be told from numbers that are kept anyway (confirms) is
filled in by whoever owns them when somebody asks.
"""

from typing import Final, final

from mypy_extensions import i64, mypyc_attr

#: The upper bounds of the sizes of message bodies that are told apart, as RabbitMQ's.
SIZE_BOUNDS: Final = (
    100,
    1_000,
    10_000,
    100_000,
    1_000_000,
    10_000_000,
    50_000_000,
    100_000_000,
)
# Bodies above the first three are rare enough to be looked up.
SMALL: Final[i64] = 100
MEDIUM: Final[i64] = 1_000
LARGE: Final[i64] = 10_000


@final
@mypyc_attr(acyclic=True)
class Traffic:
    """Counts of messages."""

    __slots__ = (
        "acked",
        "bodies",
        "bodies_to_large",
        "bodies_to_medium",
        "bodies_to_small",
        "body_octets",
        "confirmed",
        "delivered",
        "delivered_no_ack",
        "get_empty",
        "got",
        "got_no_ack",
        "received",
        "received_to_confirm",
        "redelivered",
        "returned",
        "routed",
        "unroutable",
    )

    def __init__(self) -> None:
        # Published, and of these with a confirm to come.
        self.received: i64 = 0
        self.received_to_confirm: i64 = 0
        self.confirmed: i64 = 0
        # Into queues: a message may count several times.
        self.routed: i64 = 0
        # To no queue; of these, given back to who published them.
        self.unroutable: i64 = 0
        self.returned: i64 = 0
        # To consumers who ack and to those who do not; the same for basic.get.
        self.delivered: i64 = 0
        self.delivered_no_ack: i64 = 0
        self.got: i64 = 0
        self.got_no_ack: i64 = 0
        self.get_empty: i64 = 0
        self.redelivered: i64 = 0
        self.acked: i64 = 0
        # Bodies by size: all octets, and how many up to the bounds.
        self.body_octets: i64 = 0
        self.bodies_to_small: i64 = 0
        self.bodies_to_medium: i64 = 0
        self.bodies_to_large: i64 = 0
        # All others, by the index of their bound, the last beyond all; empty: none.
        self.bodies: list[int] = []

    def receive(self, body_size: i64) -> None:
        """A message was published."""
        self.received += 1
        self.body_octets += body_size
        if body_size <= SMALL:
            self.bodies_to_small += 1
        elif body_size <= MEDIUM:
            self.bodies_to_medium += 1
        elif body_size <= LARGE:
            self.bodies_to_large += 1
        else:
            self._receive_large(body_size)

    def _receive_large(self, body_size: i64) -> None:
        if not self.bodies:
            self.bodies = [0] * (len(SIZE_BOUNDS) + 1)
        index = 3
        while index < len(SIZE_BOUNDS) and body_size > SIZE_BOUNDS[index]:
            index += 1
        self.bodies[index] += 1

    def sizes(self) -> list[int]:
        """How many bodies of each size: up to each bound but not the one before it."""
        counts = self.bodies or [0] * (len(SIZE_BOUNDS) + 1)
        small = int(self.bodies_to_small)
        medium = int(self.bodies_to_medium)
        return [small, medium, int(self.bodies_to_large), *counts[3:]]

    def add(self, other: "Traffic") -> None:
        """Count what another has counted, too."""
        self.received += other.received
        self.received_to_confirm += other.received_to_confirm
        self.confirmed += other.confirmed
        self.routed += other.routed
        self.unroutable += other.unroutable
        self.returned += other.returned
        self.delivered += other.delivered
        self.delivered_no_ack += other.delivered_no_ack
        self.got += other.got
        self.got_no_ack += other.got_no_ack
        self.get_empty += other.get_empty
        self.redelivered += other.redelivered
        self.acked += other.acked
        self.body_octets += other.body_octets
        self.bodies_to_small += other.bodies_to_small
        self.bodies_to_medium += other.bodies_to_medium
        self.bodies_to_large += other.bodies_to_large
        if other.bodies:
            self.bodies = self.bodies or [0] * (len(SIZE_BOUNDS) + 1)
            for index, count in enumerate(other.bodies):
                self.bodies[index] += count


@final
class Churn:
    """What has come and gone since the start, and who was let in."""

    __slots__ = (
        "channels_closed",
        "channels_opened",
        "logins_failed",
        "logins_succeeded",
        "queues_created",
        "queues_declared",
        "queues_deleted",
    )

    def __init__(self) -> None:
        self.channels_opened = 0
        self.channels_closed = 0
        self.queues_declared = 0
        self.queues_created = 0
        self.queues_deleted = 0
        self.logins_succeeded = 0
        self.logins_failed = 0
