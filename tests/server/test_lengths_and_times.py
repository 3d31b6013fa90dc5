"""How much, how long, how often: lengths, overflow, times to live, delivery limits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pamqp import commands
from pamqp.commands import Basic, Queue

from tests.support.content import short_string
from tests.support.differences import Expectations
from tests.support.raw_client import Message, RawClient, channel_closed
from tests.support.waiting import eventually
from tests.support.wiring import Wiring

EXPIRATION = 0x0100


def declare(wiring: Wiring, arguments: dict[str, Any]) -> str:
    name = wiring.fresh_name()
    method = Queue.Declare(0, name, exclusive=True, arguments=arguments)
    wiring.client.call(1, method, Queue.DeclareOk)
    return name


def count(wiring: Wiring, queue: str) -> int:
    method = Queue.Declare(0, queue, passive=True)
    return wiring.client.call(1, method, Queue.DeclareOk).message_count or 0


def expiring(text: str) -> bytes:
    return EXPIRATION.to_bytes(2, "big") + short_string(text)


def publish(wiring: Wiring, queue: str, body: bytes, properties: bytes) -> None:
    wiring.client.publish(1, Basic.Publish(0, "", queue), body, properties)


def take(wiring: Wiring, queue: str) -> int:
    """Get a message, which stays unacked; return its delivery tag."""
    message = wiring.client.get(queue, no_ack=False)
    assert message is not None and isinstance(message.method, Basic.GetOk)
    return message.method.delivery_tag or 0


def answer(wiring: Wiring, queue: str, body: bytes = b"x") -> type[object]:
    """Publish; return the kind of the answer."""
    publish(wiring, queue, body, b"\x00\x00")
    return type(wiring.client.next_frame().method)


def test_the_oldest_go_when_there_are_too_many(wiring: Wiring) -> None:
    queue = declare(wiring, {"x-max-length": 2})
    for body in (b"1", b"2", b"3", b"4"):
        wiring.send("", queue, body)
    assert count(wiring, queue) == 2
    assert wiring.bodies(queue) == [b"3", b"4"]


def test_octets_of_bodies_are_counted(wiring: Wiring) -> None:
    queue = declare(wiring, {"x-max-length-bytes": 10})
    for body in (b"12345", b"67890", b"x"):
        wiring.send("", queue, body)
    assert wiring.bodies(queue) == [b"67890", b"x"]


@pytest.mark.parametrize("overflow", ["reject-publish", "reject-publish-dlx"])
def test_a_full_queue_refuses_and_says_so(wiring: Wiring, overflow: str) -> None:
    queue = declare(wiring, {"x-max-length": 1, "x-overflow": overflow})
    assert answer(wiring, queue, b"1") is Basic.Ack
    assert answer(wiring, queue, b"2") is Basic.Nack
    assert wiring.bodies(queue) == [b"1"]
    assert answer(wiring, queue, b"3") is Basic.Ack


def test_one_queue_that_refuses_is_a_nack_for_all(wiring: Wiring) -> None:
    exchange = wiring.exchange("fanout")
    full = declare(wiring, {"x-max-length": 0, "x-overflow": "reject-publish"})
    other = wiring.queue(exchange)
    wiring.bind(full, exchange)
    wiring.client.publish(1, Basic.Publish(0, exchange, "k"), b"x")
    assert isinstance(wiring.client.next_frame().method, Basic.Nack)
    assert wiring.bodies(other) == [b"x"]


def test_what_is_refused_can_be_a_dead_letter(wiring: Wiring) -> None:
    dead = wiring.queue()
    queue = declare(
        wiring,
        {
            "x-max-length": 1,
            "x-overflow": "reject-publish-dlx",
            "x-dead-letter-exchange": "",
            "x-dead-letter-routing-key": dead,
        },
    )
    assert answer(wiring, queue, b"1") is Basic.Ack
    assert answer(wiring, queue, b"2") is Basic.Nack
    eventually(lambda: count(wiring, dead) == 1)
    assert wiring.bodies(dead) == [b"2"]


def test_a_transaction_that_a_queue_refuses_fails(
    client: RawClient, wiring: Wiring
) -> None:
    queue = declare(wiring, {"x-max-length": 1, "x-overflow": "reject-publish"})
    client.open_channel(2)
    client.call(2, commands.Tx.Select(), commands.Tx.SelectOk)
    for body in (b"1", b"2"):
        client.publish(2, Basic.Publish(0, "", queue), body)
    client.send_method(2, commands.Tx.Commit())
    text = "PRECONDITION_FAILED - partial tx completion"
    assert client.expect_close(2) == channel_closed(406, text, 90, 20)
    assert wiring.bodies(queue) == [b"1"]


def test_messages_of_a_queue_expire(wiring: Wiring) -> None:
    queue = declare(wiring, {"x-message-ttl": 30})
    wiring.send("", queue, b"x")
    eventually(lambda: count(wiring, queue) == 0)


def test_a_message_with_a_time_of_its_own_expires(wiring: Wiring) -> None:
    queue = wiring.queue()
    wiring.send("", queue, b"x", expiring("30"))
    eventually(lambda: count(wiring, queue) == 0)


def test_a_message_expires_behind_one_that_does_not(
    wiring: Wiring, expectations: Expectations
) -> None:
    queue = wiring.queue()
    wiring.send("", queue, b"stays")
    wiring.send("", queue, b"goes", expiring("1"))
    if expectations.differ("expiry-in-place"):
        assert count(wiring, queue) == 2
    else:
        eventually(lambda: count(wiring, queue) == 1)
        assert wiring.bodies(queue) == [b"stays"]


@pytest.mark.parametrize(
    ("arguments", "properties"),
    [({"x-message-ttl": 0}, b"\x00\x00"), ({}, expiring("0"))],
)
def test_without_time_it_is_delivered_at_once_or_never(
    wiring: Wiring, arguments: dict[str, Any], properties: bytes
) -> None:
    queue = declare(wiring, arguments)
    wiring.send("", queue, b"lost", properties)
    assert count(wiring, queue) == 0
    consume = Basic.Consume(0, queue, "t")
    wiring.client.call(1, consume, Basic.ConsumeOk)
    publish(wiring, queue, b"now", properties)
    frames = [wiring.client.next_frame() for _ in range(4)]
    methods = [frame.method for frame in frames if frame.kind == 1]
    assert {type(method) for method in methods} == {Basic.Deliver, Basic.Ack}
    assert frames[-1].payload == b"now" or frames[-2].payload == b"now"


def test_what_comes_back_keeps_its_deadline(wiring: Wiring) -> None:
    queue = declare(wiring, {"x-message-ttl": 60})
    taken: list[Message] = []

    def takes() -> bool:
        """Take one before it expires."""
        wiring.send("", queue, b"x")
        message = wiring.client.get(queue, no_ack=False)
        taken.extend([] if message is None else [message])
        return bool(taken)

    eventually(takes)
    method = taken[0].method
    assert isinstance(method, Basic.GetOk)
    nack = Basic.Nack(method.delivery_tag or 0, False, True)
    wiring.client.send_method(1, nack)
    eventually(lambda: count(wiring, queue) == 0)


def test_a_delivery_limit_is_for_every_queue(
    wiring: Wiring, expectations: Expectations
) -> None:
    name = wiring.fresh_name()
    arguments: Any = {"x-delivery-limit": 0}
    method = Queue.Declare(0, name, exclusive=True, arguments=arguments)
    if expectations.differ("delivery-limit-of-every-queue"):
        wiring.client.send_method(1, method)
        assert wiring.client.expect_close(1).code == 406
        return
    wiring.client.call(1, method, Queue.DeclareOk)
    wiring.send("", name, b"x")
    message = wiring.client.get(name, no_ack=False)
    assert message is not None and isinstance(message.method, Basic.GetOk)
    nack = Basic.Nack(message.method.delivery_tag or 0, False, True)
    wiring.client.send_method(1, nack)
    assert count(wiring, name) == 0


def test_of_two_limits_the_first_that_is_hit_counts(wiring: Wiring) -> None:
    queue = declare(wiring, {"x-max-length": 2, "x-max-length-bytes": 10})
    for body in (b"1", b"2", b"3", b"12345", b"123456"):
        wiring.send("", queue, body)
    assert wiring.bodies(queue) == [b"123456"]


def test_what_goes_straight_to_a_consumer_is_not_counted(
    wiring: Wiring, connect: Callable[[], RawClient]
) -> None:
    name = wiring.fresh_name()
    arguments: Any = {"x-max-length": 1, "x-overflow": "reject-publish"}
    method = Queue.Declare(0, name, arguments=arguments)
    wiring.client.call(1, method, Queue.DeclareOk)
    consumer = connect()
    consumer.call(1, Basic.Consume(0, name), Basic.ConsumeOk)
    answers = []
    for body in (b"1", b"2", b"3"):
        answers.append(answer(wiring, name, body))
        consumer.expect_message(1, Basic.Deliver)
    assert answers == [Basic.Ack] * 3


def test_a_length_of_nothing_keeps_nothing(wiring: Wiring) -> None:
    queue = declare(wiring, {"x-max-length": 0})
    wiring.send("", queue, b"x")
    assert wiring.bodies(queue) == []


def test_what_is_unacked_is_not_counted(wiring: Wiring) -> None:
    queue = declare(wiring, {"x-max-length": 1})
    wiring.send("", queue, b"1")
    tag = take(wiring, queue)
    wiring.send("", queue, b"2")
    assert count(wiring, queue) == 1
    # It comes back in front of the other one, and then there is one too many.
    wiring.client.send_method(1, Basic.Nack(tag, False, True))
    eventually(lambda: count(wiring, queue) == 1)
    assert wiring.bodies(queue) == [b"2"]


def test_without_confirms_what_is_refused_is_dropped_without_a_word(
    wiring: Wiring,
) -> None:
    queue = declare(wiring, {"x-max-length": 1, "x-overflow": "reject-publish"})
    wiring.client.open_channel(2)
    for body in (b"1", b"2"):
        wiring.client.publish(2, Basic.Publish(0, "", queue, mandatory=True), body)
    wiring.client.call(2, Basic.Qos(), Basic.QosOk)
    assert wiring.bodies(queue) == [b"1"]


def test_octets_that_would_be_too_many_are_refused(wiring: Wiring) -> None:
    limits = {"x-max-length-bytes": 5, "x-overflow": "reject-publish"}
    queue = declare(wiring, limits)
    bodies = (b"123", b"456", b"45", b"6", b"")
    answers = [answer(wiring, queue, body) for body in bodies]
    assert answers == [Basic.Ack, Basic.Nack, Basic.Ack, Basic.Nack, Basic.Ack]
    assert wiring.bodies(queue) == [b"123", b"45", b""]


@pytest.mark.parametrize("overflow", ["reject-publish", "drop-head"])
def test_only_what_is_dropped_is_a_dead_letter(wiring: Wiring, overflow: str) -> None:
    dead = wiring.queue()
    letters = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": dead}
    queue = declare(wiring, {"x-max-length": 1, "x-overflow": overflow, **letters})
    kept = [answer(wiring, queue, body) for body in (b"1", b"2")]
    is_dropping = overflow == "drop-head"
    assert kept == [Basic.Ack, Basic.Ack if is_dropping else Basic.Nack]
    if is_dropping:
        eventually(lambda: count(wiring, dead) == 1)
    assert wiring.bodies(queue) == ([b"2"] if is_dropping else [b"1"])
    assert wiring.bodies(dead) == ([b"1"] if is_dropping else [])


def test_a_quorum_queue_refuses_and_makes_dead_letters_too(
    wiring: Wiring, expectations: Expectations
) -> None:
    queue, dead = wiring.fresh_name(), wiring.queue()
    arguments: Any = {
        "x-queue-type": "quorum",
        "x-max-length": 1,
        "x-overflow": "reject-publish-dlx",
        "x-dead-letter-exchange": "",
        "x-dead-letter-routing-key": dead,
    }
    method = Queue.Declare(0, queue, durable=True, arguments=arguments)
    wiring.client.call(1, method, Queue.DeclareOk)
    answers = [answer(wiring, queue, body) for body in (b"1", b"2")]
    eventually(lambda: count(wiring, dead) == 1)
    if expectations.differ("reject-publish-dlx-of-quorum-queues"):
        assert answers == [Basic.Ack, Basic.Ack]
        assert wiring.bodies(dead) == [b"1"]
    else:
        assert answers == [Basic.Ack, Basic.Nack]
        assert wiring.bodies(dead) == [b"2"]


def test_the_highest_priority_is_dropped_first(wiring: Wiring) -> None:
    """As RabbitMQ documents it: what is dropped is what would be delivered next."""
    queue = declare(wiring, {"x-max-priority": 9, "x-max-length": 2})
    for priority in (5, 1, 3, 9):
        properties = b"\x08\x00" + bytes([priority])
        wiring.send("", queue, b"%d" % priority, properties)
    assert wiring.bodies(queue) == [b"3", b"1"]


@pytest.mark.parametrize(
    ("ttl_ms", "expiration"), [(30, "600000"), (600_000, "30"), (30, "40")]
)
def test_of_two_times_to_live_the_shorter_counts(
    wiring: Wiring, ttl_ms: int, expiration: str
) -> None:
    queue = declare(wiring, {"x-message-ttl": ttl_ms})
    wiring.send("", queue, b"x", expiring(expiration))
    eventually(lambda: count(wiring, queue) == 0)


def test_every_priority_expires(wiring: Wiring) -> None:
    queue = declare(wiring, {"x-max-priority": 2, "x-message-ttl": 30})
    for priority in (0, 2, 1):
        wiring.send("", queue, b"x", b"\x08\x00" + bytes([priority]))
    eventually(lambda: count(wiring, queue) == 0)


@pytest.mark.parametrize("kind", ["classic", "quorum"])
def test_an_unacked_message_does_not_expire(wiring: Wiring, kind: str) -> None:
    queue = wiring.fresh_name()
    arguments: Any = {"x-queue-type": kind, "x-message-ttl": 20}
    method = Queue.Declare(0, queue, durable=True, arguments=arguments)
    wiring.client.call(1, method, Queue.DeclareOk)
    wiring.client.call(1, Basic.Consume(0, queue, "t"), Basic.ConsumeOk)
    publish(wiring, queue, b"x", b"\x10\x00\x02")
    frames = [wiring.client.next_frame() for _ in range(4)]
    methods = [frame.method for frame in frames if frame.kind == 1]
    (delivery,) = [one for one in methods if isinstance(one, Basic.Deliver)]
    # What is published now has expired by the time that it is gone.
    wiring.client.call(1, Basic.Cancel("t"), Basic.CancelOk)
    wiring.send("", queue, b"y", b"\x10\x00\x02")
    eventually(lambda: count(wiring, queue) == 0)
    wiring.client.send_method(1, Basic.Ack(delivery.delivery_tag or 0))
    wiring.client.call(1, Basic.Qos(), Basic.QosOk)
