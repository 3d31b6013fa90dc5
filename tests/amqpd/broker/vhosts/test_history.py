"""Newcomers get what an exchange keeps."""

from pathlib import Path

import pytest

from amqpd.broker.messages.message import Message
from amqpd.wire.properties import PERSISTENT
from tests.support.content import PERSISTENT_PROPERTIES, content_of
from tests.support.control_plane import ControlPlane

RAW = b"\x01x\x01k"


@pytest.fixture
def plane(tmp_path: Path) -> ControlPlane:
    """Durable exchanges x, with a history of two, and y; queues dq and tq."""
    plane = ControlPlane(tmp_path)
    guest = plane.guest()
    table: dict[str, object] = {"x-recent-history-length": 2}
    plane.declare_exchange(guest, "x", "x-recent-history", durable=True, table=table)
    plane.declare_exchange(guest, "y", durable=True)
    plane.declare_queue(guest, "dq", durable=True)
    plane.declare_queue(guest, "tq")
    plane.commit()
    return plane


def send(plane: ControlPlane, body: bytes) -> Message:
    content = content_of(body, PERSISTENT_PROPERTIES)
    message = Message(RAW + b"\xce", content, None, PERSISTENT, 5)
    message.expires_ms = 99
    for queue in plane.guest().route_message(message, []):
        queue.publish(message)
    return message


def take(plane: ControlPlane, name: str) -> list[Message]:
    queue = plane.vhost.queues[name]
    found = []
    while (reference := queue.get(no_ack=True)) is not None:
        found.append(reference.message)
    return found


def test_a_transient_binding_brings_it_at_once(plane: ControlPlane) -> None:
    sent = [send(plane, body) for body in (b"1", b"2", b"3")]
    assert plane.bind(plane.guest(), "x", "tq").value is None
    found = take(plane, "tq")
    assert [message.content for message in found] == [one.content for one in sent[1:]]
    assert [message.address for message in found] == [RAW + b"\xce"] * 2
    assert {(one.enqueued_ms, one.expires_ms) for one in found} == {(5, 99)}


def test_a_durable_binding_brings_it_with_its_commit(plane: ControlPlane) -> None:
    send(plane, b"1")
    plane.bind(plane.guest(), "x", "dq")
    assert take(plane, "dq") == []
    plane.commit()
    assert len(take(plane, "dq")) == 1


def test_it_is_stored_like_any_other_message(plane: ControlPlane) -> None:
    guest = plane.guest()
    plane.declare_queue(guest, "dq2", durable=True)
    plane.bind(guest, "x", "dq")
    plane.commit()
    sent = send(plane, b"1")
    plane.bench.sync()
    plane.bind(guest, "x", "dq2")
    plane.commit()
    plane.bench.sync()
    plane.reopen()
    for name in ("dq", "dq2"):
        (message,) = take(plane, name)
        assert message.content == sent.content


def test_binding_the_same_again_brings_nothing(plane: ControlPlane) -> None:
    guest = plane.guest()
    send(plane, b"1")
    plane.bind(guest, "x", "tq")
    plane.bind(guest, "x", "tq")
    assert len(take(plane, "tq")) == 1
    plane.bind(guest, "x", "tq", b"other key")
    assert len(take(plane, "tq")) == 1


def test_what_is_behind_another_exchange_gets_what_goes_its_way(
    plane: ControlPlane,
) -> None:
    guest = plane.guest()
    plane.bind(guest, "y", "tq", b"k")
    plane.bind(guest, "y", "dq", b"other key")
    plane.commit()
    send(plane, b"1")
    plane.bind(guest, "x", "y", to_exchange=True)
    plane.commit()
    assert len(take(plane, "tq")) == 1
    assert take(plane, "dq") == []


def test_a_ring_of_histories_comes_to_an_end(plane: ControlPlane) -> None:
    guest = plane.guest()
    plane.declare_exchange(guest, "z", "x-recent-history")
    plane.bind(guest, "z", "x", to_exchange=True)
    send(plane, b"1")
    assert plane.bind(guest, "x", "z", to_exchange=True).value is None
    plane.bind(guest, "z", "tq")
    assert len(take(plane, "tq")) == 1


def test_other_exchanges_bring_nothing(plane: ControlPlane) -> None:
    send(plane, b"1")
    plane.bind(plane.guest(), "y", "tq")
    assert take(plane, "tq") == []


def test_after_a_restart_the_history_begins_anew(plane: ControlPlane) -> None:
    send(plane, b"1")
    plane.reopen()
    plane.declare_queue(plane.guest(), "tq")
    plane.bind(plane.guest(), "x", "tq")
    assert take(plane, "tq") == []
