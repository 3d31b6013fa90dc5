"""Transactions: nothing before the commit, all of it with the commit."""

from __future__ import annotations

import pytest
from pamqp import commands

from amqpd.broker.errors import ResourceError
from amqpd.protocol.transaction import Transaction
from tests.support.connection_pair import Bench, ConnectionPair, contents, method
from tests.support.content import (
    BODY,
    PERSISTENT_PROPERTIES,
    frame,
    header_frame,
    publish,
    publish_frame,
)
from tests.support.deliveries import message_of
from tests.support.raw_client import channel_closed

COMMIT = method(1, commands.Tx.Commit())
ROLLBACK = method(1, commands.Tx.Rollback())


@pytest.fixture
def tx(bench: Bench) -> ConnectionPair:
    """A channel in tx mode, with the queue q and the durable queue d."""
    pair = bench.connect()
    pair.declare("q")
    pair.declare("d", durable=True)
    pair.call(1, commands.Tx.Select(), commands.Tx.SelectOk)
    return pair


def counts(bench: Bench, name: str = "q") -> tuple[int, int]:
    queue = bench.broker.vhosts["/"].queues[name]
    return queue.ready_count, int(queue.unacked_count)


def ack(tag: int, multiple: bool = False) -> bytes:
    return method(1, commands.Basic.Ack(tag, multiple))


def nack(tag: int, requeue: bool) -> bytes:
    return method(1, commands.Basic.Nack(tag, False, requeue))


def commit(tx: ConnectionPair) -> None:
    tx.call(1, commands.Tx.Commit(), commands.Tx.CommitOk)


def take_messages(tx: ConnectionPair, *bodies: bytes) -> None:
    """Put messages into q and let the channel's consumer have them."""
    other = tx.bench.connect()
    other.send(*(publish("q", body) for body in bodies))
    tx.bench.turn()
    assert tx.deliveries() == list(bodies)


# -- publishes ----------------------------------------------------------------


def test_publishes_are_invisible_before_the_commit(
    bench: Bench, tx: ConnectionPair
) -> None:
    tx.send(publish("q", b"a"), publish("q", b"b"))
    assert counts(bench) == (0, 0)
    commit(tx)
    assert counts(bench) == (2, 0)


def test_a_rollback_drops_publishes(bench: Bench, tx: ConnectionPair) -> None:
    tx.send(publish("q", b"a"))
    tx.call(1, commands.Tx.Rollback(), commands.Tx.RollbackOk)
    commit(tx)
    assert counts(bench) == (0, 0)


def test_after_a_commit_the_next_transaction_begins(
    bench: Bench, tx: ConnectionPair
) -> None:
    tx.send(publish("q", b"a"))
    commit(tx)
    tx.send(publish("q", b"b"))
    tx.call(1, commands.Tx.Rollback(), commands.Tx.RollbackOk)
    commit(tx)
    assert counts(bench) == (1, 0)


def test_a_commit_is_answered_after_the_sync_and_in_its_place(
    bench: Bench, tx: ConnectionPair
) -> None:
    persistent = publish("d", b"x", properties=PERSISTENT_PROPERTIES)
    tx.send(persistent, COMMIT, method(1, commands.Basic.Qos()))
    assert tx.take() == []
    bench.run_idle()
    assert [frame.method.name for frame in tx.take()] == ["Tx.CommitOk", "Basic.QosOk"]
    assert counts(bench, "d") == (1, 0)


def test_an_empty_commit_does_not_wait(tx: ConnectionPair) -> None:
    tx.send(COMMIT)
    tx.expect(1, commands.Tx.CommitOk)


def test_unroutable_mandatory_messages_are_returned_at_the_commit(
    bench: Bench, tx: ConnectionPair
) -> None:
    tx.send(publish("nowhere", b"a", mandatory=True), publish("nowhere", b"b"))
    assert tx.take() == []
    tx.send(COMMIT)
    bench.run_idle()
    frames = tx.take()
    assert frames.pop().method.name == "Tx.CommitOk"
    assert [body for _, _, body in contents(frames, commands.Basic.Return)] == [b"a"]


def test_a_queue_that_was_deleted_before_the_commit_counts_as_delivered_to(
    bench: Bench, tx: ConnectionPair
) -> None:
    tx.send(publish("q", b"a", mandatory=True))
    tx.send(method(1, commands.Queue.Delete(queue="q")))
    bench.run_idle()
    tx.expect(1, commands.Queue.DeleteOk)
    commit(tx)


def test_content_in_pieces_is_part_of_the_transaction(
    bench: Bench, tx: ConnectionPair
) -> None:
    tx.send(publish_frame("", "q"))
    tx.send(header_frame(2))
    tx.send(frame(BODY, 1, b"xy"))
    assert counts(bench) == (0, 0)
    commit(tx)
    assert counts(bench) == (1, 0)


# -- acks ---------------------------------------------------------------------


