"""Who publishes to which queue, and who consumes it.

    more producers than queues    each producer has one queue, in turn
    more queues than producers    each producer has several, and publishes in turn
    a fanout exchange             each producer reaches all queues at once
    consumers                     each has one queue, in turn

A *place* is one of the addresses a producer publishes to; its messages are numbered
for themselves, so that what is missing in a queue is missing in its numbers.
"""

from __future__ import annotations

from amqpd.bench.options import Options


class Plan:
    """Producers, places, queues and consumers of one run, all by their number."""

    def __init__(self, options: Options) -> None:
        self._producers = options.producers
        self._consumers = options.consumers
        self._queues = options.queues
        self._is_fanout = options.exchange == "fanout"

    def places(self, producer: int) -> list[list[int]]:
        """Return the queues that each place of a producer reaches."""
        if self._is_fanout:
            return [list(range(self._queues))]
        if self._producers >= self._queues:
            return [[producer % self._queues]]
        return [[queue] for queue in range(producer, self._queues, self._producers)]

    def producers_of(self, queue: int) -> list[int]:
        """Return whose messages a queue gets."""
        return [
            producer
            for producer in range(self._producers)
            if any(queue in reached for reached in self.places(producer))
        ]

    def queue_of(self, consumer: int) -> int:
        """Return the queue that a consumer consumes."""
        return consumer % self._queues

    def is_consumed(self, queue: int) -> bool:
        """Whether anybody consumes the queue."""
        return queue < self._consumers
