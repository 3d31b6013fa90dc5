"""Which queues have something to deliver, and how much each may before the next.

A queue that has ready messages and a consumer in line is *dirty*. Once a turn the
dirty queues are visited round robin; each visit delivers a bounded run, so a queue
with a million messages does not keep the others waiting. Whoever drives this has a
clock and stops after a few milliseconds; what is left stays dirty.
"""

from collections import deque
from typing import Final, final

from mypy_extensions import i64

from amqpd.broker.queues.ages import TimesInQueue
from amqpd.broker.queues.delivery import ReferenceOwner
from amqpd.broker.timers import Timers

# HOTPATH: a visit delivers at most so many messages or octets.
VISIT_MESSAGES_MAX: Final[i64] = 256
VISIT_SIZE_MAX: Final[i64] = 262144


@final
class Dispatch:
    """The dirty queues, in the order of their turns."""

    __slots__ = ("_dirty", "timers", "times")

    def __init__(self) -> None:
        # They know what time it is: when a turn began, or a read.
        self.timers = Timers()
        # How long what is delivered had been in its queue.
        self.times = TimesInQueue()
        self._dirty: deque[ReferenceOwner] = deque()

    def mark(self, queue: ReferenceOwner) -> None:
        """The queue may have something to deliver. It must not be dirty yet."""
        queue.is_dirty = True
        self._dirty.append(queue)

    def has_work(self) -> bool:
        """Whether any queue is dirty."""
        return bool(self._dirty)

    def visit_next(self) -> None:
        """Visit the dirty queue whose turn it is; does nothing when there is none."""
        if not self._dirty:
            return
        queue = self._dirty.popleft()
        queue.is_dirty = False
        if queue.dispatch(VISIT_MESSAGES_MAX, VISIT_SIZE_MAX) and not queue.is_dirty:
            self.mark(queue)
