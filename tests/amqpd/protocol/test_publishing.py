"""Publishing: content in any pieces, routing, properties that count, confirms."""

from __future__ import annotations

import tracemalloc

import pytest
from pamqp import commands

from amqpd.broker.errors import PreconditionFailed
from amqpd.broker.vhosts.deposit import MILLISECONDS_MAX, milliseconds
from amqpd.protocol.control import ConnectionOptions
from tests.support.connection_pair import (
    HANDSHAKE,
    Bench,
    ConnectionPair,
    contents,
    method,
)
from tests.support.content import (
    BODY,
    HEADER,
    content_of,
    frame,
    header_frame,
    publish,
    publish_frame,
    short_string,
    string_array,
    with_headers,
)
from tests.support.raw_client import (
    Closed,
    channel_closed,
    connection_closed,
)

EXPIRATION = b"\x01\x00"
USER_ID = b"\x00\x10"
TEXT_PLAIN = b"\x80\x00" + short_string("text/plain")


@pytest.fixture
def consumer(bench: Bench, pair: ConnectionPair) -> ConnectionPair:
    """Another connection, which gets everything from the queues q and r."""
    pair.declare("q")
    pair.declare("r")
    consumer = bench.connect()
    consumer.consume("q", "q", no_ack=True)
    consumer.consume("r", "r", no_ack=True)
    return consumer


# -- content in pieces --------------------------------------------------------

BODIES = (b"", b"x", b"hello world", bytes(range(256)) * 20)
STREAM = publish("q", b"", properties=TEXT_PLAIN) + publish(
    "q", b"hello", mandatory=True
)


@pytest.mark.parametrize("body", BODIES, ids=len)
@pytest.mark.parametrize("frame_size", [131064, 7])
def test_a_body_in_one_or_many_frames_is_the_same_message(
    bench: Bench,
    pair: ConnectionPair,
    consumer: ConnectionPair,
    body: bytes,
    frame_size: int,
) -> None:
    pair.send(publish("q", body, properties=TEXT_PLAIN, frame_size=frame_size))
    bench.turn()
    ((_, properties, found),) = contents(consumer.take(), commands.Basic.Deliver)
    assert (properties, found) == (TEXT_PLAIN, body)


@pytest.mark.parametrize("cut", range(1, len(STREAM)))
def test_publishes_survive_any_cut(
    bench: Bench, pair: ConnectionPair, consumer: ConnectionPair, cut: int
) -> None:
    pair.send_in_pieces(STREAM, cut)
    found = contents(consumer.take(), commands.Basic.Deliver)
    assert [(properties, body) for _, properties, body in found] == [
        (TEXT_PLAIN, b""),
        (b"\x00\x00", b"hello"),
    ]


def test_a_body_that_ends_exactly_at_the_limit_is_kept_with_its_frame(
    bench: Bench, pair: ConnectionPair
) -> None:
    pair.declare("q")
    for size in (65536, 65537):
        pair.send(publish("q", bytes(size)))
    kept = []
    for _ in range(2):
        reference = bench.broker.vhosts["/"].queues["q"].get(True)
        assert reference is not None
        kept.append(reference.message)
    assert kept[0].body is None
    assert kept[0].content == content_of(bytes(65536))
    assert kept[1].body == bytes(65537)
    assert kept[1].content == header_frame(65537)


