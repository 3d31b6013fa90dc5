"""A connection: frames in any pieces, budgets, channels, errors that stay its own."""

from __future__ import annotations

import pytest
from pamqp import commands

from amqpd.protocol.connection import KEPT_SIZE_MAX, UNITS_PER_TURN
from amqpd.protocol.output import READING_MARK
from tests.support.connection_pair import Bench, ConnectionPair, method
from tests.support.content import (
    BODY,
    HEADER,
    METHOD,
    PERSISTENT_PROPERTIES,
    frame,
    publish,
    publish_frame,
    short_string,
)
from tests.support.raw_client import (
    HEARTBEAT_FRAME,
    channel_closed,
    connection_closed,
)

QOS = method(1, commands.Basic.Qos())
OPEN = method(1, commands.Channel.Open())
CLOSE = method(1, commands.Channel.Close(200, "bye", 0, 0))
CLOSE_OK = method(1, commands.Channel.CloseOk())
NO_QUEUE = method(1, commands.Basic.Get(queue="nope"))


def names(pair: ConnectionPair) -> list[str]:
    return [frame.method.name for frame in pair.take()]


def ready(bench: Bench, name: str = "q") -> int:
    return bench.broker.vhosts["/"].queues[name].ready_count


# -- pieces -------------------------------------------------------------------


def test_methods_survive_any_cut(bench: Bench) -> None:
    stream = QOS + HEARTBEAT_FRAME + CLOSE + OPEN
    for cut in range(1, len(stream)):
        pair = bench.connect()
        pair.send_in_pieces(stream, cut)
        assert names(pair) == ["Basic.QosOk", "Channel.CloseOk", "Channel.OpenOk"]


def test_a_stream_may_come_octet_by_octet(bench: Bench, pair: ConnectionPair) -> None:
    pair.declare("q")
    stream = QOS + publish("q", b"hello") + QOS
    pair.send_in_pieces(stream, *range(1, len(stream)))
    assert names(pair) == ["Basic.QosOk", "Basic.QosOk"]
    assert ready(bench) == 1


def test_every_octet_counts(pair: ConnectionPair) -> None:
    before = pair.connection.bytes_in
    pair.send(QOS[:3])
    pair.send(QOS[3:])
    assert pair.connection.bytes_in == before + len(QOS)


# -- a turn's budget ----------------------------------------------------------


def test_a_turn_stops_after_its_units_and_the_next_goes_on(
    bench: Bench, pair: ConnectionPair
) -> None:
    pair.declare("q")
    # Each costs a unit for each of its three frames and one for the enqueue.
    one = publish("q", b"x")
    pair.send(one * 1750)
    turns = [ready(bench)]
    while pair.connection.has_backlog():
        assert not pair.connection.may_read()
        assert bench.pending.has_work()
        bench.feed()
        turns.append(ready(bench) - sum(turns))
    assert turns == [500, 500, 500, 250]
    assert UNITS_PER_TURN == 2000
    assert not bench.pending.has_work()
    assert pair.connection.may_read()


def test_large_frames_cost_more(bench: Bench, pair: ConnectionPair) -> None:
    pair.declare("q")
    pair.send(publish("q", bytes(60_000)) * 40)
    first = ready(bench)
    assert UNITS_PER_TURN // 64 < first < 40
    bench.turn()
    assert ready(bench) == 40


def test_bodies_in_pieces_cost_as_well(bench: Bench, pair: ConnectionPair) -> None:
    pair.declare("q")
    pair.send(publish("q", bytes(3_000), frame_size=1) * 2)
    assert ready(bench) == 0
    bench.turn()
    assert ready(bench) == 2


