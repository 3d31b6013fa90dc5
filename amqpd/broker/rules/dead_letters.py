"""Where dead letters go: anew through an exchange, and out of their queue at once.

    copy   = the message, with what happened to it in its headers
    queues = what the dead-letter exchange leads to, but for those where it would go
             round in circles
    append the copy, settle the original: in one turn, so in one batch of the log

A crash finds both done or neither. If the disk refuses the copy it refuses the settle
too, and the original is in its queue again. Without an exchange of that name, or
without a queue behind it, the message is dropped without a word, as in RabbitMQ.

Who wants each of them to arrive asks for more: a letter is handed over only if there
are queues for it and none refuses, or it stays where it is (`HeldLetters`).
"""

import logging
from typing import Final, final

from mypy_extensions import i64

from amqpd.broker.delays.delay_queue import DelayQueue, with_a_way
from amqpd.broker.messages.death import (
    REJECTED,
    Circumstances,
    deaths_of,
    goes_in_circles,
    with_death,
)
from amqpd.broker.messages.message import Message
from amqpd.broker.messages.routed_message import RoutedMessage
from amqpd.broker.queues.delivery import Reference, ReferenceOwner
from amqpd.broker.queues.keeper import KeepersRound
from amqpd.broker.queues.limits import Limits
from amqpd.broker.queues.queue import Queue
from amqpd.broker.timers import Timers
from amqpd.wire.frames import HEAD_SIZE
from amqpd.wire.properties import HAS_CC, HeaderTypeUnacceptable, header_strings
from routing.router import Router

logger = logging.getLogger("amqpd.queue")

_CC: Final = b"CC"
_NOTHING: Final[frozenset[bytes]] = frozenset()
_SHORT_STRING_SIZE_MAX: Final = 255
# So many cycles are remembered as told.
_TOLD_MAX: Final = 1000


class Waiting:
    """Whose dead letters wait for a change."""

    def try_soon(self) -> None:
        """There has been a change."""
        raise NotImplementedError


