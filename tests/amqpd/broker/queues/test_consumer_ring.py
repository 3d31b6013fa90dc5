"""The line of consumers: round robin, highest priority first, out without room."""

import pytest

from amqpd.broker.queues.consumer_ring import ConsumerRing
from amqpd.broker.queues.delivery import Consumer
from amqpd.broker.queues.queue import Queue
from amqpd.protocol.consuming import ChannelConsumer
from amqpd.protocol.output import CONSUMERS_MARK
from tests.support.connection_pair import Bench
from tests.support.deliveries import ConsumingChannel


@pytest.fixture
def queue(bench: Bench) -> Queue:
    dispatch, pager = bench.broker.dispatch, bench.broker.pager
    return Queue(1, "q", "/", False, False, None, {}, b"", dispatch, pager)


def consumer_on(queue: Queue, tag: str, priority: int = 0) -> ChannelConsumer:
    """A consumer with room for one message that stands in no line yet."""
    consuming = ConsumingChannel().consuming
    return ChannelConsumer(consuming, queue, tag, False, False, priority, 1, {})


def ring_of(*consumers: Consumer) -> ConsumerRing:
    ring = ConsumerRing()
    for consumer in consumers:
        ring.add(consumer)
    return ring


def turns(ring: ConsumerRing, count: int) -> str:
    """Whose turn it is, `count` times: tags one behind the other, - for nobody."""
    found = [ring.next() for _ in range(count)]
    return "".join("-" if consumer is None else consumer.tag for consumer in found)


def test_nobody_stands_in_an_empty_line() -> None:
    assert turns(ConsumerRing(), 1) == "-"


def test_consumers_of_one_priority_take_turns(queue: Queue) -> None:
    ring = ring_of(*(consumer_on(queue, tag) for tag in "abc"))
    assert turns(ring, 7) == "abcabca"


def test_a_higher_priority_gets_everything_while_it_has_room(queue: Queue) -> None:
    low, high, middle = (
        consumer_on(queue, tag, priority)
        for tag, priority in (("l", -5), ("h", 7), ("m", 0))
    )
    ring = ring_of(low, high, middle)
    assert turns(ring, 2) == "hh"
    high.unacked_count = 1
    assert turns(ring, 2) == "mm"
    middle.unacked_count = 1
    assert turns(ring, 2) == "ll"
    low.unacked_count = 1
    assert turns(ring, 1) == "-"


def test_whoever_has_no_room_leaves_the_line(queue: Queue) -> None:
    a, b = consumer_on(queue, "a"), consumer_on(queue, "b")
    ring = ring_of(a, b)
    a.unacked_count = 1
    assert turns(ring, 2) == "bb"
    assert (a.in_ring, b.in_ring, ring.count) == (False, True, 1)
    a.unacked_count = 0
    assert turns(ring, 1) == "b"


def test_whoever_comes_back_stands_at_the_end(queue: Queue) -> None:
    a, b, c = (consumer_on(queue, tag) for tag in "abc")
    ring = ring_of(a, b, c)
    a.unacked_count = 1
    assert turns(ring, 1) == "b"
    a.unacked_count = 0
    ring.add(a)
    assert turns(ring, 4) == "cbac"


def test_adding_somebody_who_stands_in_line_changes_nothing(queue: Queue) -> None:
    a, b = consumer_on(queue, "a"), consumer_on(queue, "b")
    ring = ring_of(a, b)
    ring.add(a)
    assert ring.count == 2
    assert turns(ring, 3) == "aba"


def test_a_removed_consumer_has_no_turn(queue: Queue) -> None:
    a, b, c = (consumer_on(queue, tag) for tag in "abc")
    ring = ring_of(a, b, c)
    assert turns(ring, 1) == "a"
    ring.remove(b)
    assert (b.in_ring, ring.count) == (False, 2)
    assert turns(ring, 3) == "cac"
    ring.remove(b)
    assert ring.count == 2


def test_one_is_alone_when_nobody_of_its_priority_stands_behind(queue: Queue) -> None:
    a, b, low = consumer_on(queue, "a"), consumer_on(queue, "b"), None
    low = consumer_on(queue, "l", -1)
    ring = ring_of(a, b, low)
    assert ring.next() is a
    assert not ring.is_alone(a)
    ring.remove(b)
    assert ring.next() is a
    assert ring.is_alone(a)


def test_a_window_is_awaited_by_who_has_room_or_will_have_with_an_ack(
    queue: Queue,
) -> None:
    a, b = consumer_on(queue, "a"), consumer_on(queue, "b", 1)
    ring = ring_of(a, b)
    assert ring.is_awaited([a, b])
    assert turns(ring, 1) == "b"
    for consumer in (a, b):
        consumer.unacked_count = 1
    assert ring.is_awaited([a, b])
    assert (a.in_ring, b.in_ring, ring.count) == (False, False, 0)


def test_nobody_awaits_a_window_while_all_wait_for_their_connections(
    queue: Queue,
) -> None:
    channel = ConsumingChannel()
    a, b = (
        ChannelConsumer(channel.consuming, queue, tag, False, False, 0, 0, {})
        for tag in "ab"
    )
    channel.output.in_transport = CONSUMERS_MARK
    assert not ring_of(a, b).is_awaited([a, b])
    c = consumer_on(queue, "c")
    assert ring_of(c).is_awaited([a, b, c])
    assert not ConsumerRing().is_awaited([])


def test_clearing_sends_everybody_away(queue: Queue) -> None:
    a, low = consumer_on(queue, "a"), consumer_on(queue, "l", -1)
    ring = ring_of(a, low)
    ring.clear()
    assert (a.in_ring, low.in_ring, ring.count) == (False, False, 0)
    assert turns(ring, 1) == "-"
    ring.add(a)
    assert turns(ring, 1) == "a"


def test_priorities_that_come_and_go_do_not_disturb_the_order(queue: Queue) -> None:
    ring = ConsumerRing()
    for priority in range(50):
        passing = consumer_on(queue, "p", priority)
        ring.add(passing)
        ring.remove(passing)
    for tag, priority in (("b", 2), ("d", 0), ("a", 3), ("c", 1)):
        ring.add(consumer_on(queue, tag, priority))
    served = ""
    while consumer := ring.next():
        served += consumer.tag
        consumer.unacked_count = 1
    assert served == "abcd"
