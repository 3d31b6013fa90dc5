"""The methods of a channel that are not sent per message."""

from __future__ import annotations

import pytest
from pamqp import commands

from amqpd.broker.clients.admission import NodeLimits
from tests.support.connection_pair import (
    Bench,
    ConnectionPair,
    contents,
    method,
    tune_ok,
)
from tests.support.content import frame, publish, short_string
from tests.support.raw_client import (
    ALL_CAPABILITIES,
    METHOD,
    PROTOCOL_HEADER,
    channel_closed,
    connection_closed,
    encode_frame,
    encode_start_ok,
    plain,
)


def named(name: str, tag: str = "t", exclusive: bool = False) -> commands.Basic.Consume:
    return commands.Basic.Consume(queue=name, consumer_tag=tag, exclusive=exclusive)


def consume_with(arguments: bytes) -> bytes:
    payload = b"\x00\x3c\x00\x14\x00\x00" + short_string("q") + short_string("t")
    payload += b"\x00" + len(arguments).to_bytes(4, "big") + arguments
    return frame(1, 1, payload)


# -- flow, confirm, recover ---------------------------------------------------


def test_flow_is_always_on(pair: ConnectionPair) -> None:
    assert pair.call(1, commands.Channel.Flow(True), commands.Channel.FlowOk).active
    pair.send(method(1, commands.Channel.Flow(False)))
    text = "NOT_IMPLEMENTED - active=false"
    assert pair.expect_close() == connection_closed(540, text, 20, 20)


def test_confirm_mode_may_be_selected_twice_and_without_an_answer(
    pair: ConnectionPair,
) -> None:
    pair.send(method(1, commands.Confirm.Select(nowait=True)))
    pair.send(publish("nowhere"))
    assert pair.expect(1, commands.Basic.Ack).delivery_tag == 1
    pair.call(1, commands.Confirm.Select(), commands.Confirm.SelectOk)
    pair.send(publish("nowhere"))
    assert pair.expect(1, commands.Basic.Ack).delivery_tag == 2


@pytest.mark.parametrize("method_id", [100, 110])
def test_recovering_to_the_same_consumer_is_not_done(
    pair: ConnectionPair, method_id: int
) -> None:
    pair.send(frame(1, 1, bytes([0, 60, 0, method_id, 0])))
    text = "NOT_IMPLEMENTED - requeue=false"
    assert pair.expect_close() == connection_closed(540, text, 60, method_id)


def test_a_limit_in_octets_is_not_done(pair: ConnectionPair) -> None:
    pair.send(method(1, commands.Basic.Qos(7, 1, False)))
    text = "NOT_IMPLEMENTED - prefetch_size!=0 (7)"
    assert pair.expect_close() == connection_closed(540, text, 60, 10)


# -- consumers ----------------------------------------------------------------


@pytest.mark.parametrize("queue", ["q", "nope"])
def test_a_consumer_tag_is_used_once(pair: ConnectionPair, queue: str) -> None:
    pair.declare("q")
    pair.consume("q", "t")
    pair.send(method(1, named(queue)))
    text = "NOT_ALLOWED - attempt to reuse consumer tag 't'"
    assert pair.expect_close() == connection_closed(530, text, 60, 20)


def test_a_consumer_tag_belongs_to_its_channel(bench: Bench) -> None:
    pair = bench.connect(131072, 2047, 1, 2)
    pair.declare("q")
    pair.consume("q", "t", channel=1)
    pair.consume("q", "t", channel=2)
    assert bench.broker.vhosts["/"].queues["q"].consumer_count == 2


def test_consuming_exclusively_keeps_others_away(pair: ConnectionPair) -> None:
    pair.declare("q")
    pair.call(1, named("q", exclusive=True), commands.Basic.ConsumeOk)
    pair.send(method(1, named("q", "u")))
    text = "ACCESS_REFUSED - queue 'q' in vhost '/' in exclusive use"
    assert pair.expect_close(1) == channel_closed(403, text, 60, 20)


def test_a_refused_consumer_leaves_its_tag_free(bench: Bench) -> None:
    pair = bench.connect(131072, 2047, 1, 2)
    pair.declare("q")
    pair.call(2, named("q", exclusive=True), commands.Basic.ConsumeOk)
    pair.send(method(1, named("q", "u")))
    assert pair.expect_close(1).code == 403
    pair.call(2, commands.Basic.Cancel("t"), commands.Basic.CancelOk)
    pair.send(method(1, commands.Channel.CloseOk()), method(1, commands.Channel.Open()))
    pair.expect(1, commands.Channel.OpenOk)
    pair.consume("q", "u")


@pytest.mark.parametrize(
    ("arguments", "priority"),
    [
        (b"", 0),
        (short_string("x-priority") + b"I\xff\xff\xff\xfe", -2),
        (short_string("x-priority") + b"l" + (1 << 40).to_bytes(8, "big"), 1 << 40),
    ],
)
def test_a_consumer_has_the_priority_it_asks_for(
    bench: Bench, pair: ConnectionPair, arguments: bytes, priority: int
) -> None:
    pair.declare("q")
    pair.send(consume_with(arguments))
    pair.expect(1, commands.Basic.ConsumeOk)
    (consumer,) = bench.broker.vhosts["/"].queues["q"].consumers
    assert consumer.priority == priority


