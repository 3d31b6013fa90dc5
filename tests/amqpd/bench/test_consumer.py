"""A consumer: what it counts, measures and acknowledges, and which faults it sees."""

from __future__ import annotations

import struct

import pytest
from pamqp import commands, frame

from amqpd.bench.consumer import Consumer
from amqpd.bench.histogram import Histogram
from amqpd.bench.ledger import QueueLedger
from amqpd.bench.message import Message, body_after_stamp
from amqpd.wire.methods import encode_method

RUN = 0x1234
SIZE = 100


class Received:
    """A consumer of one queue that producers 0 and 1 publish to."""

    def __init__(
        self, ack_every: int = 0, size: int = SIZE, checks: bool = True
    ) -> None:
        self.latency = Histogram()
        ledger = QueueLedger([0, 1]) if checks else None
        self.consumer = Consumer(4096, RUN, size, ack_every, self.latency, ledger)
        self._size = size
        self._tag = 0

    def deliver(
        self,
        number: int,
        producer: int = 0,
        sent_at: int = 0,
        now: int = 0,
        run: int = RUN,
        redelivered: bool = False,
        body: bytes | None = None,
    ) -> None:
        self.consumer.receive_data(
            self.delivery(number, producer, sent_at, run, redelivered, body), now
        )
        self.consumer.end_read()

    def delivery(
        self,
        number: int,
        producer: int = 0,
        sent_at: int = 0,
        run: int = RUN,
        redelivered: bool = False,
        body: bytes | None = None,
    ) -> bytes:
        self._tag += 1
        method = commands.Basic.Deliver("tag", self._tag, redelivered, "x", "key")
        rest = body_after_stamp(self._size) if body is None else body
        content = (
            struct.pack(">QQ", run << 48 | sent_at, producer << 48 | number) + rest
        )
        return encode_method(1, method) + content_frames(content)

    def restart(self) -> None:
        self.consumer.restart()
        self._tag = 0

    @property
    def faults(self) -> dict[str, int]:
        names = ("strange", "damaged", "doubled", "out_of_order")
        found = {name: int(getattr(self.consumer, name)) for name in names}
        return {name: count for name, count in found.items() if count}

    @property
    def acks(self) -> list[tuple[int, bool]]:
        found: list[tuple[int, bool]] = []
        data = self.consumer.take_output()
        while data:
            size, _, method = frame.unmarshal(data)
            assert isinstance(method, commands.Basic.Ack)
            found.append((int(method.delivery_tag or 0), bool(method.multiple)))
            data = data[size:]
        return found


def content_frames(body: bytes, frame_max: int = 4096) -> bytes:
    payload = struct.pack(">HHQH", 60, 0, len(body), 0)
    out = struct.pack(">BHI", 2, 1, len(payload)) + payload + b"\xce"
    room = frame_max - 8
    for at in range(0, len(body), room):
        part = body[at : at + room]
        out += struct.pack(">BHI", 3, 1, len(part)) + part + b"\xce"
    return out


def test_what_is_whole_and_in_order_has_no_fault() -> None:
    received = Received()
    for number in range(3):
        received.deliver(number)
        received.deliver(number, producer=1)
    assert (received.consumer.delivered, received.faults) == (6, {})


def test_the_frames_of_a_publish_are_those_that_a_consumer_finds_sound() -> None:
    received = Received(size=10_000)
    message = Message("x", "q", {}, True, 10_000, 4096)
    stamp = struct.pack(">QQ", RUN << 48, 0)
    content = message.before + stamp + message.after
    frames = content[_publish_size(content) :]
    deliver = encode_method(1, commands.Basic.Deliver("tag", 1, False, "x", "q"))
    received.consumer.receive_data(deliver + frames, 0)
    assert (received.consumer.delivered, received.faults) == (1, {})


def _publish_size(frames: bytes) -> int:
    return int.from_bytes(frames[3:7], "big") + 8


@pytest.mark.parametrize("size", [SIZE, 5000])
def test_a_delivery_survives_any_cut_of_the_stream(size: int) -> None:
    step = 1 if size == SIZE else 997
    stream_size = len(Received(size=size).delivery(0))
    for cut in range(0, stream_size, step):
        received = Received(size=size)
        stream = received.delivery(0)
        received.consumer.receive_data(stream[:cut], 5)
        received.consumer.receive_data(stream[cut:], 5)
        assert (received.consumer.delivered, received.faults) == (1, {})