def test_acks_settle_at_the_commit(bench: Bench, tx: ConnectionPair) -> None:
    tx.consume("q")
    take_messages(tx, b"a", b"b", b"c")
    tx.send(ack(2, multiple=True))
    assert counts(bench) == (0, 3)
    commit(tx)
    assert counts(bench) == (0, 1)


def test_acked_twice_in_a_transaction_is_an_error(tx: ConnectionPair) -> None:
    tx.consume("q")
    take_messages(tx, b"a")
    tx.send(ack(1), ack(1))
    text = "PRECONDITION_FAILED - unknown delivery tag 1"
    assert tx.expect_close(1) == channel_closed(406, text, 60, 80)


def test_a_rollback_leaves_deliveries_outstanding_under_their_tags(
    bench: Bench, tx: ConnectionPair
) -> None:
    tx.consume("q")
    take_messages(tx, b"a", b"b", b"c")
    tx.send(ack(2), nack(1, requeue=True), nack(3, requeue=False))
    tx.call(1, commands.Tx.Rollback(), commands.Tx.RollbackOk)
    assert counts(bench) == (0, 3)
    tx.send(ack(3, multiple=True))
    commit(tx)
    assert counts(bench) == (0, 0)


def test_returns_and_rejections_happen_at_the_commit(
    bench: Bench, tx: ConnectionPair
) -> None:
    tx.consume("q")
    take_messages(tx, b"a", b"b")
    tx.send(nack(1, requeue=True), nack(2, requeue=False))
    bench.turn()
    assert tx.take() == []
    tx.send(COMMIT)
    bench.run_idle()
    frames = tx.take()
    assert frames.pop(0).method.name == "Tx.CommitOk"
    ((deliver, _, body),) = contents(frames, commands.Basic.Deliver)
    assert (deliver.redelivered, body) == (True, b"a")
    assert counts(bench) == (0, 1)


def test_acks_make_room_at_the_commit_only(bench: Bench, tx: ConnectionPair) -> None:
    tx.call(1, commands.Basic.Qos(0, 1, True), commands.Basic.QosOk)
    tx.consume("q")
    other = bench.connect()
    other.send(publish("q", b"a"), publish("q", b"b"))
    bench.turn()
    assert tx.deliveries() == [b"a"]
    tx.send(ack(1))
    bench.turn()
    assert tx.take() == []
    tx.send(COMMIT)
    bench.run_idle()
    assert [frame.method.name for frame in tx.take() if frame.kind == 1] == [
        "Tx.CommitOk",
        "Basic.Deliver",
    ]


def test_what_was_acked_without_a_commit_comes_back_when_the_channel_ends(
    bench: Bench, tx: ConnectionPair
) -> None:
    tx.consume("q")
    take_messages(tx, b"a", b"b", b"c")
    tx.send(ack(2), publish("q", b"never"))
    tx.call(1, commands.Channel.Close(200, "bye", 0, 0), commands.Channel.CloseOk)
    assert counts(bench) == (3, 0)
    reader = bench.connect()
    reader.consume("q")
    bench.turn()
    assert reader.deliveries() == [b"a", b"b", b"c"]


# -- modes and limits ---------------------------------------------------------


def test_a_second_select_changes_nothing(bench: Bench, tx: ConnectionPair) -> None:
    tx.send(publish("q", b"a"))
    tx.call(1, commands.Tx.Select(), commands.Tx.SelectOk)
    commit(tx)
    assert counts(bench) == (1, 0)


@pytest.mark.parametrize(
    ("sent", "method_id"), [(commands.Tx.Commit(), 20), (commands.Tx.Rollback(), 30)]
)
def test_without_a_select_there_is_nothing_to_commit_or_roll_back(
    pair: ConnectionPair, sent: commands.Tx.Commit, method_id: int
) -> None:
    pair.send(method(1, sent))
    text = "PRECONDITION_FAILED - channel is not transactional"
    assert pair.expect_close(1) == channel_closed(406, text, 90, method_id)


def test_a_channel_is_in_tx_or_in_confirm_mode(bench: Bench) -> None:
    pair = bench.connect(131072, 2047, 1, 2)
    pair.call(1, commands.Tx.Select(), commands.Tx.SelectOk)
    pair.send(method(1, commands.Confirm.Select()))
    text = "PRECONDITION_FAILED - cannot switch from tx to confirm mode"
    assert pair.expect_close(1) == channel_closed(406, text, 85, 10)
    pair.call(2, commands.Confirm.Select(), commands.Confirm.SelectOk)
    pair.send(method(2, commands.Tx.Select()))
    text = "PRECONDITION_FAILED - cannot switch from confirm to tx mode"
    assert pair.expect_close(2) == channel_closed(406, text, 90, 10)


def test_a_transaction_larger_than_a_batch_may_be_is_refused() -> None:
    message = message_of(bytes(100))
    transaction = Transaction(2 * int(message.size))
    transaction.add_publish(message, [], False)
    transaction.add_publish(message, [], False)
    with pytest.raises(ResourceError, match="tx_size_max"):
        transaction.add_publish(message, [], False)
    transaction.clear()
    transaction.add_publish(message, [], False)
    assert len(transaction.publications) == 1
