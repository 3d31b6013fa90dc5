"""The connection as a whole: handshake, refusals, deadlines, heartbeats, the end."""

from __future__ import annotations

import pytest
from pamqp import commands

from amqpd.auth.permissions import Permission
from amqpd.auth.users import User
from amqpd.broker.errors import ConnectionForced
from amqpd.protocol.control import ConnectionOptions
from amqpd.protocol.handshake import HandshakeOptions
from amqpd.protocol.lifecycle import State
from tests.support.connection_pair import (
    HANDSHAKE,
    Bench,
    ConnectionPair,
    method,
    tune_ok,
)
from tests.support.content import publish, short_string
from tests.support.raw_client import (
    ALL_CAPABILITIES,
    HEARTBEAT_FRAME,
    METHOD,
    PROTOCOL_HEADER,
    connection_closed,
    encode_frame,
    encode_start_ok,
    plain,
)

OPEN = method(0, commands.Connection.Open("/"))
CLOSE = method(0, commands.Connection.Close(200, "bye", 0, 0))
CLOSE_OK = method(0, commands.Connection.CloseOk())


def start_ok(password: str = "guest", properties: bytes = ALL_CAPABILITIES) -> bytes:
    payload = encode_start_ok(b"PLAIN", plain("guest", password), properties)
    return encode_frame(METHOD, 0, payload)


def names(pair: ConnectionPair) -> list[str]:
    return [frame.method.name for frame in pair.take()]


def state(pair: ConnectionPair) -> State:
    return pair.connection.control.state


def pass_time(pair: ConnectionPair, milliseconds: int) -> None:
    pair.bench.now_ms += milliseconds
    pair.connection.on_time(pair.bench.now_ms)


# -- the protocol header ------------------------------------------------------


@pytest.mark.parametrize("cut", range(9))
def test_the_protocol_header_may_come_in_pieces(bench: Bench, cut: int) -> None:
    pair = bench.accept()
    pair.send(PROTOCOL_HEADER[:cut])
    assert names(pair) == (["Connection.Start"] if cut == 8 else [])
    pair.send(PROTOCOL_HEADER[cut:])
    assert names(pair) == ([] if cut == 8 else ["Connection.Start"])


@pytest.mark.parametrize("behind", [b"", start_ok(), CLOSE, b"\xff" * 100])
def test_another_protocol_is_answered_with_ours_and_the_end(
    bench: Bench, behind: bytes
) -> None:
    pair = bench.accept()
    pair.send(b"GET / HT" + behind)
    assert pair.take_octets() == PROTOCOL_HEADER
    assert pair.is_closed
    assert "GET / HT" in pair.connection.control.reason
    pair.send(start_ok())
    assert pair.take_octets() == b""


@pytest.mark.parametrize(
    ("greeting", "reason"),
    [
        (
            b"\x16\x03\x01\x02\x00\x01\x00\x01",
            "not AMQP 0-9-1 but TLS: it came to the port that is without TLS",
        ),
        (b"GET / HT", "not AMQP 0-9-1 but HTTP: it began with b'GET / HT'"),
        (b"AMQP\0\1\0\0", "not AMQP 0-9-1: it began with b'AMQP\\x00\\x01\\x00\\x00'"),
    ],
)
def test_who_speaks_something_else_finds_out_what_the_mistake_is(
    bench: Bench, greeting: bytes, reason: str
) -> None:
    pair = bench.accept()
    pair.send(greeting)
    assert pair.connection.control.reason == reason


def test_what_follows_the_header_in_the_same_read_is_processed(bench: Bench) -> None:
    pair = bench.accept()
    pair.send(PROTOCOL_HEADER + start_ok() + tune_ok() + OPEN)
    assert names(pair) == ["Connection.Start", "Connection.Tune", "Connection.OpenOk"]
    assert state(pair) is State.OPEN


# -- login and opening --------------------------------------------------------


