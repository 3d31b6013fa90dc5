"""AMQPStorm: declare, publish with confirms, consume, ack, and errors."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import amqpstorm
import pytest

Name = Callable[[str], str]


@pytest.fixture
def connection(amqp_url: str) -> Iterator[Any]:
    """An open connection."""
    with amqpstorm.UriConnection(amqp_url) as connection:
        yield connection


@pytest.fixture
def channel(connection: Any) -> Iterator[Any]:
    """A channel whose publishes are confirmed."""
    with connection.channel() as channel:
        channel.confirm_deliveries()
        yield channel


@pytest.fixture
def queue(channel: Any) -> str:
    """The name of an exclusive queue."""
    return str(channel.queue.declare("", exclusive=True)["queue"])


def test_messages_are_published_consumed_and_acked(channel: Any, queue: str) -> None:
    for number in range(3):
        properties = {"headers": {"n": number}, "correlation_id": str(number)}
        message = amqpstorm.Message.create(channel, f"body {number}", properties)
        assert message.publish(queue, mandatory=True)
    found = []
    channel.basic.qos(prefetch_count=1)
    channel.basic.consume(queue=queue)
    for message in channel.build_inbound_messages(break_on_empty=True):
        found.append((message.body, message.properties["headers"]["n"]))
        message.ack()
    assert found == [(f"body {at}", at) for at in range(3)]
    assert channel.queue.declare(queue, passive=True)["message_count"] == 0


def test_a_message_that_is_rejected_comes_again(channel: Any, queue: str) -> None:
    channel.basic.publish("x", queue)
    channel.basic.get(queue).reject(requeue=True)
    again = channel.basic.get(queue)
    assert (again.body, again.redelivered) == ("x", True)
    again.nack(requeue=False)
    assert channel.basic.get(queue) is None


def test_a_topic_exchange_routes(channel: Any, queue: str, make_name: Name) -> None:
    exchange = make_name("storm")
    channel.exchange.declare(exchange, "topic", auto_delete=True)
    channel.queue.bind(queue, exchange, "a.#")
    channel.basic.publish("in", "a.b", exchange)
    channel.basic.publish("out", "b", exchange)
    assert [channel.basic.get(queue, no_ack=True).body] == ["in"]
    assert channel.queue.purge(queue)["message_count"] == 0


def test_a_mandatory_message_without_a_queue_is_an_error(channel: Any) -> None:
    with pytest.raises(amqpstorm.AMQPMessageError, match="NO_ROUTE"):
        channel.basic.publish("x", "nowhere", mandatory=True)


def test_a_transaction_commits_and_rolls_back(connection: Any) -> None:
    with connection.channel() as channel:
        queue = channel.queue.declare("", exclusive=True)["queue"]
        with channel.tx:
            channel.basic.publish("kept", queue)
            channel.tx.commit()
            channel.tx.select()
            channel.basic.publish("dropped", queue)
            channel.tx.rollback()
        assert channel.basic.get(queue, no_ack=True).body == "kept"
        assert channel.basic.get(queue, no_ack=True) is None


def test_an_error_closes_the_channel_and_has_the_brokers_text(connection: Any) -> None:
    with connection.channel() as channel:
        with pytest.raises(
            amqpstorm.AMQPChannelError, match="no queue 'nowhere'"
        ) as it:
            channel.queue.declare("nowhere", passive=True)
    assert it.value.error_code == 404
    assert connection.is_open


def test_a_wrong_password_is_an_error(amqp_url: str) -> None:
    wrong = amqp_url.replace(":guest@", ":wrong@")
    with pytest.raises(amqpstorm.AMQPConnectionError, match="refused"):
        amqpstorm.UriConnection(wrong)
