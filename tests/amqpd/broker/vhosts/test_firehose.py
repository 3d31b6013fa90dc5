"""The firehose: a copy of what is published and delivered, while it is on."""

from __future__ import annotations

import struct
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pamqp import commands

from amqpd.broker.policies.vhost_metadata import VhostMetadata
from amqpd.broker.vhosts.firehose import EXCHANGE
from amqpd.wire.frames import HEAD_SIZE
from amqpd.wire.properties import headers
from amqpd.wire.tables import DEPTH_MAX, encode_table
from tests.support.connection_pair import Bench, ConnectionPair, method
from tests.support.content import publish, short_string, string_array, with_headers

GET = method(1, commands.Basic.Get(queue="q", no_ack=True))


def trace(bench: Bench, is_on: bool = True) -> None:
    bench.broker.add_vhost("/", VhostMetadata(tracing=is_on))


class Tap:
    """A queue that gets all copies."""

    def __init__(self, bench: Bench) -> None:
        self._bench = bench
        pair = bench.connect()
        pair.declare("tap")
        bind = commands.Queue.Bind(queue="tap", exchange=EXCHANGE, routing_key="#")
        pair.call(1, bind, commands.Queue.BindOk)
        self.pair = pair

    def take(self) -> list[tuple[str, dict[str, object]]]:
        """Keys and headers of what was copied since the last time."""
        self._bench.run_idle()
        self._bench.pass_time(0)
        queue = self._bench.broker.vhosts["/"].queues["tap"]
        copies = []
        while (reference := queue.get(no_ack=True)) is not None:
            message = reference.message
            key = message.routing_key().decode()
            copies.append((key, headers(message.content, HEAD_SIZE)))
        return copies


@pytest.fixture(name="tap")
def _tap(bench: Bench) -> Tap:
    return Tap(bench)


def test_while_it_is_off_nothing_is_copied(
    bench: Bench, tap: Tap, pair: ConnectionPair
) -> None:
    pair.declare("q")
    pair.send(publish("q", b"x"), GET)
    trace(bench)
    trace(bench, False)
    pair.send(publish("q", b"x"), GET)
    assert tap.take() == []


def test_a_publish_is_copied_with_who_and_where(
    bench: Bench, tap: Tap, pair: ConnectionPair
) -> None:
    pair.declare("q")
    pair.send(publish("q", b"before"))
    trace(bench)
    pair.send(publish("q", b"x"))
    ((key, told),) = tap.take()
    assert key == "publish."
    assert told == {
        "exchange_name": "",
        "routing_keys": ["q"],
        "properties": {},
        "node": "amqpd@localhost",
        "vhost": "/",
        "connection": pair.connection.name,
        "channel": 1,
        "user": "guest",
        "routed_queues": ["q"],
    }


def test_publishes_by_exchange_by_copies_and_to_nowhere_are_copied(
    bench: Bench, tap: Tap, pair: ConnectionPair
) -> None:
    pair.declare("q")
    pair.declare("r")
    bind = commands.Queue.Bind(queue="q", exchange="amq.direct", routing_key="k")
    pair.call(1, bind, commands.Queue.BindOk)
    trace(bench)
    carbon = with_headers(string_array("CC", "r"))
    pair.send(publish("k", b"x", "amq.direct") * 2, publish("nowhere"))
    pair.send(publish("q", properties=carbon))
    copies = [(key, told["routed_queues"]) for key, told in tap.take()]
    assert copies == [
        ("publish.amq.direct", ["q"]),
        ("publish.amq.direct", ["q"]),
        ("publish.", []),
        ("publish.", ["q", "r"]),
    ]


def test_properties_are_copied_as_a_table(
    bench: Bench, tap: Tap, pair: ConnectionPair
) -> None:
    trace(bench)
    entry = string_array("list", "a")
    properties = struct.pack(">H", 0x8000 | 0x2000 | 0x1000 | 0x0800 | 0x0040)
    properties += short_string("text/plain")
    properties += len(entry).to_bytes(4, "big") + entry
    properties += bytes([2, 7]) + struct.pack(">Q", 1_000_000_000)
    pair.send(publish("nowhere", b"x", properties=properties))
    ((_, told),) = tap.take()
    assert told["properties"] == {
        "content_type": "text/plain",
        "headers": {"list": ["a"]},
        "delivery_mode": 2,
        "priority": 7,
        "timestamp": int(datetime(2001, 9, 9, 1, 46, 40, tzinfo=UTC).timestamp()),
    }


