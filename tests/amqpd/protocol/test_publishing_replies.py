"""Direct reply-to: who may ask for replies, what is written, where answers go."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from pamqp import commands
from pamqp.commands import Basic, Channel, Queue, Tx

from amqpd.protocol.output import BURST_MARK
from tests.support.connection_pair import Bench, ConnectionPair, contents, method
from tests.support.content import PERSISTENT_PROPERTIES, publish, short_string
from tests.support.raw_client import Closed, channel_closed

REPLY_TO = "amq.rabbitmq.reply-to"
ASKING = b"\x02\x00" + short_string(REPLY_TO)


def consume(
    pair: ConnectionPair, channel: int = 1, tag: str = "r", no_ack: bool = True
) -> None:
    pair.send(method(channel, Basic.Consume(0, REPLY_TO, tag, no_ack=no_ack)))


def await_replies(pair: ConnectionPair, channel: int = 1, tag: str = "r") -> None:
    consume(pair, channel, tag)
    pair.expect(channel, Basic.ConsumeOk)


def request(pair: ConnectionPair, body: bytes = b"ask", channel: int = 1) -> str:
    """Publish a request to q; return the address that it carries."""
    pair.send(publish("q", body, properties=ASKING, channel=channel))
    reference = pair.bench.broker.vhosts["/"].queues["q"].get(True)
    assert reference is not None
    properties = reference.message.content[7 + 12 :]
    assert properties[:2] == b"\x02\x00"
    size = properties[2]
    return properties[3 : 3 + size].decode()


def replies(pair: ConnectionPair) -> list[tuple[str, bytes]]:
    """Consumer tag and body of what was delivered since the last time."""
    pair.bench.turn()
    found = contents(pair.take(), Basic.Deliver)
    return [(deliver.consumer_tag or "", body) for deliver, _, body in found]


def refused(text: str, method_id: int = 20) -> Closed:
    return channel_closed(406, f"PRECONDITION_FAILED - {text}", 60, method_id)


@pytest.fixture
def responder(bench: Bench, pair: ConnectionPair) -> ConnectionPair:
    pair.declare("q")
    return bench.connect()


def test_an_answer_goes_straight_to_the_channel_that_asked(
    pair: ConnectionPair, responder: ConnectionPair
) -> None:
    await_replies(pair)
    address = request(pair)
    responder.send(publish(address, b"answer", properties=b"\x80\x00\x01t"))
    responder.bench.turn()
    ((deliver, properties, body),) = contents(pair.take(), Basic.Deliver)
    assert (properties, body) == (b"\x80\x00\x01t", b"answer")
    assert dict(deliver) == {
        "consumer_tag": "r",
        "delivery_tag": 1,
        "redelivered": False,
        "exchange": "",
        "routing_key": address,
    }


def test_the_address_is_opaque_and_stays_the_same(
    pair: ConnectionPair, responder: ConnectionPair
) -> None:
    await_replies(pair)
    address = request(pair)
    assert re.fullmatch(r"amq\.rabbitmq\.reply-to\.[A-Za-z0-9_-]{22}", address)
    assert request(pair) == address


@pytest.mark.parametrize("frame_size", [131064, 3])
def test_only_the_reply_to_address_is_written_anew(
    bench: Bench, pair: ConnectionPair, responder: ConnectionPair, frame_size: int
) -> None:
    responder.consume("q", no_ack=True)
    await_replies(pair)
    # content-type, delivery-mode, priority, correlation-id, reply-to, expiration
    properties = (
        b"\x9f\x00"
        + short_string("t")
        + b"\x02\x05"
        + short_string("id")
        + short_string(REPLY_TO)
        + short_string("60000")
    )
    pair.send(publish("q", b"body", properties=properties, frame_size=frame_size))
    bench.turn()
    ((_, found, body),) = contents(responder.take(), Basic.Deliver)
    before, after = properties.split(short_string(REPLY_TO))
    assert body == b"body"
    assert found.startswith(before)
    assert found.endswith(after)
    address = found[len(before) : -len(after)]
    assert address[1:].startswith(REPLY_TO.encode() + b".")
    assert address[0] == len(address) - 1


@pytest.mark.parametrize("address", [REPLY_TO + "x", REPLY_TO + ".x", "replies", ""])
def test_other_addresses_are_left_alone(
    bench: Bench, pair: ConnectionPair, responder: ConnectionPair, address: str
) -> None:
    responder.consume("q", no_ack=True)
    properties = b"\x02\x00" + short_string(address)
    pair.send(publish("q", b"x", properties=properties))
    bench.turn()
    ((_, found, _),) = contents(responder.take(), Basic.Deliver)
    assert found == properties


def test_a_reply_consumer_cannot_ack(pair: ConnectionPair) -> None:
    consume(pair, no_ack=False)
    assert pair.expect_close(1) == refused("reply consumer cannot acknowledge")


@pytest.mark.parametrize("tag", ["r", "s"])
def test_a_channel_has_one_reply_consumer(pair: ConnectionPair, tag: str) -> None:
    await_replies(pair)
    consume(pair, tag=tag)
    assert pair.expect_close(1) == refused("reply consumer already set")


def test_every_channel_has_a_reply_consumer_of_its_own(
    bench: Bench, responder: ConnectionPair
) -> None:
    both = bench.connect(131072, 2047, 1, 2)
    await_replies(both, 1, "one")
    await_replies(both, 2, "two")
    second, first = request(both, channel=2), request(both, channel=1)
    responder.send(publish(second, b"2"), publish(first, b"1"))
    assert replies(both) == [("two", b"2"), ("one", b"1")]


def test_a_tag_of_another_consumer_is_530(
    pair: ConnectionPair, responder: ConnectionPair
) -> None:
    pair.consume("q", "r")
    consume(pair, tag="r")
    closed = pair.expect_close()
    assert closed.code == 530
    assert closed.text == "NOT_ALLOWED - attempt to reuse consumer tag 'r'"


def test_asking_without_a_reply_consumer_closes_the_channel(
    bench: Bench, pair: ConnectionPair, responder: ConnectionPair
) -> None:
    other = bench.connect(131072, 2047, 1, 2)
    await_replies(other, 2)
    other.send(publish("q", b"x", properties=ASKING))
    text = "fast reply consumer does not exist"
    assert other.expect_close(1) == refused(text, 40)
    assert bench.broker.vhosts["/"].queues["q"].ready_count == 0


def test_asking_after_the_reply_consumer_is_cancelled_closes_the_channel(
    pair: ConnectionPair, responder: ConnectionPair
) -> None:
    await_replies(pair)
    pair.call(1, Basic.Cancel("r"), Basic.CancelOk)
    pair.send(publish("q", b"x", properties=ASKING))
    text = "fast reply consumer does not exist"
    assert pair.expect_close(1) == refused(text, 40)


def test_a_cancelled_reply_consumer_gets_nothing_and_may_come_again(
    pair: ConnectionPair, responder: ConnectionPair
) -> None:
    await_replies(pair)
    old = request(pair)
    pair.call(1, Basic.Cancel("r"), Basic.CancelOk)
    responder.send(publish(old, b"late"))
    assert replies(pair) == []
    await_replies(pair)
    new = request(pair)
    assert new != old
    responder.send(publish(new, b"in time"))
    assert replies(pair) == [("r", b"in time")]


def end_by_cancel(pair: ConnectionPair) -> None:
    pair.call(1, Basic.Cancel("r"), Basic.CancelOk)


def end_by_closing_the_channel(pair: ConnectionPair) -> None:
    pair.call(1, Channel.Close(200, "", 0, 0), Channel.CloseOk)


def end_by_losing_the_socket(pair: ConnectionPair) -> None:
    pair.connection.lose_socket("gone")


def end_by_an_error(pair: ConnectionPair) -> None:
    pair.send(method(1, Queue.Purge(queue="nowhere")))
    pair.expect_close(1)


@pytest.mark.parametrize(
    "end",
    [
        end_by_cancel,
        end_by_closing_the_channel,
        end_by_losing_the_socket,
        end_by_an_error,
    ],
)
def test_an_answer_to_nobody_is_unroutable(
    bench: Bench,
    pair: ConnectionPair,
    responder: ConnectionPair,
    end: Callable[[ConnectionPair], None],
) -> None:
    await_replies(pair)
    address = request(pair)
    responder.send(publish(address, b"1", mandatory=True))
    assert replies(responder) == []
    assert replies(pair) == [("r", b"1")]
    end(pair)
    responder.send(publish(address, b"2", mandatory=True))
    ((returned, _, body),) = contents(responder.take(), Basic.Return)
    assert (returned.reply_code, returned.reply_text) == (312, "NO_ROUTE")
    assert (returned.routing_key, body) == (address, b"2")


def test_an_answer_is_confirmed_at_once_and_not_stored(
    bench: Bench, pair: ConnectionPair, responder: ConnectionPair
) -> None:
    await_replies(pair)
    address = request(pair)
    responder.call(1, commands.Confirm.Select(), commands.Confirm.SelectOk)
    responder.send(publish(address, b"x", properties=PERSISTENT_PROPERTIES))
    assert not bench.broker.durability.has_work
    assert responder.expect(1, Basic.Ack).delivery_tag == 1
    assert replies(pair) == [("r", b"x")]


def test_an_answer_in_a_transaction_comes_with_the_commit(
    bench: Bench, pair: ConnectionPair, responder: ConnectionPair
) -> None:
    await_replies(pair)
    address = request(pair)
    responder.call(1, Tx.Select(), Tx.SelectOk)
    responder.send(publish(address, b"x"))
    assert replies(pair) == []
    responder.call(1, Tx.Commit(), Tx.CommitOk)
    assert replies(pair) == [("r", b"x")]


def test_answers_wait_while_the_requester_does_not_read(
    bench: Bench, pair: ConnectionPair, responder: ConnectionPair
) -> None:
    await_replies(pair)
    address = request(pair)
    count = 8
    for number in range(count):
        body = bytes([number]) * (BURST_MARK // 4)
        responder.send(publish(address, body))
        bench.turn()
    assert pair.output.size() < 2 * BURST_MARK
    received: list[tuple[str, bytes]] = []
    while found := replies(pair):
        received += found
    assert [body[:1] for _, body in received] == [bytes([at]) for at in range(count)]


def test_answers_come_in_their_order(
    pair: ConnectionPair, responder: ConnectionPair
) -> None:
    await_replies(pair)
    address = request(pair)
    bodies = [b"%d" % number for number in range(1000)]
    responder.send(*(publish(address, body) for body in bodies))
    assert [body for _, body in replies(pair)] == bodies


def test_a_channel_can_answer_itself(
    pair: ConnectionPair, responder: ConnectionPair
) -> None:
    await_replies(pair)
    address = request(pair)
    pair.send(publish(address, b"x"))
    assert replies(pair) == [("r", b"x")]


def declare(name: str, **flags: bool) -> bytes:
    sent = Queue.Declare(queue=name)
    for flag, value in flags.items():
        setattr(sent, flag, value)
    return method(1, sent)


@pytest.mark.parametrize("passive", [True, False])
def test_the_address_can_be_asked_for(
    pair: ConnectionPair, responder: ConnectionPair, passive: bool
) -> None:
    await_replies(pair)
    address = request(pair)
    for name in (address, REPLY_TO):
        responder.send(declare(name, passive=passive))
        found = responder.expect(1, Queue.DeclareOk)
        shown = (found.queue, found.message_count, found.consumer_count)
        assert shown == (name, 0, 1)
    responder.send(declare(address, passive=passive, nowait=True))
    assert responder.take() == []


@pytest.mark.parametrize("passive", [True, False])
def test_an_address_that_is_gone_is_404(
    pair: ConnectionPair, responder: ConnectionPair, passive: bool
) -> None:
    await_replies(pair)
    address = request(pair)
    end_by_cancel(pair)
    responder.send(declare(address, passive=passive))
    text = f"NOT_FOUND - no queue '{address}' in vhost '/'"
    assert responder.expect_close(1) == channel_closed(404, text, 50, 10)


def test_an_address_cannot_be_bound(
    pair: ConnectionPair, responder: ConnectionPair
) -> None:
    await_replies(pair)
    responder.send(method(1, Queue.Bind(0, request(pair), "amq.direct", "k")))
    closed = responder.expect_close(1)
    assert (closed.code, closed.class_id, closed.method_id) == (403, 50, 20)


def test_an_address_cannot_be_consumed_from_by_others(
    pair: ConnectionPair, responder: ConnectionPair
) -> None:
    await_replies(pair)
    address = request(pair)
    responder.send(method(1, Basic.Consume(0, address, no_ack=True)))
    text = f"NOT_FOUND - no queue '{address}' in vhost '/'"
    assert responder.expect_close(1) == channel_closed(404, text, 60, 20)


def test_arguments_of_a_reply_consumer_mean_nothing(pair: ConnectionPair) -> None:
    sent = Basic.Consume(0, REPLY_TO, "r", no_ack=True, arguments={"x-priority": "x"})
    pair.send(method(1, sent))
    pair.expect(1, Basic.ConsumeOk)