def test_a_refused_login_is_told_to_a_client_that_understands(bench: Bench) -> None:
    pair = bench.accept()
    pair.send(PROTOCOL_HEADER)
    pair.take()
    pair.send(start_ok("wrong"))
    text = (
        "ACCESS_REFUSED - Login was refused using authentication mechanism PLAIN. "
        "For details see the broker logfile."
    )
    assert pair.expect_close() == connection_closed(403, text)
    assert "invalid credentials" in pair.connection.control.reason


def test_a_refused_login_is_met_with_silence_by_one_that_does_not(
    bench: Bench,
) -> None:
    pair = bench.accept()
    pair.send(PROTOCOL_HEADER)
    pair.take()
    pair.send(start_ok("wrong", b""))
    assert pair.take() == []
    assert state(pair) is State.CLOSING_SILENTLY
    pass_time(pair, 2_999)
    assert not pair.is_closed
    pass_time(pair, 1)
    assert pair.is_closed


def test_guest_comes_from_this_machine_only(bench: Bench) -> None:
    pair = bench.accept(is_loopback=False)
    pair.send(PROTOCOL_HEADER, start_ok())
    frames = pair.take()
    closed = frames[1].method
    assert isinstance(closed, commands.Connection.Close)
    assert closed.reply_code == 403
    assert "localhost" in pair.connection.control.reason


def open_refused(bench: Bench) -> str:
    pair = bench.accept()
    pair.send(PROTOCOL_HEADER, start_ok(), tune_ok())
    pair.take()
    pair.send(method(0, commands.Connection.Open("/")))
    closed = pair.expect_close()
    assert (closed.code, closed.class_id, closed.method_id) == (530, 10, 40)
    return closed.text


def test_a_virtual_host_takes_as_many_connections_as_it_may(bench: Bench) -> None:
    bench.broker.admission.vhost_limits["/"] = {"max-connections": 1}
    pair = bench.connect()
    assert open_refused(bench) == (
        "NOT_ALLOWED - access to vhost '/' refused for user 'guest': "
        "connection limit (1) is reached"
    )
    pair.connection.lose_socket("gone")
    bench.connect()


def test_a_user_has_as_many_connections_as_it_may(bench: Bench) -> None:
    bench.broker.admission.user_limits["guest"] = {"max-connections": 0}
    assert open_refused(bench) == (
        "NOT_ALLOWED - connection refused for user 'guest': "
        "user connection limit (0) is reached"
    )


def test_a_virtual_host_that_is_not_there_is_refused(bench: Bench) -> None:
    pair = bench.accept()
    pair.send(PROTOCOL_HEADER, start_ok(), tune_ok())
    pair.take()
    pair.send(method(0, commands.Connection.Open("nope")))
    closed = connection_closed(530, "NOT_ALLOWED - vhost nope not found", 10, 40)
    assert pair.expect_close() == closed
    pair.send(CLOSE_OK)
    assert pair.is_closed


@pytest.mark.parametrize(
    ("sent", "where"),
    [
        (OPEN, "starting"),
        (tune_ok(), "starting"),
        (method(0, commands.Connection.CloseOk()), "starting"),
    ],
)
def test_a_method_out_of_order_closes_the_connection(
    bench: Bench, sent: bytes, where: str
) -> None:
    pair = bench.accept()
    pair.send(PROTOCOL_HEADER)
    pair.take()
    pair.send(sent)
    closed = pair.expect_close()
    assert closed.code == 504
    text = f"CHANNEL_ERROR - unexpected method in connection state {where}"
    assert closed.text == text


@pytest.mark.parametrize("sent", [start_ok(), tune_ok(), OPEN, CLOSE_OK])
def test_the_handshake_is_not_repeated(pair: ConnectionPair, sent: bytes) -> None:
    pair.send(sent)
    closed = pair.expect_close()
    text = "CHANNEL_ERROR - unexpected method in connection state running"
    assert (closed.code, closed.text) == (504, text)


