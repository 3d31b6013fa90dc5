"""Dead letters: why a message left its queue, where it went, and what it says of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import pytest
from pamqp.commands import Basic, Queue

from tests.support.content import short_string, string_array, with_headers
from tests.support.differences import Expectations
from tests.support.raw_client import Message, channel_closed
from tests.support.waiting import eventually
from tests.support.wiring import Wiring

EXPIRATION = 0x0100
DEATH_KEYS = ("reason", "queue", "exchange")


def declare(wiring: Wiring, **table: object) -> str:
    """Declare a queue with arguments; underscores stand for hyphens."""
    arguments: Any = {
        "x-" + key.replace("_", "-"): value for key, value in table.items()
    }
    name = wiring.fresh_name()
    method = Queue.Declare(0, name, exclusive=True, arguments=arguments)
    wiring.client.call(1, method, Queue.DeclareOk)
    return name


def dead_lettering(wiring: Wiring, dead: str, **table: object) -> str:
    return declare(
        wiring, dead_letter_exchange="", dead_letter_routing_key=dead, **table
    )


def wait_for(wiring: Wiring, queue: str) -> Message:
    """Get the next message of a queue, however long that takes."""
    found: list[Message] = []

    def is_there() -> bool:
        message = wiring.client.get(queue)
        if message is not None:
            found.append(message)
        return bool(found)

    eventually(is_there)
    return found[0]


def reject(wiring: Wiring, queue: str) -> None:
    """Get a message and reject it."""
    message = wiring.client.get(queue, no_ack=False)
    assert message is not None
    assert isinstance(message.method, Basic.GetOk)
    wiring.client.send_method(1, Basic.Reject(message.method.delivery_tag or 0, False))


def properties_of(message: Message) -> Basic.Properties:
    properties = Basic.Properties()
    flags = int.from_bytes(message.properties[:2], "big")
    properties.unmarshal(flags, message.properties[2:])
    return properties


def headers_of(message: Message) -> dict[str, Any]:
    return cast(dict[str, Any], properties_of(message).headers or {})


def deaths(message: Message) -> list[tuple[str, str, int]]:
    return [
        (death["queue"], death["reason"], death["count"])
        for death in headers_of(message)["x-death"]
    ]


def test_a_rejected_message_tells_why_and_where_from(
    wiring: Wiring, expectations: Expectations
) -> None:
    dead = declare(wiring)
    exchange = wiring.exchange("direct")
    queue = dead_lettering(wiring, dead)
    wiring.bind(queue, exchange, "key")
    wiring.send(exchange, "key", b"x")
    reject(wiring, queue)
    message = wait_for(wiring, dead)
    assert isinstance(message.method, Basic.GetOk)
    assert (message.method.exchange, message.method.routing_key) == ("", dead)
    headers = headers_of(message)
    (death,) = headers.pop("x-death")
    assert death.pop("time") is not None
    assert death == {
        "count": 1,
        "reason": "rejected",
        "queue": queue,
        "exchange": exchange,
        "routing-keys": ["key"],
    }
    expected = {
        "x-first-death-reason": "rejected",
        "x-first-death-queue": queue,
        "x-first-death-exchange": exchange,
    }
    if not expectations.differ("last-death-headers"):
        expected |= {
            "x-last-death-reason": "rejected",
            "x-last-death-queue": queue,
            "x-last-death-exchange": exchange,
        }
    assert headers == expected


def test_an_expired_message_loses_its_expiration_and_tells_it(wiring: Wiring) -> None:
    dead = declare(wiring)
    queue = dead_lettering(wiring, dead)
    properties = EXPIRATION.to_bytes(2, "big") + short_string("20")
    wiring.send("", queue, b"x", properties)
    message = wait_for(wiring, dead)
    assert properties_of(message).expiration is None
    (death,) = headers_of(message)["x-death"]
    assert (death["reason"], death["original-expiration"]) == ("expired", "20")


def test_a_queue_that_is_too_long_sends_its_oldest_on(wiring: Wiring) -> None:
    dead = declare(wiring)
    queue = dead_lettering(wiring, dead, max_length=2)
    for body in (b"1", b"2", b"3"):
        wiring.send("", queue, body)
    message = wait_for(wiring, dead)
    assert message.body == b"1"
    assert deaths(message) == [(queue, "maxlen", 1)]
    assert wiring.bodies(queue) == [b"2", b"3"]


def test_messages_keep_their_keys_unless_the_queue_names_one(wiring: Wiring) -> None:
    exchange = wiring.exchange("direct")
    own, copied = wiring.queue(exchange, key="k"), wiring.queue(exchange, key="c")
    queue = declare(wiring, dead_letter_exchange=exchange)
    source = wiring.exchange("direct")
    wiring.bind(queue, source, "k")
    wiring.send(source, "k", b"x", with_headers(string_array("CC", "c")))
    reject(wiring, queue)
    for name in (own, copied):
        headers = headers_of(wait_for(wiring, name))
        assert headers["CC"] == ["c"]
        assert headers["x-death"][0]["routing-keys"] == ["k", "c"]


def test_a_key_for_dead_letters_takes_cc_away(wiring: Wiring) -> None:
    dead, other = declare(wiring), declare(wiring)
    queue = dead_lettering(wiring, dead)
    source = wiring.exchange("direct")
    wiring.bind(queue, source, "k")
    wiring.send(source, "k", b"x", with_headers(string_array("CC", other)))
    reject(wiring, queue)
    headers = headers_of(wait_for(wiring, dead))
    assert "CC" not in headers
    assert headers["x-death"][0]["routing-keys"] == ["k", other]
    assert wiring.bodies(other) == []


def test_an_exchange_that_is_not_there_drops_without_a_word(wiring: Wiring) -> None:
    queue = declare(wiring, dead_letter_exchange="nowhere")
    wiring.send("", queue, b"x")
    reject(wiring, queue)
    assert wiring.bodies(queue) == []


def test_rejecting_goes_round_and_counts(wiring: Wiring) -> None:
    work, wait = wiring.fresh_name(), wiring.fresh_name()
    for name, next_name, ttl_ms in ((work, wait, None), (wait, work, 10)):
        arguments: Any = {
            "x-dead-letter-exchange": "",
            "x-dead-letter-routing-key": next_name,
        }
        if ttl_ms is not None:
            arguments["x-message-ttl"] = ttl_ms
        method = Queue.Declare(0, name, exclusive=True, arguments=arguments)
        wiring.client.call(1, method, Queue.DeclareOk)
    wiring.send("", work, b"x")
    for count in (1, 2):
        reject(wiring, work)
        message = wait_unacked(wiring, work)
        assert deaths(message) == [(wait, "expired", count), (work, "rejected", count)]


def wait_unacked(wiring: Wiring, queue: str) -> Message:
    """Get a message, look at it and give it back."""
    found: list[Message] = []

    def is_there() -> bool:
        message = wiring.client.get(queue, no_ack=False)
        if message is not None:
            found.append(message)
        return bool(found)

    eventually(is_there)
    method = found[0].method
    assert isinstance(method, Basic.GetOk)
    wiring.client.send_method(1, Basic.Nack(method.delivery_tag or 0, False, True))
    return found[0]


def test_expiring_messages_do_not_go_round(wiring: Wiring) -> None:
    first, second = wiring.fresh_name(), wiring.fresh_name()
    for name, next_name in ((first, second), (second, first)):
        arguments: Any = {
            "x-dead-letter-exchange": "",
            "x-dead-letter-routing-key": next_name,
            "x-message-ttl": 10,
        }
        method = Queue.Declare(0, name, exclusive=True, arguments=arguments)
        wiring.client.call(1, method, Queue.DeclareOk)
    wiring.send("", first, b"x")

    def is_gone() -> bool:
        return not any(message_count(wiring, name) for name in (first, second))

    eventually(is_gone)


def message_count(wiring: Wiring, queue: str) -> int:
    method = Queue.Declare(0, queue, passive=True)
    answer = wiring.client.call(1, method, Queue.DeclareOk)
    return answer.message_count or 0


def test_a_publisher_may_go_on_with_a_story(wiring: Wiring) -> None:
    dead = declare(wiring)
    queue = dead_lettering(wiring, dead)
    wiring.send("", queue, b"x")
    reject(wiring, queue)
    message = wait_for(wiring, dead)
    wiring.send("", queue, b"again", message.properties)
    reject(wiring, queue)
    assert deaths(wait_for(wiring, dead)) == [(queue, "rejected", 2)]


def test_deleting_and_purging_make_no_dead_letters(wiring: Wiring) -> None:
    dead = declare(wiring)
    queue = dead_lettering(wiring, dead)
    wiring.send("", queue, b"x")
    wiring.client.call(1, Queue.Purge(0, queue), Queue.PurgeOk)
    wiring.send("", queue, b"x")
    wiring.client.call(1, Queue.Delete(0, queue), Queue.DeleteOk)
    assert wiring.bodies(dead) == []


@pytest.mark.parametrize(
    ("table", "refusal"),
    [
        (
            {"x-dead-letter-routing-key": "k"},
            (
                "invalid arg 'x-dead-letter-routing-key' for queue '{name}' in vhost "
                "'/': routing_key_but_no_dlx_defined"
            ),
        ),
        (
            {"x-dead-letter-exchange": True},
            (
                "invalid type 'bool' for arg 'x-dead-letter-exchange' in queue "
                "'{name}' in vhost '/'"
            ),
        ),
    ],
)
def test_arguments_for_dead_letters_are_checked(
    wiring: Wiring, table: Mapping[str, object], refusal: str
) -> None:
    name = wiring.fresh_name()
    method = Queue.Declare(0, name, arguments=cast(Any, dict(table)))
    wiring.client.send_method(1, method)
    text = "PRECONDITION_FAILED - " + refusal.format(name=name)
    assert wiring.client.expect_close(1) == channel_closed(406, text, 50, 10)


def test_a_quorum_queue_counts_and_gives_up(wiring: Wiring) -> None:
    dead = declare(wiring)
    name = wiring.fresh_name()
    arguments: Any = {
        "x-queue-type": "quorum",
        "x-delivery-limit": 1,
        "x-dead-letter-exchange": "",
        "x-dead-letter-routing-key": dead,
    }
    method = Queue.Declare(0, name, durable=True, arguments=arguments)
    wiring.client.call(1, method, Queue.DeclareOk)
    wiring.send("", name, b"x")
    # RabbitMQ 3.10 says 0 the first time, 4 says nothing.
    assert not headers_of(wait_unacked(wiring, name)).get("x-delivery-count")
    assert headers_of(wait_unacked(wiring, name))["x-delivery-count"] == 1
    message = wait_for(wiring, dead)
    assert deaths(message) == [(name, "delivery_limit", 1)]


def test_the_last_death_is_told_first_and_each_pair_once(wiring: Wiring) -> None:
    dead = declare(wiring)
    second = dead_lettering(wiring, dead)
    first = dead_lettering(wiring, second, message_ttl=10)
    wiring.send("", first, b"x")

    def is_there() -> bool:
        return message_count(wiring, second) == 1

    eventually(is_there)
    reject(wiring, second)
    message = wait_for(wiring, dead)
    assert deaths(message) == [(second, "rejected", 1), (first, "expired", 1)]
    headers = headers_of(message)
    assert headers["x-first-death-queue"] == first
    assert headers["x-first-death-reason"] == "expired"


def test_what_else_a_message_says_stays_with_it(wiring: Wiring) -> None:
    dead = declare(wiring)
    queue = dead_lettering(wiring, dead)
    said = Basic.Properties(
        content_type="text/plain",
        headers={"mine": "a", "BCC": ["nowhere"]},
        delivery_mode=2,
        priority=3,
        correlation_id="c",
        reply_to="r",
        message_id="m",
        message_type="t",
        user_id=wiring.client.endpoint.user,
        app_id="a",
    )
    wiring.send("", queue, b"x", said.marshal())
    reject(wiring, queue)
    message = wait_for(wiring, dead)
    headers = headers_of(message)
    assert headers["mine"] == "a"
    assert "BCC" not in headers
    found = dict(properties_of(message))
    found.pop("headers")
    expected = dict(said)
    expected.pop("headers")
    assert found == expected


def test_an_expired_queue_makes_no_dead_letters(wiring: Wiring) -> None:
    dead = declare(wiring)
    name = wiring.fresh_name()
    arguments: Any = {
        "x-expires": 100,
        "x-dead-letter-exchange": "",
        "x-dead-letter-routing-key": dead,
    }
    method = Queue.Declare(0, name, arguments=arguments)
    wiring.client.call(1, method, Queue.DeclareOk)
    wiring.send("", name, b"x")
    eventually(lambda: not wiring.is_routed("", name))
    assert wiring.bodies(dead) == []


def test_an_exchange_for_dead_letters_routes_by_the_keys_they_came_with(
    wiring: Wiring,
) -> None:
    exchange = wiring.exchange("topic")
    failed, other = wiring.queue(exchange, key="a.*"), wiring.queue(exchange, key="b")
    queue = declare(wiring, dead_letter_exchange=exchange)
    source = wiring.exchange("topic")
    wiring.bind(queue, source, "#")
    wiring.send(source, "a.b", b"x")
    reject(wiring, queue)
    message = wait_for(wiring, failed)
    assert isinstance(message.method, Basic.GetOk)
    assert (message.method.exchange, message.method.routing_key) == (exchange, "a.b")
    assert wiring.bodies(other) == []


def test_the_table_of_a_death_has_the_types_that_clients_expect(
    wiring: Wiring,
) -> None:
    dead = declare(wiring)
    queue = dead_lettering(wiring, dead)
    wiring.send("", queue, b"x")
    reject(wiring, queue)
    found = wait_for(wiring, dead).properties
    for key, kind in (
        ("count", b"l" + (1).to_bytes(8, "big")),
        ("reason", b"S\x00\x00\x00\x08rejected"),
        ("time", b"T\x00\x00\x00\x00"),
        ("exchange", b"S\x00\x00\x00\x00"),
        ("routing-keys", b"A"),
    ):
        assert short_string(key) + kind in found
    assert short_string("x-death") + b"A" in found
    assert short_string("x-first-death-reason") + b"S" in found


def test_the_time_of_a_death_is_that_of_the_first(wiring: Wiring) -> None:
    work, wait = wiring.fresh_name(), wiring.fresh_name()
    for name, next_name, ttl_ms in ((work, wait, None), (wait, work, 1100)):
        arguments: Any = {
            "x-dead-letter-exchange": "",
            "x-dead-letter-routing-key": next_name,
        }
        if ttl_ms is not None:
            arguments["x-message-ttl"] = ttl_ms
        method = Queue.Declare(0, name, exclusive=True, arguments=arguments)
        wiring.client.call(1, method, Queue.DeclareOk)
    wiring.send("", work, b"x")
    times = []
    for _ in range(2):
        reject(wiring, work)
        found = headers_of(wait_unacked(wiring, work))["x-death"]
        times.append(
            next(one["time"] for one in found if one["reason"] == "rejected"),
        )
    # More than a second lies between the two.
    assert times[0] == times[1]


def test_the_first_death_is_told_for_good_and_the_last_one_each_time(
    wiring: Wiring, expectations: Expectations
) -> None:
    dead = declare(wiring)
    second = dead_lettering(wiring, dead)
    first = dead_lettering(wiring, second, max_length=0)
    wiring.send("", first, b"x")
    eventually(lambda: message_count(wiring, second) == 1)
    reject(wiring, second)
    headers = headers_of(wait_for(wiring, dead))
    assert [headers[f"x-first-death-{key}"] for key in DEATH_KEYS] == [
        "maxlen",
        first,
        "",
    ]
    if not expectations.differ("last-death-headers"):
        assert [headers[f"x-last-death-{key}"] for key in DEATH_KEYS] == [
            "rejected",
            second,
            "",
        ]


@pytest.mark.parametrize("overflow", ["drop-head", "reject-publish-dlx"])
def test_too_many_octets_are_too_much_as_well(wiring: Wiring, overflow: str) -> None:
    dead = declare(wiring)
    queue = dead_lettering(wiring, dead, max_length_bytes=3, overflow=overflow)
    for body in (b"123", b"456"):
        wiring.client.publish(1, Basic.Publish(0, "", queue), body)
        answered = wiring.client.next_frame().method
    message = wait_for(wiring, dead)
    is_dropping = overflow == "drop-head"
    assert message.body == (b"123" if is_dropping else b"456")
    assert deaths(message) == [(queue, "maxlen", 1)]
    assert isinstance(answered, Basic.Ack if is_dropping else Basic.Nack)


def test_an_exchange_that_routes_nowhere_drops_without_a_word(wiring: Wiring) -> None:
    queue = declare(wiring, dead_letter_exchange=wiring.exchange("direct"))
    wiring.send("", queue, b"x")
    reject(wiring, queue)
    assert wiring.bodies(queue) == []


def test_dead_letters_go_round_no_more_when_only_lengths_make_them(
    wiring: Wiring,
) -> None:
    queue = wiring.fresh_name()
    arguments: Any = {
        "x-max-length": 1,
        "x-dead-letter-exchange": "",
        "x-dead-letter-routing-key": queue,
    }
    method = Queue.Declare(0, queue, exclusive=True, arguments=arguments)
    wiring.client.call(1, method, Queue.DeclareOk)
    for body in (b"1", b"2", b"3"):
        wiring.send("", queue, body)
    assert wiring.bodies(queue) == [b"3"]


@pytest.mark.parametrize("strategy", ["at-most-once", "at-least-once"])
def test_a_quorum_queue_takes_either_strategy(wiring: Wiring, strategy: str) -> None:
    """Where there is room they are one here: the move is one step in the log."""
    dead = wiring.queue()
    name = wiring.fresh_name()
    arguments: Any = {
        "x-queue-type": "quorum",
        "x-overflow": "reject-publish",
        "x-dead-letter-strategy": strategy,
        "x-dead-letter-exchange": "",
        "x-dead-letter-routing-key": dead,
    }
    method = Queue.Declare(0, name, durable=True, arguments=arguments)
    wiring.client.call(1, method, Queue.DeclareOk)
    wiring.send("", name, b"x", b"\x10\x00\x02")
    reject(wiring, name)
    assert deaths(wait_for(wiring, dead)) == [(name, "rejected", 1)]
