"""Direct reply-to: RPC without a queue for the answers, and who may not use it how."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from pamqp import base, commands
from pamqp.commands import Basic, Queue

from tests.support.differences import Expectations
from tests.support.raw_client import (
    Closed,
    RawClient,
    channel_closed,
    connection_closed,
    longstr,
    shortstr,
)

Connect = Callable[[], RawClient]

REPLY_TO = "amq.rabbitmq.reply-to"
ASKING = b"\x02\x00" + shortstr(REPLY_TO.encode())


def await_replies(client: RawClient, channel: int = 1, tag: str = "r") -> None:
    sent = Basic.Consume(0, REPLY_TO, tag, no_ack=True)
    client.call(channel, sent, Basic.ConsumeOk)


def request(client: RawClient, channel: int = 1) -> str:
    """Ask on a channel; return the address that the responder sees."""
    queue = client.temporary_queue()
    sent = Basic.Publish(0, "", queue)
    client.publish(channel, sent, b"ask", ASKING)
    message = None
    while message is None:
        message = client.get(queue)
    assert message.properties[:2] == b"\x02\x00"
    assert message.properties[2] == len(message.properties) - 3
    return message.properties[3:].decode()


def naming(method: base.Frame, name: str) -> base.Frame:
    """Put a name into a method: RabbitMQ's addresses are none that pamqp allows."""
    method.queue = name  # type: ignore[attr-defined]
    method.validate = lambda: None  # type: ignore[method-assign]
    return method


def answer(client: RawClient, address: str, body: bytes, mandatory: bool) -> None:
    method = Basic.Publish(0, "", "", mandatory)
    method.routing_key = address
    client.publish(1, method, body)


def refused(text: str, method_id: int = 20) -> Closed:
    return channel_closed(406, f"PRECONDITION_FAILED - {text}", 60, method_id)


def test_an_answer_from_another_connection_comes_to_the_channel_that_asked(
    client: RawClient, connect: Connect
) -> None:
    await_replies(client)
    address = request(client)
    assert address.startswith(REPLY_TO + ".")
    answer(connect(), address, b"answer", mandatory=False)
    message = client.expect_message(1, Basic.Deliver)
    method = message.method
    assert isinstance(method, Basic.Deliver)
    assert (method.consumer_tag, method.exchange, method.routing_key) == (
        "r",
        "",
        address,
    )
    assert (method.redelivered, message.body) == (False, b"answer")


def test_the_address_is_the_same_for_a_channel_and_another_for_each(
    client: RawClient,
) -> None:
    client.open_channel(2)
    await_replies(client)
    await_replies(client, 2)
    addresses = [request(client, channel) for channel in (1, 2, 1)]
    assert addresses[0] == addresses[2] != addresses[1]


def test_a_reply_consumer_without_a_tag_gets_one(client: RawClient) -> None:
    sent = Basic.Consume(0, REPLY_TO, no_ack=True)
    tag = client.call(1, sent, Basic.ConsumeOk).consumer_tag
    assert tag is not None
    assert tag.startswith("amq.ctag-")


def test_a_reply_consumer_that_acknowledges_is_406(client: RawClient) -> None:
    client.send_method(1, Basic.Consume(0, REPLY_TO, "r"))
    client.expect_refusal(refused("reply consumer cannot acknowledge"))


@pytest.mark.parametrize("tag", ["r", "s"])
def test_a_second_reply_consumer_is_406(client: RawClient, tag: str) -> None:
    await_replies(client)
    client.send_method(1, Basic.Consume(0, REPLY_TO, tag, no_ack=True))
    client.expect_refusal(refused("reply consumer already set"))


def test_the_tag_of_another_consumer_is_530(client: RawClient) -> None:
    client.call(1, Basic.Consume(0, client.temporary_queue(), "r"), Basic.ConsumeOk)
    client.send_method(1, Basic.Consume(0, REPLY_TO, "r", no_ack=True))
    text = "NOT_ALLOWED - attempt to reuse consumer tag 'r'"
    client.expect_refusal(connection_closed(530, text, 60, 20))


def test_asking_without_a_reply_consumer_is_406(client: RawClient) -> None:
    client.open_channel(2)
    await_replies(client, 2)
    client.publish_to_queue("nowhere", b"", ASKING)
    client.expect_refusal(refused("fast reply consumer does not exist", 40))


def test_asking_after_cancelling_is_406(client: RawClient) -> None:
    await_replies(client)
    client.call(1, Basic.Cancel("r"), Basic.CancelOk)
    client.publish_to_queue("nowhere", b"", ASKING)
    client.expect_refusal(refused("fast reply consumer does not exist", 40))


def test_an_answer_to_a_requester_that_is_gone_is_returned(
    client: RawClient, connect: Connect
) -> None:
    requester = connect()
    await_replies(requester)
    address = request(requester)
    close = commands.Connection.Close(200, "", 0, 0)
    requester.call(0, close, commands.Connection.CloseOk)
    answer(client, address, b"late", mandatory=True)
    returned = client.expect_message(1, Basic.Return)
    assert isinstance(returned.method, Basic.Return)
    assert returned.method.reply_code == 312
    assert returned.method.reply_text == "NO_ROUTE"
    assert returned.method.routing_key == address
    assert returned.body == b"late"