def test_a_channels_method_has_no_place_on_channel_0(pair: ConnectionPair) -> None:
    pair.send(method(0, commands.Basic.Qos()))
    text = "CHANNEL_ERROR - unexpected method in connection state running"
    assert pair.expect_close() == connection_closed(504, text, 60, 10)


@pytest.mark.parametrize("secret", ["guest", "wrong"])
def test_a_new_secret_is_checked_as_a_login_is(
    pair: ConnectionPair, secret: str
) -> None:
    pair.send(method(0, commands.Connection.UpdateSecret(secret, "renewed")))
    if secret == "guest":
        pair.expect(0, commands.Connection.UpdateSecretOk)
        return
    text = "NOT_ALLOWED - New secret was refused by one of the backends"
    assert pair.expect_close() == connection_closed(530, text, 10, 70)


def test_a_new_secret_before_the_connection_is_open_is_out_of_order(
    bench: Bench,
) -> None:
    pair = bench.accept()
    pair.send(PROTOCOL_HEADER)
    pair.take()
    pair.send(method(0, commands.Connection.UpdateSecret("guest", "renewed")))
    assert pair.expect_close().code == 504


def test_limits_are_taken_from_tune_ok(bench: Bench) -> None:
    pair = bench.accept()
    pair.shake_hands(frame_max=4096, channel_max=2)
    assert pair.output.frame_max == 4096
    pair.send(encode_frame(3, 0, bytes(4097))[:7])
    assert pair.expect_close().code == 501


def test_a_large_start_ok_is_taken_however_small_frames_will_be(bench: Bench) -> None:
    bench.options = ConnectionOptions(HandshakeOptions("0.0", frame_max=4096))
    pair = bench.accept()
    pair.send(PROTOCOL_HEADER)
    long_name = b"\x01nS" + (100_000).to_bytes(4, "big") + b"x" * 100_000
    pair.send(start_ok(properties=long_name), tune_ok(frame_max=4096), OPEN)
    assert names(pair) == ["Connection.Start", "Connection.Tune", "Connection.OpenOk"]


# -- deadlines ----------------------------------------------------------------


def test_a_handshake_that_takes_too_long_ends(bench: Bench) -> None:
    bench.options = ConnectionOptions(HANDSHAKE, handshake_timeout_ms=500)
    pair = bench.accept()
    pair.send(PROTOCOL_HEADER)
    pass_time(pair, 499)
    assert not pair.is_closed
    pass_time(pair, 1)
    assert pair.is_closed
    assert pair.connection.control.reason == "handshake_timeout"


def test_an_open_connection_has_no_deadline(bench: Bench) -> None:
    pair = bench.accept()
    pair.shake_hands()
    pair.send(HEARTBEAT_FRAME)
    pass_time(pair, 10_000)
    assert state(pair) is State.OPEN


def test_a_client_that_does_not_answer_our_close_is_dropped(
    pair: ConnectionPair,
) -> None:
    pair.connection.close(ConnectionForced("over"), pair.bench.now_ms)
    assert names(pair) == ["Connection.Close"]
    pass_time(pair, 29_999)
    assert not pair.is_closed
    pass_time(pair, 1)
    assert pair.is_closed
    assert pair.connection.control.reason == "CONNECTION_FORCED - over"


@pytest.mark.parametrize("how", ["closed", "refused"])
def test_time_does_nothing_to_a_closed_connection(bench: Bench, how: str) -> None:
    pair = bench.accept()
    if how == "refused":
        pair.send(b"NOT AMQP")
    else:
        pair.shake_hands()
        pair.send(CLOSE)
    assert pair.is_closed
    pass_time(pair, 1 << 40)
    assert pair.is_closed


