"""Parking: under an alarm publishes wait, and what may go past them does."""

from __future__ import annotations

import pytest
from pamqp import base, commands

from amqpd.broker.alarms import ResourceLimit
from amqpd.broker.errors import ConnectionForced
from amqpd.protocol.parking import PARKED_SIZE_MAX
from tests.support.connection_pair import Bench, ConnectionPair, method
from tests.support.content import (
    BODY,
    HEADER,
    PERSISTENT_PROPERTIES,
    frame,
    header_frame,
    publish,
    publish_frame,
)

CONFIRM = method(1, commands.Confirm.Select())
GET = method(1, commands.Basic.Get(queue="q", no_ack=True))
CLOSE_CHANNEL = method(1, commands.Channel.Close(200, "bye", 0, 0))
OPEN_CHANNEL = method(1, commands.Channel.Open())
CLOSE = method(0, commands.Connection.Close(200, "bye", 0, 0))


def begin_alarm(bench: Bench) -> None:
    alarms = bench.broker.alarms
    alarms.on_measured(2, 1 << 40, bench.now_ms)
    alarms.set_memory_watermark(ResourceLimit(1))


def end_alarm(bench: Bench) -> None:
    bench.broker.alarms.set_memory_watermark(ResourceLimit(2))
    bench.run_idle()


def names(pair: ConnectionPair) -> list[str]:
    return [frame.method.name for frame in pair.take() if frame.kind == 1]


def ready(bench: Bench, name: str = "q") -> int:
    return bench.broker.vhosts["/"].queues[name].ready_count


def bodies(bench: Bench, count: int, name: str = "q") -> list[bytes]:
    reader = bench.connect()
    found = []
    for _ in range(count):
        reader.send(method(1, commands.Basic.Get(queue=name, no_ack=True)))
        found.append(reader.take()[-1].payload)
    return found


@pytest.fixture(name="alarmed")
def _alarmed(bench: Bench, pair: ConnectionPair) -> ConnectionPair:
    """A connection with a queue q, under an alarm."""
    pair.declare("q")
    begin_alarm(bench)
    return pair


# -- publishes ----------------------------------------------------------------


def test_a_publish_waits_for_the_end_of_the_alarm(
    bench: Bench, alarmed: ConnectionPair
) -> None:
    alarmed.send(publish("q", b"x"))
    assert ready(bench) == 0
    end_alarm(bench)
    assert ready(bench) == 1


def test_who_publishes_is_told_and_told_again_when_it_is_over(
    bench: Bench, alarmed: ConnectionPair
) -> None:
    alarmed.send(publish("q", b"x") * 2)
    blocked = alarmed.expect(0, commands.Connection.Blocked)
    assert blocked.reason == "low on memory"
    end_alarm(bench)
    alarmed.expect(0, commands.Connection.Unblocked)


def test_who_does_not_publish_is_not_told(
    bench: Bench, alarmed: ConnectionPair
) -> None:
    alarmed.send(GET)
    alarmed.expect(1, commands.Basic.GetEmpty)
    end_alarm(bench)
    assert alarmed.take() == []


def test_who_cannot_be_told_is_not(bench: Bench, alarmed: ConnectionPair) -> None:
    alarmed.connection.control.handshake.capabilities.blocked = False
    alarmed.send(publish("q", b"x"))
    end_alarm(bench)
    assert alarmed.take() == []
    assert ready(bench) == 1


def test_what_is_parked_is_confirmed_in_order_and_only_afterwards(
    bench: Bench, pair: ConnectionPair
) -> None:
    pair.declare("q", durable=True)
    pair.send(CONFIRM)
    begin_alarm(bench)
    for body in (b"a", b"b", b"c"):
        pair.send(publish("q", body, properties=PERSISTENT_PROPERTIES))
    bench.run_idle()
    assert names(pair) == ["Confirm.SelectOk", "Connection.Blocked"]
    end_alarm(bench)
    acked = pair.take()[-1].method
    assert isinstance(acked, commands.Basic.Ack)
    assert (acked.delivery_tag, acked.multiple) == (3, True)
    assert bodies(bench, 3) == [b"a", b"b", b"c"]


