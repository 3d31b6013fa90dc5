"""Queues whose dead letters are kept until others take them."""

from __future__ import annotations

from amqpd.broker.queues.delivery import Reference
from amqpd.broker.queues.queue import Queue

OWN_KEYS = {
    "queue_type": "quorum",
    "overflow": "reject-publish",
    "dead_letter_strategy": "at-least-once",
}
ALL = {**OWN_KEYS, "dead_letter_exchange": "", "dead_letter_routing_key": "dead"}


def get(queue: Queue) -> Reference:
    reference = queue.get(False)
    assert reference is not None
    return reference


def reject(queue: Queue, count: int = 1) -> None:
    """Take so many, then reject them."""
    for reference in [get(queue) for _ in range(count)]:
        queue.reject(reference)


def held(queue: Queue) -> int:
    assert queue.keeper is not None
    return int(queue.keeper.held_count)


def held_size(queue: Queue) -> int:
    assert queue.keeper is not None
    return int(queue.keeper.held_size)


def numbers(first: int, count: int) -> list[bytes]:
    return [b"%d" % number for number in range(first, first + count)]
