"""Ack, nack, reject, recover: what a tag means, and where a message goes back to."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from pamqp import base, commands
from pamqp.commands import Basic

from tests.support.raw_client import (
    METHOD,
    Message,
    RawClient,
    channel_closed,
    connection_closed,
)

#: pamqp warns when it builds this one, which the specification deprecates.
RECOVER_ASYNC = b"\x00\x3c\x00\x64"
UNKNOWN = "PRECONDITION_FAILED - unknown delivery tag "


def is_redelivered(message: Message) -> bool:
    assert isinstance(message.method, Basic.GetOk | Basic.Deliver)
    return message.method.redelivered is True


@pytest.fixture
def queue(client: RawClient) -> str:
    """A queue of which messages 1 to 4 are taken on channel 1, and 5 is not."""
    name = client.temporary_queue()
    for number in range(1, 6):
        client.publish_to_queue(name, str(number).encode())
    for _ in range(4):
        assert client.get(name, no_ack=False) is not None
    return name


def left_in(client: RawClient, queue: str) -> list[tuple[bytes, bool]]:
    """Return body and redelivered flag of all that is ready, and take it."""
    taken = []
    while message := client.get(queue):
        taken.append((message.body, is_redelivered(message)))
    return taken


@pytest.mark.parametrize(
    ("method", "method_id"),
    [
        (Basic.Ack(5), 80),
        (Basic.Ack(5, True), 80),
        (Basic.Ack(0), 80),
        (Basic.Nack(5), 120),
        (Basic.Nack(5, True), 120),
        (Basic.Nack(0), 120),
        (Basic.Reject(5), 90),
        (Basic.Reject(0), 90),
    ],
    ids=[
        "ack",
        "ack multiple",
        "ack 0",
        "nack",
        "nack multiple",
        "nack 0",
        "reject",
        "reject 0",
    ],
)
def test_a_tag_that_was_never_given_out_is_406(
    client: RawClient,
    queue: str,
    method: Basic.Ack | Basic.Nack | Basic.Reject,
    method_id: int,
) -> None:
    client.send_method(1, method)
    text = f"{UNKNOWN}{method.delivery_tag}"
    client.expect_refusal(channel_closed(406, text, 60, method_id))


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (Basic.Ack(2), Basic.Ack(2)),
        (Basic.Ack(2), Basic.Ack(2, True)),
        (Basic.Ack(2, True), Basic.Ack(1)),
        (Basic.Ack(3, True), Basic.Ack(1, True)),
        (Basic.Reject(2, requeue=True), Basic.Ack(2)),
    ],
    ids=["ack", "multiple", "within multiple", "multiple below", "after reject"],
)
def test_acknowledging_twice_is_406(
    client: RawClient, queue: str, first: base.Frame, second: Basic.Ack
) -> None:
    client.send_method(1, first)
    client.send_method(1, second)
    text = f"{UNKNOWN}{second.delivery_tag}"
    client.expect_refusal(channel_closed(406, text, 60, 80))


def test_a_delivery_without_acknowledgement_has_no_tag_to_acknowledge(
    client: RawClient,
) -> None:
    name = client.temporary_queue()
    client.publish_to_queue(name, b"x")
    assert client.get(name, no_ack=True) is not None
    client.send_method(1, Basic.Ack(1))
    client.expect_refusal(channel_closed(406, f"{UNKNOWN}1", 60, 80))


def test_a_tag_belongs_to_its_channel(client: RawClient, queue: str) -> None:
    client.open_channel(2)
    client.send_method(2, Basic.Ack(1))
    client.expect_refusal(channel_closed(406, f"{UNKNOWN}1", 60, 80), 2)


@pytest.mark.parametrize(
    "method",
    [Basic.Ack(0, True), Basic.Nack(0, True, True)],
    ids=["ack", "nack"],
)
def test_tag_0_with_multiple_is_fine_when_nothing_is_outstanding(
    client: RawClient, method: base.Frame
) -> None:
    client.send_method(1, method)
    client.call(1, Basic.Qos(), Basic.QosOk)


@pytest.mark.parametrize(
    ("method", "left"),
    [
        (Basic.Ack(2), [1, 3, 4]),
        (Basic.Ack(3, True), [4]),
        (Basic.Ack(0, True), []),
        (Basic.Reject(2, requeue=False), [1, 3, 4]),
        (Basic.Nack(3, True, False), [4]),
        (Basic.Nack(0, True, False), []),
    ],
    ids=["ack", "ack multiple", "ack all", "reject", "nack multiple", "nack all"],
)
def test_what_was_settled_does_not_come_back(
    client: RawClient, queue: str, method: base.Frame, left: list[int]
) -> None:
    client.send_method(1, method)
    close = commands.Channel.Close(200, "bye", 0, 0)
    client.call(1, close, commands.Channel.CloseOk)
    client.open_channel(1)
    # What was taken and not settled comes before what was never taken.
    expected = [(str(number).encode(), True) for number in left]
    assert left_in(client, queue) == [*expected, (b"5", False)]


@pytest.mark.parametrize(
    ("method", "back"),
    [
        (Basic.Reject(3, requeue=True), [3]),
        (Basic.Nack(3, False, True), [3]),
        (Basic.Nack(3, True, True), [1, 2, 3]),
        (Basic.Nack(0, True, True), [1, 2, 3, 4]),
    ],
    ids=["reject", "nack", "nack multiple", "nack all"],
)
def test_requeued_messages_go_back_to_their_place(
    client: RawClient, queue: str, method: base.Frame, back: list[int]
) -> None:
    client.send_method(1, method)
    expected = [(str(number).encode(), True) for number in back]
    assert left_in(client, queue) == [*expected, (b"5", False)]


def test_messages_requeued_one_by_one_backwards_are_in_order(
    client: RawClient, queue: str
) -> None:
    for tag in (4, 2, 3, 1):
        client.send_method(1, Basic.Reject(tag, requeue=True))
    bodies = [body for body, _ in left_in(client, queue)]
    assert bodies == [b"1", b"2", b"3", b"4", b"5"]


def test_messages_of_a_closed_connection_go_back_to_their_place(
    client: RawClient,
    connect: Callable[[], RawClient],
    fresh_name: Callable[[], str],
) -> None:
    name = fresh_name()
    declare = commands.Queue.Declare(0, name)
    client.call(1, declare, commands.Queue.DeclareOk)
    client.call(1, commands.Confirm.Select(), commands.Confirm.SelectOk)
    for body in (b"1", b"2", b"3"):
        client.publish_to_queue(name, body)
    while client.expect_method(1, Basic.Ack).delivery_tag != 3:
        pass
    other = connect()
    for _ in range(2):
        other.get(name, no_ack=False)
    other.close()
    assert left_in(client, name) == [(b"1", True), (b"2", True), (b"3", False)]


def test_recover_puts_everything_back(client: RawClient, queue: str) -> None:
    client.call(1, Basic.Recover(True), Basic.RecoverOk)
    expected = [(str(number).encode(), True) for number in range(1, 5)]
    assert left_in(client, queue) == [*expected, (b"5", False)]


def test_recovered_messages_are_delivered_with_new_tags(client: RawClient) -> None:
    name = client.temporary_queue()
    client.call(1, Basic.Consume(0, name, "tag"), Basic.ConsumeOk)
    client.publish_to_queue(name, b"x")
    client.expect_message(1, Basic.Deliver)
    client.send_method(1, Basic.Recover(True))
    client.expect_method(1, Basic.RecoverOk)
    again = client.expect_message(1, Basic.Deliver)
    assert isinstance(again.method, Basic.Deliver)
    assert (again.method.delivery_tag, again.method.redelivered) == (2, True)
    client.send_method(1, Basic.Ack(1))
    client.expect_refusal(channel_closed(406, f"{UNKNOWN}1", 60, 80))


def test_recover_async_is_not_answered(client: RawClient, queue: str) -> None:
    client.send_frame(METHOD, 1, RECOVER_ASYNC + b"\x01")
    assert len(left_in(client, queue)) == 5


def test_recover_without_requeue_is_540(client: RawClient) -> None:
    client.send_method(1, Basic.Recover(False))
    text = "NOT_IMPLEMENTED - requeue=false"
    client.expect_refusal(connection_closed(540, text, 60, 110))


def test_recover_async_without_requeue_is_540(client: RawClient) -> None:
    client.send_frame(METHOD, 1, RECOVER_ASYNC + b"\x00")
    text = "NOT_IMPLEMENTED - requeue=false"
    client.expect_refusal(connection_closed(540, text, 60, 100))


def test_a_message_that_was_never_delivered_is_not_redelivered(
    client: RawClient, queue: str
) -> None:
    assert left_in(client, queue) == [(b"5", False)]
