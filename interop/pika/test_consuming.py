"""pika: consumers, prefetch, acknowledgements, what is redelivered in what order."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pika
import pika.exceptions
import pytest

Name = Callable[[str], str]


class Inbox:
    """Collects what consumers get; `wait_for` serves the connection meanwhile."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self.deliveries: list[Any] = []
        self.bodies: list[bytes] = []

    def __call__(self, _channel: Any, method: Any, _properties: Any, body: Any) -> None:
        self.deliveries.append(method)
        self.bodies.append(body)

    def wait_for(self, count: int) -> None:
        deadline = time.monotonic() + 10
        while len(self.bodies) < count and time.monotonic() < deadline:
            self._connection.process_data_events(time_limit=0.1)
        assert len(self.bodies) == count

    def expect_no_more(self, channel: Any, queue: str) -> None:
        """Fail if more was delivered by the time the broker answers a question."""
        count = len(self.bodies)
        channel.queue_declare(queue, passive=True)
        self._connection.process_data_events(time_limit=0)
        assert len(self.bodies) == count

    @property
    def tags(self) -> list[int]:
        return [method.delivery_tag for method in self.deliveries]


@pytest.fixture
def inbox(connection: Any) -> Inbox:
    return Inbox(connection)


def publish(channel: Any, queue: str, *bodies: bytes) -> None:
    for body in bodies:
        channel.basic_publish("", queue, body)


def test_messages_arrive_in_order_and_are_acknowledged_at_once(
    channel: Any, queue: str, inbox: Inbox
) -> None:
    sent = [str(number).encode() for number in range(200)]
    publish(channel, queue, *sent)
    channel.basic_consume(queue, inbox, auto_ack=True)
    inbox.wait_for(200)
    assert inbox.bodies == sent
    assert not any(method.redelivered for method in inbox.deliveries)


def test_the_generator_consumes_until_it_is_cancelled(channel: Any, queue: str) -> None:
    publish(channel, queue, b"1", b"2", b"3")
    bodies = []
    for method, _, body in channel.consume(queue, inactivity_timeout=5):
        bodies.append(body)
        channel.basic_ack(method.delivery_tag)
        if len(bodies) == 2:
            break
    channel.cancel()
    assert bodies == [b"1", b"2"]
    method, _, body = channel.basic_get(queue)
    assert body == b"3"


def test_start_consuming_ends_when_the_callback_says_so(
    channel: Any, queue: str
) -> None:
    received: list[bytes] = []

    def on_message(channel: Any, method: Any, _properties: Any, body: bytes) -> None:
        received.append(body)
        channel.basic_ack(method.delivery_tag)
        if body == b"last":
            channel.stop_consuming()

    channel.basic_qos(prefetch_count=1)
    channel.basic_consume(queue, on_message)
    publish(channel, queue, b"first", b"last")
    channel.start_consuming()
    assert received == [b"first", b"last"]


def test_prefetch_holds_back_what_is_not_acknowledged(
    channel: Any, queue: str, inbox: Inbox
) -> None:
    channel.basic_qos(prefetch_count=3)
    channel.basic_consume(queue, inbox)
    publish(channel, queue, *[b"x"] * 10)
    inbox.wait_for(3)
    inbox.expect_no_more(channel, queue)
    channel.basic_ack(inbox.tags[1], multiple=True)
    inbox.wait_for(5)
    inbox.expect_no_more(channel, queue)


def test_a_new_prefetch_is_for_new_consumers(
    channel: Any, queue: str, connection: Any
) -> None:
    old, new = Inbox(connection), Inbox(connection)
    channel.basic_qos(prefetch_count=1)
    channel.basic_consume(queue, old)
    channel.basic_qos(prefetch_count=4)
    channel.basic_consume(queue, new)
    publish(channel, queue, *[b"x"] * 10)
    new.wait_for(4)
    old.wait_for(1)
    old.expect_no_more(channel, queue)


