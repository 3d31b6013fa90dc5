"""The end of a queue that nobody uses (`expires`).

A queue is in use while it has consumers. Without, its clock begins when the last one
goes, and anew with every declaration, passive ones too, and every basic.get; publishing
to it and purging it do not count. A durable queue's begins when the broker starts. What
is left in the queue goes with it and is not dead-lettered, as in RabbitMQ.
"""

import logging
from collections.abc import Callable
from typing import final

from mypy_extensions import i64

from amqpd.broker.queues.queue import Queue
from amqpd.broker.timers import NEVER_MS, Timed

logger = logging.getLogger("amqpd.queue")


@final
class QueueExpiry(Timed):
    """The clock of one queue."""

    def __init__(
        self, queue: Queue, expires_ms: i64, delete: Callable[[Queue], None]
    ) -> None:
        super().__init__()
        self._queue = queue
        self._expires_ms: i64 = expires_ms
        self._delete = delete
        self._deadline_ms: i64 = NEVER_MS

    def on_start(self, now_ms: i64) -> i64:
        """It was used just now."""
        self._deadline_ms = now_ms + self._expires_ms
        return self._deadline_ms

    def on_due(self, now_ms: i64) -> i64:
        """Delete the queue, unless it has been used meanwhile or is in use.

        Or has got another clock: a policy has changed.
        """
        queue = self._queue
        if queue.is_deleted or queue.consumer_count or queue.expiry is not self:
            return NEVER_MS
        if now_ms >= self._deadline_ms:
            logger.info(
                "queue '%s' in vhost '%s' was not used for %d ms and is deleted",
                queue.name,
                queue.vhost_name,
                self._expires_ms,
            )
            self._delete(queue)
            return NEVER_MS
        return self._deadline_ms