@final
class DeadLetters:
    """The dead letters of one virtual host."""

    def __init__(
        self,
        router: Router[Queue],
        default_routes: dict[bytes, Queue],
        keepers: KeepersRound,
        timers: Timers,
    ) -> None:
        self._router = router
        self._default_routes = default_routes
        self._keepers = keepers
        self._timers = timers
        # Sent on, by reason; of those that wait until they are taken: those that died,
        # by reason, and those that have arrived.
        self.counts: dict[str, int] = {}
        self.held_counts: dict[str, int] = {}
        self.arrived_count = 0
        # Whose dead letters wait; the values mean nothing.
        self.waiting: dict[Waiting, None] = {}
        self._told_cycles: set[tuple[str, str]] = set()

    def move(
        self,
        queue: Queue,
        reference: Reference,
        message: Message,
        reason: str,
        limits: Limits,
    ) -> None:
        """Send a message of a queue on, and forget it there.

        It is in no line of the queue any more; `message` is what it held.
        """
        copy = self.send(queue, message, reason, limits)
        if copy is not None and copy.number >= 0:
            queue.log.forget_moved(reference, message, copy.number)
        else:
            queue.log.forget(reference, message)
        self._keepers.run()

    def send(
        self, queue: Queue, message: Message, reason: str, limits: Limits
    ) -> Message | None:
        """Send a copy of a message to the dead-letter exchange of a queue.

        Returns the copy if any queue took it.
        """
        if limits.dead_letter_exchange is None:
            return None
        self.counts[reason] = self.counts.get(reason, 0) + 1
        copy = _letter(queue, message, reason, limits, self._timers.now_ms)
        if copy is None:
            return None
        taking: list[Queue] = []
        for target in self._targets(queue, copy, reason, "dropped"):
            if target.keeper is None or not target.keeper.refuses(copy):
                taking.append(target)
        _publish(copy, taking)
        return copy if taking else None

    def hand_over(
        self,
        queue: Queue,
        reference: Reference,
        reason: str,
        limits: Limits,
        died_ms: i64,
        owner: ReferenceOwner,
    ) -> str:
        """Send a message of a queue on and forget it there, if all take it.

        It is in no line of the queue any more. If nobody can have it, or somebody does
        not want it, nothing is done; returns why, or nothing. Who gets it back if the
        disk refuses it is `owner`.
        """
        message = reference.message
        exchange = limits.dead_letter_exchange
        assert exchange is not None
        copy = _letter(queue, message, reason, limits, died_ms)
        if copy is None:
            return f"exchange '{exchange}' and their routing key are too long"
        copy.enqueued_ms = self._timers.now_ms
        if exchange and not self._router.has_exchange(exchange):
            return f"there is no exchange '{exchange}'"
        targets = with_a_way(self._targets(queue, copy, reason, "kept"), copy)
        if not targets:
            return f"exchange '{exchange}' leads them to no queue"
        for target in targets:
            if target.keeper is not None and target.keeper.refuses(copy):
                return f"queue '{target.name}' has no room for them"
        _publish(copy, targets)
        if copy.number >= 0:
            queue.log.forget_moved(reference, message, copy.number, owner)
        else:
            queue.log.forget(reference, message)
        self.arrived_count += 1
        self._keepers.run()
        return ""

    def tell_fallback(self, queue: Queue) -> None:
        """Somebody wants that all letters of a queue arrive, and it cannot be."""
        logger.warning(
            "dead letters of queue '%s' in vhost '%s' are sent at-most-once: "
            "at-least-once needs a dead-letter exchange and overflow reject-publish",
            queue.name,
            queue.vhost_name,
        )

    def look_again(self) -> None:
        """There are other queues, exchanges, bindings or rules than there were."""
        for letters in self.waiting:
            letters.try_soon()

    def _targets(
        self, queue: Queue, copy: Message, reason: str, fate: str
    ) -> list[Queue]:
        """Where a letter goes by now; `fate` is what becomes of one in circles."""
        queues = self._queues(copy)
        if reason == REJECTED:
            return queues
        return self._without_cycles(copy, queues, queue.name, fate)

    def _queues(self, copy: Message) -> list[Queue]:
        exchange = copy.exchange_name()
        keys = list(dict.fromkeys([copy.routing_key(), *_copied_to(copy)]))
        if exchange:
            if not self._router.has_exchange(exchange):
                return []
            return self._router.resolve(
                exchange, RoutedMessage(copy, keys)
            ).destinations
        queues: list[Queue] = []
        for key in keys:
            if len(key) <= _SHORT_STRING_SIZE_MAX:
                found = self._default_routes.get(b"\x00" + bytes((len(key),)) + key)
                if found is not None:
                    queues.append(found)
        return queues

    def _without_cycles(
        self, copy: Message, queues: list[Queue], source: str, fate: str
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
                    "message %s: dead letters of queue '%s' in vhost '%s' go in "
                    "circles by way of queue '%s'",
                    fate,
                    source,
                    queue.vhost_name,
                    queue.name,
                )
        return kept


def _letter(
    queue: Queue, message: Message, reason: str, limits: Limits, died_ms: i64
) -> Message | None:
    """Return what goes to the dead-letter exchange, for which it is addressed.

    None: nothing has such a name, and no delivery could carry it.
    """
    exchange = limits.dead_letter_exchange or ""
    key = message.routing_key()
    told = Circumstances(
        queue.name,
        reason,
        message.exchange_name(),
        [key, *_copied_to(message)],
        died_ms,
    )
    leave_out = _NOTHING
    if limits.dead_letter_key is not None:
        key = limits.dead_letter_key
        leave_out = frozenset((_CC,))
    if max(len(exchange.encode()), len(key)) > _SHORT_STRING_SIZE_MAX:
        return None
    return with_death(message, told, _address(exchange, key), leave_out)


def _publish(copy: Message, queues: list[Queue]) -> None:
    if len(queues) > 1:
        copy.share_among(len(queues))
    for queue in queues:
        queue.publish(copy)


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
