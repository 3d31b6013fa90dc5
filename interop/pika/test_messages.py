"""pika: publishing, properties, confirms, returns, transactions."""

from __future__ import annotations

import datetime
import decimal
from typing import Any

import pika
import pika.exceptions
import pytest

SIZES = [0, 1, 131_064, 131_065, 300_000, 5_000_000]


@pytest.mark.parametrize("size", SIZES)
def test_a_body_of_any_size_arrives(channel: Any, queue: str, size: int) -> None:
    body = (b"0123456789abcdef" * (size // 16 + 1))[:size]
    channel.basic_publish("", queue, body)
    method, _, received = channel.basic_get(queue, auto_ack=True)
    assert received == body
    assert method.message_count == 0


def test_every_property_arrives(channel: Any, queue: str) -> None:
    properties = pika.BasicProperties(
        content_type="application/json",
        content_encoding="gzip",
        headers={"k": "v"},
        delivery_mode=pika.DeliveryMode.Persistent,
        priority=7,
        correlation_id="correlation",
        reply_to="reply",
        expiration="60000",
        message_id="id",
        timestamp=1_700_000_000,
        type="type",
        user_id="guest",
        app_id="app",
        cluster_id="cluster",
    )
    channel.basic_publish("", queue, b"x", properties)
    _, received, _ = channel.basic_get(queue, auto_ack=True)
    assert received == properties


def test_every_type_of_header_arrives(channel: Any, queue: str) -> None:
    headers = {
        "string": "täxt",
        "empty": "",
        "bytes": b"\x00\xff",
        "true": True,
        "false": False,
        "small": 1,
        "negative": -1,
        "large": 2**40,
        "decimal": decimal.Decimal("3.14"),
        "time": datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.UTC),
        "nothing": None,
        "list": [1, "two", [3], {"four": 4}],
        "table": {"nested": {"deeper": [True]}},
    }
    properties = pika.BasicProperties(headers=headers)
    channel.basic_publish("", queue, b"x", properties)
    _, received, _ = channel.basic_get(queue, auto_ack=True)
    # Before 1.4 pika leaves the time zone out of what it has decoded.
    received.headers["time"] = received.headers["time"].replace(tzinfo=datetime.UTC)
    assert received.headers == headers


def test_publishing_to_a_missing_exchange_closes_the_channel(
    connection: Any, channel: Any
) -> None:
    channel.basic_publish("interop-nowhere", "key", b"x")
    with pytest.raises(pika.exceptions.ChannelClosedByBroker) as caught:
        channel.queue_declare("", exclusive=True)
    assert caught.value.reply_code == 404
    assert caught.value.reply_text == (
        "NOT_FOUND - no exchange 'interop-nowhere' in vhost '/'"
    )


def test_a_mandatory_message_without_a_queue_is_returned(
    connection: Any, channel: Any
) -> None:
    returned: list[Any] = []
    channel.add_on_return_callback(lambda *message: returned.append(message))
    properties = pika.BasicProperties(message_id="lost")
    channel.basic_publish("amq.topic", "a.b", b"body", properties, mandatory=True)
    connection.process_data_events(time_limit=5)
    ((_, method, received, body),) = returned
    assert (method.reply_code, method.reply_text) == (312, "NO_ROUTE")
    assert (method.exchange, method.routing_key) == ("amq.topic", "a.b")
    assert (received.message_id, body) == ("lost", b"body")


def test_a_confirmed_publish_returns(channel: Any, queue: str) -> None:
    channel.confirm_delivery()
    persistent = pika.BasicProperties(delivery_mode=pika.DeliveryMode.Persistent)
    for number in range(10):
        channel.basic_publish("", queue, str(number).encode(), persistent)
    assert channel.queue_declare(queue, passive=True).method.message_count == 10


def test_a_confirmed_publish_to_no_queue_is_unroutable(channel: Any) -> None:
    channel.confirm_delivery()
    channel.basic_publish("", "interop-nowhere", b"dropped")
    with pytest.raises(pika.exceptions.UnroutableError) as caught:
        channel.basic_publish("", "interop-nowhere", b"x", mandatory=True)
    assert [message.body for message in caught.value.messages] == [b"x"]


def test_a_commit_publishes_and_a_rollback_does_not(channel: Any, queue: str) -> None:
    channel.tx_select()
    channel.basic_publish("", queue, b"dropped")
    channel.tx_rollback()
    channel.basic_publish("", queue, b"kept")
    channel.tx_commit()
    assert channel.basic_get(queue, auto_ack=True)[2] == b"kept"
    assert channel.basic_get(queue, auto_ack=True)[0] is None


def test_a_commit_acknowledges(connection: Any, channel: Any, queue: str) -> None:
    channel.basic_publish("", queue, b"x")
    transactional = connection.channel()
    transactional.tx_select()
    method, _, _ = transactional.basic_get(queue)
    transactional.basic_ack(method.delivery_tag)
    transactional.tx_rollback()
    transactional.basic_ack(method.delivery_tag)
    transactional.tx_commit()
    transactional.close()
    assert channel.basic_get(queue)[0] is None


def test_confirms_and_transactions_exclude_each_other(channel: Any) -> None:
    channel.tx_select()
    with pytest.raises(pika.exceptions.ChannelClosedByBroker) as caught:
        channel.confirm_delivery()
    assert caught.value.reply_code == 406
    assert caught.value.reply_text == (
        "PRECONDITION_FAILED - cannot switch from tx to confirm mode"
    )


def test_a_commit_needs_a_transaction(channel: Any) -> None:
    with pytest.raises(pika.exceptions.ChannelClosedByBroker) as caught:
        channel.tx_commit()
    assert caught.value.reply_code == 406
    assert caught.value.reply_text == (
        "PRECONDITION_FAILED - channel is not transactional"
    )


def test_an_invalid_expiration_is_refused(channel: Any, queue: str) -> None:
    properties = pika.BasicProperties(expiration="soon")
    channel.basic_publish("", queue, b"x", properties)
    with pytest.raises(pika.exceptions.ChannelClosedByBroker) as caught:
        channel.basic_get(queue)
    assert caught.value.reply_code == 406
    assert caught.value.reply_text == (
        "PRECONDITION_FAILED - invalid expiration 'soon': no_integer"
    )


def test_a_persistent_message_in_a_durable_queue_is_confirmed(
    connection: Any, channel: Any, name: Any
) -> None:
    queue, exchange = name("queue"), name("exchange")
    channel.exchange_declare(exchange, "topic", durable=True)
    channel.queue_declare(queue, durable=True)
    channel.queue_bind(queue, exchange, "orders.*")
    channel.confirm_delivery()
    persistent = pika.BasicProperties(delivery_mode=pika.DeliveryMode.Persistent)
    for number in range(20):
        body = f"order {number}".encode()
        channel.basic_publish(exchange, "orders.new", body, persistent, mandatory=True)
    received = [channel.basic_get(queue, auto_ack=True)[2] for _ in range(20)]
    assert received == [f"order {number}".encode() for number in range(20)]