def test_a_global_prefetch_may_be_raised_and_lowered(
    channel: Any, queue: str, inbox: Inbox
) -> None:
    channel.basic_qos(prefetch_count=2, global_qos=True)
    channel.basic_consume(queue, inbox)
    channel.basic_consume(queue, inbox)
    publish(channel, queue, *[b"x"] * 10)
    inbox.wait_for(2)
    inbox.expect_no_more(channel, queue)
    channel.basic_qos(prefetch_count=5, global_qos=True)
    inbox.wait_for(5)
    channel.basic_qos(prefetch_count=1, global_qos=True)
    channel.basic_ack(inbox.tags[3], multiple=True)
    inbox.expect_no_more(channel, queue)
    channel.basic_ack(inbox.tags[4])
    inbox.wait_for(6)
    inbox.expect_no_more(channel, queue)


def test_a_consumer_with_priority_is_served_first(
    channel: Any, queue: str, connection: Any
) -> None:
    low, high = Inbox(connection), Inbox(connection)
    channel.basic_qos(prefetch_count=2)
    channel.basic_consume(queue, low)
    channel.basic_consume(queue, high, arguments={"x-priority": 10})
    publish(channel, queue, b"1", b"2", b"3", b"4")
    high.wait_for(2)
    low.wait_for(2)
    assert (high.bodies, low.bodies) == ([b"1", b"2"], [b"3", b"4"])


def test_an_exclusive_consumer_is_alone(channel: Any, queue: str) -> None:
    channel.basic_consume(queue, lambda *_: None, exclusive=True)
    with pytest.raises(pika.exceptions.ChannelClosedByBroker) as caught:
        channel.basic_consume(queue, lambda *_: None)
    assert caught.value.reply_code == 403
    assert caught.value.reply_text == (
        f"ACCESS_REFUSED - queue '{queue}' in vhost '/' in exclusive use"
    )


def test_a_cancelled_consumer_gets_nothing_more(
    channel: Any, queue: str, inbox: Inbox
) -> None:
    tag = channel.basic_consume(queue, inbox, auto_ack=True)
    publish(channel, queue, b"1")
    inbox.wait_for(1)
    channel.basic_cancel(tag)
    publish(channel, queue, b"2")
    assert channel.basic_get(queue)[2] == b"2"
    assert inbox.bodies == [b"1"]


def test_a_consumer_is_told_that_its_queue_is_gone(
    amqp_url: str, connection: Any, channel: Any, name: Name
) -> None:
    queue = name("queue")
    channel.queue_declare(queue)
    cancelled: list[str] = []
    channel.add_on_cancel_callback(
        lambda frame: cancelled.append(frame.method.consumer_tag)
    )
    tag = channel.basic_consume(queue, lambda *_: None)
    with pika.BlockingConnection(pika.URLParameters(amqp_url)) as other:
        other.channel().queue_delete(queue)
    connection.process_data_events(time_limit=5)
    assert cancelled == [tag]
    assert channel.is_open


def test_an_auto_delete_queue_goes_with_its_consumer(channel: Any, name: Name) -> None:
    queue = name("queue")
    channel.queue_declare(queue, auto_delete=True)
    channel.basic_cancel(channel.basic_consume(queue, lambda *_: None))
    with pytest.raises(pika.exceptions.ChannelClosedByBroker) as caught:
        channel.queue_declare(queue, passive=True)
    assert caught.value.reply_code == 404


def test_get_of_an_empty_queue_is_nothing(channel: Any, queue: str) -> None:
    assert channel.basic_get(queue) == (None, None, None)


def test_rejected_messages_come_back_in_their_place(channel: Any, queue: str) -> None:
    publish(channel, queue, b"1", b"2", b"3", b"4")
    tags = [channel.basic_get(queue)[0].delivery_tag for _ in range(3)]
    channel.basic_reject(tags[2], requeue=True)
    channel.basic_reject(tags[0], requeue=True)
    channel.basic_nack(tags[1], requeue=True)
    again = [channel.basic_get(queue) for _ in range(4)]
    assert [(body, method.redelivered) for method, _, body in again] == [
        (b"1", True),
        (b"2", True),
        (b"3", True),
        (b"4", False),
    ]


