"""Confirm mode and transactions: numbers, commits, rollbacks, and never both."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from pamqp import base, commands
from pamqp.commands import Basic, Tx

from tests.support.raw_client import RawClient, channel_closed

CONFIRM = commands.Confirm.Select()
UNKNOWN = "PRECONDITION_FAILED - unknown delivery tag "
PERSISTENT = b"\x10\x00\x02"


def confirmed_until(client: RawClient, last: int) -> list[int]:
    """Return the confirmed numbers, in order, when all up to `last` are."""
    confirmed: list[int] = []
    while len(confirmed) < last:
        ack = client.expect_method(1, Basic.Ack)
        assert ack.delivery_tag is not None
        low = len(confirmed) + 1 if ack.multiple else ack.delivery_tag
        confirmed += range(low, ack.delivery_tag + 1)
    return sorted(confirmed)


@pytest.mark.parametrize("properties", [b"\x00\x00", PERSISTENT])
@pytest.mark.parametrize("durable", [False, True])
def test_every_message_is_confirmed_once(
    client: RawClient,
    fresh_name: Callable[[], str],
    properties: bytes,
    durable: bool,
) -> None:
    name = fresh_name()
    declare = commands.Queue.Declare(0, name, durable=durable)
    client.call(1, declare, commands.Queue.DeclareOk)
    client.call(1, CONFIRM, commands.Confirm.SelectOk)
    for _ in range(20):
        client.publish_to_queue(name, b"x", properties)
    assert confirmed_until(client, 20) == list(range(1, 21))


def test_unroutable_messages_are_confirmed(client: RawClient) -> None:
    client.call(1, CONFIRM, commands.Confirm.SelectOk)
    for _ in range(3):
        client.publish_to_queue("nowhere", b"x", PERSISTENT)
    assert confirmed_until(client, 3) == [1, 2, 3]


def test_selecting_again_does_not_start_the_numbers_again(client: RawClient) -> None:
    client.call(1, CONFIRM, commands.Confirm.SelectOk)
    client.publish_to_queue("nowhere")
    client.expect_method(1, Basic.Ack)
    client.call(1, CONFIRM, commands.Confirm.SelectOk)
    client.publish_to_queue("nowhere")
    assert client.expect_method(1, Basic.Ack).delivery_tag == 2


def test_numbers_start_when_confirm_mode_does(client: RawClient) -> None:
    client.publish_to_queue("nowhere")
    client.call(1, CONFIRM, commands.Confirm.SelectOk)
    client.publish_to_queue("nowhere")
    assert client.expect_method(1, Basic.Ack).delivery_tag == 1


@pytest.mark.parametrize(
    ("first", "reply", "second", "text", "ids"),
    [
        (CONFIRM, commands.Confirm.SelectOk, Tx.Select(), "confirm to tx", (90, 10)),
        (Tx.Select(), Tx.SelectOk, CONFIRM, "tx to confirm", (85, 10)),
    ],
    ids=["confirm then tx", "tx then confirm"],
)
def test_a_channel_does_not_change_its_mode(
    client: RawClient,
    first: base.Frame,
    reply: type[base.Frame],
    second: base.Frame,
    text: str,
    ids: tuple[int, int],
) -> None:
    client.call(1, first, reply)
    client.send_method(1, second)
    text = f"PRECONDITION_FAILED - cannot switch from {text} mode"
    client.expect_refusal(channel_closed(406, text, *ids))


@pytest.mark.parametrize(
    ("method", "method_id"),
    [(Tx.Commit(), 20), (Tx.Rollback(), 30)],
    ids=["commit", "rollback"],
)
def test_without_select_there_is_no_transaction(
    client: RawClient, method: base.Frame, method_id: int
) -> None:
    client.send_method(1, method)
    text = "PRECONDITION_FAILED - channel is not transactional"
    client.expect_refusal(channel_closed(406, text, 90, method_id))


@pytest.fixture
def transaction(connect: Callable[[], RawClient]) -> RawClient:
    """A connection whose channel 1 is transactional; channel 2 is not."""
    client = connect().open_channel(2)
    client.call(1, Tx.Select(), Tx.SelectOk)
    return client


def count_on_channel_2(client: RawClient, queue: str) -> int | None:
    declare = commands.Queue.Declare(0, queue, passive=True)
    return client.call(2, declare, commands.Queue.DeclareOk).message_count


def test_published_messages_arrive_with_the_commit(transaction: RawClient) -> None:
    queue = transaction.temporary_queue()
    for _ in range(3):
        transaction.publish_to_queue(queue, b"x")
    transaction.call(1, Basic.Qos(), Basic.QosOk)
    assert count_on_channel_2(transaction, queue) == 0
    transaction.call(1, Tx.Commit(), Tx.CommitOk)
    assert count_on_channel_2(transaction, queue) == 3


def test_a_rollback_drops_what_was_published(transaction: RawClient) -> None:
    queue = transaction.temporary_queue()
    transaction.publish_to_queue(queue, b"x")
    transaction.call(1, Tx.Rollback(), Tx.RollbackOk)
    transaction.call(1, Tx.Commit(), Tx.CommitOk)
    assert count_on_channel_2(transaction, queue) == 0


def test_the_transaction_goes_on_after_each_commit(transaction: RawClient) -> None:
    queue = transaction.temporary_queue()
    transaction.publish_to_queue(queue, b"x")
    transaction.call(1, Tx.Commit(), Tx.CommitOk)
    transaction.publish_to_queue(queue, b"y")
    transaction.call(1, Basic.Qos(), Basic.QosOk)
    assert count_on_channel_2(transaction, queue) == 1


def test_acknowledgements_count_with_the_commit(transaction: RawClient) -> None:
    queue = transaction.temporary_queue()
    transaction.publish_to_queue(queue, b"x")
    transaction.call(1, Tx.Commit(), Tx.CommitOk)
    transaction.get(queue, no_ack=False)
    transaction.send_method(1, Basic.Ack(1))
    transaction.call(1, Tx.Commit(), Tx.CommitOk)
    close = commands.Channel.Close(200, "bye", 0, 0)
    transaction.call(1, close, commands.Channel.CloseOk)
    assert count_on_channel_2(transaction, queue) == 0


def test_after_a_rollback_the_message_is_still_to_be_acknowledged(
    transaction: RawClient,
) -> None:
    queue = transaction.temporary_queue()
    transaction.publish_to_queue(queue, b"x")
    transaction.call(1, Tx.Commit(), Tx.CommitOk)
    transaction.get(queue, no_ack=False)
    transaction.send_method(1, Basic.Ack(1))
    transaction.call(1, Tx.Rollback(), Tx.RollbackOk)
    assert count_on_channel_2(transaction, queue) == 0
    transaction.send_method(1, Basic.Ack(1))
    transaction.call(1, Tx.Commit(), Tx.CommitOk)


def test_a_rejection_counts_with_the_commit(transaction: RawClient) -> None:
    queue = transaction.temporary_queue()
    transaction.publish_to_queue(queue, b"x")
    transaction.call(1, Tx.Commit(), Tx.CommitOk)
    transaction.get(queue, no_ack=False)
    transaction.send_method(1, Basic.Reject(1, requeue=True))
    transaction.call(1, Basic.Qos(), Basic.QosOk)
    assert count_on_channel_2(transaction, queue) == 0
    transaction.call(1, Tx.Commit(), Tx.CommitOk)
    assert count_on_channel_2(transaction, queue) == 1


def test_an_unknown_tag_is_refused_before_the_commit(transaction: RawClient) -> None:
    transaction.send_method(1, Basic.Ack(7))
    transaction.expect_refusal(channel_closed(406, f"{UNKNOWN}7", 60, 80))


def test_a_channel_that_closes_amid_a_transaction_publishes_nothing(
    transaction: RawClient,
) -> None:
    queue = transaction.temporary_queue()
    transaction.publish_to_queue(queue, b"x")
    close = commands.Channel.Close(200, "bye", 0, 0)
    transaction.call(1, close, commands.Channel.CloseOk)
    assert count_on_channel_2(transaction, queue) == 0


def test_a_message_whose_queue_goes_meanwhile_is_confirmed(
    client: RawClient, fresh_name: Callable[[], str]
) -> None:
    name = fresh_name()
    declare = commands.Queue.Declare(0, name, durable=True)
    client.call(1, declare, commands.Queue.DeclareOk)
    client.call(1, CONFIRM, commands.Confirm.SelectOk)
    for _ in range(10):
        client.publish_to_queue(name, b"x", PERSISTENT)
    client.send_method(1, commands.Queue.Delete(0, name, nowait=True))
    assert confirmed_until(client, 10) == list(range(1, 11))
