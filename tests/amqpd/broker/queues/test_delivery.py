"""What queues, consumers and references begin with."""

import pytest

from amqpd.broker.queues.delivery import NOT_PAGED, Consumer, Reference, ReferenceOwner
from tests.support.deliveries import message_of


def test_a_new_reference_is_nobodys_and_was_never_delivered() -> None:
    owner, message = ReferenceOwner(), message_of()
    reference = Reference(owner, message, 7)
    assert (reference.queue, reference.message, reference.seq) == (owner, message, 7)
    assert (reference.consumer, reference.redelivered) == (None, False)
    assert reference.page == NOT_PAGED


def test_a_new_consumer_stands_nowhere_and_has_nothing() -> None:
    consumer = Consumer(ReferenceOwner(), "t", True, False, 3, 5, {"a": 1})
    assert (consumer.tag, consumer.no_ack, consumer.exclusive) == ("t", True, False)
    assert (consumer.priority, consumer.prefetch, consumer.arguments) == (
        3,
        5,
        {"a": 1},
    )
    assert (consumer.in_ring, consumer.is_waiting, consumer.is_cancelled) == (
        False,
        False,
        False,
    )
    assert consumer.unacked_count == 0


def test_what_a_queue_and_a_consumer_can_do_is_theirs_to_say() -> None:
    owner = ReferenceOwner()
    consumer = Consumer(owner, "t", False, False, 0, 0, {})
    reference = Reference(owner, message_of(), 1)
    unsaid = (
        lambda: owner.dispatch(1, 1),
        lambda: owner.settle(reference),
        lambda: owner.requeue(reference),
        lambda: owner.offer(consumer),
        consumer.has_room,
        lambda: consumer.deliver(reference),
        consumer.on_queue_gone,
    )
    for call in unsaid:
        with pytest.raises(NotImplementedError):
            call()
