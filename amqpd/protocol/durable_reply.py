"""A reply that waits for the disk: tx.commit-ok and queue.purge-ok.

The channel is held from the method until its reply, so the client's next methods see
what this one did. Publisher confirms wait without holding anything: `publishing.py`.
"""

from typing import final

from mypy_extensions import i64
from pamqp.base import Frame

from amqpd.broker.errors import ResourceError
from amqpd.broker.ports import DurabilityWaiter
from amqpd.protocol.ports import ChannelFace


@final
class DurableReply(DurabilityWaiter):
    """Sends a method and releases the channel once the disk has what went before."""

    def __init__(
        self, channel: ChannelFace, method: Frame | None, refusal: str
    ) -> None:
        self._channel = channel
        # None: the client asked for no reply.
        self._method = method
        self._refusal = refusal

    def on_durable(self, first: i64, last: i64) -> None:
        """An fsync that covers it has returned."""
        if self._method is not None:
            self._channel.reply(self._method)
        self._channel.release()

    def on_refused(self, first: i64, last: i64) -> None:
        """The disk would not take it: the connection is told by a 506."""
        self._channel.fail(ResourceError(self._refusal))