def test_heartbeats_are_sent_when_nothing_else_was(bench: Bench) -> None:
    pair = bench.accept()
    pair.send(PROTOCOL_HEADER, start_ok(), tune_ok(heartbeat=10), OPEN)
    pair.take()
    for _ in range(3):
        pair.send(HEARTBEAT_FRAME)
        pass_time(pair, 5_000)
        taken = pair.take_octets()
    assert taken == HEARTBEAT_FRAME


def test_a_client_that_is_silent_for_two_intervals_is_lost(bench: Bench) -> None:
    pair = bench.accept()
    pair.send(PROTOCOL_HEADER, start_ok(), tune_ok(heartbeat=10), OPEN)
    for _ in range(3):
        assert not pair.is_closed
        pass_time(pair, 10_000)
    assert pair.is_closed
    text = "missed heartbeats from client, timeout: 10s"
    assert pair.connection.control.reason == text
    assert "Connection.Close" not in [
        frame.method.name for frame in pair.take() if frame.kind == 1
    ]


def test_a_client_that_is_not_read_is_not_missed(bench: Bench) -> None:
    pair = bench.accept()
    pair.send(PROTOCOL_HEADER, start_ok(), tune_ok(heartbeat=10), OPEN)
    pair.connection.control.stop_watching()
    for _ in range(5):
        pass_time(pair, 10_000)
    assert not pair.is_closed
    pair.connection.control.watch_again(bench.now_ms)
    for _ in range(2):
        pass_time(pair, 10_000)
    assert pair.is_closed


def test_no_heartbeats_in_a_connection_that_closes(bench: Bench) -> None:
    pair = bench.accept()
    pair.send(PROTOCOL_HEADER, start_ok(), tune_ok(heartbeat=10), OPEN)
    pair.connection.close(ConnectionForced("over"), bench.now_ms)
    pair.take()
    pass_time(pair, 5_000)
    assert pair.take_octets() == b""


# -- closing ------------------------------------------------------------------


def test_a_clients_close_is_answered_and_ends_the_connection(
    pair: ConnectionPair,
) -> None:
    pair.send(CLOSE)
    pair.expect(0, commands.Connection.CloseOk)
    assert pair.is_closed
    assert pair.connection.control.is_orderly
    assert pair.connection.control.reason == "client closed it: 200 bye"
    pair.connection.lose_socket("gone")
    assert pair.connection.control.reason == "client closed it: 200 bye"


def test_closes_that_cross_are_both_answered(pair: ConnectionPair) -> None:
    pair.connection.close(ConnectionForced("over"), pair.bench.now_ms)
    pair.take()
    pair.send(CLOSE)
    assert names(pair) == ["Connection.CloseOk"]
    assert not pair.is_closed
    pair.send(CLOSE_OK)
    assert pair.is_closed
    assert not pair.connection.control.is_orderly


def test_everything_else_is_ignored_until_close_ok(pair: ConnectionPair) -> None:
    pair.connection.close(ConnectionForced("over"), pair.bench.now_ms)
    pair.take()
    pair.send(
        method(1, commands.Basic.Qos()),
        method(0, commands.Basic.Qos()),
        method(7, commands.Channel.Open()),
        HEARTBEAT_FRAME,
        encode_frame(3, 1, b"body"),
        CLOSE_OK,
    )
    assert pair.take() == []
    assert pair.is_closed


def test_garbage_after_our_close_is_ignored_too(pair: ConnectionPair) -> None:
    pair.connection.close(ConnectionForced("over"), pair.bench.now_ms)
    pair.take()
    pair.send(b"\xff" * 100)
    assert pair.take() == []
    pair.send(CLOSE_OK)
    assert pair.is_closed


def test_a_connection_is_closed_once(pair: ConnectionPair) -> None:
    pair.connection.close(ConnectionForced("first"), pair.bench.now_ms)
    pair.connection.close(ConnectionForced("second"), pair.bench.now_ms)
    assert names(pair) == ["Connection.Close"]
    assert pair.connection.control.reason == "CONNECTION_FORCED - first"


