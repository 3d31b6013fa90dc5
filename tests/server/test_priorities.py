"""Message priorities: strict order by level, first come first served within a level."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import pytest
from pamqp.commands import Basic, Queue

from tests.support.raw_client import RawClient, channel_closed
from tests.support.wiring import Wiring

Connect = Callable[[], RawClient]
Declare = Callable[..., str]

PRIORITY = 0x0800
PERSISTENT_AND_PRIORITY = 0x1800


@pytest.fixture
def declare(client: RawClient, fresh_name: Callable[[], str]) -> Declare:
    """Declare a queue with priorities up to a highest one, and return its name."""

    def declare_one(highest: int, **fields: Any) -> str:
        name = fresh_name()
        arguments: Any = {"x-max-priority": highest, **fields}
        sent = Queue.Declare(0, name, durable=True, arguments=arguments)
        client.call(1, sent, Queue.DeclareOk)
        return name

    return declare_one


def publish(wiring: Wiring, queue: str, *names: str) -> None:
    """Publish messages whose names begin with their priority; they are there then."""
    for name in names:
        properties = struct.pack(">HBB", PERSISTENT_AND_PRIORITY, 2, int(name[0]))
        wiring.send("", queue, name.encode(), properties)


def take(client: RawClient, queue: str) -> list[str]:
    found = []
    while (message := client.get(queue)) is not None:
        found.append(message.body.decode())
    return found


def deliveries(client: RawClient, count: int) -> list[tuple[str, bool]]:
    """So many deliveries: the name and whether it was delivered before."""
    found = []
    for _ in range(count):
        message = client.expect_message(1, Basic.Deliver)
        assert isinstance(message.method, Basic.Deliver)
        found.append((message.body.decode(), bool(message.method.redelivered)))
    return found


def names(found: list[tuple[str, bool]]) -> list[str]:
    return [name for name, _ in found]


@pytest.mark.parametrize("highest", [9, 10, 255])
def test_the_highest_comes_first_and_equals_in_their_order(
    wiring: Wiring, declare: Declare, highest: int
) -> None:
    queue = declare(highest)
    publish(wiring, queue, "1a", "5a", "0a", "5b", "9a", "1b", "0b", "9b")
    assert take(wiring.client, queue) == [
        "9a",
        "9b",
        "5a",
        "5b",
        "1a",
        "1b",
        "0a",
        "0b",
    ]


def test_no_priority_is_the_lowest_and_above_the_highest_is_the_highest(
    wiring: Wiring, declare: Declare
) -> None:
    queue = declare(3)
    wiring.send("", queue, b"none")
    publish(wiring, queue, "2a", "3a", "7a", "0a")
    wiring.send("", queue, b"255", struct.pack(">HB", PRIORITY, 255))
    publish(wiring, queue, "3b")
    assert take(wiring.client, queue) == ["3a", "7a", "255", "3b", "2a", "none", "0a"]


def test_a_highest_priority_of_0_means_one_level(
    wiring: Wiring, declare: Declare
) -> None:
    queue = declare(0)
    publish(wiring, queue, "1a", "9a", "0a")
    assert take(wiring.client, queue) == ["1a", "9a", "0a"]


def test_without_the_argument_priorities_mean_nothing(wiring: Wiring) -> None:
    queue = wiring.client.temporary_queue()
    publish(wiring, queue, "1a", "9a", "0a")
    message = wiring.client.get(queue)
    assert message is not None
    assert message.properties == struct.pack(">HBB", PERSISTENT_AND_PRIORITY, 2, 1)
    assert take(wiring.client, queue) == ["9a", "0a"]


def test_a_transient_queue_has_priorities_too(
    client: RawClient, fresh_name: Callable[[], str]
) -> None:
    queue = fresh_name()
    arguments: Any = {"x-max-priority": 5}
    sent = Queue.Declare(0, queue, exclusive=True, arguments=arguments)
    client.call(1, sent, Queue.DeclareOk)
    for priority in (1, 5, 3):
        properties = struct.pack(">HB", PRIORITY, priority)
        client.publish_to_queue(queue, b"%d" % priority, properties)
    assert take(client, queue) == ["5", "3", "1"]


def test_a_consumer_gets_the_highest_that_is_there_each_time_it_has_room(
    wiring: Wiring, connect: Connect, declare: Declare
) -> None:
    queue, consumer = declare(9), connect()
    publish(wiring, queue, "1a", "1b", "5a")
    consumer.call(1, Basic.Qos(0, 1), Basic.QosOk)
    consumer.call(1, Basic.Consume(0, queue, "t"), Basic.ConsumeOk)
    assert names(deliveries(consumer, 1)) == ["5a"]
    publish(wiring, queue, "9a", "0a")
    order = []
    for tag in range(1, 5):
        consumer.send_method(1, Basic.Ack(tag))
        order += names(deliveries(consumer, 1))
    assert order == ["9a", "1a", "1b", "0a"]


def test_what_is_given_back_goes_to_its_place_in_its_level(
    wiring: Wiring, connect: Connect, declare: Declare
) -> None:
    queue, consumer = declare(9), connect()
    publish(wiring, queue, "5a", "5b", "1a", "5c", "1b")
    consumer.call(1, Basic.Qos(0, 4), Basic.QosOk)
    consumer.call(1, Basic.Consume(0, queue, "t"), Basic.ConsumeOk)
    assert names(deliveries(consumer, 4)) == ["5a", "5b", "5c", "1a"]
    publish(wiring, queue, "9a", "5d")
    consumer.send_method(1, Basic.Cancel("t"))
    consumer.expect_method(1, Basic.CancelOk)
    consumer.send_method(1, Basic.Nack(4, multiple=True, requeue=True))
    consumer.call(1, Basic.Qos(0, 0), Basic.QosOk)
    consumer.call(1, Basic.Consume(0, queue, "t"), Basic.ConsumeOk)
    assert deliveries(consumer, 7) == [
        ("9a", False),
        ("5a", True),
        ("5b", True),
        ("5c", True),
        ("5d", False),
        ("1a", True),
        ("1b", False),
    ]


def test_what_a_lost_consumer_had_comes_by_priority_again(
    wiring: Wiring, connect: Connect, declare: Declare
) -> None:
    queue, lost = declare(9), connect()
    publish(wiring, queue, "1a", "5a")
    lost.call(1, Basic.Consume(0, queue, "t"), Basic.ConsumeOk)
    assert names(deliveries(lost, 2)) == ["5a", "1a"]
    wiring.client.call(1, Basic.Consume(0, queue, "t"), Basic.ConsumeOk)
    lost.disconnect()
    assert deliveries(wiring.client, 2) == [("5a", True), ("1a", True)]


def test_counts_are_of_all_levels(wiring: Wiring, declare: Declare) -> None:
    client, queue = wiring.client, declare(9)
    for priority in (0, 5, 9, 9):
        wiring.send("", queue, b"x", struct.pack(">HB", PRIORITY, priority))
    message = client.get(queue, no_ack=False)
    assert message is not None
    assert isinstance(message.method, Basic.GetOk)
    assert message.method.message_count == 3
    purged = client.call(1, Queue.Purge(0, queue), Queue.PurgeOk)
    assert purged.message_count == 3
    client.send_method(1, Basic.Nack(1, requeue=True))
    wiring.send("", queue, b"y", struct.pack(">HB", PRIORITY, 1))
    deleted = client.call(1, Queue.Delete(0, queue), Queue.DeleteOk)
    assert deleted.message_count == 2


def test_consumers_of_one_queue_take_turns_across_levels(
    wiring: Wiring, connect: Connect, declare: Declare
) -> None:
    queue, consumer = declare(9), connect()
    for tag in ("a", "b"):
        consumer.call(1, Basic.Qos(0, 2), Basic.QosOk)
        consumer.call(1, Basic.Consume(0, queue, tag), Basic.ConsumeOk)
    publish(wiring, queue, "1a", "2a", "3a", "4a")
    tags = []
    for _ in range(4):
        message = consumer.expect_message(1, Basic.Deliver)
        assert isinstance(message.method, Basic.Deliver)
        tags.append(message.method.consumer_tag or "")
    assert sorted(tags) == ["a", "a", "b", "b"]


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (256, "{max_value_exceeded,256}"),
        (-1, "{value_negative,-1}"),
        ("5", '"expected integer, got longstr"'),
    ],
)
def test_a_highest_priority_that_is_none_is_406(
    client: RawClient, fresh_name: Callable[[], str], value: object, reason: str
) -> None:
    name = fresh_name()
    arguments: Any = {"x-max-priority": value}
    client.send_method(1, Queue.Declare(0, name, arguments=arguments))
    text = (
        f"PRECONDITION_FAILED - invalid arg 'x-max-priority' for queue '{name}' "
        f"in vhost '/': {reason}"
    )
    client.expect_refusal(channel_closed(406, text, 50, 10))


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({"x-max-priority": 5}, "received '5' but current is '9'"),
        ({}, "received none but current is the value '9' of type 'byte'"),
    ],
)
def test_another_highest_priority_is_406(
    client: RawClient, declare: Declare, arguments: Any, reason: str
) -> None:
    name = declare(9)
    sent = Queue.Declare(0, name, durable=True, arguments=arguments)
    client.send_method(1, sent)
    text = (
        f"PRECONDITION_FAILED - inequivalent arg 'x-max-priority' for queue '{name}' "
        f"in vhost '/': {reason}"
    )
    client.expect_refusal(channel_closed(406, text, 50, 10))
