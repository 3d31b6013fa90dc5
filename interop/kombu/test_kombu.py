"""kombu without Celery: declare, publish with confirms, consume, ack, and errors."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from amqp.exceptions import NotFound, PreconditionFailed
from kombu import Connection, Consumer, Exchange, Producer, Queue
from kombu.simple import SimpleQueue

WAIT_S = 20


@pytest.fixture
def connection(amqp_url: str) -> Iterator[Any]:
    """A connection whose publishes are confirmed."""
    options = {"confirm_publish": True}
    with Connection(amqp_url, transport_options=options) as connection:
        yield connection


@pytest.fixture
def queue(connection: Any, make_name: Callable[[str], str]) -> Iterator[Any]:
    """A queue bound to a topic exchange; both are deleted afterwards."""
    name = make_name("kombu")
    declared = Queue(name, Exchange(name, type="topic"), routing_key="task.#")
    bound = declared(connection.default_channel)
    bound.declare()
    yield bound
    with connection.clone() as janitor:
        janitor.default_channel.queue_delete(name)
        janitor.default_channel.exchange_delete(name)


def test_messages_are_published_consumed_and_acked(connection: Any, queue: Any) -> None:
    found: list[Any] = []

    def on_message(body: Any, message: Any) -> None:
        found.append((body, message.headers.get("try"), message.content_type))
        message.ack()

    producer = Producer(connection, exchange=queue.exchange, serializer="json")
    for number in range(3):
        producer.publish(
            {"n": number}, routing_key=f"task.{number}", headers={"try": number}
        )
    producer.publish({"n": "elsewhere"}, routing_key="other")
    with Consumer(connection, queue, callbacks=[on_message], prefetch_count=1):
        while len(found) < 3:
            connection.drain_events(timeout=WAIT_S)
        with pytest.raises(socket.timeout):
            connection.drain_events(timeout=0.1)
    assert found == [({"n": at}, at, "application/json") for at in range(3)]
    assert queue.queue_declare(passive=True).message_count == 0


def test_a_message_that_is_requeued_comes_again(connection: Any, queue: Any) -> None:
    Producer(connection).publish("x", exchange=queue.exchange, routing_key="task")
    message = queue.get()
    message.requeue()
    again = queue.get()
    assert (again.payload, again.delivery_info["redelivered"]) == ("x", True)
    again.reject()
    assert queue.get() is None


def test_a_mandatory_message_without_a_queue_is_returned(
    connection: Any, queue: Any
) -> None:
    returned: list[str] = []

    def on_return(exception: Any, exchange: str, key: str, message: Any) -> None:
        returned.append(key)

    producer = Producer(connection, exchange=queue.exchange, on_return=on_return)
    producer.publish("x", routing_key="other", mandatory=True)
    assert returned == ["other"]


def test_a_simple_queue_is_a_queue(
    connection: Any, make_name: Callable[[str], str]
) -> None:
    simple = SimpleQueue(connection.default_channel, make_name("simple"))
    for number in range(3):
        simple.put(number)
    assert simple.qsize() == 3
    for number in range(3):
        message = simple.get(timeout=WAIT_S)
        message.ack()
        assert message.payload == number
    with pytest.raises(simple.Empty):
        simple.get(block=False)
    # Its consumer goes first: it would be told that its queue is gone.
    simple.close()
    simple.queue.delete()
    connection.default_channel.exchange_delete(simple.queue.exchange.name)


def test_errors_have_the_brokers_texts(connection: Any, queue: Any) -> None:
    with pytest.raises(NotFound, match="no queue 'nowhere' in vhost '/'"):
        connection.channel().queue_declare("nowhere", passive=True)
    with pytest.raises(PreconditionFailed, match="inequivalent arg 'durable'"):
        connection.channel().queue_declare(queue.name, durable=False, auto_delete=False)
    assert queue.queue_declare(passive=True).message_count == 0


def test_a_connection_that_is_lost_is_made_again(amqp_url: str) -> None:
    with Connection(amqp_url) as connection:
        connection.ensure_connection(max_retries=1)
        connection.transport.close_connection(connection.connection)
        publish = connection.ensure(connection, _declare_and_count, max_retries=3)
        assert publish(connection) == 0


def _declare_and_count(connection: Any) -> int:
    channel = connection.channel()
    return int(channel.queue_declare("", exclusive=True).message_count)