def test_a_body_of_many_frames_is_parked_in_any_pieces(
    bench: Bench, alarmed: ConnectionPair
) -> None:
    stream = publish("q", b"abcdefg", frame_size=2)
    alarmed.send_in_pieces(stream, *range(1, len(stream), 3))
    assert ready(bench) == 0
    end_alarm(bench)
    assert bodies(bench, 1) == [b"abcdefg"]


def test_the_rest_of_a_message_may_come_after_the_alarm(
    bench: Bench, alarmed: ConnectionPair
) -> None:
    stream = publish("q", b"abcdefg", frame_size=2)
    alarmed.send(stream[:60])
    end_alarm(bench)
    alarmed.send(stream[60:])
    assert bodies(bench, 1) == [b"abcdefg"]


def test_a_message_that_began_before_the_alarm_ends_under_it(
    bench: Bench, pair: ConnectionPair
) -> None:
    pair.declare("q")
    stream = publish("q", b"abcdefg", frame_size=2)
    pair.send(stream[:60])
    begin_alarm(bench)
    pair.send(stream[60:], publish("q", b"parked"))
    assert ready(bench) == 1


def test_an_alarm_that_comes_again_while_parked_frames_run_keeps_the_order(
    bench: Bench, alarmed: ConnectionPair
) -> None:
    count = 2_000
    for number in range(count):
        alarmed.send(publish("q", b"%d" % number))
    bench.broker.alarms.set_memory_watermark(ResourceLimit(2))
    bench.feed()
    assert 0 < ready(bench) < count
    begin_alarm(bench)
    bench.turn()
    assert ready(bench) < count
    alarmed.send(publish("q", b"last"))
    end_alarm(bench)
    expected = [b"%d" % number for number in range(count)]
    assert bodies(bench, count + 1) == [*expected, b"last"]


# -- what goes past -----------------------------------------------------------


def deliver(bench: Bench, pair: ConnectionPair, count: int = 1) -> None:
    """Have messages delivered to the consumer t of channel 1."""
    pair.declare("other")
    pair.consume("other")
    pair.send(publish("other", b"x") * count)
    bench.turn()
    assert len(pair.deliveries()) == count


def unacked(pair: ConnectionPair) -> int:
    return int(pair.connection.channels[1].consuming.unacked_count)


@pytest.mark.parametrize(
    "answer",
    [
        commands.Basic.Ack(1),
        commands.Basic.Nack(1, requeue=False),
        commands.Basic.Reject(1, requeue=False),
    ],
)
def test_acks_go_past_what_is_parked(
    bench: Bench, pair: ConnectionPair, answer: base.Frame
) -> None:
    pair.declare("q")
    deliver(bench, pair)
    begin_alarm(bench)
    pair.send(publish("q", b"x"), GET, method(1, answer))
    assert unacked(pair) == 0


def test_acks_of_a_transaction_wait(bench: Bench, pair: ConnectionPair) -> None:
    pair.declare("q")
    deliver(bench, pair, 2)
    pair.send(method(1, commands.Tx.Select()))
    begin_alarm(bench)
    pair.send(publish("q", b"x"), method(1, commands.Basic.Ack(1)))
    pair.send(method(1, commands.Tx.Commit()))
    end_alarm(bench)
    assert unacked(pair) == 1
    assert ready(bench) == 1
    assert names(pair)[-1] == "Tx.CommitOk"


def test_acks_wait_behind_a_select_that_waits(
    bench: Bench, pair: ConnectionPair
) -> None:
    pair.declare("q")
    deliver(bench, pair)
    begin_alarm(bench)
    select = method(1, commands.Tx.Select())
    pair.send(publish("q", b"x"), select, method(1, commands.Basic.Ack(1)))
    end_alarm(bench)
    assert unacked(pair) == 1
    pair.send(method(1, commands.Tx.Commit()))
    bench.run_idle()
    assert unacked(pair) == 0


