"""Whose turn it is: the consumers of a queue that stand in line.

Messages go round among the consumers of the highest priority that have room. A
consumer that has none leaves the line and is let in again when it has; both cost the
same however many consumers there are. The line is a deque per priority, so whose
turn it is survives the end of a loop turn.
"""

from collections import deque
from typing import final

from mypy_extensions import i64

from amqpd.broker.queues.delivery import Consumer


@final
class Level:
    """The consumers of one priority that stand in line."""

    __slots__ = ("line", "priority")

    def __init__(self, priority: int) -> None:
        self.priority = priority
        self.line: deque[Consumer] = deque()


@final
class ConsumerRing:
    """The line of a queue's consumers, highest priority first."""

    __slots__ = ("_levels", "count")

    def __init__(self) -> None:
        self._levels: list[Level] = []
        # How many stand in line, over all priorities.
        self.count: i64 = 0

    def add(self, consumer: Consumer) -> None:
        """Let a consumer in at the end of its line, unless it stands there."""
        if consumer.in_ring:
            return
        consumer.in_ring = True
        self.count += 1
        self._level(consumer.priority).line.append(consumer)

    def remove(self, consumer: Consumer) -> None:
        """Take a consumer out, wherever it stands."""
        if not consumer.in_ring:
            return
        consumer.in_ring = False
        self.count -= 1
        self._level(consumer.priority).line.remove(consumer)

    def next(self) -> Consumer | None:
        """The consumer whose turn it is; it moves to the end of its line.

        Consumers that have no room leave the line on the way.
        """
        for level in self._levels:
            line = level.line
            while line:
                consumer = line.popleft()
                if consumer.has_room():
                    line.append(consumer)
                    return consumer
                consumer.in_ring = False
                self.count -= 1
        return None

    def is_awaited(self, consumers: list[Consumer]) -> bool:
        """Whether one of a queue's consumers could take more, or will with an ack.

        Those that wait for their connections, or for what else will offer them again,
        cannot. With a thousand queues on one connection those are nearly all.
        """
        for level in self._levels:
            line = level.line
            while line:
                consumer = line[0]
                if consumer.has_room():
                    return True
                line.popleft()
                consumer.in_ring = False
                self.count -= 1
        return any(not consumer.is_waiting for consumer in consumers)

    def is_alone(self, consumer: Consumer) -> bool:
        """Whether a consumer that was just `next` would be next again.

        That is so when no other one of its priority stands in line: those of
        higher priority have just been found without room.
        """
        return len(self._level(consumer.priority).line) == 1

    def clear(self) -> None:
        """Send everybody away."""
        for level in self._levels:
            for consumer in level.line:
                consumer.in_ring = False
        self._levels.clear()
        self.count = 0

    def _level(self, priority: int) -> Level:
        for level in self._levels:
            if level.priority == priority:
                return level
        # Where nobody stands in line goes, or every priority ever used would stay.
        levels = [level for level in self._levels if level.line]
        at = 0
        while at < len(levels) and levels[at].priority > priority:
            at += 1
        added = Level(priority)
        levels.insert(at, added)
        self._levels = levels
        return added