@pytest.mark.parametrize("value", [b"t\x01", b"S\x00\x00\x00\x011", b"V"])
def test_a_priority_that_is_no_number_closes_the_channel(
    bench: Bench, pair: ConnectionPair, value: bytes
) -> None:
    pair.declare("q")
    pair.send(consume_with(short_string("x-priority") + value))
    closed = pair.expect_close(1)
    assert (closed.code, closed.class_id, closed.method_id) == (406, 60, 20)
    assert "x-priority" in closed.text
    assert bench.broker.vhosts["/"].queues["q"].consumer_count == 0


def test_higher_priorities_are_served_first(bench: Bench, pair: ConnectionPair) -> None:
    pair.declare("q")
    pair.consume("q", "low", no_ack=True)
    high = bench.connect()
    high.call(1, commands.Basic.Qos(0, 1, False), commands.Basic.QosOk)
    high.send(consume_with(short_string("x-priority") + b"I\x00\x00\x00\x01"))
    high.take()
    pair.send(publish("q", b"1"), publish("q", b"2"))
    bench.turn()
    assert high.deliveries() == [b"1"]
    assert pair.deliveries() == [b"2"]


# -- which queue --------------------------------------------------------------


@pytest.mark.parametrize("sent", [named(""), commands.Basic.Get(queue="")])
def test_no_name_is_the_queue_that_was_declared_last(
    pair: ConnectionPair, sent: commands.Basic.Get
) -> None:
    pair.declare("p")
    pair.declare("q")
    pair.send(publish("q", b"here"), method(1, sent))
    pair.bench.turn()
    assert b"here" in [taken.payload for taken in pair.take()]


@pytest.mark.parametrize(
    ("sent", "method_id"), [(named(""), 20), (commands.Basic.Get(queue=""), 70)]
)
def test_without_a_declared_queue_no_name_is_no_queue(
    pair: ConnectionPair, sent: commands.Basic.Get, method_id: int
) -> None:
    pair.send(method(1, sent))
    text = "NOT_FOUND - no previously declared queue"
    assert pair.expect_close(1) == channel_closed(404, text, 60, method_id)


@pytest.mark.parametrize(
    ("sent", "method_id"), [(named("nope"), 20), (commands.Basic.Get(queue="nope"), 70)]
)
def test_a_missing_queue_closes_the_channel(
    pair: ConnectionPair, sent: commands.Basic.Get, method_id: int
) -> None:
    pair.send(method(1, sent))
    text = "NOT_FOUND - no queue 'nope' in vhost '/'"
    assert pair.expect_close(1) == channel_closed(404, text, 60, method_id)


@pytest.mark.parametrize("name", ["q", "nope"])
@pytest.mark.parametrize(
    ("method_id", "is_get"), [(20, False), (70, True)], ids=["consume", "get"]
)
def test_who_may_not_read_is_not_told_whether_there_is_such_a_queue(
    bench: Bench, pair: ConnectionPair, name: str, method_id: int, is_get: bool
) -> None:
    pair.declare("q")
    bench.broker.permissions.remove("guest", "/")
    pair.send(method(1, commands.Basic.Get(queue=name) if is_get else named(name)))
    text = (
        f"ACCESS_REFUSED - read access to queue '{name}' in vhost '/' refused for user "
        "'guest'"
    )
    assert pair.expect_close(1) == channel_closed(403, text, 60, method_id)


# -- what is sent behind a close ----------------------------------------------


def test_a_channels_end_leaves_the_consumers_of_others(bench: Bench) -> None:
    pair = bench.connect(131072, 2047, 1, 2)
    pair.declare("q")
    pair.consume("q", "one", channel=1)
    pair.consume("q", "two", channel=2)
    pair.call(1, commands.Channel.Close(200, "", 0, 0), commands.Channel.CloseOk)
    pair.send(publish("q", b"x", channel=2))
    bench.turn()
    ((deliver, _, _),) = contents(pair.take(), commands.Basic.Deliver)
    assert deliver.consumer_tag == "two"


def test_a_consumer_too_many_closes_the_connection(
    bench: Bench, pair: ConnectionPair
) -> None:
    bench.broker.admission.node_limits = NodeLimits(consumer_max_per_channel=1)
    pair.declare("q")
    pair.consume("q", "a")
    pair.send(method(1, commands.Basic.Consume(queue="q", consumer_tag="b")))
    text = "NOT_ALLOWED - reached maximum (1) of consumers per channel"
    assert pair.expect_close() == connection_closed(530, text, 60, 20)


def test_a_channel_too_many_for_the_node_closes_the_connection(
    bench: Bench, pair: ConnectionPair
) -> None:
    bench.broker.admission.node_limits = NodeLimits("amqpd@here", channel_max=1)
    pair.send(method(2, commands.Channel.Open()))
    text = (
        "NOT_ALLOWED - number of channels opened on node 'amqpd@here' has reached the "
        "maximum allowed limit of (1)"
    )
    assert pair.expect_close() == connection_closed(530, text, 0, 0)


def test_a_connection_too_many_for_the_node_is_refused(bench: Bench) -> None:
    bench.broker.admission.node_limits = NodeLimits(connection_max=0)
    pair = bench.accept()
    start_ok = encode_start_ok(b"PLAIN", plain("guest", "guest"), ALL_CAPABILITIES)
    pair.send(PROTOCOL_HEADER, encode_frame(METHOD, 0, start_ok), tune_ok())
    pair.take()
    pair.send(method(0, commands.Connection.Open("/")))
    text = "NOT_ALLOWED - connection refused: node connection limit (0) is reached"
    assert pair.expect_close() == connection_closed(530, text, 10, 40)