def test_latency_is_from_the_stamp_to_the_read() -> None:
    received = Received()
    received.deliver(0, sent_at=100, now=150)
    received.deliver(1, sent_at=100, now=150)
    received.deliver(2, sent_at=100, now=200)
    assert received.latency.count == 3
    assert [received.latency.percentile(p) for p in (60, 100)] == [50, 100]
    assert received.consumer.last_at == 200


def test_a_message_that_comes_twice_is_doubled() -> None:
    received = Received()
    for number in (0, 1, 1, 0):
        received.deliver(number)
    assert received.faults == {"doubled": 2}


def test_a_message_that_comes_back_may_come_twice_and_late() -> None:
    received = Received()
    received.deliver(0)
    received.deliver(2)
    received.deliver(0, redelivered=True)
    received.deliver(1, redelivered=True)
    assert received.faults == {}
    assert received.consumer.redelivered == 2


def test_a_message_after_a_later_one_is_out_of_order() -> None:
    received = Received()
    for number in (0, 2, 1, 3):
        received.deliver(number)
    assert received.faults == {"out_of_order": 1}


@pytest.mark.parametrize("run", [RUN + 1, 0])
def test_what_another_run_published_is_strange_and_not_measured(run: int) -> None:
    received = Received()
    received.deliver(0, run=run)
    assert (received.faults, received.latency.count) == ({"strange": 1}, 0)


def test_what_was_not_sent_to_this_queue_is_strange() -> None:
    received = Received()
    received.deliver(0, producer=2)
    assert received.faults == {"strange": 1}


@pytest.mark.parametrize("body", [b"", b"short"])
def test_a_message_that_bears_no_stamp_is_strange(body: bytes) -> None:
    received = Received()
    received.deliver(0)
    method = commands.Basic.Deliver("tag", 2, False, "x", "key")
    data = encode_method(1, method) + content_frames(body)
    received.consumer.receive_data(data, 0)
    assert received.faults == {"strange": 1}
    assert received.consumer.delivered == 2


@pytest.mark.parametrize("body", [b"x" * (SIZE - 16), body_after_stamp(SIZE) + b"x"])
def test_another_content_or_size_is_damaged(body: bytes) -> None:
    received = Received()
    received.deliver(0, body=body)
    assert received.faults == {"damaged": 1}


def test_damage_in_a_later_frame_is_seen() -> None:
    received = Received(size=10_000)
    body = body_after_stamp(10_000)
    received.deliver(0, body=body[:-1] + b"!")
    assert received.faults == {"damaged": 1}


def test_without_a_ledger_nothing_is_a_fault() -> None:
    received = Received(checks=False)
    received.deliver(0, run=1, body=b"anything")
    received.deliver(0, sent_at=3, now=10)
    assert (received.consumer.delivered, received.faults) == (2, {})
    assert received.latency.count == 1


def test_acknowledged_is_every_so_many_and_the_rest_at_the_end() -> None:
    received = Received(ack_every=3)
    for number in range(7):
        received.deliver(number)
    assert received.acks == [(3, True), (6, True)]
    received.consumer.acknowledge_rest()
    received.consumer.acknowledge_rest()
    assert received.acks == [(7, False)]


def test_one_by_one_needs_no_multiple() -> None:
    received = Received(ack_every=1)
    received.deliver(0)
    received.deliver(1)
    assert received.acks == [(1, False), (2, False)]


def test_who_does_not_acknowledge_says_nothing() -> None:
    received = Received()
    received.deliver(0)
    received.consumer.acknowledge_rest()
    assert received.acks == []


def test_other_methods_are_kept_for_the_edge() -> None:
    received = Received()
    received.consumer.receive_data(encode_method(1, commands.Basic.CancelOk("tag")), 0)
    names = [method.name for method in received.consumer.take_methods()]
    assert names == ["Basic.CancelOk"]


def test_after_a_loss_messages_may_come_again_and_tags_begin_anew() -> None:
    received = Received(ack_every=2)
    for number in (0, 1, 2):
        received.deliver(number)
    assert received.acks == [(2, True)]
    received.consumer.receive_data(received.delivery(3)[:40], 0)
    received.restart()
    for number in (2, 3, 4):
        received.deliver(number)
    assert received.acks == [(2, True)]
    assert (received.faults, received.consumer.delivered) == ({}, 6)


def test_after_a_loss_order_is_still_looked_at() -> None:
    received = Received()
    received.restart()
    received.deliver(5)
    received.deliver(4)
    assert received.faults == {"out_of_order": 1}
