"""Channels and connections that close: crossing closes, reuse of numbers, limits."""

from __future__ import annotations

import struct

import pytest
from pamqp import commands

from tests.support.raw_client import (
    METHOD,
    Endpoint,
    RawClient,
    channel_closed,
    connection_closed,
    shortstr,
)

BYE = commands.Channel.Close(200, "bye", 0, 0)
NO_QUEUE = "NOT_FOUND - no queue 'nowhere' in vhost '/'"


def break_channel(client: RawClient, channel: int = 1) -> None:
    """Make the broker close the channel, and do not answer."""
    client.send_method(channel, commands.Queue.Purge(0, "nowhere"))
    close = client.expect_method(channel, commands.Channel.Close)
    assert (close.reply_code, close.reply_text) == (404, NO_QUEUE)


def test_a_closed_channel_number_is_used_again(client: RawClient) -> None:
    for _ in range(3):
        client.call(1, BYE, commands.Channel.CloseOk)
        client.open_channel(1)
    client.call(1, commands.Basic.Qos(), commands.Basic.QosOk)


def test_a_channel_that_the_broker_closed_is_used_again(client: RawClient) -> None:
    for _ in range(3):
        client.send_method(1, commands.Queue.Purge(0, "nowhere"))
        client.expect_refusal(channel_closed(404, NO_QUEUE, 50, 30))
    client.call(1, commands.Basic.Qos(), commands.Basic.QosOk)


def test_a_channel_error_leaves_the_other_channels_alone(client: RawClient) -> None:
    client.open_channel(2)
    break_channel(client, 1)
    client.call(2, commands.Basic.Qos(), commands.Basic.QosOk)


def test_a_close_that_crosses_the_brokers_is_answered(client: RawClient) -> None:
    break_channel(client)
    client.send_method(1, BYE)
    client.expect_method(1, commands.Channel.CloseOk)
    client.send_method(1, commands.Channel.CloseOk())
    client.open_channel(1)


def test_methods_and_content_for_a_closing_channel_are_ignored(
    client: RawClient,
) -> None:
    break_channel(client)
    client.send_method(1, commands.Basic.Qos())
    client.publish(1, commands.Basic.Publish(0, "no exchange", "k"), b"abc")
    client.send_method(1, commands.Basic.Ack(77))
    client.send_method(1, commands.Channel.CloseOk())
    client.open_channel(1)
    client.call(1, commands.Basic.Qos(), commands.Basic.QosOk)


def test_opening_a_channel_before_answering_its_close_is_504(
    client: RawClient,
) -> None:
    break_channel(client)
    client.send_method(1, commands.Channel.Open())
    text = "CHANNEL_ERROR - second 'channel.open' seen"
    client.expect_refusal(connection_closed(504, text, 20, 10))


def test_a_connection_close_is_answered_with_channels_open(client: RawClient) -> None:
    client.open_channel(2)
    client.close()


def test_a_connection_close_that_crosses_the_brokers_is_answered(
    client: RawClient,
) -> None:
    client.send_method(9, commands.Basic.Qos())
    client.expect_method(0, commands.Connection.Close)
    close = commands.Connection.Close(200, "bye", 0, 0)
    client.call(0, close, commands.Connection.CloseOk)


def test_frames_after_the_brokers_connection_close_are_ignored(
    client: RawClient,
) -> None:
    client.send_method(9, commands.Basic.Qos())
    client.expect_method(0, commands.Connection.Close)
    client.send_method(1, commands.Basic.Qos())
    client.send_method(0, commands.Connection.CloseOk())
    client.expect_end()


@pytest.mark.parametrize("channel_max", [1, 3])
def test_more_channels_than_negotiated_are_530(
    broker: Endpoint, channel_max: int
) -> None:
    with RawClient(broker) as client:
        client.open(channel_max=channel_max)
        for channel in range(1, channel_max + 1):
            client.open_channel(channel)
        client.send_method(channel_max + 1, commands.Channel.Open())
        text = (
            f"NOT_ALLOWED - number of channels opened ({channel_max}) "
            f"has reached the negotiated channel_max ({channel_max})"
        )
        client.expect_refusal(connection_closed(530, text))


def test_closed_channels_do_not_count_against_channel_max(broker: Endpoint) -> None:
    with RawClient(broker) as client:
        client.open(channel_max=1)
        for _ in range(3):
            client.open_channel(1)
            client.call(1, BYE, commands.Channel.CloseOk)
        client.open_channel(1)


def test_a_socket_that_ends_amid_a_frame_gives_its_messages_back(
    client: RawClient, broker: Endpoint
) -> None:
    queue = client.call(
        1, commands.Queue.Declare(auto_delete=True), commands.Queue.DeclareOk
    ).queue
    assert queue
    client.call(1, commands.Confirm.Select(), commands.Confirm.SelectOk)
    with RawClient(broker) as lost:
        lost.open().open_channel()
        lost.call(1, commands.Basic.Consume(0, queue), commands.Basic.ConsumeOk)
        client.publish_to_queue(queue, b"abc")
        lost.expect_message(1, commands.Basic.Deliver)
        client.expect_method(1, commands.Basic.Ack)
        # A second consumer keeps the queue and takes what comes back.
        client.call(1, commands.Basic.Consume(0, queue), commands.Basic.ConsumeOk)
        lost.send_bytes(b"\x01\x00\x01\x00\x00\x00\x20half of a frame")
    message = client.expect_message(1, commands.Basic.Deliver)
    assert message.body == b"abc"
    assert isinstance(message.method, commands.Basic.Deliver)
    assert message.method.redelivered


def test_access_request_is_answered_with_ticket_1(client: RawClient) -> None:
    arguments = shortstr(b"/data") + b"\x1f"
    client.send_frame(METHOD, 1, struct.pack(">HH", 30, 10) + arguments)
    assert client.next_frame().payload == struct.pack(">HHH", 30, 11, 1)


def test_channel_flow_on_is_answered(client: RawClient) -> None:
    reply = client.call(1, commands.Channel.Flow(True), commands.Channel.FlowOk)
    assert reply.active is True


def test_channel_flow_off_is_540(client: RawClient) -> None:
    client.send_method(1, commands.Channel.Flow(False))
    text = "NOT_IMPLEMENTED - active=false"
    client.expect_refusal(connection_closed(540, text, 20, 20))


def test_a_text_is_cut_to_what_a_frame_can_say(client: RawClient) -> None:
    name = "n" * 255
    client.send_method(1, commands.Queue.Purge(0, name))
    text = f"NOT_FOUND - no queue '{name}' in vhost '/'"
    client.expect_refusal(channel_closed(404, text[:252] + "...", 50, 30))
    # The last three octets say that it goes on: as RabbitMQ cuts it.
    client.send_method(1, commands.Queue.Purge(0, name))
    assert len(client.expect_close(1).text) == 255
