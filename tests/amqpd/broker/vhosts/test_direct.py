"""Messages without a connection: the same rules as for a client's channel."""

from pathlib import Path

import pytest

from amqpd.broker.errors import (
    AccessRefused,
    NotFound,
    PreconditionFailed,
    ResourceLocked,
)
from amqpd.broker.vhosts.direct import (
    body_of,
    check_get,
    framed,
    names_of,
    publish,
    purge,
    take,
)
from amqpd.broker.vhosts.session import Session
from amqpd.wire.errors import SyntaxMalformed
from amqpd.wire.frames import FRAMED_BODY_SIZE_MAX
from amqpd.wire.tables import Table, encode_table
from tests.support.content import with_headers
from tests.support.control_plane import ControlPlane, Outcome

NOW = 1_700_000_000_000
PERSISTENT = b"\x10\x00\x02"


def header(size: int, properties: bytes = b"\x00\x00") -> bytes:
    return b"\x00\x3c\x00\x00" + size.to_bytes(8, "big") + properties


def send(
    session: Session,
    exchange: str,
    key: bytes,
    body: bytes = b"m",
    properties: bytes = b"\x00\x00",
) -> Outcome:
    outcome = Outcome()
    publish(session, exchange, key, header(len(body), properties), body, NOW, outcome)
    return outcome


@pytest.fixture
def plane(tmp_path: Path) -> ControlPlane:
    return ControlPlane(tmp_path)


def test_a_message_is_routed_or_not(plane: ControlPlane) -> None:
    guest = plane.guest()
    queue = plane.declare_queue(guest, "q").queue
    plane.bind(guest, "amq.topic", "q", b"a.*")
    assert send(guest, "", b"q").value is True
    assert send(guest, "amq.topic", b"a.b").value is True
    assert send(guest, "amq.topic", b"b").value is False
    assert send(guest, "", b"nowhere").value is False
    assert queue.ready_count == 2


def test_a_persistent_message_is_routed_when_it_is_on_the_disk(
    plane: ControlPlane,
) -> None:
    guest = plane.guest()
    plane.declare_queue(guest, "q", durable=True)
    plane.commit()
    outcome = send(guest, "", b"q", properties=PERSISTENT)
    before = outcome.is_done
    plane.bench.sync()
    assert (before, outcome.value) == (False, True)
    plane.reopen()
    assert plane.vhost.queues["q"].ready_count == 1


