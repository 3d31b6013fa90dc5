"""Deliveries that nobody answers in time: what goes back, what late answers do."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from pamqp import commands
from pamqp.commands import Basic, Queue, Tx

from amqpd.broker.policies.parameters import POLICY, Parameter
from amqpd.protocol.consuming import OVERDUE_MAX
from tests.support.connection_pair import Bench, ConnectionPair, contents, method
from tests.support.content import publish
from tests.support.raw_client import channel_closed

TIMEOUT_MS = 8000
#: A delivery that came just after a mark is found by the second one behind its time.
LATEST_MS = TIMEOUT_MS + 2 * TIMEOUT_MS // 8


@pytest.fixture
def queue(pair: ConnectionPair) -> str:
    pair.declare("q")
    return "q"


def consume(
    pair: ConnectionPair,
    tag: str = "t",
    timeout_ms: object = TIMEOUT_MS,
    queue: str = "q",
    no_ack: bool = False,
) -> None:
    arguments: Any = {} if timeout_ms is None else {"x-consumer-timeout": timeout_ms}
    sent = Basic.Consume(0, queue, tag, no_ack=no_ack, arguments=arguments)
    pair.call(1, sent, Basic.ConsumeOk)
    pair.bench.pass_time(0)


def qos(pair: ConnectionPair, count: int, is_global: bool = False) -> None:
    pair.call(1, Basic.Qos(0, count, is_global), Basic.QosOk)


def send_bodies(pair: ConnectionPair, *bodies: bytes) -> None:
    pair.send(*(publish("q", body) for body in bodies))
    pair.bench.turn()


def pass_time(bench: Bench, milliseconds: int) -> None:
    """Let time pass in steps shorter than the broker's own."""
    for _ in range(milliseconds // 500):
        bench.pass_time(500)


def delivered(pair: ConnectionPair) -> list[tuple[str, int, bool, bytes]]:
    """Consumer tag, delivery tag, redelivered and body since the last time."""
    pair.bench.turn()
    return [
        (sent.consumer_tag or "", sent.delivery_tag or 0, sent.redelivered, body)
        for sent, _, body in contents(pair.take(), Basic.Deliver)
    ]


def counts(bench: Bench) -> tuple[int, int]:
    queue = bench.broker.vhosts["/"].queues["q"]
    return queue.ready_count, int(queue.unacked_count)


def test_a_delivery_goes_back_when_its_time_is_up(
    bench: Bench, pair: ConnectionPair, queue: str
) -> None:
    qos(pair, 1)
    consume(pair)
    send_bodies(pair, b"x")
    pass_time(bench, TIMEOUT_MS - 500)
    assert counts(bench) == (0, 1)
    pass_time(bench, LATEST_MS - TIMEOUT_MS + 500)
    assert counts(bench) == (1, 0)


def test_only_what_is_overdue_goes_back(
    bench: Bench, pair: ConnectionPair, queue: str
) -> None:
    qos(pair, 2)
    consume(pair)
    send_bodies(pair, b"old", b"acked")
    pair.send(method(1, Basic.Ack(2)))
    pass_time(bench, TIMEOUT_MS // 2)
    send_bodies(pair, b"new")
    pass_time(bench, LATEST_MS - TIMEOUT_MS // 2)
    assert counts(bench) == (1, 1)
    reference = bench.broker.vhosts["/"].queues["q"].get(True)
    assert reference is not None
    assert reference.message.content.endswith(b"old\xce")
    assert reference.redelivered


def test_another_consumer_gets_it_and_the_slow_one_no_more_than_its_limit(
    bench: Bench, pair: ConnectionPair, queue: str
) -> None:
    qos(pair, 1)
    consume(pair)
    send_bodies(pair, b"1")
    other = bench.connect()
    assert delivered(pair) == [("t", 1, False, b"1")]
    other.consume("q", "other")
    pass_time(bench, LATEST_MS)
    send_bodies(other, b"2")
    assert [(tag, again, body) for tag, _, again, body in delivered(other)] == [
        ("other", True, b"1"),
        ("other", False, b"2"),
    ]
    assert delivered(pair) == []


ANSWERS = {
    "ack": Basic.Ack(1),
    "nack, again": Basic.Nack(1, False, True),
    "nack, away": Basic.Nack(1, False, False),
    "reject": Basic.Reject(1, True),
    "ack up to it": Basic.Ack(1, True),
    "ack all": Basic.Ack(0, True),
}


@pytest.mark.parametrize("answer", ANSWERS.values(), ids=ANSWERS)
def test_a_late_answer_means_nothing_and_gives_the_consumer_its_room_back(
    bench: Bench, pair: ConnectionPair, queue: str, answer: Basic.Ack
) -> None:
    qos(pair, 1)
    consume(pair)
    send_bodies(pair, b"1")
    pass_time(bench, LATEST_MS)
    assert delivered(pair) == [("t", 1, False, b"1")]
    pair.send(method(1, answer))
    assert delivered(pair) == [("t", 2, True, b"1")]
    assert counts(bench) == (0, 1)


def test_a_late_answer_is_known_once(
    bench: Bench, pair: ConnectionPair, queue: str
) -> None:
    qos(pair, 1)
    consume(pair)
    send_bodies(pair, b"1")
    pass_time(bench, LATEST_MS)
    pair.send(method(1, Basic.Ack(1)))
    delivered(pair)
    pair.send(method(1, Basic.Ack(1)))
    text = "PRECONDITION_FAILED - unknown delivery tag 1"
    assert pair.expect_close(1) == channel_closed(406, text, 60, 80)


def test_a_late_answer_for_several_answers_what_is_outstanding_below(
    bench: Bench, pair: ConnectionPair, queue: str
) -> None:
    pair.declare("slow")
    consume(pair, "patient", None)
    send_bodies(pair, b"1")
    delivered(pair)
    consume(pair, "t", TIMEOUT_MS, "slow")
    pair.send(publish("slow", b"2"))
    bench.turn()
    send_bodies(pair, b"3")
    pass_time(bench, LATEST_MS)
    pair.send(method(1, Basic.Ack(2, True)))
    assert int(bench.broker.vhosts["/"].queues["q"].unacked_count) == 1


def test_an_answer_for_several_frees_what_is_overdue_below(
    bench: Bench, pair: ConnectionPair, queue: str
) -> None:
    qos(pair, 2)
    consume(pair)
    send_bodies(pair, b"1")
    pass_time(bench, TIMEOUT_MS // 2)
    send_bodies(pair, b"2")
    pass_time(bench, LATEST_MS - TIMEOUT_MS // 2)
    delivered(pair)
    pair.send(method(1, Basic.Ack(2, True)))
    assert delivered(pair) == [("t", 3, True, b"1")]
    send_bodies(pair, b"4")
    assert delivered(pair) == [("t", 4, False, b"4")]


def test_an_answer_for_several_leaves_what_is_overdue_above(
    bench: Bench, pair: ConnectionPair, queue: str
) -> None:
    pair.declare("slow")
    qos(pair, 1)
    consume(pair, "patient", None)
    send_bodies(pair, b"1")
    delivered(pair)
    consume(pair, "t", TIMEOUT_MS, "slow")
    pair.send(publish("slow", b"2"))
    assert len(delivered(pair)) == 1
    pass_time(bench, LATEST_MS)
    pair.send(method(1, Basic.Ack(1, True)))
    assert delivered(pair) == []
    assert bench.broker.vhosts["/"].queues["slow"].ready_count == 1


def test_a_late_ack_in_a_transaction_makes_room_on_the_channel(
    bench: Bench, pair: ConnectionPair, queue: str
) -> None:
    pair.declare("other")
    pair.call(1, Tx.Select(), Tx.SelectOk)
    qos(pair, 1, is_global=True)
    consume(pair)
    consume(pair, "u", None, "other")
    publisher = bench.connect()
    publisher.send(publish("q", b"1"))
    pass_time(bench, LATEST_MS)
    bench.broker.vhosts["/"].queues["q"].purge()
    publisher.send(publish("other", b"2"))
    assert [body for _, _, _, body in delivered(pair)] == [b"1"]
    pair.send(method(1, Basic.Ack(1)))
    assert [body for _, _, _, body in delivered(pair)] == [b"2"]


def test_the_channels_limit_counts_what_is_overdue(
    bench: Bench, pair: ConnectionPair, queue: str
) -> None:
    pair.declare("other")
    qos(pair, 1, is_global=True)
    consume(pair)
    consume(pair, "u", None, "other")
    send_bodies(pair, b"1")
    pass_time(bench, LATEST_MS)
    delivered(pair)
    pair.send(publish("other", b"2"))
    assert delivered(pair) == []
    pair.send(method(1, Basic.Ack(1)))
    assert len(delivered(pair)) == 1


def test_recover_forgets_what_is_overdue(
    bench: Bench, pair: ConnectionPair, queue: str
) -> None:
    qos(pair, 1)
    consume(pair)
    send_bodies(pair, b"1")
    pass_time(bench, LATEST_MS)
    delivered(pair)
    pair.send(method(1, Basic.Recover(True)))
    pair.expect(1, Basic.RecoverOk)
    assert delivered(pair) == [("t", 2, True, b"1")]
    pair.send(method(1, Basic.Ack(1)))
    assert pair.expect_close(1).code == 406


def test_a_late_ack_in_a_transaction_is_taken(
    bench: Bench, pair: ConnectionPair, queue: str
) -> None:
    qos(pair, 1)
    pair.call(1, Tx.Select(), Tx.SelectOk)
    consume(pair)
    bench.connect().send(publish("q", b"1"))
    bench.turn()
    pass_time(bench, LATEST_MS)
    delivered(pair)
    pair.send(method(1, Basic.Ack(1)))
    assert delivered(pair) == [("t", 2, True, b"1")]
    pair.call(1, Tx.Commit(), Tx.CommitOk)
    assert counts(bench) == (0, 1)


@pytest.mark.parametrize("timeout_ms", [None, 0])
def test_without_a_timeout_nothing_goes_back(
    bench: Bench, pair: ConnectionPair, queue: str, timeout_ms: object
) -> None:
    consume(pair, timeout_ms=timeout_ms)
    send_bodies(pair, b"1")
    bench.pass_time(1 << 40)
    bench.pass_time(1 << 40)
    assert counts(bench) == (0, 1)


@pytest.mark.parametrize(
    ("own_ms", "goes_back"), [(None, True), (0, False), (TIMEOUT_MS * 10, False)]
)
def test_the_queues_timeout_holds_unless_the_consumer_has_its_own(
    bench: Bench, pair: ConnectionPair, own_ms: object, goes_back: bool
) -> None:
    arguments: Any = {"x-consumer-timeout": TIMEOUT_MS}
    pair.call(1, Queue.Declare(queue="q", arguments=arguments), Queue.DeclareOk)
    qos(pair, 1)
    consume(pair, timeout_ms=own_ms)
    send_bodies(pair, b"1")
    pass_time(bench, LATEST_MS)
    assert counts(bench) == ((1, 0) if goes_back else (0, 1))


def test_a_consumer_without_acks_has_no_timeout(
    bench: Bench, pair: ConnectionPair, queue: str
) -> None:
    consume(pair, no_ack=True)
    send_bodies(pair, b"1")
    pass_time(bench, LATEST_MS)
    assert counts(bench) == (0, 0)


def test_a_cancelled_consumer_is_watched_until_it_has_nothing(
    bench: Bench, pair: ConnectionPair, queue: str
) -> None:
    consume(pair)
    send_bodies(pair, b"1")
    delivered(pair)
    pair.call(1, Basic.Cancel("t"), Basic.CancelOk)
    pass_time(bench, LATEST_MS)
    assert counts(bench) == (1, 0)
    pair.send(method(1, Basic.Ack(1)))
    assert bench.pass_time(TIMEOUT_MS) == 1 << 62


def test_nobody_is_watched_when_the_channel_is_closed(
    bench: Bench, pair: ConnectionPair, queue: str
) -> None:
    consume(pair)
    send_bodies(pair, b"1")
    pass_time(bench, LATEST_MS)
    delivered(pair)
    closing = commands.Channel.Close(200, "", 0, 0)
    pair.call(1, closing, commands.Channel.CloseOk)
    assert bench.pass_time(TIMEOUT_MS) == 1 << 62
    assert counts(bench) == (1, 0)


def test_what_is_looked_at_late_is_given_back_once(
    bench: Bench, pair: ConnectionPair, queue: str
) -> None:
    qos(pair, 2)
    consume(pair)
    send_bodies(pair, b"1")
    bench.pass_time(TIMEOUT_MS)
    send_bodies(pair, b"2")
    bench.pass_time(TIMEOUT_MS)
    assert counts(bench) == (1, 1)
    bench.pass_time(TIMEOUT_MS)
    assert counts(bench) == (2, 0)


def test_the_log_names_the_consumer(
    bench: Bench,
    pair: ConnectionPair,
    queue: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    qos(pair, 2)
    consume(pair)
    send_bodies(pair, b"1", b"2")
    with caplog.at_level(logging.WARNING, "amqpd.channel"):
        pass_time(bench, 2 * LATEST_MS)
    (message,) = caplog.messages
    assert message == (
        "queue 'q' in vhost '/': the consumer 't' on channel 1 has not acknowledged "
        "2 deliveries within 8000 ms; they go back to the queue"
    )


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("x", '"expected integer, got longstr"'),
        (True, '"expected integer, got bool"'),
        (-1, "{value_negative,-1}"),
    ],
)
def test_a_timeout_that_is_none_closes_the_channel(
    pair: ConnectionPair, queue: str, value: object, reason: str
) -> None:
    arguments: Any = {"x-consumer-timeout": value}
    pair.send(method(1, Basic.Consume(0, "q", "t", arguments=arguments)))
    text = (
        "PRECONDITION_FAILED - invalid arg 'x-consumer-timeout' for queue 'q' in vhost "
        f"'/': {reason}"
    )
    assert pair.expect_close(1) == channel_closed(406, text, 60, 20)


def test_late_answers_are_known_within_bounds(
    bench: Bench, pair: ConnectionPair, queue: str
) -> None:
    consume(pair)
    send_bodies(pair, b"1")
    pair.take()
    consuming = pair.connection.channels[1].consuming
    (consumer,) = consuming.consumers.values()
    for _ in range(OVERDUE_MAX + 1):
        consuming.give_back_overdue(consumer, int(consuming.unacked.next_tag))
        bench.turn()
        pair.take_octets()
    assert int(consumer.unacked_count) == OVERDUE_MAX + 1
    pair.send(method(1, Basic.Ack(2)))
    assert pair.take() == []
    pair.send(method(1, Basic.Ack(1)))
    assert pair.expect_close(1).code == 406


# -- timeouts by policies -----------------------------------------------------


def set_policy(bench: Bench, timeout_ms: int) -> None:
    value = {"pattern": "", "definition": {"consumer-timeout": timeout_ms}}
    parameter = Parameter("/", POLICY, "p", value)
    bench.broker.changes.adopt([parameter])
    bench.pass_time(0)


def test_a_policy_gives_a_timeout_to_consumers_that_are_there(
    bench: Bench, pair: ConnectionPair, queue: str
) -> None:
    qos(pair, 1)
    consume(pair, timeout_ms=None)
    send_bodies(pair, b"x")
    set_policy(bench, TIMEOUT_MS)
    pass_time(bench, TIMEOUT_MS - 500)
    assert counts(bench) == (0, 1)
    pass_time(bench, LATEST_MS - TIMEOUT_MS + 500)
    assert counts(bench) == (1, 0)


def test_a_consumer_that_says_how_long_is_left_alone(
    bench: Bench, pair: ConnectionPair, queue: str
) -> None:
    qos(pair, 1)
    consume(pair, timeout_ms=0)
    send_bodies(pair, b"x")
    set_policy(bench, TIMEOUT_MS)
    pass_time(bench, 2 * LATEST_MS)
    assert counts(bench) == (0, 1)


def test_a_policy_takes_the_timeout_away(
    bench: Bench, pair: ConnectionPair, queue: str
) -> None:
    set_policy(bench, TIMEOUT_MS)
    qos(pair, 1)
    consume(pair, timeout_ms=None)
    send_bodies(pair, b"x")
    set_policy(bench, 0)
    pass_time(bench, 2 * LATEST_MS)
    assert counts(bench) == (0, 1)
