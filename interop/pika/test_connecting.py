"""pika: logging in, names, heartbeats, and connections that are refused or lost."""

from __future__ import annotations

from typing import Any

import pika
import pika.exceptions
import pytest


def parameters(amqp_url: str, **changes: Any) -> Any:
    result = pika.URLParameters(amqp_url)
    for key, value in changes.items():
        setattr(result, key, value)
    return result


def test_server_properties_say_what_the_broker_can(connection: Any) -> None:
    assert connection.publisher_confirms_supported
    assert connection.exchange_exchange_bindings_supported
    assert connection.basic_nack_supported
    assert connection.consumer_cancel_notify_supported


def test_a_connection_may_have_a_name_and_properties(amqp_url: str) -> None:
    properties = {"connection_name": "interop pika", "team": {"size": 3}}
    with pika.BlockingConnection(
        parameters(amqp_url, client_properties=properties)
    ) as connection:
        assert connection.is_open


def test_a_wrong_password_is_an_authentication_error(amqp_url: str) -> None:
    credentials = pika.PlainCredentials("guest", "wrong")
    with pytest.raises(pika.exceptions.ProbableAuthenticationError) as caught:
        pika.BlockingConnection(parameters(amqp_url, credentials=credentials))
    assert "403" in str(caught.value)
    assert "Login was refused using authentication mechanism PLAIN" in str(caught.value)


def test_a_wrong_virtual_host_is_an_access_error(amqp_url: str) -> None:
    with pytest.raises(pika.exceptions.ProbableAccessDeniedError) as caught:
        pika.BlockingConnection(parameters(amqp_url, virtual_host="nowhere"))
    assert "530" in str(caught.value)
    assert "NOT_ALLOWED - vhost nowhere not found" in str(caught.value)


def test_many_channels_at_once(connection: Any) -> None:
    channels = [connection.channel() for _ in range(50)]
    assert {channel.channel_number for channel in channels} == set(range(1, 51))
    for channel in channels[::2]:
        channel.close()
    again = [connection.channel() for _ in range(25)]
    assert all(channel.is_open for channel in again)


def test_heartbeats_keep_an_idle_connection_and_without_them_it_is_lost(
    amqp_url: str,
) -> None:
    lost = pika.BlockingConnection(parameters(amqp_url, heartbeat=1))
    with pika.BlockingConnection(parameters(amqp_url, heartbeat=1)) as connection:
        # A blocking application that computes: of the other one, nobody reads, nobody
        # sends heartbeats.
        connection.process_data_events(time_limit=3.5)
        assert connection.channel().is_open
    with pytest.raises(pika.exceptions.AMQPConnectionError):
        lost.process_data_events(time_limit=1)


def test_a_small_frame_size_is_negotiated(amqp_url: str) -> None:
    small = parameters(amqp_url, frame_max=4096, channel_max=5, heartbeat=30)
    with pika.BlockingConnection(small) as connection:
        channel = connection.channel()
        queue = channel.queue_declare("", exclusive=True).method.queue
        channel.basic_publish("", queue, b"x" * 50_000)
        assert channel.basic_get(queue, auto_ack=True)[2] == b"x" * 50_000


def test_an_error_on_a_channel_leaves_the_connection_open(
    connection: Any, channel: Any
) -> None:
    with pytest.raises(pika.exceptions.ChannelClosedByBroker) as caught:
        channel.queue_declare("interop-nowhere", passive=True)
    assert caught.value.reply_code == 404
    assert caught.value.reply_text == (
        "NOT_FOUND - no queue 'interop-nowhere' in vhost '/'"
    )
    assert connection.is_open
    assert connection.channel().is_open


def test_an_error_of_the_connection_closes_it(connection: Any, channel: Any) -> None:
    channel.basic_consume(
        channel.queue_declare("", exclusive=True).method.queue,
        lambda *_: None,
        consumer_tag="same",
    )
    # Behind pika's back, which does not let a tag be used twice.
    method = pika.spec.Basic.Consume(queue="", consumer_tag="same")
    channel._impl._send_method(method)
    with pytest.raises(pika.exceptions.ConnectionClosedByBroker) as caught:
        connection.process_data_events(time_limit=5)
    assert caught.value.reply_code == 530
    assert caught.value.reply_text == (
        "NOT_ALLOWED - attempt to reuse consumer tag 'same'"
    )


def test_select_connection_goes_its_callbacks_way(amqp_url: str) -> None:
    seen: list[Any] = []

    def on_open(connection: Any) -> None:
        seen.append("connection")
        connection.channel(on_open_callback=on_channel)

    def on_channel(channel: Any) -> None:
        seen.append("channel")
        channel.queue_declare(
            "", exclusive=True, callback=lambda frame: on_queue(channel, frame)
        )

    def on_queue(channel: Any, frame: Any) -> None:
        queue = frame.method.queue
        channel.basic_consume(queue, on_message)
        channel.basic_publish("", queue, b"hello")

    def on_message(channel: Any, method: Any, properties: Any, body: bytes) -> None:
        seen.append(body)
        channel.basic_ack(method.delivery_tag)
        channel.connection.close()

    connection = pika.SelectConnection(
        pika.URLParameters(amqp_url),
        on_open_callback=on_open,
        on_close_callback=lambda connection, reason: connection.ioloop.stop(),
    )
    connection.ioloop.start()
    assert seen == ["connection", "channel", b"hello"]
