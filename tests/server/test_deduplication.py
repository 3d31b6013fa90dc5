"""x-message-deduplication: what has an id that came before is dropped, and confirmed.

RabbitMQ has a plugin for it, which Debian does not ship, LavinMQ has it built in: so
these run against our own broker.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import pytest
from pamqp import commands
from pamqp.commands import Basic, Exchange, Queue

from amqpd.testing import AmqpdServer
from tests.support.content import short_string, string_array, with_headers
from tests.support.raw_client import Endpoint, RawClient, channel_closed, longstr
from tests.support.waiting import eventually
from tests.support.wiring import Wiring

TYPE: Final = "x-message-deduplication"
SIZE_REFUSED: Final = (
    "Missing or invalid argument, 'x-cache-size' must be an integer greater than 0"
)
ON: Final[dict[str, object]] = {"x-message-deduplication": True}


@pytest.fixture(scope="module")
def server() -> Iterator[AmqpdServer]:
    with AmqpdServer() as running:
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


def identified(value: str, header: str = "x-deduplication-header") -> bytes:
    return with_headers(short_string(header) + b"S" + longstr(value.encode()))


def declare(wiring: Wiring, **table: object) -> str:
    name = wiring.fresh_name()
    arguments: Any = {
        **ON,
        **{f"x-{key.replace('_', '-')}": table[key] for key in table},
    }
    method = Queue.Declare(0, name, durable=True, arguments=arguments)
    wiring.client.call(1, method, Queue.DeclareOk)
    return name


def send_all(wiring: Wiring, exchange: str, key: str, *ids: str) -> None:
    for number, one in enumerate(ids):
        wiring.send(exchange, key, b"%d" % number, identified(one))


# -- exchanges ------------------------------------------------------------------


def test_an_exchange_of_the_plugins_type_is_a_fanout_without_duplicates(
    wiring: Wiring,
) -> None:
    exchange = wiring.exchange(TYPE, {"x-cache-size": 5})
    first, second = wiring.queue(exchange), wiring.queue(exchange, key="other")
    send_all(wiring, exchange, "k", "a", "b", "a")
    assert wiring.bodies(first) == wiring.bodies(second) == [b"0", b"1"]


@pytest.mark.parametrize("kind", ["direct", "topic", "headers", "x-consistent-hash"])
def test_any_exchange_can_compare_ids(wiring: Wiring, kind: str) -> None:
    exchange = wiring.exchange(kind, ON)
    key = "1" if kind == "x-consistent-hash" else "k"
    queue = wiring.queue(exchange, key=key)
    send_all(wiring, exchange, key, "a", "b", "a", "b", "c")
    assert wiring.bodies(queue) == [b"0", b"1", b"4"]


def test_who_has_no_id_is_never_a_duplicate(wiring: Wiring) -> None:
    exchange = wiring.exchange("direct", ON)
    queue = wiring.queue(exchange)
    for _ in range(2):
        wiring.send(exchange, "k", b"x")
    assert wiring.bodies(queue) == [b"x", b"x"]


def test_only_so_many_ids_are_known_and_the_header_may_be_named(wiring: Wiring) -> None:
    arguments = {**ON, "x-cache-size": 1, "x-deduplication-header": "id"}
    exchange = wiring.exchange("direct", arguments)
    queue = wiring.queue(exchange)
    for one in ("a", "a", "b", "a"):
        wiring.send(exchange, "k", one.encode(), identified(one, "id"))
    assert wiring.bodies(queue) == [b"a", b"b", b"a"]


def test_an_id_is_forgotten_after_its_time(wiring: Wiring) -> None:
    exchange = wiring.exchange("direct", {**ON, "x-cache-ttl": 50})
    queue = wiring.queue(exchange)
    wiring.send(exchange, "k", b"first", identified("a"))

    def comes_again() -> bool:
        wiring.send(exchange, "k", b"again", identified("a"))
        return wiring.bodies(queue)[-1:] == [b"again"]

    eventually(comes_again)


def test_a_duplicate_finds_no_queue_and_is_confirmed(wiring: Wiring) -> None:
    exchange = wiring.exchange("direct", ON)
    wiring.queue(exchange)
    assert wiring.send(exchange, "k", b"1", identified("a"), mandatory=True) is None
    returned = wiring.send(exchange, "k", b"2", identified("a"), mandatory=True)
    assert returned is not None
    assert returned.body == b"2"


def test_what_a_full_queue_refused_may_be_published_again(wiring: Wiring) -> None:
    exchange = wiring.exchange("direct", ON)
    queue = wiring.fresh_name()
    arguments: Any = {"x-max-length": 1, "x-overflow": "reject-publish"}
    method = Queue.Declare(0, queue, arguments=arguments)
    wiring.client.call(1, method, Queue.DeclareOk)
    wiring.bind(queue, exchange)
    wiring.send(exchange, "k", b"1", identified("a"))
    wiring.client.publish(1, Basic.Publish(0, exchange, "k"), b"2", identified("b"))
    wiring.client.expect_method(1, Basic.Nack)
    assert wiring.bodies(queue) == [b"1"]
    # What is taken meanwhile, also by the default exchange, is another one.
    wiring.send("", "nowhere", b"y", with_headers(string_array("CC", "no one")))
    wiring.send(exchange, "k", b"2", identified("b"))
    assert wiring.bodies(queue) == [b"2"]


def test_what_was_rolled_back_may_be_published_again(
    wiring: Wiring, client: RawClient
) -> None:
    exchange = wiring.exchange("direct", ON)
    queue = wiring.queue(exchange)
    client.open_channel(2)
    client.call(2, commands.Tx.Select(), commands.Tx.SelectOk)
    client.publish(2, Basic.Publish(0, exchange, "k"), b"x", identified("a"))
    client.call(2, commands.Tx.Rollback(), commands.Tx.RollbackOk)
    # Others that are asked for their way are taken meanwhile.
    wiring.send("amq.headers", "", b"y")
    wiring.send(exchange, "k", b"x", identified("a"))
    assert wiring.bodies(queue) == [b"x"]


def test_a_dead_letter_is_no_duplicate(wiring: Wiring) -> None:
    """It comes back to the exchange that it came through at first."""
    exchange = wiring.exchange("direct", ON)
    waits = wiring.fresh_name()
    arguments: Any = {
        "x-message-ttl": 10,
        "x-dead-letter-exchange": exchange,
        "x-dead-letter-routing-key": "back",
    }
    method = Queue.Declare(0, waits, exclusive=True, arguments=arguments)
    wiring.client.call(1, method, Queue.DeclareOk)
    wiring.bind(waits, exchange)
    back = wiring.queue(exchange, key="back")
    wiring.send(exchange, "k", b"x", identified("a"))
    eventually(lambda: wiring.bodies(back) == [b"x"])


def test_a_delayed_message_is_compared_when_it_is_published(wiring: Wiring) -> None:
    arguments = {**ON, "x-delayed-type": "direct"}
    exchange = wiring.exchange("x-delayed-message", arguments)
    queue = wiring.queue(exchange)
    delay = short_string("x-delay") + b"I" + (30).to_bytes(4, "big")
    identity = short_string("x-deduplication-header") + b"S" + longstr(b"a")
    for body in (b"1", b"2"):
        wiring.send(exchange, "k", body, with_headers(delay + identity))
    eventually(lambda: wiring.bodies(queue) == [b"1"])
    assert wiring.bodies(queue) == []


@pytest.mark.parametrize(
    ("kind", "arguments", "text"),
    [
        (
            TYPE,
            {},
            SIZE_REFUSED,
        ),
        (
            "direct",
            {**ON, "x-cache-ttl": 0},
            "Invalid argument, 'x-cache-ttl' must be an integer greater than 0",
        ),
    ],
)
def test_sizes_and_times_of_an_exchange_are_checked(
    wiring: Wiring, kind: str, arguments: Any, text: str
) -> None:
    declare = Exchange.Declare(0, wiring.fresh_name(), kind, arguments=arguments)
    wiring.client.send_method(1, declare)
    text = f"PRECONDITION_FAILED - {text}"
    wiring.client.expect_refusal(channel_closed(406, text, 40, 10))


# -- queues ---------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["classic", "quorum"])
def test_a_queue_takes_no_duplicates_whatever_way_they_come(
    wiring: Wiring, kind: str
) -> None:
    queue = declare(wiring, queue_type=kind)
    other = wiring.queue("amq.fanout")
    wiring.bind(queue, "amq.fanout")
    send_all(wiring, "", queue, "a", "b", "a")
    wiring.send("amq.fanout", "k", b"fanout", identified("b"))
    assert wiring.bodies(queue) == [b"0", b"1"]
    assert wiring.bodies(other) == [b"fanout"]


def test_a_duplicate_is_confirmed_and_not_returned(wiring: Wiring) -> None:
    queue = declare(wiring)
    for body in (b"1", b"2"):
        sent = wiring.send("", queue, body, identified("a"), mandatory=True)
        assert sent is None
    assert wiring.bodies(queue) == [b"1"]


def test_a_duplicate_is_not_sent_on_to_a_consumer_that_waits(
    wiring: Wiring, broker: Endpoint
) -> None:
    queue = declare(wiring)
    with RawClient(broker) as consumer:
        consumer.open().open_channel()
        consume = Basic.Consume(0, queue, no_ack=True)
        consumer.call(1, consume, Basic.ConsumeOk)
        send_all(wiring, "", queue, "a", "b", "a", "c")
        messages = [consumer.expect_message(1, Basic.Deliver) for _ in range(3)]
    assert [message.body for message in messages] == [b"0", b"1", b"3"]


def test_a_queue_knows_ids_of_what_it_had(wiring: Wiring) -> None:
    queue = declare(wiring, cache_size=1)
    send_all(wiring, "", queue, "a")
    assert wiring.bodies(queue) == [b"0"]
    send_all(wiring, "", queue, "a", "b", "a")
    assert wiring.bodies(queue) == [b"1", b"2"]


def test_lengths_hold_as_well(wiring: Wiring) -> None:
    dropping = declare(wiring, max_length=1)
    send_all(wiring, "", dropping, "a", "b", "b")
    assert wiring.bodies(dropping) == [b"1"]
    refusing = declare(wiring, max_length=1, overflow="reject-publish")
    send_all(wiring, "", refusing, "a", "a")
    wiring.client.publish(1, Basic.Publish(0, "", refusing), b"x", identified("b"))
    wiring.client.expect_method(1, Basic.Nack)
    assert wiring.bodies(refusing) == [b"0"]
    send_all(wiring, "", refusing, "b")
    assert wiring.bodies(refusing) == [b"0"]


def test_priorities_share_the_ids(wiring: Wiring) -> None:
    queue = declare(wiring, max_priority=5)
    table = short_string("x-deduplication-header") + b"S" + longstr(b"a")
    for priority in (1, 3):
        properties = b"\x28\x00" + longstr(table) + bytes([priority])
        wiring.send("", queue, b"%d" % priority, properties)
    assert wiring.bodies(queue) == [b"1"]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"x-cache-size": 0}, "'x-cache-size' {}: {{value_zero,0}}"),
        ({"x-cache-ttl": -1}, "'x-cache-ttl' {}: {{value_negative,-1}}"),
        (
            {"x-deduplication-header": 5},
            "'x-deduplication-header' {}: {{unacceptable_type,byte}}",
        ),
    ],
)
def test_sizes_and_times_of_a_queue_are_checked(
    wiring: Wiring, arguments: dict[str, object], text: str
) -> None:
    name = wiring.fresh_name()
    table: Any = {**ON, **arguments}
    wiring.client.send_method(1, Queue.Declare(0, name, arguments=table))
    reason = text.format(f"for queue '{name}' in vhost '/'")
    text = f"PRECONDITION_FAILED - invalid arg {reason}"
    wiring.client.expect_refusal(channel_closed(406, text, 50, 10))
    # Without deduplication they mean nothing.
    table = arguments
    wiring.client.call(1, Queue.Declare(0, name, arguments=table), Queue.DeclareOk)


def test_after_a_restart_every_id_is_new() -> None:
    persistent = b"\x30\x00" + identified("a")[2:] + b"\x02"
    table: Any = ON
    with AmqpdServer() as own:
        with RawClient(Endpoint.from_url(own.url)) as client:
            client.open().open_channel()
            method = Queue.Declare(0, "q", durable=True, arguments=table)
            client.call(1, method, Queue.DeclareOk)
            for body in (b"before", b"dropped"):
                client.publish_to_queue("q", body, persistent)
            client.close()
        own.restart()
        with RawClient(Endpoint.from_url(own.url)) as client:
            client.open().open_channel()
            client.publish_to_queue("q", b"after", persistent)
            found = [client.get("q") for _ in range(3)]
    assert [one and one.body for one in found] == [b"before", b"after", None]