@pytest.mark.parametrize("size", [0, 10, 300_000])
def test_the_copy_has_the_body(
    bench: Bench, tap: Tap, pair: ConnectionPair, size: int
) -> None:
    trace(bench)
    body = bytes(size)
    pair.send(publish("nowhere", body, channel=1))
    bench.turn()
    bench.pass_time(0)
    tap.pair.consume("tap", no_ack=True)
    bench.turn()
    assert tap.pair.deliveries() == [body]


def test_deliveries_are_copied(bench: Bench, tap: Tap, pair: ConnectionPair) -> None:
    pair.declare("q")
    trace(bench)
    pair.send(publish("q", b"x"))
    pair.send(method(1, commands.Basic.Get(queue="q")))
    pair.send(method(1, commands.Basic.Nack(1, requeue=True)))
    pair.send(method(1, commands.Basic.Consume(queue="q", no_ack=True)))
    bench.turn()
    (_, first, second) = tap.take()
    for (key, told), redelivered in ((first, 0), (second, 1)):
        assert key == "deliver.q"
        assert told["redelivered"] == redelivered
        assert told["routing_keys"] == ["q"]
        assert told["exchange_name"] == ""
        assert told["channel"] == 1
        assert told["user"] == "guest"
        assert told["connection"] == pair.connection.name


def test_a_channel_that_is_opened_while_it_is_on_is_copied_too(
    bench: Bench, tap: Tap, pair: ConnectionPair
) -> None:
    pair.declare("q")
    trace(bench)
    other = bench.connect()
    other.consume("q", no_ack=True)
    pair.send(publish("q", b"x"))
    bench.turn()
    assert [key for key, _ in tap.take()] == ["publish.", "deliver.q"]
    trace(bench, False)
    pair.send(publish("q", b"x"))
    bench.turn()
    assert tap.take() == []


def test_copies_are_not_copied(bench: Bench, tap: Tap, pair: ConnectionPair) -> None:
    trace(bench)
    tap.pair.consume("tap", no_ack=True)
    pair.send(publish("nowhere", b"x"))
    for _ in range(3):
        bench.turn()
        bench.pass_time(0)
    assert tap.pair.deliveries() == [b"x"]


def test_without_a_queue_behind_it_nothing_is_noted(
    bench: Bench, pair: ConnectionPair
) -> None:
    trace(bench)
    pair.send(publish("nowhere", b"x"))
    assert not bench.broker.timers.has_starting


def test_other_virtual_hosts_are_not_copied(
    bench: Bench, tap: Tap, pair: ConnectionPair
) -> None:
    bench.broker.add_vhost("other", VhostMetadata(tracing=True))
    pair.send(publish("nowhere", b"x"))
    assert tap.take() == []


def test_it_is_off_after_a_start(fast_path: Path) -> None:
    bench = Bench(fast_path)
    bench.broker.accounts.put_vhost(
        "v", VhostMetadata(tracing=True), None, lambda outcome: None
    )
    bench.run_idle()
    assert bench.broker.vhosts["v"].firehose is not None
    bench.close()
    bench = Bench(fast_path)
    assert bench.broker.vhosts["v"].firehose is None
    assert not bench.broker.vhosts["v"].metadata.tracing
    bench.close()


def test_headers_too_deep_to_be_copied_keep_nobody_else_waiting(
    bench: Bench,
    tap: Tap,
    pair: ConnectionPair,
    caplog: pytest.LogCaptureFixture,
) -> None:
    trace(bench)
    deep: dict[str, object] = {}
    for _ in range(DEPTH_MAX - 1):
        deep = {"a": deep}
    pair.send(publish("nowhere", b"x", properties=with_headers(encode_table(deep))))
    pair.send(publish("nowhere", b"y"))
    ((key, _),) = tap.take()
    assert key == "publish."
    assert "the copy publish. is not published: tables nest deeper" in caplog.text
