"""Fair dispatch as a model: one message at a time, nothing clever.

A consumer that has room stands in the line of its priority. Whoever is first in the
highest line gets the next message and goes to the end; whoever is first and has no
room leaves, and comes back at the end when something of its is acked or, if it was
the channel's limit that it lacked, when that has room again.
"""

from __future__ import annotations


class ModelChannel:
    """A limit that several consumers share; 0 is none."""

    def __init__(self, prefetch: int = 0) -> None:
        self.prefetch = prefetch
        self.unacked_count = 0
        self.waiting: list[ModelConsumer] = []

    @property
    def has_room(self) -> bool:
        return not self.prefetch or self.unacked_count < self.prefetch


class ModelConsumer:
    """A consumer with a limit of its own on a channel."""

    def __init__(
        self,
        tag: str,
        prefetch: int = 0,
        priority: int = 0,
        channel: ModelChannel | None = None,
    ) -> None:
        self.tag = tag
        self.prefetch = prefetch
        self.priority = priority
        self.channel = channel or ModelChannel()
        self.unacked_count = 0

    @property
    def has_own_room(self) -> bool:
        return not self.prefetch or self.unacked_count < self.prefetch


class Model:
    """A queue of `count` messages and its consumers."""

    def __init__(self, count: int, has_single_active: bool = False) -> None:
        self.ready_count = count
        self.sequence: list[str] = []
        self.has_single_active = has_single_active
        self._line: list[ModelConsumer] = []
        # All that are subscribed, the longest first, and who is active of them.
        self._members: list[ModelConsumer] = []
        self._active: ModelConsumer | None = None

    def subscribe(self, consumer: ModelConsumer) -> ModelConsumer:
        """Let a consumer stand at the end of its line."""
        self._members.append(consumer)
        if self._active is None:
            self._active = consumer
        self.offer(consumer)
        return consumer

    def cancel(self, consumer: ModelConsumer) -> None:
        """End a subscription; the active one is followed by the best of the others."""
        self._members.remove(consumer)
        if consumer in self._line:
            self._line.remove(consumer)
        if consumer is self._active:
            best = max((one.priority for one in self._members), default=0)
            heirs = [one for one in self._members if one.priority == best]
            self._active = heirs[0] if heirs else None
            if self._active is not None and self.has_single_active:
                self.offer(self._active)

    def offer(self, consumer: ModelConsumer) -> None:
        """The consumer may have room again."""
        if consumer not in self._members or consumer in self._line:
            return
        if consumer is self._active or not self.has_single_active:
            self._line.append(consumer)

    def deliver(self, count: int) -> None:
        """Deliver so many messages, or as many as anybody has room for."""
        for _ in range(count):
            consumer = self._next() if self.ready_count else None
            if consumer is None:
                return
            self.ready_count -= 1
            self.sequence.append(consumer.tag)
            consumer.unacked_count += 1
            consumer.channel.unacked_count += 1

    def ack(self, consumer: ModelConsumer) -> None:
        """The consumer acks one message."""
        consumer.unacked_count -= 1
        consumer.channel.unacked_count -= 1
        self.offer(consumer)
        self.wake(consumer.channel)

    def set_prefetch(self, channel: ModelChannel, prefetch: int) -> None:
        """The channel's limit changes, at once."""
        channel.prefetch = prefetch
        self.wake(channel)

    def wake(self, channel: ModelChannel) -> None:
        """Whoever waited for the channel's limit may have room again."""
        if channel.has_room:
            waiting, channel.waiting = channel.waiting, []
            for consumer in waiting:
                self.offer(consumer)

    def _next(self) -> ModelConsumer | None:
        for priority in sorted({one.priority for one in self._line}, reverse=True):
            for consumer in [one for one in self._line if one.priority == priority]:
                self._line.remove(consumer)
                if consumer.has_own_room and consumer.channel.has_room:
                    self._line.append(consumer)
                    return consumer
                if consumer.has_own_room and consumer not in consumer.channel.waiting:
                    consumer.channel.waiting.append(consumer)
        return None