@pytest.mark.parametrize("size", [0, 1, FRAMED_BODY_SIZE_MAX, FRAMED_BODY_SIZE_MAX + 1])
def test_a_body_of_any_size_comes_out_as_it_went_in(
    size: int, plane: ControlPlane
) -> None:
    guest = plane.guest()
    queue = plane.declare_queue(guest, "q").queue
    body = bytes(range(256)) * (size // 256 + 1)
    send(guest, "amq.fanout", b"key")
    send(guest, "", b"q", body[:size])
    reference = take(guest, queue)
    assert reference is not None
    assert body_of(reference.message) == body[:size]
    assert names_of(reference.message) == (b"", b"q")
    assert take(guest, queue) is None


@pytest.mark.parametrize("by", ["queue", "exchange"])
def test_a_duplicate_is_dropped_and_answered_when_the_first_is_safe(
    by: str, plane: ControlPlane
) -> None:
    guest = plane.guest()
    comparing: Table = {"x-message-deduplication": True}
    plane.declare_exchange(guest, "x", "fanout", table=comparing)
    table = comparing if by == "queue" else {}
    plane.declare_queue(guest, "q", durable=True, table=table)
    plane.commit()
    plane.bind(guest, "x", "q", b"")
    identity = encode_table({"x-deduplication-header": "a"})
    properties = b"\x30\x00" + with_headers(identity)[2:] + b"\x02"
    way = ("x", b"") if by == "exchange" else ("", b"q")
    outcomes = [send(guest, *way, properties=properties) for _ in range(2)]
    assert [one.is_done for one in outcomes] == [False, False]
    plane.bench.sync()
    # A queue counts as found, also if it has no use for the message.
    assert [one.value for one in outcomes] == [True, by == "queue"]
    assert plane.vhost.queues["q"].ready_count == 1


def test_names_are_those_of_the_publish(plane: ControlPlane) -> None:
    guest = plane.guest()
    queue = plane.declare_queue(guest, "q").queue
    plane.bind(guest, "amq.topic", "q", b"#")
    send(guest, "amq.topic", b"a.b")
    reference = take(guest, queue)
    assert reference is not None
    assert names_of(reference.message) == (b"amq.topic", b"a.b")


def test_who_may_not_write_may_not_publish(plane: ControlPlane) -> None:
    joe = plane.user(".*", "^other$", ".*")
    plane.declare_queue(plane.guest(), "q")
    with pytest.raises(AccessRefused, match=r"write access to exchange 'amq\.default'"):
        send(joe, "", b"q")


def test_an_exchange_that_is_not_there_takes_nothing(plane: ControlPlane) -> None:
    with pytest.raises(NotFound, match="no exchange 'nope' in vhost '/'"):
        send(plane.guest(), "nope", b"q")


@pytest.mark.parametrize(
    ("properties", "text"),
    [
        (b"\x10\x00\x03", "invalid message: {delivery_mode_unknown,3}"),
        (b"\x01\x00\x01x", "invalid expiration 'x': no_integer"),
        (
            b"\x00\x10\x03bob",
            "user_id property set to 'bob' but authenticated user was 'guest'",
        ),
        (b"\x02\x00\x15amq.rabbitmq.reply-to", "fast reply consumer does not exist"),
    ],
)
def test_properties_are_checked(
    properties: bytes, text: str, plane: ControlPlane
) -> None:
    with pytest.raises(PreconditionFailed) as refused:
        send(plane.guest(), "", b"q", properties=properties)
    assert refused.value.text == text


def test_a_reply_address_of_another_kind_is_nothing_special(
    plane: ControlPlane,
) -> None:
    plane.declare_queue(plane.guest(), "q")
    assert send(plane.guest(), "", b"q", properties=b"\x02\x00\x01r").value is True


def test_a_header_that_is_none_is_refused(plane: ControlPlane) -> None:
    with pytest.raises(SyntaxMalformed):
        send(plane.guest(), "", b"q", properties=b"\x80\x00\x05ab")


@pytest.mark.parametrize(("exchange", "key"), [("x" * 256, b""), ("", b"k" * 256)])
def test_names_that_are_too_long_are_refused(
    exchange: str, key: bytes, plane: ControlPlane
) -> None:
    with pytest.raises(PreconditionFailed, match="longer than 255 octets"):
        send(plane.guest(), exchange, key)


def test_keys_in_cc_and_bcc_count_and_bcc_is_not_kept(plane: ControlPlane) -> None:
    guest = plane.guest()
    queues = [plane.declare_queue(guest, name).queue for name in "abc"]
    table = encode_table({"CC": ["b"], "BCC": ["c"]})
    assert send(guest, "", b"a", properties=with_headers(table)).value is True
    for queue in queues:
        reference = take(guest, queue)
        assert reference is not None
        assert b"BCC" not in reference.message.content


def test_a_route_that_asks_the_message_is_asked(plane: ControlPlane) -> None:
    guest = plane.guest()
    queue = plane.declare_queue(guest, "q").queue
    plane.bind(guest, "amq.headers", "q", b"", table={"x-match": "all", "a": "1"})
    with_one = with_headers(encode_table({"a": "1"}))
    with_two = with_headers(encode_table({"a": "2"}))
    assert send(guest, "amq.headers", b"", properties=with_one).value is True
    assert send(guest, "amq.headers", b"", properties=with_two).value is False
    assert queue.ready_count == 1


def test_published_deaths_are_history_unless_they_are_dropped(
    plane: ControlPlane,
) -> None:
    guest = plane.guest()
    queue = plane.declare_queue(guest, "q").queue
    death = with_headers(encode_table({"x-death": [{"count": 1}]}))
    send(guest, "", b"q", properties=death)
    plane.broker.drop_published_deaths()
    send(guest, "", b"q", properties=death)
    kept, dropped = take(guest, queue), take(guest, queue)
    assert kept is not None
    assert dropped is not None
    assert b"x-death" in kept.message.content
    assert b"x-death" not in dropped.message.content


def test_a_full_queue_that_refuses_is_told(plane: ControlPlane) -> None:
    guest = plane.guest()
    rules: Table = {"x-max-length": 1, "x-overflow": "reject-publish"}
    plane.declare_queue(guest, "full", table=rules)
    plane.declare_queue(guest, "other")
    plane.bind(guest, "amq.fanout", "full", b"")
    plane.bind(guest, "amq.fanout", "other", b"")
    first, second = send(guest, "amq.fanout", b""), send(guest, "amq.fanout", b"")
    assert first.value is True
    assert second.refusal == "311 Unable to publish message. Check queue limits."
    # Whoever has room takes it.
    assert plane.vhost.queues["full"].ready_count == 1
    assert plane.vhost.queues["other"].ready_count == 2


def test_a_purge_is_over_when_it_is_on_the_disk(plane: ControlPlane) -> None:
    guest = plane.guest()
    queue = plane.declare_queue(guest, "q", durable=True)
    plane.commit()
    send(guest, "", b"q", properties=PERSISTENT)
    plane.bench.sync()
    outcome, again = Outcome(), Outcome()
    purge(guest, "q", outcome)
    before = outcome.is_done
    plane.bench.sync()
    purge(guest, "q", again)
    assert (before, outcome.value, again.value) == (False, None, None)
    assert queue.queue.ready_count == 0
    plane.reopen()
    assert plane.vhost.queues["q"].ready_count == 0


def test_who_may_not_read_may_not_purge(plane: ControlPlane) -> None:
    joe = plane.user(".*", ".*", "^other$")
    plane.declare_queue(plane.guest(), "q")
    with pytest.raises(AccessRefused, match="read access to queue 'q'"):
        purge(joe, "q", Outcome())


def test_what_one_consumer_has_to_itself_is_not_taken(plane: ControlPlane) -> None:
    guest = plane.guest()
    table: Table = {"x-queue-type": "quorum", "x-single-active-consumer": True}
    outcome = plane.declare_queue(guest, "q", durable=True, table=table)
    plane.commit()
    with pytest.raises(ResourceLocked, match="not supported by quorum queues"):
        check_get(outcome.queue)


def test_an_empty_body_has_no_frame() -> None:
    assert framed(header(0), b"") == (
        b"\x02\x00\x00\x00\x00\x00\x0e" + header(0) + b"\xce"
    )