def test_a_large_body_is_not_copied_when_it_is_complete(
    bench: Bench, pair: ConnectionPair
) -> None:
    pair.declare("q")
    size = 4 * 1024 * 1024
    piece = frame(BODY, 1, bytes(32768))
    tracemalloc.start()
    pair.send(publish_frame("", "q"), header_frame(size))
    for _ in range(size // 32768):
        pair.send(piece)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert bench.broker.vhosts["/"].queues["q"].ready_count == 1
    assert peak < 3 * size // 2


def test_empty_body_frames_are_nothing(
    bench: Bench, pair: ConnectionPair, consumer: ConnectionPair
) -> None:
    empty = frame(BODY, 1, b"")
    first, second = frame(BODY, 1, b"ab"), frame(BODY, 1, b"c")
    pair.send(publish_frame("", "q"), header_frame(3), empty, first, empty, second)
    bench.turn()
    assert consumer.deliveries() == [b"abc"]


def test_content_of_two_channels_may_be_interleaved(
    bench: Bench, pair: ConnectionPair, consumer: ConnectionPair
) -> None:
    pair.call(2, commands.Channel.Open(), commands.Channel.OpenOk)
    one = [publish_frame("", "q", 1), header_frame(2, channel=1), frame(BODY, 1, b"11")]
    two = [publish_frame("", "q", 2), header_frame(2, channel=2), frame(BODY, 2, b"22")]
    for a, b in zip(one, two, strict=True):
        pair.send(a, b)
    bench.turn()
    assert consumer.deliveries() == [b"11", b"22"]


def test_a_heartbeat_may_come_amid_content(
    bench: Bench, pair: ConnectionPair, consumer: ConnectionPair
) -> None:
    heartbeat = frame(8, 0, b"")
    pieces = [publish_frame("", "q"), header_frame(2), frame(BODY, 1, b"11")]
    pair.send(heartbeat.join(pieces))
    bench.turn()
    assert consumer.deliveries() == [b"11"]


# -- content that is refused --------------------------------------------------

NOT_HEADER = (
    "expected content header for class 60, got non content header frame instead"
)
NOT_BODY = "expected content body, got non content body frame instead"
NOT_METHOD = "expected method frame, got non method frame instead"
QOS = method(1, commands.Basic.Qos())


def unexpected(text: str, class_id: int = 60, method_id: int = 40) -> Closed:
    return connection_closed(505, f"UNEXPECTED_FRAME - {text}", class_id, method_id)


@pytest.mark.parametrize(
    ("sent", "closed"),
    [
        ([header_frame(1)], unexpected(NOT_METHOD, 0, 0)),
        ([frame(BODY, 1, b"x")], unexpected(NOT_METHOD, 0, 0)),
        ([publish_frame("", "q"), QOS], unexpected(NOT_HEADER)),
        ([publish_frame("", "q"), frame(BODY, 1, b"x")], unexpected(NOT_HEADER)),
        ([publish_frame("", "q"), header_frame(1), QOS], unexpected(NOT_BODY)),
        (
            [publish_frame("", "q"), header_frame(1), header_frame(1)],
            unexpected(NOT_BODY),
        ),
        (
            [publish_frame("", "q"), header_frame(1), frame(BODY, 1, b"xx")],
            unexpected(NOT_BODY),
        ),
        (
            [publish_frame("", "q"), header_frame(0), frame(BODY, 1, b"")],
            unexpected(NOT_METHOD, 0, 0),
        ),
        (
            [
                publish_frame("", "q"),
                frame(HEADER, 1, b"\x00\x32" + header_frame(0)[9:-1]),
            ],
            unexpected(
                "expected content header for class 60, got one for class 50 instead"
            ),
        ),
        (
            [
                publish_frame("", "q"),
                frame(HEADER, 1, b"\x00\x3c\x00\x05" + header_frame(0)[11:-1]),
            ],
            unexpected(NOT_HEADER),
        ),
    ],
    ids=lambda value: "",
)
@pytest.mark.parametrize("in_one_read", [True, False])
def test_frames_out_of_order_close_the_connection(
    pair: ConnectionPair, sent: list[bytes], closed: Closed, in_one_read: bool
) -> None:
    for piece in [b"".join(sent)] if in_one_read else sent:
        pair.send(piece)
    assert pair.expect_close() == closed


@pytest.mark.parametrize(("size", "code"), [(11, 501), (12, 502), (13, 502)])
@pytest.mark.parametrize("in_one_read", [True, False])
def test_a_header_that_is_too_short_closes_the_connection(
    pair: ConnectionPair, size: int, code: int, in_one_read: bool
) -> None:
    header = frame(HEADER, 1, header_frame(0)[7 : 7 + size])
    for piece in (
        [publish_frame("", "q") + header + QOS]
        if in_one_read
        else [publish_frame("", "q"), header]
    ):
        pair.send(piece)
    assert pair.expect_close().code == code


@pytest.mark.parametrize("in_one_read", [True, False])
def test_malformed_properties_close_the_connection_before_routing(
    bench: Bench, pair: ConnectionPair, in_one_read: bool
) -> None:
    pair.declare("q")
    data = publish("q", b"x", properties=b"\x80\x00\x05text")
    cuts = [] if in_one_read else [len(data) - 1]
    pair.send_in_pieces(data, *cuts)
    closed = pair.expect_close()
    assert (closed.code, closed.class_id, closed.method_id) == (502, 60, 40)
    assert bench.broker.vhosts["/"].queues["q"].ready_count == 0


@pytest.fixture
def small(bench: Bench) -> ConnectionPair:
    """A connection whose messages may have 1000 octets."""
    bench.options = ConnectionOptions(HANDSHAKE, body_size_max=1000)
    pair = bench.connect()
    pair.declare("q")
    return pair


@pytest.mark.parametrize("in_one_read", [True, False])
def test_a_body_that_would_be_too_large_is_refused_at_its_header(
    bench: Bench, small: ConnectionPair, in_one_read: bool
) -> None:
    small.send(publish("q", bytes(1000)))
    header = publish_frame("", "q") + header_frame(1001)
    body = frame(BODY, 1, bytes(1001))
    if in_one_read:
        small.send(header, body)
    else:
        small.send(header)
    text = (
        "PRECONDITION_FAILED - message size 1001 is larger than configured max size "
        "1000"
    )
    assert small.expect_close(1) == channel_closed(406, text, 60, 40)
    # The body is skipped; the other channels go on.
    small.send(body)
    small.call(2, commands.Channel.Open(), commands.Channel.OpenOk)
    assert bench.broker.vhosts["/"].queues["q"].ready_count == 1


def test_a_size_with_the_highest_bit_is_a_large_one(small: ConnectionPair) -> None:
    small.send(publish_frame("", "q"), header_frame((1 << 64) - 1))
    assert "message size 18446744073709551615 is" in small.expect_close(1).text


@pytest.mark.parametrize(
    ("sent", "code"),
    [
        (frame(1, 1, b"\x00\x3c\x00\x28\x00\x00\x00"), 502),
        (publish_frame("", "q", immediate=True), 540),
        (publish_frame("nope", "q", immediate=True), 540),
    ],
)
def test_a_publish_that_is_too_short_or_immediate_closes_the_connection(
    pair: ConnectionPair, sent: bytes, code: int
) -> None:
    pair.send(sent)
    closed = pair.expect_close()
    assert (closed.code, closed.class_id, closed.method_id) == (code, 60, 40)


def test_publishing_to_a_missing_exchange_closes_the_channel(
    pair: ConnectionPair,
) -> None:
    pair.send(publish("k", b"x", exchange="nope"))
    text = "NOT_FOUND - no exchange 'nope' in vhost '/'"
    assert pair.expect_close(1) == channel_closed(404, text, 60, 40)


# -- routing ------------------------------------------------------------------


def test_an_unroutable_message_vanishes_unless_it_is_mandatory(
    pair: ConnectionPair,
) -> None:
    pair.send(publish("nowhere", b"x"))
    assert pair.take() == []
    pair.send(publish("nowhere", b"body", properties=TEXT_PLAIN, mandatory=True))
    ((returned, properties, body),) = contents(pair.take(), commands.Basic.Return)
    assert (returned.reply_code, returned.reply_text) == (312, "NO_ROUTE")
    assert (returned.exchange, returned.routing_key) == ("", "nowhere")
    assert (properties, body) == (TEXT_PLAIN, b"body")


def test_a_mandatory_message_with_a_queue_is_not_returned(
    bench: Bench, pair: ConnectionPair, consumer: ConnectionPair
) -> None:
    pair.send(publish("q", b"x", mandatory=True))
    bench.turn()
    assert pair.take() == []
    assert consumer.deliveries() == [b"x"]


def test_a_fanout_puts_one_message_into_all_queues(
    bench: Bench, pair: ConnectionPair, consumer: ConnectionPair
) -> None:
    for queue in ("q", "r"):
        binding = commands.Queue.Bind(queue=queue, exchange="amq.fanout")
        pair.call(1, binding, commands.Queue.BindOk)
    pair.send(publish("any", b"x", exchange="amq.fanout"))
    bench.turn()
    found = contents(consumer.take(), commands.Basic.Deliver)
    assert [deliver.consumer_tag for deliver, _, _ in found] == ["q", "r"]


def test_a_headers_exchange_asks_each_message(
    bench: Bench, pair: ConnectionPair, consumer: ConnectionPair
) -> None:
    bind = commands.Queue.Bind(
        queue="q", exchange="amq.headers", arguments={"kind": "good"}
    )
    pair.call(1, bind, commands.Queue.BindOk)

    def headers(kind: bytes) -> bytes:
        table = short_string("kind") + b"S" + len(kind).to_bytes(4, "big") + kind
        return b"\x20\x00" + len(table).to_bytes(4, "big") + table

    for kind, body in ((b"bad", b"1"), (b"good", b"2"), (b"bad", b"3")):
        pair.send(publish("", body, "amq.headers", headers(kind)))
    pair.send(publish("", b"4", "amq.headers"))
    bench.turn()
    assert consumer.deliveries() == [b"2"]


def test_a_queue_that_is_deleted_while_the_body_comes_gets_nothing(
    bench: Bench, pair: ConnectionPair
) -> None:
    pair.declare("q")
    pair.call(2, commands.Channel.Open(), commands.Channel.OpenOk)
    pair.send(publish_frame("", "q"), header_frame(1))
    pair.call(2, commands.Queue.Delete(queue="q"), commands.Queue.DeleteOk)
    pair.declare("q", channel=2)
    pair.send(frame(BODY, 1, b"x"))
    # The name has a queue again by the time the message is there.
    assert bench.broker.vhosts["/"].queues["q"].ready_count == 1


def test_an_exchange_that_is_deleted_while_the_body_comes_closes_the_channel(
    pair: ConnectionPair,
) -> None:
    declare = commands.Exchange.Declare(exchange="x", exchange_type="fanout")
    pair.call(1, declare, commands.Exchange.DeclareOk)
    pair.call(2, commands.Channel.Open(), commands.Channel.OpenOk)
    pair.send(publish_frame("x", "k"), header_frame(1))
    pair.call(2, commands.Exchange.Delete(exchange="x"), commands.Exchange.DeleteOk)
    pair.send(frame(BODY, 1, b"x"))
    text = "NOT_FOUND - no exchange 'x' in vhost '/'"
    assert pair.expect_close(1) == channel_closed(404, text, 60, 40)


def test_a_body_in_pieces_for_no_queue_is_returned(pair: ConnectionPair) -> None:
    data = publish("nowhere", b"body", mandatory=True)
    pair.send_in_pieces(data, len(data) - 2)
    assert [body for _, _, body in contents(pair.take(), commands.Basic.Return)] == [
        b"body"
    ]


# -- properties that the broker acts on ---------------------------------------


@pytest.mark.parametrize("claimed", [b"guest", b"gueSt", b"\xff"])
def test_a_user_id_must_be_the_users_own(
    bench: Bench, pair: ConnectionPair, claimed: bytes
) -> None:
    pair.declare("q")
    pair.send(publish("q", b"x", properties=USER_ID + short_string(claimed)))
    queue = bench.broker.vhosts["/"].queues["q"]
    if claimed == b"guest":
        assert queue.ready_count == 1
        return
    closed = pair.expect_close(1)
    shown = claimed.decode(errors="replace")
    assert closed.text == (
        f"PRECONDITION_FAILED - user_id property set to '{shown}' but authenticated "
        "user was 'guest'"
    )
    assert queue.ready_count == 0


@pytest.mark.parametrize("mode", [0, 3, 9])
def test_a_delivery_mode_that_is_not_known_closes_the_channel(
    pair: ConnectionPair, mode: int
) -> None:
    pair.send(publish("nowhere", b"x", properties=b"\x10\x00" + bytes([mode])))
    closed = pair.expect_close(1)
    text = f"invalid message: {{delivery_mode_unknown,{mode}}}"
    assert closed == channel_closed(406, f"PRECONDITION_FAILED - {text}", 60, 40)


def test_an_impersonator_may_claim_to_be_anybody(
    bench: Bench, pair: ConnectionPair
) -> None:
    pair.declare("q")
    session = pair.connection.control.session
    assert session is not None
    session.user.tags = ("impersonator",)
    pair.send(publish("q", b"x", properties=USER_ID + short_string("joe")))
    assert bench.broker.vhosts["/"].queues["q"].ready_count == 1


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("abc", "'abc': no_integer"),
        ("", "'': no_integer"),
        ("-", "'-': no_integer"),
        ("12x", "'12x': {leftover_string,\"x\"}"),
        ("-1", "'-1': {value_negative,-1}"),
    ],
)
def test_an_expiration_that_is_no_number_closes_the_channel(
    pair: ConnectionPair, text: str, complaint: str
) -> None:
    pair.send(publish("q", b"x", properties=EXPIRATION + short_string(text)))
    closed = pair.expect_close(1)
    assert closed.text == f"PRECONDITION_FAILED - invalid expiration {complaint}"
    assert (closed.class_id, closed.method_id) == (60, 40)


