"""pika: RPC by direct reply-to, as RabbitMQ's documentation shows it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pika
import pika.exceptions
import pytest

Name = Callable[[str], str]

REPLY_TO = "amq.rabbitmq.reply-to"


class Answers:
    """What comes to the requester; `wait_for` serves the connection meanwhile."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self.by_id: dict[str, bytes] = {}

    def __call__(self, _channel: Any, _method: Any, properties: Any, body: Any) -> None:
        self.by_id[properties.correlation_id] = body

    def wait_for(self, count: int) -> None:
        deadline = time.monotonic() + 10
        while len(self.by_id) < count and time.monotonic() < deadline:
            self._connection.process_data_events(time_limit=0.1)
        assert len(self.by_id) == count


@pytest.fixture
def answers(connection: Any, channel: Any) -> Answers:
    """What comes to a channel that awaits replies."""
    answers = Answers(connection)
    channel.basic_consume(REPLY_TO, answers, auto_ack=True)
    return answers


@pytest.fixture
def requests(channel: Any, name: Name) -> str:
    """The queue that requests go to."""
    requests = name("requests")
    channel.queue_declare(requests)
    return requests


@pytest.fixture
def server(amqp_url: str) -> Iterator[Any]:
    """A channel of another connection."""
    with pika.BlockingConnection(pika.URLParameters(amqp_url)) as connection:
        yield connection.channel()


def ask(channel: Any, requests: str, number: int) -> None:
    asking = pika.BasicProperties(reply_to=REPLY_TO, correlation_id=str(number))
    channel.basic_publish("", requests, str(number).encode(), asking)


def serve(server: Any, requests: str, count: int) -> str:
    """Answer so many requests with their squares; return where to."""
    address = ""
    for method, properties, body in server.consume(requests):
        address = properties.reply_to
        answer = pika.BasicProperties(correlation_id=properties.correlation_id)
        square = str(int(body) ** 2).encode()
        server.basic_publish("", address, square, answer)
        server.basic_ack(method.delivery_tag)
        count -= 1
        if not count:
            break
    server.cancel()
    return address


def test_every_request_gets_its_answer(
    channel: Any, server: Any, requests: str, answers: Answers
) -> None:
    for number in range(50):
        ask(channel, requests, number)
    serve(server, requests, 50)
    answers.wait_for(50)
    assert answers.by_id == {str(at): str(at**2).encode() for at in range(50)}


def test_a_server_can_find_out_that_nobody_waits_any_more(
    channel: Any, server: Any, requests: str, answers: Answers
) -> None:
    ask(channel, requests, 3)
    address = serve(server, requests, 1)
    found = server.queue_declare(address, passive=True).method
    assert (found.message_count, found.consumer_count) == (0, 1)
    channel.close()
    with pytest.raises(pika.exceptions.ChannelClosedByBroker) as caught:
        server.queue_declare(address, passive=True)
    assert caught.value.reply_code == 404


def test_an_answer_to_nobody_is_returned(
    channel: Any, server: Any, requests: str, answers: Answers
) -> None:
    ask(channel, requests, 3)
    address = serve(server, requests, 1)
    channel.close()
    server.confirm_delivery()
    with pytest.raises(pika.exceptions.UnroutableError):
        server.basic_publish("", address, b"late", mandatory=True)


def test_asking_without_awaiting_replies_closes_the_channel(
    channel: Any, requests: str
) -> None:
    ask(channel, requests, 3)
    with pytest.raises(pika.exceptions.ChannelClosedByBroker) as caught:
        channel.queue_declare(requests, passive=True)
    assert caught.value.reply_code == 406
    assert caught.value.reply_text == (
        "PRECONDITION_FAILED - fast reply consumer does not exist"
    )