def test_a_cancel_goes_past_publishes(bench: Bench, alarmed: ConnectionPair) -> None:
    alarmed.consume("q")
    alarmed.send(publish("q", b"x"), method(1, commands.Basic.Cancel("t")))
    assert names(alarmed) == ["Connection.Blocked", "Basic.CancelOk"]


def test_a_cancel_waits_behind_the_consume_that_it_cancels(
    bench: Bench, alarmed: ConnectionPair
) -> None:
    consume = commands.Basic.Consume(queue="q", consumer_tag="t")
    cancel = method(1, commands.Basic.Cancel("t"))
    alarmed.send(publish("q", b"x"), method(1, consume), cancel)
    assert names(alarmed) == ["Connection.Blocked"]
    end_alarm(bench)
    assert names(alarmed) == [
        "Connection.Unblocked",
        "Basic.ConsumeOk",
        "Basic.CancelOk",
    ]


def test_other_methods_wait_behind_publishes_of_their_channel(
    bench: Bench, alarmed: ConnectionPair
) -> None:
    alarmed.send(publish("q", b"x"), GET)
    assert names(alarmed) == ["Connection.Blocked"]
    end_alarm(bench)
    assert names(alarmed) == ["Connection.Unblocked", "Basic.GetOk"]


def test_other_channels_and_heartbeats_go_on(
    bench: Bench, alarmed: ConnectionPair
) -> None:
    alarmed.call(2, commands.Channel.Open(), commands.Channel.OpenOk)
    alarmed.send(publish("q", b"x"))
    alarmed.take()
    alarmed.send(frame(8, 0, b""))
    alarmed.call(2, commands.Basic.Get(queue="q"), commands.Basic.GetEmpty)


def test_channels_that_are_opened_under_the_alarm_park_too(
    bench: Bench, alarmed: ConnectionPair
) -> None:
    alarmed.send(publish("q", b"x"))
    alarmed.take()
    alarmed.call(2, commands.Channel.Open(), commands.Channel.OpenOk)
    alarmed.send(publish("q", b"y", channel=2))
    assert ready(bench) == 0


def test_what_a_held_channel_kept_is_parked_when_it_is_released(
    bench: Bench, alarmed: ConnectionPair
) -> None:
    declare = commands.Queue.Declare(queue="d", durable=True)
    alarmed.send(method(1, declare), publish("q", b"x"), GET)
    bench.run_idle()
    assert ready(bench) == 0
    assert names(alarmed) == ["Queue.DeclareOk", "Connection.Blocked"]
    end_alarm(bench)
    assert names(alarmed) == ["Connection.Unblocked", "Basic.GetOk"]


def test_a_method_that_waited_may_hold_the_channel(
    bench: Bench, alarmed: ConnectionPair
) -> None:
    declare = method(1, commands.Queue.Declare(queue="d", durable=True))
    alarmed.send(publish("q", b"x"), declare, publish("d", b"y"))
    end_alarm(bench)
    assert (ready(bench), ready(bench, "d")) == (1, 1)


# -- bounds -------------------------------------------------------------------


def test_at_the_bound_the_socket_is_not_read(
    bench: Bench, alarmed: ConnectionPair
) -> None:
    one = publish("q", bytes(100_000))
    for _ in range(10):
        alarmed.send(one)
    assert alarmed.connection.may_read()
    alarmed.send(one)
    assert not alarmed.connection.may_read()
    end_alarm(bench)
    assert alarmed.connection.may_read()
    assert ready(bench) == 11


