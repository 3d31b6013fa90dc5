"""Messages whose delay is over: through their exchange once more, now for good.

    copy   = the message, with its delay negated
    queues = where its exchange leads by now
    append the copy, settle the original: in one turn, so in one batch of the log

A crash finds both done or neither, as with dead letters. Where nothing is bound, and
no alternate exchange is, the message is dropped without a word, as in RabbitMQ; so it
is where a full queue refuses it. It knows the exchanges of one virtual host, and not
where messages wait.
"""

from typing import final

from mypy_extensions import i64

from amqpd.broker.errors import PreconditionFailed
from amqpd.broker.messages.delay import released
from amqpd.broker.messages.message import Message
from amqpd.broker.messages.routed_message import RoutedMessage
from amqpd.broker.messages.sender_selected import selected_keys, without_blind_copies
from amqpd.broker.queues.delivery import Reference
from amqpd.broker.queues.keeper import KeepersRound
from amqpd.broker.queues.queue import Queue
from amqpd.wire.properties import HAS_BCC, HAS_CC
from routing.router import Router


@final
class DelayedMessages:
    """The delayed messages of one virtual host."""

    def __init__(self, router: Router[Queue], keepers: KeepersRound) -> None:
        self._router = router
        self._keepers = keepers

    def move(
        self, exchange: str, queue: Queue, reference: Reference, now_ms: i64
    ) -> None:
        """Send a message on that waited in `queue`, and forget it there."""
        message = reference.message
        copy = self._send(exchange, message, now_ms)
        if copy is not None and copy.number >= 0:
            queue.log.forget_moved(reference, message, copy.number)
        else:
            queue.log.forget(reference, message)
        self._keepers.run()

    def has_way(self, exchange: str, message: Message) -> bool:
        """Whether a message would go anywhere if its delay were over."""
        routed = RoutedMessage(message, _keys(message))
        # Only asked about: nothing waits, and no history keeps it.
        routed.is_message = False
        return bool(self._router.resolve(exchange, routed).destinations)

    def _send(self, exchange: str, message: Message, now_ms: i64) -> Message | None:
        """Send the copy; return it if any queue took it."""
        keys = _keys(message)
        copy = without_blind_copies(released(message, now_ms))
        routed = RoutedMessage(copy, keys)
        taking: list[Queue] = []
        for queue in self._router.resolve(exchange, routed).destinations:
            keeper = queue.keeper
            if keeper is None or not keeper.refuses(copy):
                taking.append(queue)
            else:
                keeper.on_refused(copy)
        if len(taking) > 1:
            copy.share_among(len(taking))
        for queue in taking:
            queue.publish(copy)
        return copy if taking else None


def _keys(message: Message) -> list[bytes]:
    """The routing keys of a message, each once."""
    address = message.address
    keys = [address[2 + address[0] : -1]]
    if message.facts & (HAS_CC | HAS_BCC):
        try:
            keys += selected_keys(message)
        except PreconditionFailed:
            # A dead letter, from before CC meant anything to the message.
            return keys
    return list(dict.fromkeys(keys))