def test_a_fanout_costs_a_unit_for_each_queue(
    bench: Bench, pair: ConnectionPair
) -> None:
    for at in range(100):
        pair.declare(f"q{at}")
        bind = commands.Queue.Bind(queue=f"q{at}", exchange="amq.fanout")
        pair.call(1, bind, commands.Queue.BindOk)
    pair.send(publish("", b"x", exchange="amq.fanout") * 40)
    assert ready(bench, "q0") == -(-UNITS_PER_TURN // 103)


def test_what_comes_while_there_is_a_backlog_waits_behind_it(
    bench: Bench, pair: ConnectionPair
) -> None:
    pair.send(QOS * (UNITS_PER_TURN + 1))
    assert len(names(pair)) == UNITS_PER_TURN
    pair.send(OPEN[:5])
    pair.send(OPEN[5:])
    assert names(pair) == []
    bench.feed()
    # The second open is an error, and it comes last.
    assert names(pair) == ["Basic.QosOk", "Connection.Close"]


def test_a_client_that_does_not_read_is_not_read(pair: ConnectionPair) -> None:
    assert pair.connection.may_read()
    pair.output.in_transport = READING_MARK
    assert not pair.connection.may_read()
    pair.output.in_transport = 0
    assert pair.connection.may_read()


# -- frames that are wrong ----------------------------------------------------

NO_METHOD = (0, 0)


@pytest.mark.parametrize(
    ("sent", "code", "ids"),
    [
        (QOS[:-1] + b"\xcd", 501, NO_METHOD),
        (frame(9, 1, b"abcd"), 501, NO_METHOD),
        (frame(0, 0, b""), 501, NO_METHOD),
        (frame(4, 7, b""), 501, NO_METHOD),
        (frame(METHOD, 1, bytes(131073))[:7], 501, NO_METHOD),
        (frame(BODY, 1, bytes(131073)), 501, NO_METHOD),
        (frame(METHOD, 1, b"abc"), 501, NO_METHOD),
        (frame(8, 0, b"abc"), 501, NO_METHOD),
        (frame(8, 1, b""), 505, NO_METHOD),
        (frame(HEADER, 0, bytes(14)), 505, NO_METHOD),
        (frame(BODY, 0, b"x"), 505, NO_METHOD),
        (frame(HEADER, 7, bytes(14)), 505, NO_METHOD),
        (frame(METHOD, 1, b"\x00\x3c\x00\x63"), 503, (60, 99)),
        (frame(METHOD, 1, b"\x00\x4d\x00\x0a"), 503, (77, 10)),
        (frame(METHOD, 1, b"\x00\x32\x00\x0a\x00"), 502, (50, 10)),
        (method(1, commands.Queue.DeclareOk("q", 0, 0)), 503, (50, 11)),
        (method(1, commands.Connection.Open("/")), 503, (10, 40)),
        (method(7, commands.Basic.Qos()), 504, (60, 10)),
        (method(7, commands.Channel.CloseOk()), 504, (20, 41)),
        (OPEN, 504, (20, 10)),
        (CLOSE_OK, 503, (20, 41)),
    ],
    ids=lambda value: str(value) if isinstance(value, int) else "",
)
def test_a_wrong_frame_closes_the_connection(
    bench: Bench, pair: ConnectionPair, sent: bytes, code: int, ids: tuple[int, int]
) -> None:
    other = bench.connect()
    # A good method before shows whether its ids are mistaken for the wrong one's.
    pair.send(QOS, sent)
    frames = pair.take()
    assert frames[0].method.name == "Basic.QosOk"
    closed = frames[1].method
    assert isinstance(closed, commands.Connection.Close)
    assert (closed.reply_code, (closed.class_id, closed.method_id)) == (code, ids)
    assert len(frames) == 2
    pair.send(QOS, publish("q"), CLOSE)
    assert pair.take() == []
    other.call(1, commands.Basic.Qos(), commands.Basic.QosOk)


def test_the_largest_frame_is_accepted(pair: ConnectionPair) -> None:
    pair.declare("q")
    pair.send(publish("q", bytes(131072), frame_size=131072))
    assert pair.take() == []


def test_a_frame_that_is_too_large_is_refused_before_it_is_there(
    pair: ConnectionPair,
) -> None:
    head = frame(BODY, 1, bytes(131073))[:7]
    pair.send(head[:3])
    pair.send(head[3:])
    assert pair.expect_close().code == 501


def test_a_method_amid_anothers_content_is_the_fault_of_the_publish(
    pair: ConnectionPair,
) -> None:
    pair.send(publish_frame("", "q"))
    pair.send(CLOSE)
    closed = pair.expect_close()
    assert (closed.code, closed.class_id, closed.method_id) == (505, 60, 40)


def test_something_unforeseen_closes_that_connection_and_says_no_more(
    bench: Bench, pair: ConnectionPair, caplog: pytest.LogCaptureFixture
) -> None:
    other = bench.connect()
    # Without randomness there is no name for a consumer that brings none.
    bench.random_octets.is_broken = True
    pair.send(method(1, commands.Basic.Consume(queue="q")))
    assert pair.expect_close() == connection_closed(541, "INTERNAL_ERROR", 60, 20)
    (record,) = caplog.records
    assert record.exc_info is not None
    other.call(1, commands.Basic.Qos(), commands.Basic.QosOk)


# -- channels -----------------------------------------------------------------


def test_a_channel_is_opened_used_and_closed(pair: ConnectionPair) -> None:
    pair.send(CLOSE, OPEN, QOS)
    assert names(pair) == ["Channel.CloseOk", "Channel.OpenOk", "Basic.QosOk"]


def test_more_channels_than_negotiated_are_refused(bench: Bench) -> None:
    pair = bench.connect(131072, 2, 1, 9000)
    pair.send(method(3, commands.Channel.Open()))
    text = (
        "NOT_ALLOWED - number of channels opened (2) has reached the negotiated "
        "channel_max (2)"
    )
    assert pair.expect_close() == connection_closed(530, text)


def test_more_channels_than_the_user_may_have_are_refused(bench: Bench) -> None:
    bench.broker.admission.user_limits["guest"] = {"max-channels": 2}
    first, second = bench.connect(), bench.connect()
    second.send(CLOSE, OPEN)
    assert names(second) == ["Channel.CloseOk", "Channel.OpenOk"]
    second.send(method(2, commands.Channel.Open()))
    text = (
        "NOT_ALLOWED - number of channels opened for user 'guest' has reached the "
        "maximum allowed user limit of (2)"
    )
    assert second.expect_close() == connection_closed(530, text)
    first.send(method(3, commands.Channel.Open()))
    assert names(first) == ["Channel.OpenOk"]


def test_closing_a_channel_makes_room_for_another(bench: Bench) -> None:
    pair = bench.connect(131072, 2, 1, 2)
    pair.send(CLOSE)
    pair.expect(1, commands.Channel.CloseOk)
    pair.call(3, commands.Channel.Open(), commands.Channel.OpenOk)


def test_a_channel_that_is_refused_something_ignores_all_until_close_ok(
    bench: Bench, pair: ConnectionPair
) -> None:
    pair.declare("q")
    pair.send(NO_QUEUE, QOS, publish("q"), frame(BODY, 1, b"x"), NO_QUEUE)
    text = "NOT_FOUND - no queue 'nope' in vhost '/'"
    assert pair.expect_close(1) == channel_closed(404, text, 60, 70)
    assert ready(bench) == 0
    pair.send(CLOSE_OK, OPEN, QOS)
    assert names(pair) == ["Channel.OpenOk", "Basic.QosOk"]


def test_closes_of_a_channel_that_cross_are_both_answered(
    pair: ConnectionPair,
) -> None:
    pair.send(NO_QUEUE, CLOSE)
    assert names(pair) == ["Channel.Close", "Channel.CloseOk"]
    pair.send(QOS)
    assert pair.take() == []
    pair.send(CLOSE_OK, OPEN)
    assert names(pair) == ["Channel.OpenOk"]


def test_a_number_is_not_free_before_close_ok(pair: ConnectionPair) -> None:
    pair.send(NO_QUEUE, OPEN)
    frames = pair.take()
    closed = frames[1].method
    assert isinstance(closed, commands.Connection.Close)
    assert closed.reply_text == "CHANNEL_ERROR - second 'channel.open' seen"


def test_an_error_on_one_channel_leaves_the_others_alone(bench: Bench) -> None:
    pair = bench.connect(131072, 2047, 1, 2)
    pair.declare("q", channel=2)
    pair.consume("q", channel=2, no_ack=True)
    pair.send(NO_QUEUE, publish("q", b"x", channel=2))
    bench.turn()
    frames = pair.take()
    assert frames[0].method.name == "Channel.Close"
    assert [frame.channel for frame in frames[1:]] == [2, 2, 2]


def test_access_is_granted_to_whoever_asks(pair: ConnectionPair) -> None:
    pair.send(frame(METHOD, 1, b"\x00\x1e\x00\x0a" + short_string("/data") + b"\x1f"))
    assert pair.take_octets() == frame(METHOD, 1, b"\x00\x1e\x00\x0b\x00\x01")


# -- held channels ------------------------------------------------------------


def declare(name: str, channel: int = 1, durable: bool = True) -> bytes:
    return method(channel, commands.Queue.Declare(queue=name, durable=durable))


def test_what_follows_a_declare_waits_for_its_commit(
    bench: Bench, pair: ConnectionPair
) -> None:
    pair.send(declare("d"), publish("d", b"1"), QOS)
    assert pair.take() == []
    pair.send(publish("d", b"2"), QOS)
    assert pair.take() == []
    bench.commit()
    bench.turn()
    assert names(pair) == ["Queue.DeclareOk", "Basic.QosOk", "Basic.QosOk"]
    assert ready(bench, "d") == 2


def test_frames_that_were_kept_come_before_later_ones(
    bench: Bench, pair: ConnectionPair
) -> None:
    pair.send(declare("d"), publish("d", b"1"), publish("d", b"2"))
    bench.commit()
    # Released, not fed yet: what comes now stands behind.
    pair.send(publish("d", b"3"))
    bench.turn()
    pair.take()
    pair.consume("d")
    bench.turn()
    assert pair.deliveries() == [b"1", b"2", b"3"]


def test_a_kept_method_may_hold_the_channel_again(
    bench: Bench, pair: ConnectionPair
) -> None:
    pair.send(declare("d"), declare("e"), QOS, declare("f"), QOS)
    for expected in (
        ["Queue.DeclareOk"],
        ["Queue.DeclareOk", "Basic.QosOk"],
        ["Queue.DeclareOk", "Basic.QosOk"],
    ):
        assert names(pair) == []
        bench.commit()
        bench.turn()
        assert names(pair) == expected


def test_a_hold_amid_a_backlog_keeps_the_order(
    bench: Bench, pair: ConnectionPair
) -> None:
    many = UNITS_PER_TURN - 10
    pair.send(QOS * many, declare("d"), publish("d", b"1") * 20, QOS)
    assert len(names(pair)) == many
    bench.commit()
    assert names(pair) == ["Queue.DeclareOk"]
    bench.turn()
    assert names(pair) == ["Basic.QosOk"]
    assert ready(bench, "d") == 20


def test_a_release_amid_a_read_feeds_the_kept_frames_first(
    bench: Bench, pair: ConnectionPair
) -> None:
    # The budget ends behind the first kept frames, before the rest of the read.
    kept = publish("d", b"1")
    pair.send(declare("d"), kept * UNITS_PER_TURN, publish("d", b"2"))
    bench.commit()
    bench.turn()
    pair.take()
    found = bench.broker.vhosts["/"].queues["d"]
    assert found.ready_count == UNITS_PER_TURN + 1
    for _ in range(UNITS_PER_TURN):
        reference = found.get(True)
        assert reference is not None
        assert reference.message.content.endswith(b"1\xce")


def test_other_channels_go_on_while_one_is_held(bench: Bench) -> None:
    pair = bench.connect(131072, 2047, 1, 2)
    pair.send(declare("d"), QOS, method(2, commands.Basic.Qos()))
    pair.expect(2, commands.Basic.QosOk)
    bench.commit()
    bench.turn()
    assert names(pair) == ["Queue.DeclareOk", "Basic.QosOk"]


def test_two_channels_may_be_held_at_once(bench: Bench) -> None:
    pair = bench.connect(131072, 2047, 1, 2)
    pair.send(declare("d"), declare("e", 2))
    pair.send(QOS, method(2, commands.Basic.Qos()))
    bench.commit()
    bench.turn()
    found: dict[int, list[str]] = {1: [], 2: []}
    for taken in pair.take():
        found[taken.channel].append(taken.method.name)
    assert found == {
        1: ["Queue.DeclareOk", "Basic.QosOk"],
        2: ["Queue.DeclareOk", "Basic.QosOk"],
    }


def test_a_held_channel_is_delivered_nothing(
    bench: Bench, pair: ConnectionPair
) -> None:
    pair.declare("q")
    pair.consume("q", no_ack=True)
    other = bench.connect()
    pair.send(declare("d"))
    other.send(publish("q", b"x"))
    bench.turn()
    assert pair.take() == []
    bench.commit()
    bench.turn()
    names = [frame.method.name for frame in pair.take() if frame.kind == METHOD]
    assert names == ["Queue.DeclareOk", "Basic.Deliver"]


def test_a_second_declare_of_a_name_in_flight_waits_for_the_first(
    bench: Bench, pair: ConnectionPair
) -> None:
    other = bench.connect()
    pair.send(declare("d"))
    other.send(declare("d"))
    assert other.take() == []
    bench.run_idle()
    assert names(pair) == ["Queue.DeclareOk"]
    assert names(other) == ["Queue.DeclareOk"]


def test_a_declare_that_waited_and_is_refused_names_its_method(
    bench: Bench, pair: ConnectionPair
) -> None:
    other = bench.connect()
    pair.send(declare("d"))
    other.send(declare("d", durable=False), method(1, commands.Basic.Qos()))
    bench.run_idle()
    closed = other.expect_close(1)
    assert (closed.code, closed.class_id, closed.method_id) == (406, 50, 10)
    other.send(CLOSE_OK, OPEN)
    assert names(other) == ["Channel.OpenOk"]


def test_much_that_is_kept_stops_reading(bench: Bench, pair: ConnectionPair) -> None:
    pair.send(declare("d"))
    body = bytes(60_000)
    size = 0
    while pair.connection.may_read():
        sent = publish("d", body)
        pair.send(sent)
        bench.turn()
        size += len(sent)
    assert KEPT_SIZE_MAX <= size < KEPT_SIZE_MAX + 70_000
    bench.commit()
    bench.turn()
    assert pair.connection.may_read()
    assert ready(bench, "d") == -(-KEPT_SIZE_MAX // len(publish("d", body)))


@pytest.mark.parametrize("how", ["close", "error", "socket"])
def test_the_connections_end_ends_a_hold(
    bench: Bench, pair: ConnectionPair, how: str
) -> None:
    pair.send(declare("d"), QOS)
    if how == "close":
        pair.send(method(0, commands.Connection.Close(200, "bye", 0, 0)))
        pair.expect(0, commands.Connection.CloseOk)
        assert pair.is_closed
    elif how == "error":
        pair.send(frame(9, 1, b""))
        assert pair.expect_close().code == 501
    else:
        pair.connection.lose_socket("gone")
    bench.run_idle()
    assert pair.take() == []
    # What was begun is done all the same.
    assert "d" in bench.broker.vhosts["/"].queues


def test_a_connection_that_closes_is_read_however_much_it_had_kept(
    bench: Bench, pair: ConnectionPair
) -> None:
    pair.send(declare("d"))
    while pair.connection.may_read():
        pair.send(publish("d", bytes(60_000)))
        bench.turn()
    pair.send(method(0, commands.Basic.Qos()))
    assert pair.expect_close().code == 504
    assert pair.connection.may_read()
    bench.run_idle()


def test_exclusive_queues_end_with_their_connection(
    bench: Bench, pair: ConnectionPair
) -> None:
    sent = commands.Queue.Declare(queue="mine", exclusive=True)
    pair.call(1, sent, commands.Queue.DeclareOk)
    other = bench.connect()
    other.send(method(1, sent))
    assert other.expect_close(1).code == 405
    pair.connection.lose_socket("gone")
    other.send(CLOSE_OK, OPEN, method(1, sent))
    assert names(other) == ["Channel.OpenOk", "Queue.DeclareOk"]


# -- the end ------------------------------------------------------------------


def test_nothing_is_sent_after_close_ok(bench: Bench, pair: ConnectionPair) -> None:
    pair.declare("q")
    pair.declare("d", durable=True)
    pair.consume("q", no_ack=True)
    pair.call(1, commands.Confirm.Select(), commands.Confirm.SelectOk)
    pair.send(
        publish("q"),
        publish("d", properties=PERSISTENT_PROPERTIES),
        method(0, commands.Connection.Close(200, "bye", 0, 0)),
        QOS,
        publish("q"),
    )
    bench.run_idle()
    assert pair.take()[-1].method.name == "Connection.CloseOk"
    assert not pair.connection.has_backlog()
    pair.send(QOS)
    assert pair.take() == []


def test_a_backlog_is_dropped_with_the_socket(
    bench: Bench, pair: ConnectionPair
) -> None:
    pair.declare("q")
    pair.send(publish("q") * UNITS_PER_TURN)
    done = ready(bench)
    pair.connection.lose_socket("gone")
    assert not pair.connection.has_backlog()
    bench.turn()
    assert ready(bench) == done
    assert pair.output.is_closed


def test_a_connection_that_ran_out_of_time_gives_everything_back(
    bench: Bench, pair: ConnectionPair
) -> None:
    pair.declare("q")
    pair.consume("q")
    pair.send(publish("q", b"x"))
    bench.turn()
    pair.take()
    for _ in range(3):
        bench.now_ms += 60_000
        pair.connection.on_time(bench.now_ms)
    assert pair.is_closed
    assert ready(bench) == 1