@pytest.mark.parametrize(
    ("text", "value"),
    [("0", 0), ("60000", 60000), ("+5", 5), ("007", 7), ("-0", 0), ("9" * 200, None)],
)
def test_an_expiration_is_a_number_of_milliseconds(text: str, value: int) -> None:
    assert milliseconds(text) == (MILLISECONDS_MAX if value is None else value)


def test_an_expiration_counts_from_now(bench: Bench, pair: ConnectionPair) -> None:
    pair.declare("q")
    pair.send(publish("q", b"x", properties=EXPIRATION + short_string("60000")))
    reference = bench.broker.vhosts["/"].queues["q"].get(True)
    assert reference is not None
    assert reference.message.enqueued_ms == bench.now_ms
    assert reference.message.expires_ms == bench.now_ms + 60000


def test_letters_of_other_scripts_are_no_digits() -> None:
    with pytest.raises(PreconditionFailed):
        milliseconds("٣")


# -- x-death of publishers ----------------------------------------------------


@pytest.mark.parametrize("is_dropped", [False, True])
def test_publishers_write_history_unless_they_may_not(
    bench: Bench, pair: ConnectionPair, consumer: ConnectionPair, is_dropped: bool
) -> None:
    if is_dropped:
        bench.broker.drop_published_deaths()
    mine = short_string("mine") + b"t\x01"
    death = string_array("x-death", "a long story")
    pair.send(publish("q", b"x", properties=with_headers(death + mine)))
    bench.turn()
    ((_, properties, _),) = contents(consumer.take(), commands.Basic.Deliver)
    kept = mine if is_dropped else death + mine
    assert properties == with_headers(kept)
