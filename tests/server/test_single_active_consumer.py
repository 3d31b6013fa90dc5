"""Single active consumer: one gets everything; when it goes, another one takes over."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from pamqp.commands import Basic, Channel, Queue

from tests.support.raw_client import Endpoint, RawClient, channel_closed

Connect = Callable[[], RawClient]

SINGLE_ACTIVE: Any = {"x-single-active-consumer": True}

#: A consumer that says what it got, waits to be told to go on, and acks the one before.
SLOW_CONSUMER = """
import sys
import pika

url, queue = sys.argv[1:]
channel = pika.BlockingConnection(pika.URLParameters(url)).channel()
channel.basic_qos(prefetch_count=20)
last = 0
for method, _, body in channel.consume(queue):
    if last:
        channel.basic_ack(last)
    last = method.delivery_tag
    print(body.decode(), flush=True)
    sys.stdin.readline()
"""


@pytest.fixture
def queue(client: RawClient, fresh_name: Callable[[], str]) -> str:
    name = fresh_name()
    declare = Queue.Declare(0, name, durable=True, arguments=SINGLE_ACTIVE)
    client.call(1, declare, Queue.DeclareOk)
    return name


def consume(client: RawClient, queue: str, tag: str, priority: int = 0) -> None:
    arguments: Any = {"x-priority": priority}
    sent = Basic.Consume(0, queue, tag, arguments=arguments)
    client.call(1, sent, Basic.ConsumeOk)


def next_delivery(client: RawClient) -> tuple[str, bytes]:
    message = client.expect_message(1, Basic.Deliver)
    assert isinstance(message.method, Basic.Deliver)
    return message.method.consumer_tag or "", message.body


def expect_no_delivery(client: RawClient) -> None:
    client.call(1, Basic.Cancel("no such tag"), Basic.CancelOk)


def test_the_first_consumer_gets_everything(
    client: RawClient, connect: Connect, queue: str
) -> None:
    first, second = connect(), connect()
    consume(first, queue, "first")
    consume(second, queue, "second", 10)
    for number in range(5):
        client.publish_to_queue(queue, b"%d" % number)
    for number in range(5):
        assert next_delivery(first) == ("first", b"%d" % number)
    expect_no_delivery(second)


def test_a_full_active_consumer_leaves_nothing_to_the_others(
    client: RawClient, connect: Connect, queue: str
) -> None:
    first, second = connect(), connect()
    first.call(1, Basic.Qos(0, 1), Basic.QosOk)
    consume(first, queue, "first")
    consume(second, queue, "second")
    for number in range(2):
        client.publish_to_queue(queue, b"%d" % number)
    assert next_delivery(first)[1] == b"0"
    expect_no_delivery(second)
    first.send_method(1, Basic.Ack(1))
    assert next_delivery(first)[1] == b"1"


def test_the_highest_priority_takes_over_then_the_longest_there(
    client: RawClient, queue: str
) -> None:
    for tag, priority in (("a", 0), ("b", -5), ("c", 10), ("d", 10)):
        consume(client, queue, tag, priority)
    order = []
    for _ in range(4):
        client.publish_to_queue(queue, b"x")
        tag, _ = next_delivery(client)
        order.append(tag)
        client.call(1, Basic.Cancel(tag), Basic.CancelOk)
    assert order == ["a", "c", "d", "b"]


def test_what_the_active_consumer_had_comes_again_when_its_channel_closes(
    client: RawClient, connect: Connect, queue: str
) -> None:
    first, second = connect(), connect()
    consume(first, queue, "first")
    consume(second, queue, "second")
    for number in range(3):
        client.publish_to_queue(queue, b"%d" % number)
    for _ in range(3):
        next_delivery(first)
    first.call(1, Channel.Close(200, "", 0, 0), Channel.CloseOk)
    for number in range(3):
        assert next_delivery(second) == ("second", b"%d" % number)


@pytest.mark.parametrize("others", [0, 1])
def test_consuming_exclusively_is_403(
    client: RawClient, connect: Connect, queue: str, others: int
) -> None:
    for _ in range(others):
        consume(connect(), queue, "other")
    client.send_method(1, Basic.Consume(0, queue, "tag", exclusive=True))
    text = f"ACCESS_REFUSED - queue '{queue}' in vhost '/' in exclusive use"
    client.expect_refusal(channel_closed(403, text, 60, 20))


def test_getting_from_a_quorum_queue_of_this_kind_is_405(
    client: RawClient, fresh_name: Callable[[], str]
) -> None:
    name = fresh_name()
    arguments = {**SINGLE_ACTIVE, "x-queue-type": "quorum"}
    declare = Queue.Declare(0, name, durable=True, arguments=arguments)
    client.call(1, declare, Queue.DeclareOk)
    client.send_method(1, Basic.Get(0, name))
    text = (
        f"RESOURCE_LOCKED - cannot obtain access to locked queue '{name}' in vhost "
        "'/'. basic.get operations are not supported by quorum queues with single "
        "active consumer"
    )
    client.expect_refusal(channel_closed(405, text, 60, 70))


def test_getting_from_a_classic_queue_of_this_kind_is_allowed(
    client: RawClient, connect: Connect, queue: str
) -> None:
    first = connect()
    first.call(1, Basic.Qos(0, 1), Basic.QosOk)
    consume(first, queue, "first")
    for number in range(2):
        client.publish_to_queue(queue, b"%d" % number)
    assert next_delivery(first)[1] == b"0"
    message = client.get(queue)
    assert message is not None
    assert message.body == b"1"


def test_it_is_part_of_what_a_queue_is_declared_with(
    client: RawClient, queue: str
) -> None:
    client.send_method(1, Queue.Declare(0, queue, durable=True))
    text = (
        "PRECONDITION_FAILED - inequivalent arg 'x-single-active-consumer' for queue "
        f"'{queue}' in vhost '/': received none but current is the value 'true' "
        "of type 'bool'"
    )
    client.expect_refusal(channel_closed(406, text, 50, 10))


@contextmanager
def slow_consumer(broker: Endpoint, queue: str) -> Iterator[subprocess.Popen[str]]:
    """Run a consumer in a process of its own; it is killed at the latest here."""
    url = f"amqp://{broker.user}:{broker.password}@{broker.host}:{broker.port}/%2F"
    process = subprocess.Popen(
        [sys.executable, "-c", SLOW_CONSUMER, url, queue],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        try:
            yield process
        finally:
            process.kill()


def read_messages(process: subprocess.Popen[str], count: int) -> list[int]:
    """Let the consumer take so many messages; the last one is not acked."""
    assert process.stdout is not None
    assert process.stdin is not None
    numbers = []
    while True:
        numbers.append(int(process.stdout.readline()))
        if len(numbers) == count:
            return numbers
        process.stdin.write("go on\n")
        process.stdin.flush()


def test_when_the_active_consumer_is_killed_the_next_one_goes_on_in_order(
    broker: Endpoint, client: RawClient, connect: Connect, queue: str
) -> None:
    """Three processes are killed in turn; every message is there until it is acked."""
    count, taken, unacked = 300, 50, 0
    for number in range(count):
        client.publish_to_queue(queue, b"%d" % number, b"\x10\x00\x02")
    for is_last in (False, False, True):
        with slow_consumer(broker, queue) as process:
            numbers = read_messages(process, taken)
            # The one that waits gets nothing while the active one is alive.
            waiting = connect()
            consume(waiting, queue, "waiting")
            expect_no_delivery(waiting)
            if not is_last:
                waiting.close()
        first = numbers[0]
        assert unacked - 1 <= first <= unacked
        assert numbers == list(range(first, first + taken))
        unacked = numbers[-1]
    _, body = next_delivery(waiting)
    first = int(body)
    assert unacked - 1 <= first <= unacked
    for number in range(first + 1, count):
        assert next_delivery(waiting) == ("waiting", b"%d" % number)
