"""What deleted queues held in memory: let go a slice at a time.

A queue is deleted by one method, whatever it holds, but to free a million messages
takes 0.3 s. And when the last of some queues goes that were filled together, all pages
that they shared go back to the system in that moment: another 0.3 s for 3 GB. So a
queue leaves its lines here when it is deleted, and each turn lets go of some. Until
then they count in `MemoryUse`, since that is where they are.
"""

from collections import deque
from typing import final

from mypy_extensions import i64

from amqpd.broker.messages.message import RECOVERED
from amqpd.broker.queues.delivery import Reference
from amqpd.broker.queues.memory_use import MemoryUse


@final
class _Part:
    """A line of a queue that is gone."""

    __slots__ = ("is_durable", "line")

    def __init__(self, line: deque[Reference], is_durable: bool) -> None:
        self.line = line
        self.is_durable = is_durable


@final
class Remains:
    """The lines of deleted queues, in the order in which they came."""

    def __init__(self, use: MemoryUse) -> None:
        self._use = use
        self._parts: deque[_Part] = deque()

    @property
    def has_work(self) -> bool:
        """Whether anything is left."""
        return bool(self._parts)

    def add(self, line: deque[Reference], is_durable: bool) -> None:
        """Take over a line of a queue that was durable, or not."""
        if line:
            self._parts.append(_Part(line, is_durable))

    def let_go(self, units: i64) -> i64:
        """Let go of so many references; return how many there were."""
        done: i64 = 0
        while done < units and self._parts:
            part = self._parts[0]
            line = part.line
            while line and done < units:
                done += 1
                reference = line.popleft()
                # Of one that was struck memory has been told.
                if not reference.is_struck:
                    self._release(reference, part.is_durable)
            if not line:
                self._parts.popleft()
        return done

    def _release(self, reference: Reference, is_durable: bool) -> None:
        message = reference.message
        use = self._use
        if is_durable and message.number >= 0:
            use.stored -= message.cost
            if message.number == RECOVERED:
                use.loaded -= message.cost
        else:
            use.unstored -= message.cost