def test_one_whole_message_always_fits(bench: Bench, alarmed: ConnectionPair) -> None:
    stream = publish("q", bytes(3 * PARKED_SIZE_MAX))
    alarmed.send(stream[:-100])
    bench.turn()
    assert alarmed.connection.may_read()
    alarmed.send(stream[-100:])
    bench.turn()
    assert not alarmed.connection.may_read()


def test_what_all_connections_park_is_bounded(
    bench: Bench, alarmed: ConnectionPair
) -> None:
    alarmed.send(publish("q", b"x"))
    bench.broker.alarms.parked_size += bench.broker.alarms.parked_max
    assert not alarmed.connection.may_read()
    another = bench.connect()
    assert another.connection.may_read()
    another.send(publish("q", b"y"))
    assert not another.connection.may_read()


def test_what_is_parked_is_counted_until_it_runs_or_its_channel_closes(
    bench: Bench, alarmed: ConnectionPair
) -> None:
    one = publish("q", b"x")
    alarms = bench.broker.alarms
    alarmed.send(one, publish("q", b"y", channel=1))
    assert alarms.parked_size == 2 * len(one)
    end_alarm(bench)
    assert alarms.parked_size == 0
    begin_alarm(bench)
    alarmed.send(one, method(1, commands.Basic.Ack(99)))
    assert alarms.parked_size == 0


# -- ends ---------------------------------------------------------------------


def test_a_channel_that_closes_publishes_first(
    bench: Bench, alarmed: ConnectionPair
) -> None:
    alarmed.send(publish("q", b"x"), CLOSE_CHANNEL, OPEN_CHANNEL, publish("q", b"y"))
    assert ready(bench) == 1
    assert names(alarmed) == [
        "Connection.Blocked",
        "Channel.CloseOk",
        "Channel.OpenOk",
    ]


def test_a_close_is_answered_although_what_was_parked_failed(
    bench: Bench, alarmed: ConnectionPair
) -> None:
    alarmed.send(publish("q", b"x", exchange="nowhere"), CLOSE_CHANNEL)
    assert names(alarmed) == [
        "Connection.Blocked",
        "Channel.Close",
        "Channel.CloseOk",
    ]


def test_a_connection_that_closes_publishes_first(
    bench: Bench, alarmed: ConnectionPair
) -> None:
    alarmed.send(CONFIRM, publish("q", b"x"), publish("", b"", mandatory=True), CLOSE)
    assert ready(bench) == 1
    assert names(alarmed) == [
        "Confirm.SelectOk",
        "Connection.Blocked",
        "Basic.Return",
        "Connection.CloseOk",
    ]


def test_a_lost_socket_publishes_what_is_complete(
    bench: Bench, alarmed: ConnectionPair
) -> None:
    stream = publish("q", b"abc", frame_size=2)
    alarmed.send(publish("q", b"x"), publish("q", b"y"), stream[:-1])
    alarmed.connection.lose_socket("gone")
    assert bodies(bench, 2) == [b"x", b"y"]
    assert ready(bench) == 0
    assert bench.broker.alarms.parked_size == 0


def test_nothing_is_passed_on_to_a_consumer_whose_socket_is_lost(
    bench: Bench, pair: ConnectionPair
) -> None:
    pair.declare("q")
    pair.consume("q", no_ack=True)
    begin_alarm(bench)
    pair.send(publish("q", b"x"))
    pair.connection.lose_socket("gone")
    assert bodies(bench, 1) == [b"x"]


def test_persistent_messages_of_a_lost_socket_are_stored(
    bench: Bench, pair: ConnectionPair
) -> None:
    pair.declare("q", durable=True)
    begin_alarm(bench)
    pair.send(CONFIRM, publish("q", b"x", properties=PERSISTENT_PROPERTIES))
    pair.connection.lose_socket("gone")
    assert bench.broker.durability.has_work
    end_alarm(bench)
    assert ready(bench) == 1