def test_nack_multiple_gives_all_back(channel: Any, queue: str) -> None:
    publish(channel, queue, b"1", b"2", b"3")
    tags = [channel.basic_get(queue)[0].delivery_tag for _ in range(3)]
    channel.basic_nack(tags[1], multiple=True, requeue=True)
    assert [channel.basic_get(queue)[2] for _ in range(3)] == [b"1", b"2", None]


@pytest.mark.parametrize("method", ["reject", "nack"])
def test_what_is_not_requeued_is_gone(channel: Any, queue: str, method: str) -> None:
    publish(channel, queue, b"1")
    tag = channel.basic_get(queue)[0].delivery_tag
    if method == "reject":
        channel.basic_reject(tag, requeue=False)
    else:
        channel.basic_nack(tag, requeue=False)
    assert channel.basic_get(queue)[0] is None


def test_recover_delivers_again(channel: Any, queue: str, inbox: Inbox) -> None:
    channel.basic_consume(queue, inbox)
    publish(channel, queue, b"1", b"2")
    inbox.wait_for(2)
    channel.basic_recover(requeue=True)
    inbox.wait_for(4)
    assert inbox.bodies == [b"1", b"2", b"1", b"2"]
    assert [method.redelivered for method in inbox.deliveries] == [False] * 2 + [
        True
    ] * 2


def test_a_closed_channel_gives_its_messages_back(
    connection: Any, channel: Any, queue: str
) -> None:
    publish(channel, queue, b"1", b"2", b"3")
    other = connection.channel()
    for _ in range(2):
        other.basic_get(queue)
    other.close()
    again = [channel.basic_get(queue) for _ in range(3)]
    assert [(body, method.redelivered) for method, _, body in again] == [
        (b"1", True),
        (b"2", True),
        (b"3", False),
    ]


def test_acknowledging_twice_closes_the_channel(channel: Any, queue: str) -> None:
    publish(channel, queue, b"1")
    tag = channel.basic_get(queue)[0].delivery_tag
    channel.basic_ack(tag)
    channel.basic_ack(tag)
    with pytest.raises(pika.exceptions.ChannelClosedByBroker) as caught:
        channel.basic_get(queue)
    assert caught.value.reply_code == 406
    assert caught.value.reply_text == (
        f"PRECONDITION_FAILED - unknown delivery tag {tag}"
    )


def test_messages_go_round_the_consumers(
    channel: Any, queue: str, connection: Any
) -> None:
    inboxes = [Inbox(connection) for _ in range(3)]
    for one in inboxes:
        channel.basic_consume(queue, one, auto_ack=True)
    publish(channel, queue, *[b"x"] * 9)
    for one in inboxes:
        one.wait_for(3)


def test_a_reply_comes_to_the_queue_the_request_names(
    amqp_url: str, channel: Any, queue: str, inbox: Inbox, name: Name
) -> None:
    requests = name("rpc")
    channel.queue_declare(requests)
    channel.basic_consume(queue, inbox, auto_ack=True)
    asking = pika.BasicProperties(reply_to=queue, correlation_id="42")
    channel.basic_publish("", requests, b"6 * 7", asking)
    with pika.BlockingConnection(pika.URLParameters(amqp_url)) as connection:
        server = connection.channel()
        method, properties, body = server.basic_get(requests)
        assert body == b"6 * 7"
        answer = pika.BasicProperties(correlation_id=properties.correlation_id)
        server.basic_publish("", properties.reply_to, b"42", answer)
        server.basic_ack(method.delivery_tag)
    inbox.wait_for(1)
    assert inbox.bodies == [b"42"]
