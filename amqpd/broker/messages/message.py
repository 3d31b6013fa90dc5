"""A published message: what all the queues that hold it share.

The content is kept in one canonical form, as it came from the publisher and as it
goes to consumers and to the log:

    address   exchange and routing key in wire form, then the frame end that follows
              them in basic.deliver and basic.return
    content   the header frame, and behind it the body frame if the body is small
    body      a large body, bare: it is framed for each consumer

So a delivery is two pieces pasted behind a few octets of its own. The channel
number inside `content` is the publisher's and is patched when it differs.
"""

from typing import Final, final

from librt.strings import read_i64_be
from mypy_extensions import i64, mypyc_attr

from amqpd.wire.frames import read_u16

NOT_STORED: Final = -1
# How a message that was read from the log is settled: its append number is not known.
RECOVERED: Final[i64] = 0

# What a message and a queue's hold on it take in memory besides the octets (measured:
# resident memory per message of 100 octets, less these).
REFERENCE_COST: Final[i64] = 350
# The part of it that each further queue's hold takes: the message itself is shared.
HOLD_COST: Final[i64] = 100


@final
@mypyc_attr(acyclic=True)
class Message:
    """The immutable content of a message, and its number in the log."""

    __slots__ = (
        "address",
        "body",
        "channel",
        "content",
        "cost",
        "enqueued_ms",
        "expires_ms",
        "facts",
        "number",
        "size",
    )

    def __init__(
        self,
        address: bytes,
        content: bytes,
        body: bytes | None,
        facts: i64,
        enqueued_ms: i64,
    ) -> None:
        self.address = address
        self.content = content
        self.body = body
        # What walking the properties found: amqpd.wire.properties has the bits.
        self.facts: i64 = facts
        self.enqueued_ms: i64 = enqueued_ms
        self.expires_ms: i64 = 0
        # The log's number for it, once a durable queue has taken it.
        self.number: i64 = NOT_STORED
        self.channel: i64 = read_u16(content, 1)
        # What it weighs in memory and on the wire, in octets.
        self.size: i64 = len(content) if body is None else len(content) + len(body)
        # What each queue that holds it is charged for memory.
        self.cost: i64 = self.size + REFERENCE_COST

    def share_among(self, queue_count: i64) -> None:
        """It goes to so many queues: each is charged its part.

        To be called before the first of them has it: the cost never changes later.
        """
        shared = self.size + REFERENCE_COST - HOLD_COST
        self.cost = shared // queue_count + HOLD_COST

    def exchange_name(self) -> str:
        """The exchange that it was published to."""
        size = self.address[0]
        return self.address[1 : 1 + size].decode("utf-8", "replace")

    def routing_key(self) -> bytes:
        """The routing key that it was published with."""
        return self.address[2 + self.address[0] : -1]

    def body_size(self) -> i64:
        """The size of the body in octets, as the content header declares it."""
        return i64(read_i64_be(self.content, 11))
