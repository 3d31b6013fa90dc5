"""What a consumer keeps too long goes back to its queue (x-consumer-timeout).

Only that: channel and consumer live on, and a late ack is taken without a word. What
went back still counts as unacked for prefetch until the client answers it: whoever is
stuck gets no more than before, and another consumer gets the message.

Deliveries carry no time. Every now and then the watch notes which tag would be next:

    time   0 s       10 s        20 s        30 s
    next   17        40          40          95        timeout 20 s: at 30 s whatever is
                                                       left below 40 is overdue

The queue's timeout may change with a policy; what was noted stays true.

So a delivery costs nothing more than one that nobody watches, and goes back between
one timeout and the same plus two eighths of it.
"""

import logging
from typing import Final, final

from mypy_extensions import i64

from amqpd.broker.timers import NEVER_MS, Timers
from amqpd.protocol import consumer_arguments
from amqpd.protocol.consuming import ChannelConsumer, ConsumerWatch, Consuming

logger = logging.getLogger("amqpd.channel")

MARKS_PER_TIMEOUT: Final[i64] = 8
# The broker is not woken more often than this for one consumer.
INTERVAL_MIN_MS: Final[i64] = 100


@final
class Mark:
    """Tags below `next_tag` were delivered before that time."""

    __slots__ = ("next_tag", "time_ms")

    def __init__(self, time_ms: i64, next_tag: i64) -> None:
        self.time_ms: i64 = time_ms
        self.next_tag: i64 = next_tag


@final
class DeliveryTimeout(ConsumerWatch):
    """Watches the deliveries of one consumer."""

    def __init__(
        self, consuming: Consuming, consumer: ChannelConsumer, timers: Timers
    ) -> None:
        super().__init__()
        self._consuming = consuming
        self._consumer = consumer
        self._timers = timers
        self._timeout_ms: i64 = 0
        self._interval_ms: i64 = 0
        self._marks: list[Mark] = []
        self.on_rules_changed()

    def on_rules_changed(self) -> None:
        """Begin if there is a timeout, or go on with the one that there is now."""
        consumer = self._consumer
        timeout_ms = consumer_arguments.timeout_ms(consumer.source, consumer.arguments)
        if timeout_ms == self._timeout_ms:
            return
        self._timeout_ms = timeout_ms
        self._interval_ms = max(timeout_ms // MARKS_PER_TIMEOUT, INTERVAL_MIN_MS)
        if timeout_ms:
            self._timers.start(self)

    def on_start(self, now_ms: i64) -> i64:
        """The consumer has just subscribed, or its timeout has changed."""
        self._mark(now_ms)
        return now_ms + self._interval_ms

    def on_due(self, now_ms: i64) -> i64:
        """Give back what is overdue."""
        consumer = self._consumer
        if not self._timeout_ms or (
            consumer.is_cancelled and not consumer.unacked_count
        ):
            self._marks.clear()
            return NEVER_MS
        self._mark(now_ms)
        marks = self._marks
        before_tag: i64 = 0
        while marks and marks[0].time_ms + self._timeout_ms <= now_ms:
            before_tag = marks.pop(0).next_tag
        if before_tag:
            self._give_back(before_tag)
        return now_ms + self._interval_ms

    def _mark(self, now_ms: i64) -> None:
        self._marks.append(Mark(now_ms, self._consuming.unacked.next_tag))

    def _give_back(self, before_tag: i64) -> None:
        count = self._consuming.give_back_overdue(self._consumer, before_tag)
        if count:
            queue = self._consumer.source
            logger.warning(
                "queue '%s' in vhost '%s': the consumer '%s' on channel %d has not "
                "acknowledged %d deliveries within %d ms; they go back to the queue",
                queue.name,
                queue.vhost_name,
                self._consumer.tag,
                self._consuming.number,
                count,
                self._timeout_ms,
            )