def test_after_a_framing_error_nothing_is_read_any_more(pair: ConnectionPair) -> None:
    pair.send(b"\x08\x00\x00\x00\x00\x00\x00\x00")
    assert names(pair) == ["Connection.Close"]
    assert state(pair) is State.CLOSING_SILENTLY
    pair.send(CLOSE_OK, CLOSE)
    assert pair.take() == []
    pass_time(pair, 3_000)
    assert pair.is_closed


def test_a_whole_frame_of_no_known_type_is_an_ordinary_error(
    pair: ConnectionPair,
) -> None:
    pair.send(b"\x09\x00\x00\x00\x00\x00\x00\xce")
    assert names(pair) == ["Connection.Close"]
    assert state(pair) is State.AWAIT_CLOSE_OK
    pair.send(CLOSE_OK)
    assert pair.is_closed


def test_a_broker_that_stops_says_nothing_before_the_protocol_header(
    bench: Bench,
) -> None:
    pair = bench.accept()
    pair.connection.close(ConnectionForced("shutdown"), bench.now_ms)
    assert pair.take_octets() == b""
    assert pair.is_closed


def test_a_lost_socket_is_the_end(pair: ConnectionPair) -> None:
    pair.connection.lose_socket("gone")
    assert pair.is_closed
    assert pair.connection.control.reason == "gone"
    pair.connection.lose_socket("again")
    assert pair.connection.control.reason == "gone"


def test_the_name_that_a_client_gives_itself_is_in_the_log(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    name = b"\x0fconnection_nameS\x00\x00\x00\x03app"
    pair = bench.accept()
    with caplog.at_level("INFO", "amqpd.connection"):
        pair.send(PROTOCOL_HEADER, start_ok(properties=name), tune_ok(), OPEN)
    assert any("client name 'app'" in record.message for record in caplog.records)


UPDATE_SECRET = method(0, commands.Connection.UpdateSecret("guest", "renewed"))


def test_with_a_new_secret_consumers_that_are_not_permitted_any_more_end(
    bench: Bench, pair: ConnectionPair
) -> None:
    pair.declare("mine")
    pair.declare("theirs")
    pair.consume("mine", "m")
    pair.consume("theirs", "t")
    pair.send(
        method(
            1,
            commands.Basic.Consume(
                queue="amq.rabbitmq.reply-to", consumer_tag="r", no_ack=True
            ),
        )
    )
    pair.expect(1, commands.Basic.ConsumeOk)
    bench.broker.permissions.put(Permission("guest", "/", ".*", ".*", "^mine"))
    pair.send(UPDATE_SECRET)
    answers = [frame.method for frame in pair.take()]
    assert [one.name for one in answers] == [
        "Connection.UpdateSecretOk",
        "Basic.Cancel",
    ]
    assert dict(answers[1])["consumer_tag"] == "t"
    consumers = pair.connection.channels[1].consuming.consumers
    assert sorted(consumers) == ["m", "r"]
    assert bench.broker.vhosts["/"].queues["theirs"].consumer_count == 0


def test_with_a_new_secret_the_user_is_who_it_is_now(
    bench: Bench, pair: ConnectionPair
) -> None:
    old = bench.broker.users.get("guest")
    assert old is not None
    claims_to_be_ann = b"\x00\x10" + short_string("ann")
    pair.send(publish("nowhere", b"", properties=claims_to_be_ann))
    pair.expect_close(1)
    tags = ("impersonator",)
    bench.broker.users.put(User("guest", old.password_hash, old.algorithm, tags))
    pair.send(method(1, commands.Channel.CloseOk()), UPDATE_SECRET)
    pair.expect(0, commands.Connection.UpdateSecretOk)
    pair.call(1, commands.Channel.Open(), commands.Channel.OpenOk)
    pair.send(publish("nowhere", b"", properties=claims_to_be_ann))
    assert pair.take() == []