def test_a_mandatory_answer_that_arrives_counts_as_routed(
    client: RawClient, connect: Connect, expectations: Expectations
) -> None:
    await_replies(client)
    address = request(client)
    responder = connect()
    responder.call(1, commands.Confirm.Select(), commands.Confirm.SelectOk)
    answer(responder, address, b"x", mandatory=True)
    if expectations.differ("delivered-reply-is-returned"):
        responder.expect_message(1, Basic.Return)
    responder.expect_method(1, Basic.Ack)
    assert client.expect_message(1, Basic.Deliver).body == b"x"


def test_a_copy_can_go_to_an_address(client: RawClient, connect: Connect) -> None:
    await_replies(client)
    address = request(client)
    responder = connect()
    queue = responder.temporary_queue()
    copies = b"S" + longstr(address.encode())
    headers = shortstr(b"CC") + b"A" + longstr(copies)
    properties = b"\x20\x00" + longstr(headers)
    responder.publish_to_queue(queue, b"x", properties)
    copy = client.expect_message(1, Basic.Deliver)
    assert isinstance(copy.method, Basic.Deliver)
    assert copy.method.routing_key == queue
    assert (copy.body, copy.properties) == (b"x", properties)
    message = None
    while message is None:
        message = responder.get(queue)
    assert message.body == b"x"


def test_the_short_name_is_no_routing_key(client: RawClient) -> None:
    await_replies(client)
    answer(client, REPLY_TO, b"x", mandatory=True)
    client.expect_message(1, Basic.Return)


@pytest.mark.parametrize("passive", [True, False])
def test_whether_a_requester_is_there_can_be_asked(
    client: RawClient, connect: Connect, passive: bool
) -> None:
    await_replies(client)
    address = request(client)
    responder = connect()
    for name in (address, REPLY_TO):
        sent = naming(Queue.Declare(passive=passive), name)
        found = responder.call(1, sent, Queue.DeclareOk)
        assert (found.message_count, found.consumer_count) == (0, 1)
    client.call(1, Basic.Cancel("r"), Basic.CancelOk)
    responder.send_method(1, naming(Queue.Declare(passive=passive), address))
    text = f"NOT_FOUND - no queue '{address}' in vhost '/'"
    responder.expect_refusal(channel_closed(404, text, 50, 10))


@pytest.mark.parametrize("is_short", [True, False])
def test_an_address_cannot_be_bound(
    client: RawClient, expectations: Expectations, is_short: bool
) -> None:
    await_replies(client)
    address = REPLY_TO if is_short else request(client)
    client.send_method(
        1, naming(Queue.Bind(exchange="amq.direct", routing_key="k"), address)
    )
    text = (
        f"ACCESS_REFUSED - cannot bind to queue '{address}' in vhost '/': "
        "it takes direct replies"
    )
    ours = channel_closed(403, text, 50, 20)
    client.expect_refusal(expectations.of("reply-queue-bound", ours, queue=address))


@pytest.mark.parametrize(
    ("method", "method_id"),
    [
        (Queue.Purge(), (50, 30)),
        (Basic.Get(), (60, 70)),
        (Basic.Consume(consumer_tag="t", no_ack=True), (60, 20)),
    ],
    ids=["purge", "get", "consume"],
)
def test_nothing_else_can_be_done_with_an_address(
    client: RawClient,
    connect: Connect,
    method: base.Frame,
    method_id: tuple[int, int],
) -> None:
    await_replies(client)
    address = request(client)
    stranger = connect()
    stranger.send_method(1, naming(method, address))
    text = f"NOT_FOUND - no queue '{address}' in vhost '/'"
    stranger.expect_refusal(channel_closed(404, text, *method_id))


def test_deleting_an_address_deletes_nothing(
    client: RawClient, connect: Connect
) -> None:
    await_replies(client)
    address = request(client)
    stranger = connect()
    stranger.call(1, naming(Queue.Delete(), address), Queue.DeleteOk)
    answer(stranger, address, b"x", mandatory=False)
    assert client.expect_message(1, Basic.Deliver).body == b"x"


def test_a_requester_that_does_not_read_gets_its_answers_when_it_does(
    client: RawClient, connect: Connect
) -> None:
    """Far more than fits what kernels and broker keep for one connection."""
    await_replies(client)
    address = request(client)
    responder = connect()
    count, body = 300, b"x" * 100_000
    for _ in range(count):
        answer(responder, address, body, mandatory=False)
    # The broker has taken them all: it answers what comes behind them.
    responder.call(1, Basic.Qos(0, 1), Basic.QosOk)
    for _ in range(count):
        assert client.expect_message(1, Basic.Deliver).body == body