def test_a_lost_socket_with_a_wrong_frame_parked_is_only_logged(
    bench: Bench, alarmed: ConnectionPair
) -> None:
    alarmed.send(publish("q", b"x"), publish_frame("", "q", immediate=True))
    alarmed.send(header_frame(0), publish("q", b"y"))
    alarmed.connection.lose_socket("gone")
    assert ready(bench) == 1
    assert alarmed.is_closed


@pytest.mark.parametrize(
    "wrong",
    [
        pytest.param(GET, id="a method in the middle of a content"),
        pytest.param(frame(BODY, 1, b"x"), id="a body without a header"),
        pytest.param(frame(HEADER, 1, bytes(12)), id="a header that is cut off"),
        pytest.param(header_frame(1) * 2, id="two headers"),
        pytest.param(header_frame(1) + frame(BODY, 1, b"xx"), id="too long a body"),
    ],
)
def test_what_is_wrong_closes_as_it_would_without_an_alarm(
    bench: Bench, alarmed: ConnectionPair, wrong: bytes
) -> None:
    stream = publish("q", b"x") + publish_frame("", "q") + wrong
    alarmed.send(stream)
    found = alarmed.take()
    assert ready(bench) == 1
    end_alarm(bench)
    other = bench.connect()
    other.send(stream)
    expected = other.take()
    assert [one.payload for one in found[1:]] == [one.payload for one in expected]


def test_a_message_that_is_too_large_closes_its_channel(
    bench: Bench, alarmed: ConnectionPair
) -> None:
    alarmed.send(publish("q", b"x"), publish_frame("", "q"), header_frame(1 << 40))
    assert names(alarmed) == ["Connection.Blocked", "Channel.Close"]
    assert ready(bench) == 1


def test_an_ack_of_nothing_closes_the_channel_and_drops_what_it_parked(
    bench: Bench, alarmed: ConnectionPair
) -> None:
    alarmed.send(publish("q", b"x"), method(1, commands.Basic.Ack(1)))
    alarmed.take()
    end_alarm(bench)
    assert ready(bench) == 0
    assert not alarmed.is_closed


def test_a_second_open_of_a_channel_ends_the_connection(
    bench: Bench, alarmed: ConnectionPair
) -> None:
    alarmed.send(publish("q", b"x"), OPEN_CHANNEL)
    assert names(alarmed) == ["Connection.Blocked", "Connection.Close"]
    assert ready(bench) == 1


def test_a_connection_that_begins_and_ends_under_an_alarm_is_forgotten(
    bench: Bench, alarmed: ConnectionPair
) -> None:
    other = bench.connect()
    other.send(CLOSE)
    assert other.is_closed
    alarmed.connection.lose_socket("gone")
    end_alarm(bench)


def test_a_connection_is_blocking_until_it_publishes_and_then_blocked(
    bench: Bench, pair: ConnectionPair
) -> None:
    control = pair.connection.control
    assert control.shown_state == "running"
    begin_alarm(bench)
    assert control.shown_state == "blocking"
    pair.send(publish("q", b"x"))
    assert control.shown_state == "blocked"
    end_alarm(bench)
    assert control.shown_state == "running"
    pair.connection.close(ConnectionForced("enough"), bench.now_ms)
    assert control.shown_state == "closing"


def test_who_is_being_closed_is_not_told_that_the_alarm_is_over(
    bench: Bench, alarmed: ConnectionPair
) -> None:
    alarmed.send(publish("q", b"x"))
    alarmed.connection.close(ConnectionForced("enough"), bench.now_ms)
    alarmed.send(frame(8, 0, b""))
    end_alarm(bench)
    assert names(alarmed) == ["Connection.Blocked", "Connection.Close"]
    assert ready(bench) == 1


def test_who_was_lost_with_something_to_process_is_not_waited_for(
    bench: Bench, alarmed: ConnectionPair
) -> None:
    bench.pending.add(alarmed.connection)
    alarmed.connection.lose_socket("gone")
    bench.turn()
    assert bench.broker.alarms.waiting_count == 0
