"""Where dead letters go: anew through an exchange, and out of their queue at once.

    copy   = the message, with what happened to it in its headers
    queues = what the dead-letter exchange leads to, but for those where it would go
             round in circles
    append the copy, settle the original: in one turn, so in one batch of the log

A crash finds both done or neither. If the disk refuses the copy it refuses the settle
too, and the original is in its queue again. Without an exchange of that name, or
without a queue behind it, the message is dropped without a word, as in RabbitMQ.
"""

import logging
from typing import Final, final

from mypy_extensions import i64

from amqpd.broker.delays.delay_queue import DelayQueue
from amqpd.broker.messages.death import (
    REJECTED,
    Circumstances,
    deaths_of,
    goes_in_circles,
    with_death,
)
from amqpd.broker.messages.message import Message
from amqpd.broker.messages.routed_message import RoutedMessage
from amqpd.broker.queues.delivery import Reference
from amqpd.broker.queues.keeper import KeepersRound
from amqpd.broker.queues.limits import Limits
from amqpd.broker.queues.queue import Queue
from amqpd.wire.frames import HEAD_SIZE
from amqpd.wire.properties import HAS_CC, HeaderTypeUnacceptable, header_strings
from routing.router import Router

logger = logging.getLogger("amqpd.queue")

_CC: Final = b"CC"
_NOTHING: Final[frozenset[bytes]] = frozenset()
_SHORT_STRING_SIZE_MAX: Final = 255
# So many cycles are remembered as told.
_TOLD_MAX: Final = 1000


@final
class DeadLetters:
    """The dead letters of one virtual host."""

    def __init__(
        self,
        router: Router[Queue],
        default_routes: dict[bytes, Queue],
        keepers: KeepersRound,
    ) -> None:
        self._router = router
        self._default_routes = default_routes
        self._keepers = keepers
        # Sent on, by reason.
        self.counts: dict[str, int] = {}
        self._told_cycles: set[tuple[str, str]] = set()

    def move(
        self,
        queue: Queue,
        reference: Reference,
        message: Message,
        reason: str,
        limits: Limits,
        now_ms: i64,
    ) -> None:
        """Send a message of a queue on, and forget it there.

        It is in no line of the queue any more; `message` is what it held.
        """
        copy = self.send(queue, message, reason, limits, now_ms)
        if copy is not None and copy.number >= 0:
            queue.log.forget_moved(reference, message, copy.number)
        else:
            queue.log.forget(reference, message)
        self._keepers.run()

    def send(
        self, queue: Queue, message: Message, reason: str, limits: Limits, now_ms: i64
    ) -> Message | None:
        """Send a copy of a message to the dead-letter exchange of a queue.

        Returns the copy if any queue took it.
        """
        exchange = limits.dead_letter_exchange
        if exchange is None:
            return None
        self.counts[reason] = self.counts.get(reason, 0) + 1
        came_by, key = _names(message.address)
        own_keys = [key, *_copied_to(message)]
        keys = own_keys
        leave_out = _NOTHING
        if limits.dead_letter_key is not None:
            keys = [limits.dead_letter_key]
            leave_out = frozenset((_CC,))
        if max(len(exchange.encode()), len(keys[0])) > _SHORT_STRING_SIZE_MAX:
            # Nothing has such a name, and no delivery could carry it.
            return None
        told = Circumstances(queue.name, reason, came_by, own_keys, now_ms)
        copy = with_death(message, told, _address(exchange, keys[0]), leave_out)
        queues = self._queues(exchange, copy, keys)
        if reason != REJECTED:
            queues = self._without_cycles(copy, queues, queue.name)
        taking: list[Queue] = []
        for target in queues:
            if target.keeper is None or not target.keeper.refuses(copy):
                taking.append(target)
        if len(taking) > 1:
            copy.share_among(len(taking))
        for target in taking:
            target.publish(copy)
        return copy if taking else None

    def _queues(self, exchange: str, copy: Message, keys: list[bytes]) -> list[Queue]:
        if exchange:
            if not self._router.has_exchange(exchange):
                return []
            routed = RoutedMessage(copy, list(dict.fromkeys(keys)))
            return self._router.resolve(exchange, routed).destinations
        queues: list[Queue] = []
        for key in dict.fromkeys(keys):
            if len(key) <= _SHORT_STRING_SIZE_MAX:
                found = self._default_routes.get(b"\x00" + bytes((len(key),)) + key)
                if found is not None:
                    queues.append(found)
        return queues

    def _without_cycles(
        self, copy: Message, queues: list[Queue], source: str
    ) -> list[Queue]:
        deaths = deaths_of(copy)
        kept: list[Queue] = []
        for queue in queues:
            # Where it waits for its time it has not died, whatever that is called.
            is_room = isinstance(queue, DelayQueue)
            if is_room or not goes_in_circles(deaths, queue.name):
                kept.append(queue)
            elif (source, queue.name) not in self._told_cycles:
                if len(self._told_cycles) < _TOLD_MAX:
                    self._told_cycles.add((source, queue.name))
                logger.warning(
                    "message dropped: dead letters of queue '%s' in vhost '%s' go in "
                    "circles by way of queue '%s'",
                    source,
                    queue.vhost_name,
                    queue.name,
                )
        return kept


def _names(address: bytes) -> tuple[str, bytes]:
    """Exchange and routing key of a message."""
    size = address[0]
    exchange = address[1 : 1 + size].decode("utf-8", "replace")
    return exchange, address[2 + size : -1]


def _address(exchange: str, key: bytes) -> bytes:
    name = exchange.encode()
    return bytes((len(name),)) + name + bytes((len(key),)) + key + b"\xce"


def _copied_to(message: Message) -> list[bytes]:
    """The routing keys in CC."""
    if not message.facts & HAS_CC:
        return []
    try:
        return header_strings(message.content, HEAD_SIZE, _CC)
    except HeaderTypeUnacceptable:
        # It came before CC meant anything here.
        return []
