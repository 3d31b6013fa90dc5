"""Exchange type x-delayed-message, as in RabbitMQ's plugin, and what is better here.

Debian's RabbitMQ comes without the plugin, so these always run against our own broker.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pika
import pytest
from pamqp.commands import Basic, Exchange

from amqpd.testing import AmqpdServer
from tests.support.content import short_string, string_array, with_headers
from tests.support.delayed import delay_entry, delayed_properties
from tests.support.raw_client import Endpoint, Message, RawClient, channel_closed
from tests.support.waiting import has_waited
from tests.support.wiring import Wiring

DELAYED = "x-delayed-message"
DELAY_MS = 80


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AmqpdServer]:
    directory: Path = tmp_path_factory.mktemp("delayed") / "data"
    with AmqpdServer(data_dir=directory) as running:
        yield running


@pytest.fixture(scope="module")
def broker(server: AmqpdServer) -> Endpoint:
    """Our own broker, whatever the others are tested with."""
    return Endpoint.from_url(server.url)


@pytest.fixture(scope="module")
def janitor(broker: Endpoint) -> Iterator[RawClient]:
    """Who deletes what tests leave there."""
    with RawClient(broker) as janitor:
        yield janitor.open().open_channel()


def delayed(wiring: Wiring, kind: str = "direct", **more: object) -> str:
    return wiring.exchange(DELAYED, {"x-delayed-type": kind, **more})


def wait_for(wiring: Wiring, queue: str) -> Message:
    """Return the first message of a queue, when it comes."""
    while (message := wiring.client.get(queue)) is None:
        time.sleep(0.005)
    return message


def test_a_message_comes_after_its_delay_and_tells_of_it(wiring: Wiring) -> None:
    exchange = delayed(wiring)
    queue = wiring.queue(exchange)
    started = time.monotonic()
    wiring.send(exchange, "k", b"later", delayed_properties(DELAY_MS))
    message = wait_for(wiring, queue)
    assert has_waited(started, DELAY_MS)
    assert message.body == b"later"
    entry = short_string("x-delay") + b"I" + (-DELAY_MS).to_bytes(4, "big", signed=True)
    assert entry in message.properties


def test_the_shortest_delay_is_over_first(wiring: Wiring) -> None:
    exchange = delayed(wiring)
    queue = wiring.queue(exchange)
    # Far enough from each other for a machine that has other things to do.
    for delay_ms in (800, 30, 400):
        body = b"%d" % delay_ms
        wiring.send(exchange, "k", body, delayed_properties(delay_ms))
    found = [wait_for(wiring, queue).body for _ in range(3)]
    assert found == [b"30", b"400", b"800"]


@pytest.mark.parametrize(
    "entries",
    [
        b"",
        delay_entry(0),
        delay_entry(-5000),
        short_string("x-delay") + b"t\x01",
        short_string("x-delay") + b"S\x00\x00\x00\x04soon",
    ],
)
def test_what_is_no_delay_is_no_wait(wiring: Wiring, entries: bytes) -> None:
    exchange = delayed(wiring)
    queue = wiring.queue(exchange)
    wiring.send(exchange, "k", b"now", with_headers(entries))
    (message,) = wiring.messages(queue)
    # Nor is anything changed.
    assert message.properties == with_headers(entries)


@pytest.mark.parametrize(
    ("kind", "binding", "arguments"),
    [
        ("direct", "a.b", {}),
        ("topic", "a.*", {}),
        ("fanout", "", {}),
        ("headers", "", {"x": "y"}),
        ("x-consistent-hash", "1", {}),
        ("x-random", "", {}),
        ("x-recent-history", "", {}),
        ("x-modulus-hash", "", {}),
        ("x-local-random", "", {}),
    ],
)
def test_any_type_routes_when_the_delay_is_over(
    wiring: Wiring, kind: str, binding: str, arguments: dict[str, object]
) -> None:
    exchange = delayed(wiring, kind)
    queue = wiring.queue()
    wiring.bind(queue, exchange, binding, arguments)
    more = short_string("x") + b"S\x00\x00\x00\x01y"
    wiring.send(exchange, "a.b", b"later", delayed_properties(20, more=more))
    assert wait_for(wiring, queue).body == b"later"


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({}, "Invalid argument, 'x-delayed-type' must be an existing exchange type"),
        (
            {"x-delayed-type": 5},
            "Invalid argument, 'x-delayed-type' must be an existing exchange type",
        ),
        (
            {"x-delayed-type": DELAYED},
            "Invalid argument, 'x-delayed-message' can't be used for 'x-delayed-type'",
        ),
        ({"x-delayed-type": "x-odd"}, "unknown exchange type 'x-odd'"),
    ],
)
def test_the_type_that_routes_must_be_one(
    wiring: Wiring, arguments: Any, text: str
) -> None:
    declare = Exchange.Declare(0, wiring.fresh_name(), DELAYED, arguments=arguments)
    wiring.client.send_method(1, declare)
    text = f"PRECONDITION_FAILED - {text}"
    wiring.client.expect_refusal(channel_closed(406, text, 40, 10))


def test_a_mandatory_message_comes_back_at_once_if_nobody_would_get_it(
    wiring: Wiring,
) -> None:
    exchange = delayed(wiring)
    queue = wiring.queue(exchange)
    properties = delayed_properties(20)
    returned = wiring.send(exchange, "nobody", b"x", properties, mandatory=True)
    assert returned is not None
    assert isinstance(returned.method, Basic.Return)
    assert returned.method.reply_text == "NO_ROUTE"
    assert wiring.send(exchange, "k", b"y", properties, mandatory=True) is None
    assert wait_for(wiring, queue).body == b"y"


def test_the_alternate_exchange_waits_as_well(wiring: Wiring) -> None:
    alternate = wiring.exchange("fanout")
    queue = wiring.queue(alternate)
    exchange = delayed(wiring, **{"alternate-exchange": alternate})
    started = time.monotonic()
    wiring.send(exchange, "nobody", b"later", delayed_properties(DELAY_MS))
    assert wait_for(wiring, queue).body == b"later"
    assert has_waited(started, DELAY_MS)


def test_copies_wait_and_blind_ones_are_not_seen(wiring: Wiring) -> None:
    exchange = delayed(wiring)
    queue = wiring.queue(exchange, key="blind")
    properties = delayed_properties(20, more=string_array("BCC", "blind"))
    wiring.send(exchange, "k", b"later", properties)
    assert b"BCC" not in wait_for(wiring, queue).properties


def test_a_time_to_live_begins_when_the_delay_is_over(wiring: Wiring) -> None:
    exchange = delayed(wiring)
    queue = wiring.queue(exchange)
    table = delay_entry(50)
    properties = b"\x21\x00" + len(table).to_bytes(4, "big") + table
    wiring.send(exchange, "k", b"later", properties + short_string("30000"))
    assert wait_for(wiring, queue).body == b"later"


def test_other_exchanges_may_lead_there(wiring: Wiring) -> None:
    exchange = delayed(wiring)
    queue = wiring.queue(exchange)
    front = wiring.exchange("fanout")
    wiring.bind_exchange(exchange, front)
    started = time.monotonic()
    wiring.send(front, "k", b"later", delayed_properties(DELAY_MS))
    assert wait_for(wiring, queue).body == b"later"
    assert has_waited(started, DELAY_MS)


def test_with_the_exchange_go_its_messages(wiring: Wiring) -> None:
    exchange = delayed(wiring)
    wiring.send(exchange, "k", b"gone", delayed_properties(20))
    wiring.client.call(1, Exchange.Delete(0, exchange), Exchange.DeleteOk)
    wiring.declare(exchange, DELAYED, {"x-delayed-type": "direct"})
    queue = wiring.queue(exchange)
    wiring.send(exchange, "k", b"there", delayed_properties(60))
    assert wait_for(wiring, queue).body == b"there"


# -- restarts -----------------------------------------------------------------


@pytest.mark.parametrize("is_killed", [False, True])
def test_a_confirmed_message_keeps_its_time_over_a_restart(
    server: AmqpdServer, is_killed: bool
) -> None:
    name = f"restart-{is_killed}"
    due: dict[bytes, float] = {}
    with pika.BlockingConnection(pika.URLParameters(server.url)) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        arguments = {"x-delayed-type": "direct"}
        channel.exchange_declare(name, DELAYED, durable=True, arguments=arguments)
        channel.queue_declare(name, durable=True)
        channel.queue_bind(name, name, "k")
        for delay_ms in (1500, 20, 1000):
            properties = pika.BasicProperties(
                delivery_mode=2, headers={"x-delay": delay_ms}
            )
            body = b"%d" % delay_ms
            due[body] = time.time() + delay_ms / 1000
            channel.basic_publish(name, "k", body, properties)
    if is_killed:
        server.kill()
    else:
        server.stop()
    server.start()
    started = time.time()
    found: list[bytes] = []
    with pika.BlockingConnection(pika.URLParameters(server.url)) as connection:
        channel = connection.channel()
        while len(found) < len(due):
            _, _, taken = channel.basic_get(name, auto_ack=True)
            if taken is not None:
                # The clock on the wall may have been set meanwhile.
                assert time.time() >= due[taken] - 0.1, "it came too early"
                found.append(taken)
    assert sorted(found) == sorted(due)
    # What is overdue comes in the order of the log.
    in_time = [body for body in found if due[body] > started]
    assert in_time == sorted(in_time, key=due.__getitem__)
